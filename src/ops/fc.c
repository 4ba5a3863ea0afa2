/* fc.c - a fully connected layer: product, bias and activation in one.
 *
 * Nearly all the time of a training step is spent in the products here, so
 * nothing else may cost anything: bias and activation follow each block of the
 * product while it is in the cache, and the gradient of the activation and the
 * column sums for Bias are one sweep before the two products of the backward
 * run. Shares take blocks of rows of Out, of Input's gradient and of W's
 * (kernel/gemm.h says why blocks). The sweep of the backward run is done by
 * every share for itself: the gradient of W needs all of it.
 *
 * In bf16 (products_bf16.h) it is the same: bias and activation follow a block,
 * and what the sweep gives is rounded while it is in the cache.
 */
#include "kernel/gemm.h"
#include "kernel/gemm_bf16.h"
#include "kernel/vec.h"
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/products_bf16.h"

enum { INPUT, W, BIAS };
enum { OUT, ROUNDED };
enum { COL_DIMS, ACTIVATION, PRECISION };

/* Columns that are computed together: a block of rows of them stays there until
   bias and activation have followed. */
#define STRIP_COLS 2048

typedef struct fc_job {
    fl_product size;
    fl_act act;
    bool is_bf16;
} fc_job;

/* A part of Out. */
typedef struct tile {
    size_t row, rows, col, cols;
} tile;

/* Out = Input W. */
static void product_f32(const fc_job *z, const tile *at, const float *x,
                        const float *w, float *out)
{
    fl_gemm_weights ready;

    fl_gemm_prepare(&ready, w + at->col, FL_NO_TRANS, z->size.k,
                    (int64_t)at->cols, z->size.n);
    fl_gemm_prepared((int64_t)at->rows, x + at->row * (size_t)z->size.k,
                     z->size.k, &ready,
                     out + at->row * (size_t)z->size.n + at->col, z->size.n);
}

static void product_f64(const fc_job *z, const tile *at, const double *x,
                        const double *w, double *out)
{
    fl_gemm_shape s = { .ta = FL_NO_TRANS,
                        .tb = FL_NO_TRANS,
                        .m = (int64_t)at->rows,
                        .n = (int64_t)at->cols,
                        .k = z->size.k,
                        .lda = z->size.k,
                        .ldb = z->size.n,
                        .ldc = z->size.n };

    fl_gemm_f64(&s, 1, x + at->row * (size_t)z->size.k, w + at->col, 0,
                out + at->row * (size_t)z->size.n + at->col);
}

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

#define KERNELS(T, t)                                                          \
    static void forward_##t(const fc_job *z, fl_span s, const T *x,            \
                            const T *w, const T *bias, T *out)                 \
    {                                                                          \
        size_t n = (size_t)z->size.n;                                          \
        tile at;                                                               \
                                                                               \
        for (at.row = s.lo; at.row < s.hi; at.row += FL_GEMM_BLOCK)            \
            for (at.col = 0; at.col < n; at.col += STRIP_COLS) {               \
                at.rows = least(s.hi - at.row, FL_GEMM_BLOCK);                 \
                at.cols = least(n - at.col, STRIP_COLS);                       \
                product_##t(z, &at, x, w, out);                                \
                fl_vec_##t()->bias_act(out + at.row * n + at.col,              \
                                       bias ? bias + at.col : NULL, at.rows,   \
                                       at.cols, n, z->act);                    \
            }                                                                  \
    }                                                                          \
    /* Fills dz and db where they are wanted; part is room for one row. */     \
    static void sweep_##t(const fc_job *z, const T *dout, const T *out, T *dz, \
                          T *db, T *part)                                      \
    {                                                                          \
        const T *sum_of = dz ? dz : dout;                                      \
        size_t n = (size_t)z->size.n;                                          \
                                                                               \
        for (size_t i = 0, rows; i < (size_t)z->size.m; i += rows) {           \
            rows = (size_t)z->size.m - i < FL_PRODUCT_STRIP                    \
                       ? (size_t)z->size.m - i                                 \
                       : FL_PRODUCT_STRIP;                                     \
            if (dz)                                                            \
                fl_vec_##t()->act_grad(dz + i * n, dout + i * n, out + i * n,  \
                                       rows * n, z->act);                      \
            if (!db)                                                           \
                continue;                                                      \
            fl_vec_##t()->col_sum(part, sum_of + i * n, rows, n, n);           \
            fl_vec_##t()->add(db, db, part, n);                                \
        }                                                                      \
    }                                                                          \
    static void backward_##t(const fl_op_ctx *c, const fc_job *z, void *room)  \
    {                                                                          \
        const T *dout = fl_dout(c, OUT);                                       \
        T *dz = z->act == FL_ACT_NONE ? NULL : room;                           \
        T *part = (T *)room + (dz ? z->size.m * z->size.n : 0);                \
        T *db = c->ith ? NULL : fl_din(c, BIAS);                               \
                                                                               \
        if (db)                                                                \
            memset(db, 0, (size_t)z->size.n * sizeof(T));                      \
        sweep_##t(z, dout, fl_saved_out(c, OUT), dz, db, part);                \
        fl_product_back_##t(c, &z->size, fl_in(c, INPUT), fl_in(c, W),         \
                            dz ? dz : dout, fl_din(c, INPUT), fl_din(c, W));   \
    }
