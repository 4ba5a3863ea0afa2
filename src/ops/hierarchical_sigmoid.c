/* hierarchical_sigmoid.c - the loss of a class as that of a path through a
 * binary tree: at each inner node a logistic choice between two branches.
 *
 *     z_b = Bias[node_b] + X W[node_b]         brought to [-40, 40]
 *     Out = sum over the path of log(1 + exp(z_b)) - bit_b z_b
 *
 * Without PathTable the tree is that of the numbers num_classes .. 2
 * num_classes - 1, which are the classes: node 1 is the root, n has the
 * branches 2 n and 2 n + 1, and row n - 1 of W. With it, a row of PathTable has
 * the nodes of the path of that sample's class, a number below 0 ends it, and
 * PathCode has the bits.
 *
 * PreOut has log(1 + exp(z)) in as many columns as the longest path has nodes;
 * as in PaddlePaddle a place behind the end of a path counts log 2.
 */
#include <math.h>

#include "kernel/vec.h"
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/labels.h"

enum { X, W, LABEL, PATH_TABLE, PATH_CODE, BIAS };
enum { OUT, PRE_OUT };
enum { NUM_CLASSES, IS_SPARSE };

#define Z_MOST 40

typedef struct tree_job {
    size_t rows, dim, width;
    uint64_t n_classes;
    const fl_tensor *label;
    const int64_t *table, *code; /* NULL: the tree of numbers */
    const void *x, *w, *bias;
} tree_job;

/* Digits of a number in base 2. */
static int64_t n_bits(uint64_t v)
{
    int64_t n = 0;

    for (; v; v >>= 1)
        n++;
    return n;
}

static tree_job job_of(const fl_op_ctx *c)
{
    const fl_tensor *table = fl_in_t(c, PATH_TABLE);
    const fl_shape *x = &fl_in_t(c, X)->shape;
    uint64_t n = (uint64_t)fl_int(c, NUM_CLASSES);

    return (tree_job){ .rows = (size_t)x->dim[0],
                       .dim = (size_t)x->dim[1],
                       .width = (size_t)(table ? table->shape.dim[1]
                                               : n_bits(n - 1)),
                       .n_classes = n,
                       .label = fl_in_t(c, LABEL),
                       .table = fl_in(c, PATH_TABLE),
                       .code = fl_in(c, PATH_CODE),
                       .x = fl_in(c, X),
                       .w = fl_in(c, W),
                       .bias = fl_in(c, BIAS) };
}

/* --- paths ---------------------------------------------------------------- */

/* The number of a sample's class in the tree of numbers. */
static uint64_t number_of(const tree_job *j, size_t row)
{
    return (uint64_t)fl_label_at(j->label, row) + j->n_classes;
}

static size_t path_len(const tree_job *j, size_t row)
{
    size_t n = 0;

    if (!j->table)
        return (size_t)n_bits(number_of(j, row)) - 1;
    while (n < j->width && j->table[row * j->width + n] >= 0)
        n++;
    return n;
}

static size_t node_at(const tree_job *j, size_t row, size_t b)
{
    if (j->table)
        return (size_t)j->table[row * j->width + b];
    return (size_t)((number_of(j, row) >> (b + 1)) - 1);
}

static bool bit_at(const tree_job *j, size_t row, size_t b)
{
    if (j->table)
        return j->code[row * j->width + b] != 0;
    return (number_of(j, row) >> b) & 1;
}

static fl_status check_paths(const fl_op_ctx *c, const tree_job *j, fl_span s)
{
    int64_t n_nodes = fl_in_t(c, W)->shape.dim[0];

    if (!j->table)
        return fl_check_labels(j->label, s, (int64_t)j->n_classes, -1);
    for (size_t i = s.lo * j->width; i < s.hi * j->width; i++)
        if (j->table[i] >= n_nodes)
            FL_FAIL(FL_ERR_INVAL,
                    "op hierarchical_sigmoid: PathTable has node %lld at "
                    "[%zu,%zu], but W has %lld rows",
                    (long long)j->table[i], i / j->width, i % j->width,
                    (long long)n_nodes);
    return FL_OK;
}

/* --- kernels -------------------------------------------------------------- */

