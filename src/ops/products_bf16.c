/* products_bf16.c - products with weights in bf16. */
#include "ops/products_bf16.h"

#include "kernel/gemm_bf16.h"
#include "ops/helpers.h"

/* --- which products ---------------------------------------------------------- */

fl_status fl_product_check_precision(const fl_infer *c, int attr)
{
    const char *p = fl_str_attr(c, attr);

    if (*p && strcmp(p, "f32") != 0 && strcmp(p, "bf16") != 0)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: precision is \"%s\"; there are f32, bf16 and \"\", as "
                "the setting precision says",
                c->node->def->name, p);
    return FL_OK;
}

bool fl_product_is_bf16(const fl_op_node *n, int attr, fl_dtype dtype)
{
    return dtype == FL_DTYPE_F32 && !strcmp(fl_attr_str(n, attr), "bf16");
}

unsigned fl_product_back_input(const fl_op_node *n, int rounded, int attr)
{
    const fl_args *kept =
        n->is_grad ? &n->in[fl_op_n_in(n->def) + rounded] : &n->out[rounded];
    bool has_it = kept->n && kept->vars[0] &&
                  fl_product_is_bf16(n, attr, n->in[0].vars[0]->meta.dtype);

    return has_it ? FL_USES_OUT(rounded) : FL_USES_IN(0);
}

static int64_t multiple(int64_t m, int64_t of)
{
    return (m + of - 1) / of * of;
}

static int64_t padded(int64_t m)
{
    return multiple(m, FL_ROUNDED_ROWS);
}

void fl_product_infer_rounded(const fl_infer *c, int slot, bool is_bf16,
                              const fl_product *size)
{
    int64_t rows = size->m < 0 ? -1 : padded(size->m);

    fl_infer_dense(c, slot, FL_DTYPE_I16, 2,
                   (const int64_t[]){ is_bf16 ? rows : 0, size->k });
}

/* --- weights ------------------------------------------------------------------ */

/* W as the step that packed it last left it. */
typedef struct weights {
    void *packed;
    size_t bytes;
    const float *w;
    uint64_t layout, values, step_no;
} weights;

static void release_weights(void *keep)
{
    weights *k = keep;

    fl_data_free(k->packed, k->bytes);
}

/* Nobody has changed W since? It is input 1 of the operators, and must be one
   that an update alone changes. */
static bool is_fresh(const fl_op_ctx *c, const weights *k,
                     const fl_bf16_product *p, const float *w)
{
    bool is_same = k->packed && k->w == w && k->layout == p->layout &&
                   k->bytes == p->packed_bytes;
    bool is_param = c->node->in[1].vars[0]->flags & FL_VAR_PARAM;

    if (!is_same || !is_param)
        return false;
    return c->values ? k->values == c->values
                     : c->turn > 0 && k->step_no == c->step_no;
}

static bool make_room(weights *k, size_t bytes)
{
    if (k->packed && k->bytes == bytes)
        return true;
    fl_data_free(k->packed, k->bytes);
    k->packed = fl_try_alloc(bytes);
    k->bytes = k->packed ? bytes : 0;
    return k->packed;
}

/* Shares run at the same time, so each of several has a copy of its own. */
static fl_status pack(fl_op_ctx *c, const fl_bf16_product *p, const float *w,
                      const void **out)
{
    weights *k;
    void *mine;

    if (c->nth > 1) {
        mine = fl_scratch(c, p->packed_bytes);
        if (!mine)
            return FL_NOMEM(c);
        *out = mine;
        return p->way->pack_f32(p, w, mine);
    }
    k = fl_op_keep(c, sizeof(*k), release_weights);
    if (!is_fresh(c, k, p, w)) {
        if (!make_room(k, p->packed_bytes))
            return FL_NOMEM(c);
        k->w = w;
        k->layout = p->layout;
        k->values = c->values;
        k->step_no = c->step_no;
        FL_TRY(p->way->pack_f32(p, w, k->packed));
    }
    *out = k->packed;
    return FL_OK;
}

/* --- forward ------------------------------------------------------------------ */

static void zero_behind(uint16_t *x16, int64_t m, int64_t cols)
{
    memset(x16 + m * cols, 0, (size_t)((padded(m) - m) * cols) * sizeof(*x16));
}

uint16_t *fl_rounded_room(fl_op_ctx *c, int64_t m, int64_t cols)
{
    uint16_t *room = fl_scratch(c, (size_t)(padded(m) * cols) * sizeof(*room));

    if (room)
        zero_behind(room, m, cols);
    return room;
}

/* One block: rounds, multiplies, finishes. Without Rounded its part of X goes
   where that of the block before was. */
static fl_status run_block(const fl_product_bf16 *z, const fl_bf16_product *p,
                           const fl_bf16_args *args, size_t row, size_t rows)
{
    size_t k = (size_t)z->size.k;
    uint16_t *x16 = z->x16 ? z->x16 + row * k : (uint16_t *)(uintptr_t)args->a;
    fl_bf16_args part = *args;

    p->way->narrow(x16, z->x + row * k, rows * k);
    part.a = x16;
    part.c += row * (size_t)z->size.n;
    FL_TRY(p->way->rows(p, 0, (int64_t)rows, &part));
    if (z->follow)
        z->follow(z->arg, row, rows);
    return FL_OK;
}