FL_FLOATS(KERNELS)

/* --- in bf16 ----------------------------------------------------------------- */

/* Of Out the gradient of relu needs to know where it is positive. So that Out, which
   is far longer, need not be kept, Rounded has this behind the bits of Input: a byte
   for each. */
static size_t positive_bytes(const fl_product *size, fl_act act)
{
    return act == FL_ACT_RELU ? (size_t)(size->m * size->n) : 0;
}

static size_t positive_at(const fc_job *z, size_t row)
{
    return fl_product_rounded_bytes(&z->size) + row * (size_t)z->size.n;
}

/* Bias and activation follow a block of Out. */
static void finish_rows(const void *arg, size_t row, size_t rows)
{
    const fl_op_ctx *c = arg;
    const fc_job *z = fl_op_workspace(c);
    uint8_t *rounded = fl_out(c, ROUNDED);
    size_t n = (size_t)z->size.n;
    float *out = (float *)fl_out(c, OUT) + row * n;

    fl_vec_f32()->bias_act(out, fl_in(c, BIAS), rows, n, n, z->act);
    if (rounded && z->act == FL_ACT_RELU)
        fl_vec_f32()->positive(rounded + positive_at(z, row), out, rows * n);
}

static fl_status forward_bf16(fl_op_ctx *c, const fc_job *z)
{
    const fl_product_bf16 p = { .size = z->size,
                                .x = fl_in(c, INPUT),
                                .w = fl_in(c, W),
                                .rounded = fl_out(c, ROUNDED),
                                .out = fl_out(c, OUT),
                                .follow = finish_rows,
                                .arg = c };

    return fl_product_bf16_run(c, &p);
}

/* The sweep of a strip, whose result is rounded while it is in the cache. */
typedef struct strip {
    const fl_op_ctx *c;
    const fc_job *z;
    float *db;   /* NULL: nobody wants it, or another share makes it */
    float *part; /* room for a strip and a row */
} strip;

/* The derivative of the activation times dout, which may be dout itself. */
static const float *act_grad_of(const strip *s, size_t row, size_t rows)
{
    const uint8_t *rounded = fl_saved_out(s->c, ROUNDED);
    size_t n = (size_t)s->z->size.n;
    const float *dout = (const float *)fl_dout(s->c, OUT) + row * n;
    const float *out = fl_saved_out(s->c, OUT);

    if (s->z->act == FL_ACT_NONE)
        return dout;
    if (rounded && s->z->act == FL_ACT_RELU)
        fl_vec_f32()->keep_where(s->part, rounded + positive_at(s->z, row),
                                 dout, rows * n);
    else
        fl_vec_f32()->act_grad(s->part, dout, out + row * n, rows * n,
                               s->z->act);
    return s->part;
}

static void round_rows(const void *arg, size_t row, size_t rows, uint16_t *to)
{
    const strip *s = arg;
    size_t n = (size_t)s->z->size.n;
    float *sum = s->part + FL_PRODUCT_STRIP * n;
    const float *dz = act_grad_of(s, row, rows);

    if (s->db) {
        fl_vec_f32()->col_sum(sum, dz, rows, n, n);
        fl_vec_f32()->add(s->db, s->db, sum, n);
    }
    fl_bf16_way_here()->narrow(to, dz, rows * n);
}

