/* lookup_dot.c - products of rows of two tables, pair by pair.
 *
 *     lookup_table (X, XIds) -> a
 *     lookup_table (Y, YIds) -> b
 *     Out[i] = a[i] . b[i]
 *
 * without a and b: rows are read where they lie. The gradients are rows + values
 * in the order of the ids, or dense, as those of the lookups. The pass
 * opt_lookup_dot puts it in their place. */
#include "ops/lookup_dot.h"

#include "kernel/rows.h"
#include "kernel/vec.h"
#include "ops/helpers.h"

enum { X = FL_PAIRS_X, Y, X_IDS, Y_IDS };
enum { OUT };
enum { X_IS_SPARSE = FL_PAIRS_X_IS_SPARSE, Y_IS_SPARSE };

#define KERNELS(T, t)                                                          \
    static void forward_##t(const fl_pairs *p, const T *x, const T *y, T *out) \
    {                                                                          \
        for (size_t i = 0; i < p->n; i++)                                      \
            out[i] = (T)fl_vec_##t()->dot(x + p->x[i] * p->dim,                \
                                          y + p->y[i] * p->dim, p->dim);       \
    }                                                                          \
    /* values[i] = g[i] from[ids[i]] */                                        \
    static void sparse_##t(const fl_pairs *p, const uint64_t *ids,             \
                           const T *from, const T *g, T *values)               \
    {                                                                          \
        const uint64_t first = 0;                                              \
                                                                               \
        memset(values, 0, p->n * p->dim * sizeof(T));                          \
        for (size_t i = 0; i < p->n; i++)                                      \
            fl_rows_##t()->scatter_axpy(values + i * p->dim, &first, 1,        \
                                        p->dim, g[i], from + ids[i] * p->dim,  \
                                        p->dim);                               \
    }                                                                          \
    /* d[rows[i]] += g[i] from[ids[i]] */                                      \
    static void dense_##t(const fl_pairs *p, const uint64_t *rows,             \
                          const uint64_t *ids, const T *from, const T *g,      \
                          T *d)                                                \
    {                                                                          \
        for (size_t i = 0; i < p->n; i++)                                      \
            fl_rows_##t()->scatter_axpy(d, rows + i, 1, p->dim, g[i],          \
                                        from + ids[i] * p->dim, p->dim);       \
    }
FL_FLOATS(KERNELS)

/* --- shapes --------------------------------------------------------------- */

static fl_status check_ids(const fl_infer *c, int slot)
{
    const fl_tensor *t = fl_infer_in(c, slot);
    char buf[FL_SLOT_TEXT_MAX];

    if ((t->dtype != FL_DTYPE_I64 && t->dtype != FL_DTYPE_U64) ||
        t->shape.rank != 2 || t->shape.dim[1] != 1)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must be ids [n, 1]",
                c->node->def->name, fl_infer_text(c, slot, buf));
    return FL_OK;
}

fl_status fl_pairs_check_shapes(const fl_infer *c)
{
    const char *op = c->node->def->name;
    const fl_tensor *x = fl_infer_in(c, X), *y = fl_infer_in(c, Y);
    const fl_tensor *i = fl_infer_in(c, X_IDS), *k = fl_infer_in(c, Y_IDS);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    FL_TRY(check_ids(c, X_IDS));
    FL_TRY(check_ids(c, Y_IDS));
    if (x->shape.rank != 2 || y->shape.rank != 2 ||
        x->shape.dim[1] != y->shape.dim[1])
        FL_FAIL(FL_ERR_INVAL, "op %s: %s and %s must be rows of one width", op,
                fl_infer_text(c, X, a), fl_infer_text(c, Y, b));
    if (i->shape.dim[0] >= 0 && k->shape.dim[0] >= 0 &&
        i->shape.dim[0] != k->shape.dim[0])
        FL_FAIL(FL_ERR_INVAL, "op %s: %s and %s must be pairs: as many of each",
                op, fl_infer_text(c, X_IDS, a), fl_infer_text(c, Y_IDS, b));
    return FL_OK;
}

fl_status fl_pairs_infer(const fl_infer *c, int out)
{
    FL_TRY(fl_pairs_check_shapes(c));
    fl_tensor_like(fl_infer_out(c, out), fl_infer_in(c, X_IDS));
    fl_infer_out(c, out)->dtype = fl_infer_in(c, X)->dtype;
    return FL_OK;
}

static fl_status lookup_dot_infer(fl_infer *c)
{
    return fl_pairs_infer(c, OUT);
}

static void infer_grad(const fl_infer *c, int slot, int ids, int sparse)
{
    const fl_tensor *rows = fl_infer_in(c, slot);
    fl_tensor *grad = fl_infer_out(c, slot);

    if (!grad || !fl_bool(c, sparse))
        return;
    grad->kind = FL_KIND_ROWS;
    grad->height = rows->shape.dim[0] > 0 ? rows->shape.dim[0] : 0;
    grad->shape.dim[0] = fl_infer_in(c, ids)->shape.dim[0];
    grad->n_lod = 0;
}