static fl_status run_blocks(fl_op_ctx *c, const fl_product_bf16 *z,
                            const fl_bf16_product *p, const fl_bf16_args *args)
{
    fl_span s = fl_op_blocks(c, (size_t)z->size.m, FL_GEMM_BLOCK);

    for (size_t i = s.lo, rows; i < s.hi; i += rows) {
        rows = s.hi - i < FL_GEMM_BLOCK ? s.hi - i : FL_GEMM_BLOCK;
        FL_TRY(run_block(z, p, args, i, rows));
    }
    return FL_OK;
}

static fl_status forward(fl_op_ctx *c, const fl_product_bf16 *z,
                         const fl_bf16_product *p)
{
    fl_bf16_args args = { .c = z->out };

    args.a = fl_scratch(c, FL_GEMM_BLOCK * (size_t)z->size.k * sizeof(*args.a));
    args.room = fl_scratch(c, p->room_bytes + 1);
    if (!args.a || !args.room)
        return FL_NOMEM(c);
    FL_TRY(pack(c, p, z->w, &args.packed));
    if (z->x16 && c->ith == c->nth - 1)
        zero_behind(z->x16, z->size.m, z->size.k);
    return run_blocks(c, z, p, &args);
}

fl_status fl_product_bf16_run(fl_op_ctx *c, const fl_product_bf16 *z)
{
    const fl_gemm_shape s = { .m = z->size.m,
                              .n = z->size.n,
                              .k = z->size.k,
                              .lda = z->size.k,
                              .ldb = z->size.n,
                              .ldc = z->size.n };
    fl_bf16_product p;
    fl_status st;

    FL_TRY(fl_bf16_product_init(&p, fl_bf16_way_here(), &s));
    st = forward(c, z, &p);
    fl_bf16_product_release(&p);
    return st;
}

/* --- backward ----------------------------------------------------------------- */

/* dx = dout w' */
static fl_status back_x(fl_op_ctx *c, const fl_product_bf16_back *z,
                        const fl_bf16_product *p)
{
    fl_span s = fl_op_blocks(c, (size_t)z->size.m, FL_GEMM_BLOCK);
    fl_bf16_args args = { .a = z->dout, .c = z->dx };

    args.room = fl_scratch(c, p->room_bytes + 1);
    if (!args.room)
        return FL_NOMEM(c);
    FL_TRY(pack(c, p, z->w, &args.packed));
    return p->way->rows(p, (int64_t)s.lo, (int64_t)s.hi, &args);
}

static const uint16_t *rounded_x(fl_op_ctx *c, const fl_product_bf16_back *z,
                                 const fl_bf16_way *way)
{
    uint16_t *room;

    if (z->x16)
        return z->x16;
    room = fl_rounded_room(c, z->size.m, z->size.k);
    if (room)
        way->narrow(room, z->x, (size_t)(z->size.m * z->size.k));
    return room;
}

/* dw = x' dout */
static fl_status back_w(fl_op_ctx *c, const fl_product_bf16_back *z,
                        const fl_bf16_product *p)
{
    fl_span s = fl_op_blocks(c, (size_t)z->size.k, FL_GEMM_BLOCK);
    void *packed = fl_scratch(c, p->packed_bytes);
    fl_bf16_args args = { .packed = packed, .c = z->dw };

    args.a = rounded_x(c, z, p->way);
    args.room = fl_scratch(c, p->room_bytes + 1);
    if (!packed || !args.a || !args.room)
        return FL_NOMEM(c);
    FL_TRY(p->way->pack_bf16(p, z->dout, packed));
    return p->way->rows(p, (int64_t)s.lo, (int64_t)s.hi, &args);
}

typedef fl_status (*back_fn)(fl_op_ctx *c, const fl_product_bf16_back *z,
                             const fl_bf16_product *p);

static fl_status with_product(fl_op_ctx *c, const fl_product_bf16_back *z,
                              const fl_gemm_shape *s, back_fn fn)
{
    fl_bf16_product p;
    fl_status st;

    FL_TRY(fl_bf16_product_init(&p, fl_bf16_way_here(), s));
    st = fn(c, z, &p);
    fl_bf16_product_release(&p);
    return st;
}

fl_status fl_product_bf16_back_run(fl_op_ctx *c, const fl_product_bf16_back *z)
{
    const fl_gemm_shape for_x = { .tb = FL_TRANS,
                                  .m = z->size.m,
                                  .n = z->size.k,
                                  .k = z->size.n,
                                  .lda = z->size.n,
                                  .ldb = z->size.n,
                                  .ldc = z->size.k };
    const fl_gemm_shape for_w = { .ta = FL_TRANS,
                                  .m = z->size.k,
                                  .n = z->size.n,
                                  .k = multiple(z->size.m,
                                                fl_bf16_way_here()->terms),
                                  .lda = z->size.k,
                                  .ldb = z->size.n,
                                  .ldc = z->size.n };

    if (z->dw)
        FL_TRY(with_product(c, z, &for_w, back_w));
    return z->dx ? with_product(c, z, &for_x, back_x) : FL_OK;
}