static fl_status backward_bf16(fl_op_ctx *c, const fc_job *z)
{
    size_t n = (size_t)z->size.n;
    strip s = { .c = c, .z = z, .db = c->ith ? NULL : fl_din(c, BIAS) };
    const fl_product_bf16_back p = { .size = z->size,
                                     .x = fl_in(c, INPUT),
                                     .w = fl_in(c, W),
                                     .rounded = fl_saved_out(c, ROUNDED),
                                     .round = round_rows,
                                     .arg = &s,
                                     .dx = fl_din(c, INPUT),
                                     .dw = fl_din(c, W) };

    s.part = fl_scratch(c, (FL_PRODUCT_STRIP + 1) * n * sizeof(*s.part));
    if (!s.part)
        return FL_NOMEM(c);
    if (s.db)
        memset(s.db, 0, n * sizeof(*s.db));
    return fl_product_bf16_back_run(c, &p);
}

/* --- the operator ------------------------------------------------------------ */

static bool parse_act(const char *name, fl_act *out)
{
    static const struct {
        const char *name;
        fl_act act;
    } all[] = { { "", FL_ACT_NONE },
                { "relu", FL_ACT_RELU },
                { "sigmoid", FL_ACT_SIGMOID },
                { "tanh", FL_ACT_TANH } };

    for (size_t i = 0; i < FL_LEN(all); i++)
        if (!strcmp(all[i].name, name)) {
            *out = all[i].act;
            return true;
        }
    return false;
}

static fl_status check_attrs(const fl_infer *c)
{
    int64_t cols = fl_int(c, COL_DIMS);
    char buf[FL_SLOT_TEXT_MAX];
    fl_act act;

    if (!parse_act(fl_str_attr(c, ACTIVATION), &act))
        FL_FAIL(FL_ERR_INVAL,
                "op fc: activation_type is \"%s\"; there are \"\", relu, "
                "sigmoid and tanh",
                fl_str_attr(c, ACTIVATION));
    if (cols < 1 || cols >= fl_infer_in(c, INPUT)->shape.rank)
        FL_FAIL(FL_ERR_INVAL,
                "op fc: in_num_col_dims=%lld must leave %s at least one "
                "dimension on either side",
                (long long)cols, fl_infer_text(c, INPUT, buf));
    return FL_OK;
}

static fl_status check_weights(const fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, INPUT)->shape;
    const fl_shape *w = &fl_infer_in(c, W)->shape;
    int64_t k = fl_shape_count(x, (int)fl_int(c, COL_DIMS), x->rank);
    char tx[FL_SLOT_TEXT_MAX], tw[FL_SLOT_TEXT_MAX];

    if (w->rank != 2)
        FL_FAIL(FL_ERR_INVAL, "op fc: %s must have two dimensions",
                fl_infer_text(c, W, tw));
    if (k >= 0 && w->dim[0] >= 0 && k != w->dim[0])
        FL_FAIL(FL_ERR_INVAL,
                "op fc: %s has %lld columns after in_num_col_dims=%lld, but "
                "%s has %lld rows",
                fl_infer_text(c, INPUT, tx), (long long)k,
                (long long)fl_int(c, COL_DIMS), fl_infer_text(c, W, tw),
                (long long)w->dim[0]);
    return FL_OK;
}

/* [n] or [1,n] */
static fl_status check_bias(const fl_infer *c)
{
    const fl_shape *w = &fl_infer_in(c, W)->shape;
    char tb[FL_SLOT_TEXT_MAX], tw[FL_SLOT_TEXT_MAX];
    const fl_shape *b;
    int64_t n;

    if (!fl_infer_in(c, BIAS))
        return FL_OK;
    b = &fl_infer_in(c, BIAS)->shape;
    n = fl_shape_numel(b);
    if (b->rank == 0 || b->rank > 2 || (b->rank == 2 && b->dim[0] != 1) ||
        (n >= 0 && w->dim[1] >= 0 && n != w->dim[1]))
        FL_FAIL(FL_ERR_INVAL, "op fc: %s must have one number per column of %s",
                fl_infer_text(c, BIAS, tb), fl_infer_text(c, W, tw));
    return FL_OK;
}