void fl_pairs_infer_grads(const fl_infer *c)
{
    infer_grad(c, X, X_IDS, X_IS_SPARSE);
    infer_grad(c, Y, Y_IDS, Y_IS_SPARSE);
}

static fl_status lookup_dot_back_infer(fl_infer *c)
{
    fl_pairs_infer_grads(c);
    return FL_OK;
}

/* --- running -------------------------------------------------------------- */

fl_pairs fl_pairs_of(const fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X_IDS);

    return (fl_pairs){ .x = fl_tensor_ids(x),
                       .y = fl_tensor_ids(fl_in_t(c, Y_IDS)),
                       .n = (size_t)x->shape.dim[0],
                       .dim = (size_t)fl_in_t(c, X)->shape.dim[1] };
}

static fl_status check_rows(const fl_op_ctx *c, int slot, int ids)
{
    uint64_t height = (uint64_t)fl_in_t(c, slot)->shape.dim[0];
    const char *name = c->node->def->in[ids].name;

    if (!height && fl_tensor_numel(fl_in_t(c, ids)))
        FL_FAIL(FL_ERR_INVAL, "%s: there are ids, and no rows for them", name);
    /* 0 is a row: nothing is let through. */
    return fl_check_ids(fl_in_t(c, ids), name, height, 0);
}

fl_status fl_pairs_check(const fl_op_ctx *c)
{
    FL_TRY(check_rows(c, X, X_IDS));
    return check_rows(c, Y, Y_IDS);
}

void fl_pairs_multiply(const fl_op_ctx *c, const fl_pairs *p, void *z)
{
    FL_BY_FLOAT(c, X, forward, p, fl_in(c, X), fl_in(c, Y), z);
}

static fl_status lookup_dot_run(fl_op_ctx *c)
{
    fl_pairs p = fl_pairs_of(c);

    FL_TRY(fl_pairs_check(c));
    fl_pairs_multiply(c, &p, fl_out(c, OUT));
    return FL_OK;
}

/* The gradient of one side from the rows of the other. */
static void give_grad(const fl_op_ctx *c, const fl_pairs *p, int slot,
                      const void *dz)
{
    const uint64_t *own = slot == X ? p->x : p->y;
    const uint64_t *from = slot == X ? p->y : p->x;
    const void *other = fl_in(c, slot == X ? Y : X);
    fl_tensor *grad = fl_din_t(c, slot);

    if (!grad)
        return;
    if (grad->kind != FL_KIND_ROWS) {
        fl_share_zero(c, grad);
        FL_BY_FLOAT(c, X, dense, p, own, from, other, dz, grad->data);
        return;
    }
    grad->shape.dim[0] = (int64_t)p->n;
    memcpy(grad->rows, own, p->n * sizeof(*own));
    FL_BY_FLOAT(c, X, sparse, p, from, other, dz, grad->data);
    fl_tensor_set_merged(grad, p->n <= 1);
}

void fl_pairs_back(const fl_op_ctx *c, fl_pairs p, const void *dz)
{
    if (!dz)
        p.n = 0;
    for (int slot = X; slot <= Y; slot++)
        give_grad(c, &p, slot, dz);
}

static fl_status lookup_dot_back(fl_op_ctx *c)
{
    fl_pairs_back(c, fl_pairs_of(c), fl_dout(c, OUT));
    return FL_OK;
}

static const fl_op_case lookup_dot_cases[] = {
    { .in = { "f32[17,5]", "f32[9,5]", "i64[6,1] below=17",
              "i64[6,1] below=9" } },
    { .in = { "f32[17,5]", "f32[9,5]", "i64[0,1] below=17",
              "i64[0,1] below=9" } },
    { .in = { "f32[4,33]", "f32[3,33]", "u64[33,1] below=4",
              "i64[33,1] below=3" },
      .attrs = "{x_is_sparse=true, y_is_sparse=true}" },
    { .in = { "f32[4,8]", "f32[3,8]", "i64[1,1] below=4", "i64[1,1] below=3" },
      .attrs = "{y_is_sparse=true}" },
};

const fl_op fl_op_lookup_dot = {
    .name = "lookup_dot",
    .doc = "Out[i, 0] = X[XIds[i, 0], :] . Y[YIds[i, 0], :]; x_is_sparse and "
           "y_is_sparse make the gradients rows + values",
    .in = { { "X", 0 }, { "Y", 0 }, FL_PAIRS_ID_SLOTS },
    .out = { { "Out", 0 } },
    .attrs = { FL_PAIRS_ATTR_LIST },
    .infer = lookup_dot_infer,
    .run = lookup_dot_run,
    .back = lookup_dot_back,
    .back_uses =
        FL_USES_IN(X) | FL_USES_IN(Y) | FL_USES_IN(X_IDS) | FL_USES_IN(Y_IDS),
    .back_infer = lookup_dot_back_infer,
    .cases = lookup_dot_cases,
    .n_cases = FL_LEN(lookup_dot_cases),
};