#define KERNELS(T, t)                                                          \
    static double choice_##t(const tree_job *j, size_t row, size_t node)       \
    {                                                                          \
        const T *x = (const T *)j->x + row * j->dim, *bias = j->bias;          \
        const T *w = (const T *)j->w + node * j->dim;                          \
        double z = fl_vec_##t()->dot(x, w, j->dim);                            \
                                                                               \
        z += bias ? (double)bias[node] : 0;                                    \
        return z > Z_MOST ? Z_MOST : z < -Z_MOST ? -Z_MOST : z;                \
    }                                                                          \
    static void forward_##t(const tree_job *j, fl_span s, T *out, T *pre)      \
    {                                                                          \
        for (size_t row = s.lo; row < s.hi; row++) {                           \
            size_t len = path_len(j, row);                                     \
            double sum = 0;                                                    \
                                                                               \
            for (size_t b = 0; b < j->width; b++) {                            \
                double z =                                                     \
                    b < len ? choice_##t(j, row, node_at(j, row, b)) : 0;      \
                double soft = log1p(exp(z));                                   \
                                                                               \
                sum += soft - (b < len && bit_at(j, row, b) ? z : 0);          \
                if (pre)                                                       \
                    pre[row * j->width + b] = (T)soft;                         \
            }                                                                  \
            out[row] = (T)sum;                                                 \
        }                                                                      \
    }                                                                          \
    /* What comes back for the choice at place b of a row. */                  \
    static T slope_##t(const tree_job *j, const T *pre, const T *dout,         \
                       size_t row, size_t b)                                   \
    {                                                                          \
        double s = 1 - exp(-(double)pre[row * j->width + b]);                  \
                                                                               \
        return (T)((double)dout[row] * (s - bit_at(j, row, b)));               \
    }                                                                          \
    static void input_back_##t(const tree_job *j, fl_span s, const T *pre,     \
                               const T *dout, T *dx)                           \
    {                                                                          \
        for (size_t row = s.lo; row < s.hi; row++) {                           \
            memset(dx + row * j->dim, 0, j->dim * sizeof(T));                  \
            for (size_t b = 0; b < path_len(j, row); b++)                      \
                fl_vec_##t()->axpy(                                            \
                    dx + row * j->dim, slope_##t(j, pre, dout, row, b),        \
                    (const T *)j->w + node_at(j, row, b) * j->dim, j->dim);    \
        }                                                                      \
    }                                                                          \
    /* The columns in s of all nodes. */                                       \
    static void dense_back_##t(const tree_job *j, fl_span s, const T *pre,     \
                               const T *dout, fl_tensor *dw)                   \
    {                                                                          \
        size_t n = s.hi - s.lo;                                                \
        T *to = dw->data;                                                      \
                                                                               \
        for (int64_t k = 0; n && k < dw->shape.dim[0]; k++)                    \
            memset(to + (size_t)k * j->dim + s.lo, 0, n * sizeof(T));          \
        for (size_t row = 0; n && row < j->rows; row++)                        \
            for (size_t b = 0; b < path_len(j, row); b++)                      \
                fl_vec_##t()->axpy(to + node_at(j, row, b) * j->dim + s.lo,    \
                                   slope_##t(j, pre, dout, row, b),            \
                                   (const T *)j->x + row * j->dim + s.lo, n);  \
    }                                                                          \
    /* A row for every node of every path. */                                  \
    static void rows_back_##t(const tree_job *j, const T *pre, const T *dout,  \
                              fl_tensor *dw)                                   \
    {                                                                          \
        size_t at = 0;                                                         \
                                                                               \
        for (size_t row = 0; row < j->rows; row++)                             \
            for (size_t b = 0; b < path_len(j, row); b++, at++) {              \
                dw->rows[at] = (int64_t)node_at(j, row, b);                    \
                fl_vec_##t()->scale((T *)dw->data + at * j->dim,               \
                                    slope_##t(j, pre, dout, row, b),           \
                                    (const T *)j->x + row * j->dim, 0,         \
                                    j->dim);                                   \
            }                                                                  \
        dw->shape.dim[0] = (int64_t)at;                                        \
    }                                                                          \
    static void bias_back_##t(const tree_job *j, const T *pre, const T *dout,  \
                              fl_tensor *db)                                   \
    {                                                                          \
        T *to = db->data;                                                      \
                                                                               \
        memset(to, 0, (size_t)fl_tensor_numel(db) * sizeof(T));                \
        for (size_t row = 0; row < j->rows; row++)                             \
            for (size_t b = 0; b < path_len(j, row); b++)                      \
                to[node_at(j, row, b)] += slope_##t(j, pre, dout, row, b);     \
    }
FL_FLOATS(KERNELS)

/* --- infer ---------------------------------------------------------------- */