static fc_job job_of(const fl_op_node *n, const fl_targs *in)
{
    const fl_shape *x = &in[INPUT].t[0]->shape;
    int cols = (int)fl_attr_int(n, COL_DIMS);
    fc_job z = { .size = { .m = fl_shape_count(x, 0, cols),
                           .k = fl_shape_count(x, cols, x->rank),
                           .n = in[W].t[0]->shape.dim[1] } };

    FL_ASSERT(parse_act(fl_attr_str(n, ACTIVATION), &z.act));
    z.is_bf16 = fl_product_is_bf16(n, PRECISION, in[INPUT].t[0]->dtype) &&
                z.size.m > 0 && z.size.n > 0 && z.size.k > 0;
    return z;
}

/* The run finds there what follows from shapes and attributes. */
static fl_status leave_job(const fl_infer *c)
{
    fc_job job;
    void *z;

    if (!c->running)
        return FL_OK;
    job = job_of(c->node, c->in);
    FL_TRY(fl_infer_workspace(c, sizeof(job), &z));
    memset(z, 0, sizeof(job)); /* all of it, so that it can be compared */
    ((fc_job *)z)->size = job.size;
    ((fc_job *)z)->act = job.act;
    ((fc_job *)z)->is_bf16 = job.is_bf16;
    return FL_OK;
}

static void infer_rounded(const fl_infer *c)
{
    const fl_tensor *t = fl_infer_in(c, INPUT);
    const fl_shape *x = &t->shape;
    int cols = (int)fl_int(c, COL_DIMS);
    const fl_product size = { .m = fl_shape_count(x, 0, cols),
                              .k = fl_shape_count(x, cols, x->rank),
                              .n = fl_infer_in(c, W)->shape.dim[1] };
    fl_act act;

    FL_ASSERT(parse_act(fl_str_attr(c, ACTIVATION), &act));
    fl_product_infer_rounded(c, ROUNDED,
                             fl_product_is_bf16(c->node, PRECISION, t->dtype),
                             &size, positive_bytes(&size, act));
}

static fl_status fc_infer(fl_infer *c)
{
    fl_tensor *out = fl_infer_out(c, OUT);
    int cols = (int)fl_int(c, COL_DIMS);

    FL_TRY(fl_infer_float(c, INPUT));
    FL_TRY(fl_infer_same_dtype(c, INPUT, W));
    FL_TRY(fl_infer_same_dtype(c, INPUT, BIAS));
    FL_TRY(check_attrs(c));
    FL_TRY(check_weights(c));
    FL_TRY(check_bias(c));
    FL_TRY(fl_product_check_precision(c, PRECISION));
    infer_rounded(c);
    fl_tensor_like(out, fl_infer_in(c, INPUT));
    out->shape.rank = cols + 1;
    out->shape.dim[cols] = fl_infer_in(c, W)->shape.dim[1];
    return leave_job(c);
}

static fl_status fc_run(fl_op_ctx *c)
{
    const fc_job *z = fl_op_workspace(c);

    if (z->is_bf16)
        return forward_bf16(c, z);
    FL_BY_FLOAT(c, INPUT, forward, z,
                fl_op_blocks(c, (size_t)z->size.m, FL_GEMM_BLOCK),
                fl_in(c, INPUT), fl_in(c, W), fl_in(c, BIAS), fl_out(c, OUT));
    return FL_OK;
}

static fl_status fc_back(fl_op_ctx *c)
{
    fc_job z = job_of(c->node, c->in);
    int64_t rows = z.act == FL_ACT_NONE ? 1 : z.size.m + 1;
    void *room;

    if (!fl_dout_t(c, OUT)) {
        fl_din_zero(c, INPUT);
        fl_din_zero(c, W);
        fl_din_zero(c, BIAS);
        return FL_OK;
    }
    if (z.is_bf16)
        return backward_bf16(c, &z);
    room = fl_scratch(c, (size_t)(rows * z.size.n) *
                             fl_dtype_bytes(fl_in_t(c, INPUT)->dtype));
    if (!room)
        return FL_NOMEM(c);
    FL_BY_FLOAT(c, INPUT, backward, c, &z, room);
    return FL_OK;
}

