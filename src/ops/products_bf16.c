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

/* dw = x' dout */
static fl_bf16_product product_of_dw(const fl_product *size)
{
    const fl_gemm_shape s = { .ta = FL_TRANS,
                              .m = size->k,
                              .n = size->n,
                              .k = size->m,
                              .lda = size->k,
                              .ldb = size->n,
                              .ldc = size->n };

    return fl_bf16_product_of(fl_bf16_way_here(), &s);
}

size_t fl_product_rounded_bytes(const fl_product *size)
{
    return product_of_dw(size).turned_bytes;
}

void fl_product_infer_rounded(const fl_infer *c, int slot, bool is_bf16,
                              const fl_product *size, size_t more)
{
    bool is_unknown = size->m < 0 || size->k < 0 || size->n < 0;
    int64_t len = is_bf16 && is_unknown ? -1 : 0;

    if (is_bf16 && size->m > 0 && size->k > 0 && !is_unknown)
        len = (int64_t)(fl_product_rounded_bytes(size) + more);
    fl_infer_dense(c, slot, FL_DTYPE_U8, 1, &len);
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

/* Is what is packed good for more than this run? */
static bool lasts(const fl_op_ctx *c)
{
    return c->values || c->n_turns > 1;
}

static fl_status pack_once(fl_op_ctx *c, const fl_bf16_product *p,
                           const float *w, const void **out)
{
    weights *k = fl_op_keep(c, sizeof(*k), release_weights);

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

/* What is for this run alone goes where the last operator had its scratch, which
   is in the cache. Shares run at the same time, so each of several has a copy of
   its own. */
static fl_status pack(fl_op_ctx *c, const fl_bf16_product *p, const float *w,
                      const void **out)
{
    void *mine;

    if (c->nth == 1 && lasts(c))
        return pack_once(c, p, w, out);
    mine = fl_scratch(c, p->packed_bytes);
    if (!mine)
        return FL_NOMEM(c);
    p->way->pack_f32(p, w, mine);
    *out = mine;
    return FL_OK;
}

/* --- forward ------------------------------------------------------------------ */

typedef struct forward {
    const fl_product_bf16 *z;
    fl_bf16_product p, dw; /* dw: of the gradient, for what is kept */
    fl_bf16_args args;
    uint16_t *x16; /* of a block */
} forward;

/* One block: rounds, keeps, multiplies, finishes. */
static void run_block(const forward *f, size_t row, size_t rows)
{
    const fl_product_bf16 *z = f->z;
    size_t k = (size_t)z->size.k;
    fl_bf16_args part = f->args;

    f->p.way->narrow(f->x16, z->x + row * k, rows * k);
    if (z->rounded)
        f->p.way->turn_rows(&f->dw, f->x16, (int64_t)row, (int64_t)(row + rows),
                            z->rounded);
    part.a = f->x16;
    part.c += row * (size_t)z->size.n;
    f->p.way->rows(&f->p, 0, (int64_t)rows, &part);
    if (z->follow)
        z->follow(z->arg, row, rows);
}

static void run_blocks(fl_op_ctx *c, const forward *f)
{
    fl_span s = fl_op_blocks(c, (size_t)f->z->size.m, FL_GEMM_BLOCK);

    for (size_t i = s.lo, rows; i < s.hi; i += rows) {
        rows = s.hi - i < FL_GEMM_BLOCK ? s.hi - i : FL_GEMM_BLOCK;
        run_block(f, i, rows);
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
    forward f = { .z = z,
                  .p = fl_bf16_product_of(fl_bf16_way_here(), &s),
                  .dw = product_of_dw(&z->size),
                  .args = { .c = z->out } };

    f.x16 = fl_scratch(c, FL_GEMM_BLOCK * (size_t)z->size.k * sizeof(*f.x16));
    f.args.room = fl_scratch(c, f.p.room_bytes + 1);
    if (!f.x16 || !f.args.room)
        return FL_NOMEM(c);
    FL_TRY(pack(c, &f.p, z->w, &f.args.packed));
    run_blocks(c, &f);
    return FL_OK;
}

/* --- backward ----------------------------------------------------------------- */

typedef struct backward {
    const fl_product_bf16_back *z;
    fl_bf16_product p; /* dw */
    uint16_t *dout;
    void *packed; /* the same for dw, where that is wanted */
} backward;

/* Each strip is packed while it is in the cache. */
static void round_dout(const backward *b)
{
    const fl_product_bf16_back *z = b->z;
    size_t m = (size_t)z->size.m, n = (size_t)z->size.n;

    for (size_t i = 0, rows; i < m; i += rows) {
        rows = m - i < FL_PRODUCT_STRIP ? m - i : FL_PRODUCT_STRIP;
        z->round(z->arg, i, rows, b->dout + i * n);
        if (z->dw)
            b->p.way->pack_rows(&b->p, b->dout + i * n, (int64_t)i,
                                (int64_t)(i + rows), b->packed);
    }
}

/* dx = dout w' */
static fl_status back_x(fl_op_ctx *c, const fl_product_bf16_back *z,
                        const uint16_t *dout)
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
    fl_bf16_args args = { .a = dout, .c = z->dx };

    args.room = fl_scratch(c, p.room_bytes + 1);
    if (!args.room)
        return FL_NOMEM(c);
    FL_TRY(pack(c, &p, z->w, &args.packed));
    p.way->rows(&p, (int64_t)s.lo, (int64_t)s.hi, &args);
    return FL_OK;
}

/* What the forward run has not kept. */
static const void *round_x(fl_op_ctx *c, const backward *b)
{
    const fl_bf16_way *way = b->p.way;
    size_t m = (size_t)b->z->size.m, k = (size_t)b->z->size.k;
    uint16_t *x16 = fl_scratch(c, FL_GEMM_BLOCK * k * sizeof(*x16));
    void *turned = fl_scratch(c, b->p.turned_bytes);

    if (!x16 || !turned)
        return NULL;
    for (size_t i = 0, rows; i < m; i += rows) {
        rows = m - i < FL_GEMM_BLOCK ? m - i : FL_GEMM_BLOCK;
        way->narrow(x16, b->z->x + i * k, rows * k);
        way->turn_rows(&b->p, x16, (int64_t)i, (int64_t)(i + rows), turned);
    }
    return turned;
}

static fl_status back_w(fl_op_ctx *c, const backward *b)
{
    const fl_product_bf16_back *z = b->z;
    fl_span s = fl_op_blocks(c, (size_t)z->size.k, FL_GEMM_BLOCK);
    fl_bf16_args args = { .a = (const void *)z->rounded,
                          .packed = b->packed,
                          .c = z->dw };

    if (!args.a)
        args.a = round_x(c, b);
    args.room = fl_scratch(c, b->p.room_bytes + 1);
    if (!args.a || !args.room)
        return FL_NOMEM(c);
    b->p.way->rows(&b->p, (int64_t)s.lo, (int64_t)s.hi, &args);
    return FL_OK;
}

fl_status fl_product_bf16_back_run(fl_op_ctx *c, const fl_product_bf16_back *z)
{
    backward b = { .z = z, .p = product_of_dw(&z->size) };

    b.dout = fl_scratch(c, (size_t)(z->size.m * z->size.n) * sizeof(*b.dout));
    b.packed = fl_scratch(c, b.p.packed_bytes);
    if (!b.dout || !b.packed)
        return FL_NOMEM(c);
    round_dout(&b);
    if (z->dw)
        FL_TRY(back_w(c, &b));
    return z->dx ? back_x(c, z, b.dout) : FL_OK;
}