static fl_status check_tree(const fl_infer *c, int64_t *width)
{
    const fl_tensor *table = fl_infer_in(c, PATH_TABLE);
    int64_t n = fl_int(c, NUM_CLASSES), nodes = fl_infer_in(c, W)->shape.dim[0];
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    if (!table != !fl_infer_in(c, PATH_CODE))
        FL_FAIL(FL_ERR_INVAL, "op hierarchical_sigmoid: PathTable and PathCode "
                              "are given both or not at all");
    if (!table) {
        if (n < 2 || (nodes >= 0 && nodes < n - 1))
            FL_FAIL(FL_ERR_INVAL,
                    "op hierarchical_sigmoid: %lld classes need at least two, "
                    "and a row of %s for each but one",
                    (long long)n, fl_infer_text(c, W, a));
        *width = n_bits((uint64_t)n - 1);
        return FL_OK;
    }
    if (table->dtype != FL_DTYPE_I64 || table->shape.rank != 2 ||
        fl_infer_in(c, PATH_CODE)->dtype != FL_DTYPE_I64 ||
        !fl_shape_matches(&table->shape, &fl_infer_in(c, PATH_CODE)->shape))
        FL_FAIL(
            FL_ERR_INVAL, "op hierarchical_sigmoid: %s and %s must be i64[n,L]",
            fl_infer_text(c, PATH_TABLE, a), fl_infer_text(c, PATH_CODE, b));
    *width = table->shape.dim[1];
    return FL_OK;
}

static fl_status check_weights(const fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *w = &fl_infer_in(c, W)->shape;
    const fl_tensor *bias = fl_infer_in(c, BIAS);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, W));
    FL_TRY(fl_infer_same_dtype(c, X, BIAS));
    FL_TRY(fl_infer_ids(c, LABEL));
    if (x->rank != 2 || w->rank != 2 || x->dim[1] != w->dim[1])
        FL_FAIL(FL_ERR_INVAL,
                "op hierarchical_sigmoid: %s must be [n,D] and %s [nodes,D]",
                fl_infer_text(c, X, a), fl_infer_text(c, W, b));
    if (bias && fl_tensor_numel(bias) != w->dim[0])
        FL_FAIL(FL_ERR_INVAL,
                "op hierarchical_sigmoid: %s must have a number for each row "
                "of %s",
                fl_infer_text(c, BIAS, a), fl_infer_text(c, W, b));
    return FL_OK;
}

static fl_status hierarchical_sigmoid_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_tensor *out = fl_infer_out(c, OUT);
    int64_t n = x->shape.dim[0], of_label, width;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(check_weights(c));
    FL_TRY(check_tree(c, &width));
    of_label = fl_tensor_numel(fl_infer_in(c, LABEL));
    if (n >= 0 && of_label >= 0 && of_label != n)
        FL_FAIL(FL_ERR_INVAL,
                "op hierarchical_sigmoid: %s must have a class for each row of "
                "%s",
                fl_infer_text(c, LABEL, a), fl_infer_text(c, X, b));
    fl_tensor_like(out, x);
    out->shape.dim[1] = 1;
    fl_infer_dense(c, PRE_OUT, x->dtype, 2, (int64_t[]){ n, width });
    return FL_OK;
}

/* --- running -------------------------------------------------------------- */

static fl_status hierarchical_sigmoid_run(fl_op_ctx *c)
{
    tree_job j = job_of(c);
    fl_span s = fl_op_span(c, j.rows);

    FL_TRY(check_paths(c, &j, s));
    FL_BY_FLOAT(c, X, forward, &j, s, fl_out(c, OUT), fl_out(c, PRE_OUT));
    return FL_OK;
}

static void weight_back(const fl_op_ctx *c, const tree_job *j, const void *pre,
                        const void *dout)
{
    fl_tensor *dw = fl_din_t(c, W);

    if (dw->kind != FL_KIND_ROWS)
        FL_BY_FLOAT(c, X, dense_back, j, fl_op_span(c, j->dim), pre, dout, dw);
    else if (c->ith == 0)
        FL_BY_FLOAT(c, X, rows_back, j, pre, dout, dw);
}

static fl_status no_gradient(const fl_op_ctx *c)
{
    fl_tensor *dw = fl_din_t(c, W);

    fl_din_zero(c, X);
    fl_din_zero(c, BIAS);
    if (!dw || dw->kind != FL_KIND_ROWS)
        fl_din_zero(c, W);
    else if (c->ith == 0)
        dw->shape.dim[0] = 0;
    return FL_OK;
}