/* Without an activation nothing of Out is in its gradient, and of relu where
   Rounded has it. */
static unsigned fc_back_reads(const fl_op_node *n)
{
    unsigned of_input = fl_product_back_input(n, ROUNDED, PRECISION);
    const char *act = fl_attr_str(n, ACTIVATION);
    bool is_kept = (of_input & FL_USES_OUT(ROUNDED)) && !strcmp(act, "relu");
    bool needs_out = *act && !is_kept;

    return of_input | FL_USES_IN(W) | (needs_out ? FL_USES_OUT(OUT) : 0);
}

static const fl_op_case fc_cases[] = {
    { .in = { "f32[6,7]", "f32[7,5]", "f32[5]" } },
    { .in = { "f32[6,7]", "f32[7,5]" } },
    { .in = { "f32[0,7]", "f32[7,5]", "f32[5]" },
      .attrs = "{activation_type=relu}" },
    { .in = { "f32[33,7]", "f32[7,3]", "f32[1,3]" },
      .attrs = "{activation_type=sigmoid}" },
    { .in = { "f32[67,3]", "f32[3,2]", "f32[2]" },
      .attrs = "{activation_type=tanh}" },
    { .in = { "f32[5,3]", "f32[3,9]", "f32[9]" },
      .attrs = "{activation_type=relu}" },
    { .in = { "f32[5,3]", "f32[3,9]" }, .attrs = "{activation_type=relu}" },
    { .in = { "f32[4,3,2]", "f32[6,5]", "f32[5]" } },
    { .in = { "f32[2,3,4]", "f32[4,5]", "f32[5]" },
      .attrs = "{in_num_col_dims=2, activation_type=tanh}" },
    { .in = { "f32[4,3] lod=[0,1,1,4]", "f32[3,2]", "f32[2]" } },
    /* more than one block of rows on every side */
    { .in = { "f32[300,140]", "f32[140,9]", "f32[9]" },
      .attrs = "{activation_type=tanh}" },
    /* more than one strip of columns */
    { .in = { "f32[3,2]", "f32[2,2100]", "f32[2100]" },
      .attrs = "{activation_type=sigmoid}" },
    { .in = { "f32[150,20]", "f32[20,17]", "f32[17]" },
      .attrs = "{activation_type=relu, precision=bf16}",
      .flags = FL_CASE_UNIT | FL_CASE_ROUNDED },
    { .in = { "f32[7,20]", "f32[20,5]" },
      .attrs = "{precision=bf16}",
      .flags = FL_CASE_ROUNDED },
    { .in = { "f32[0,20]", "f32[20,5]" },
      .attrs = "{precision=bf16}",
      .flags = FL_CASE_ROUNDED },
};

const fl_op fl_op_fc = {
    .name = "fc",
    .doc =
        "Out = act(Input W + Bias), Input seen as a matrix whose rows are "
        "its first in_num_col_dims dimensions; activation_type is \"\", "
        "relu, sigmoid or tanh; the gradient of relu at 0 is 0; with "
        "precision=bf16 operands of f32 are rounded to it on their way into "
        "the products, and Rounded keeps for the gradient those of Input and "
        "where relu's sums were positive",
    .in = { { "Input", 0 }, { "W", 0 }, { "Bias", FL_OP_SLOT_OPTIONAL } },
    .out = { { "Out", 0 }, { "Rounded", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "in_num_col_dims", FL_ATTR_INT, "1" },
               { "activation_type", FL_ATTR_STRING, "" },
               { "precision", FL_ATTR_STRING, "" } },
    .flags = FL_OP_SLICED | FL_OP_BY_FORM,
    .infer = fc_infer,
    .run = fc_run,
    .back = fc_back,
    .back_uses = FL_USES_IN(INPUT) | FL_USES_IN(W) | FL_USES_OUT(OUT) |
                 FL_USES_OUT(ROUNDED),
    .back_reads = fc_back_reads,
    .cases = fc_cases,
    .n_cases = FL_LEN(fc_cases),
};
