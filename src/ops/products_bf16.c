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

void fl_product_infer_rounded(const fl_infer *c, int slot, bool is_bf16,
                              const fl_product *size)
{
    fl_infer_dense(c, slot, FL_DTYPE_I16, 2,
                   (const int64_t[]){ is_bf16 ? size->m : 0, size->k });
}

/* --- weights ------------------------------------------------------------------ */

/* W as the step that packed it last left it. */
typedef struct weights {
    void *packed;
    size_t bytes;
    const float *w;
    uint64_t values, step_no;
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
    bool is_same = k->packed && k->w == w && k->bytes == p->packed_bytes;
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
        p->way->pack_f32(p, w, mine);
        return FL_OK;
    }
    k = fl_op_keep(c, sizeof(*k), release_weights);
    if (!is_fresh(c, k, p, w)) {
        if (!make_room(k, p->packed_bytes))
            return FL_NOMEM(c);
        k->w = w;
        k->values = c->values;
        k->step_no = c->step_no;
        p->way->pack_f32(p, w, k->packed);
    }
    *out = k->packed;
    return FL_OK;
}

/* --- forward ------------------------------------------------------------------ */

/* One block: rounds, multiplies, finishes. Without Rounded its part of X goes
   where that of the block before was. */
static void run_block(const fl_product_bf16 *z, const fl_bf16_product *p,
                      const fl_bf16_args *args, size_t row, size_t rows)
{
    size_t k = (size_t)z->size.k;
    uint16_t *x16 = z->x16 ? z->x16 + row * k : (uint16_t *)(uintptr_t)args->a;
    fl_bf16_args part = *args;

    p->way->narrow(x16, z->x + row * k, rows * k);
    part.a = x16;
    part.c += row * (size_t)z->size.n;
    p->way->rows(p, 0, (int64_t)rows, &part);
    if (z->follow)
        z->follow(z->arg, row, rows);
}

static void run_blocks(fl_op_ctx *c, const fl_product_bf16 *z,
                       const fl_bf16_product *p, const fl_bf16_args *args)
{
    fl_span s = fl_op_blocks(c, (size_t)z->size.m, FL_GEMM_BLOCK);

    for (size_t i = s.lo, rows; i < s.hi; i += rows) {
        rows = s.hi - i < FL_GEMM_BLOCK ? s.hi - i : FL_GEMM_BLOCK;
        run_block(z, p, args, i, rows);
    }
}

fl_status fl_product_bf16_run(fl_op_ctx *c, const fl_product_bf16 *z)
{
    const fl_gemm_shape s = { .m = z->size.m,
                              .n = z->size.n,
                              .k = z->size.k,
                              .lda = z->size.k,
                              .ldb = z->size.n,
                              .ldc = z->size.n };
    const fl_bf16_product p = fl_bf16_product_of(fl_bf16_way_here(), &s);
    fl_bf16_args args = { .c = z->out };

    args.a = fl_scratch(c, FL_GEMM_BLOCK * (size_t)z->size.k * sizeof(*args.a));
    args.room = fl_scratch(c, p.room_bytes + 1);
    if (!args.a || !args.room)
        return FL_NOMEM(c);
    FL_TRY(pack(c, &p, z->w, &args.packed));
    run_blocks(c, z, &p, &args);
    return FL_OK;
}

/* --- backward ----------------------------------------------------------------- */

/* dx = dout w' */
static fl_status back_x(fl_op_ctx *c, const fl_product_bf16_back *z)
{
    const fl_gemm_shape shape = { .tb = FL_TRANS,
                                  .m = z->size.m,
                                  .n = z->size.k,
                                  .k = z->size.n,
                                  .lda = z->size.n,
                                  .ldb = z->size.n,
                                  .ldc = z->size.k };
    const fl_bf16_product p = fl_bf16_product_of(fl_bf16_way_here(), &shape);
    fl_span s = fl_op_blocks(c, (size_t)z->size.m, FL_GEMM_BLOCK);
    fl_bf16_args args = { .a = z->dout, .c = z->dx };

    args.room = fl_scratch(c, p.room_bytes + 1);
    if (!args.room)
        return FL_NOMEM(c);
    FL_TRY(pack(c, &p, z->w, &args.packed));
    p.way->rows(&p, (int64_t)s.lo, (int64_t)s.hi, &args);
    return FL_OK;
}

static const uint16_t *rounded_x(fl_op_ctx *c, const fl_product_bf16_back *z)
{
    size_t len = (size_t)(z->size.m * z->size.k);
    uint16_t *room;

    if (z->x16)
        return z->x16;
    room = fl_scratch(c, len * sizeof(*room));
    if (room)
        fl_bf16_way_here()->narrow(room, z->x, len);
    return room;
}

/* dw = x' dout */
static fl_status back_w(fl_op_ctx *c, const fl_product_bf16_back *z)
{
    const fl_gemm_shape shape = { .ta = FL_TRANS,
                                  .m = z->size.k,
                                  .n = z->size.n,
                                  .k = z->size.m,
                                  .lda = z->size.k,
                                  .ldb = z->size.n,
                                  .ldc = z->size.n };
    const fl_bf16_product p = fl_bf16_product_of(fl_bf16_way_here(), &shape);
    fl_span s = fl_op_blocks(c, (size_t)z->size.k, FL_GEMM_BLOCK);
    void *packed = fl_scratch(c, p.packed_bytes);
    fl_bf16_args args = { .packed = packed, .c = z->dw };

    args.a = rounded_x(c, z);
    args.room = fl_scratch(c, p.room_bytes + 1);
    if (!packed || !args.a || !args.room)
        return FL_NOMEM(c);
    p.way->pack_bf16(&p, z->dout, packed);
    p.way->rows(&p, (int64_t)s.lo, (int64_t)s.hi, &args);
    return FL_OK;
}

fl_status fl_product_bf16_back_run(fl_op_ctx *c, const fl_product_bf16_back *z)
{
    if (z->dw)
        FL_TRY(back_w(c, z));
    return z->dx ? back_x(c, z) : FL_OK;
}