static fl_status hierarchical_sigmoid_back(fl_op_ctx *c)
{
    tree_job j = job_of(c);
    const void *pre = fl_saved_out(c, PRE_OUT), *dout = fl_dout(c, OUT);

    if (!fl_dout_t(c, OUT))
        return no_gradient(c);
    if (fl_din_t(c, X))
        FL_BY_FLOAT(c, X, input_back, &j, fl_op_span(c, j.rows), pre, dout,
                    fl_din(c, X));
    if (fl_din_t(c, W))
        weight_back(c, &j, pre, dout);
    if (fl_din_t(c, BIAS) && c->ith == 0)
        FL_BY_FLOAT(c, X, bias_back, &j, pre, dout, fl_din_t(c, BIAS));
    return FL_OK;
}

/* With is_sparse the gradient of W is rows + values, one of each for every
   node of every path. */
static fl_status hierarchical_sigmoid_back_infer(fl_infer *c)
{
    fl_tensor *dw = fl_infer_out(c, W);
    int64_t width;

    FL_TRY(fl_back_needs(c, PRE_OUT));
    if (!dw || !fl_bool(c, IS_SPARSE))
        return FL_OK;
    FL_TRY(check_tree(c, &width));
    dw->kind = FL_KIND_ROWS;
    dw->height = fl_infer_in(c, W)->shape.dim[0];
    dw->shape.dim[0] = fl_shape_numel(
        &(fl_shape){ 2, { fl_infer_in(c, X)->shape.dim[0], width } });
    return FL_OK;
}

static const char some_paths[] = "i64[4,3] is=[0,2,-1,0,1,4,0,-1,-1,0,2,5]";
static const char some_codes[] = "i64[4,3] is=[0,1,-1,1,0,0,1,-1,-1,0,0,1]";

static const fl_op_case hierarchical_sigmoid_cases[] = {
    { .in = { "f32[5,4]", "f32[5,4]", "i64[5,1] below=6", "", "", "f32[5,1]" },
      .attrs = "{num_classes=6}" },
    { .in = { "f32[40,3]", "f32[6,3]", "i32[40,1] below=7" },
      .attrs = "{num_classes=7}" },
    { .in = { "f32[4,3] lod=[0,1,4]", "f32[6,3]", "i64[4,1] below=2",
              some_paths, some_codes, "f32[6,1]" } },
    { .in = { "f32[4,3]", "f32[6,3]", "i64[4,1] below=2", some_paths,
              some_codes, "f32[6,1]" },
      .attrs = "{is_sparse=true}" },
    { .in = { "f32[0,4]", "f32[5,4]", "i64[0,1] below=6", "", "", "f32[5,1]" },
      .attrs = "{num_classes=6}" },
};

const fl_op fl_op_hierarchical_sigmoid = {
    .name = "hierarchical_sigmoid",
    .doc = "Out = for each row of X the loss of its class as that of a path "
           "through a binary tree: the sum of log(1 + exp(z)) - bit z, z = X "
           "W[node] + Bias[node] in [-40,40], over the nodes of the path. "
           "Without PathTable the classes are the numbers num_classes + Label "
           "and n has the branches 2 n and 2 n + 1; with it, its row has the "
           "nodes, ended by a number below 0, and that of PathCode the bits. "
           "PreOut holds log(1 + exp(z)), and log 2 behind a path, which Out "
           "counts. is_sparse makes the gradient of W rows + values",
    .in = { { "X", 0 },
            { "W", 0 },
            { "Label", FL_SLOT_NO_GRAD },
            { "PathTable", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD },
            { "PathCode", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD },
            { "Bias", FL_OP_SLOT_OPTIONAL } },
    .out = { { "Out", 0 }, { "PreOut", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "num_classes", FL_ATTR_INT, "2" },
               { "is_sparse", FL_ATTR_BOOL, "false" } },
    .flags = FL_OP_SLICED,
    .infer = hierarchical_sigmoid_infer,
    .run = hierarchical_sigmoid_run,
    .back = hierarchical_sigmoid_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(W) | FL_USES_IN(LABEL) |
                 FL_USES_IN(PATH_TABLE) | FL_USES_IN(PATH_CODE) |
                 FL_USES_OUT(PRE_OUT),
    .back_infer = hierarchical_sigmoid_back_infer,
    .cases = hierarchical_sigmoid_cases,
    .n_cases = FL_LEN(hierarchical_sigmoid_cases),
};
