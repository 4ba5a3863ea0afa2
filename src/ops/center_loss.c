/* center_loss.c - how far rows are from the centre of their class, and the
 * centres on their way to the rows.
 *
 * With d = X[i] - Centers[Label[i]] the loss of a row is |d|^2 / 2. A centre
 * moves by CenterUpdateRate times the sum of d over its rows, divided by one
 * more than there are of them.
 */
#include <inttypes.h>

#include "kernel/vec.h"
#include "ops/helpers.h"
#include "ops/labels.h"

enum { X, LABEL, CENTERS, RATE };
enum { CENTERS_OUT, SAMPLE_CENTER_DIFF, LOSS };
enum { CLUSTER_NUM, NEED_UPDATE };

static fl_status refuse(const fl_infer *c, int slot, const char *want)
{
    char buf[FL_SLOT_TEXT_MAX];

    FL_FAIL(FL_ERR_INVAL, "op center_loss: %s must be %s",
            fl_infer_text(c, slot, buf), want);
}

static fl_status check_shapes(const fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    int64_t n_labels = fl_shape_numel(&fl_infer_in(c, LABEL)->shape);
    int64_t n_rates = fl_shape_numel(&fl_infer_in(c, RATE)->shape);
    fl_shape centers = { 2, { fl_int(c, CLUSTER_NUM), x->dim[1] } };

    if (x->rank != 2)
        return refuse(c, X, "a matrix");
    if (x->dim[0] >= 0 && n_labels >= 0 && n_labels != x->dim[0])
        return refuse(c, LABEL, "one class for each row of X");
    if (!fl_shape_matches(&fl_infer_in(c, CENTERS)->shape, &centers))
        return refuse(c, CENTERS, "[cluster_num, columns of X]");
    if (n_rates >= 0 && n_rates != 1)
        return refuse(c, RATE, "one number");
    return FL_OK;
}

static fl_status center_loss_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_tensor *loss = fl_infer_out(c, LOSS);

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_float(c, RATE));
    FL_TRY(fl_infer_ids(c, LABEL));
    FL_TRY(fl_infer_same_dtype(c, X, CENTERS));
    FL_TRY(check_shapes(c));
    fl_tensor_like(fl_infer_out(c, CENTERS_OUT), fl_infer_in(c, CENTERS));
    fl_infer_dense(c, SAMPLE_CENTER_DIFF, x->dtype, 2, x->shape.dim);
    fl_tensor_like(loss, x);
    loss->shape.dim[1] = 1;
    return FL_OK;
}

typedef struct center_job {
    const fl_tensor *label;
    size_t n, width, n_classes;
    double rate;
} center_job;

#define KERNELS(T, t)                                                          \
    static void differ_##t(const center_job *j, const T *x, const T *centers,  \
                           T *diff, T *loss)                                   \
    {                                                                          \
        for (size_t i = 0; i < j->n; i++) {                                    \
            size_t k = (size_t)fl_label_at(j->label, i);                       \
            T *d = diff + i * j->width;                                        \
                                                                               \
            fl_vec_##t()->sub(d, x + i * j->width, centers + k * j->width,     \
                              j->width);                                       \
            loss[i] = (T)(fl_vec_##t()->dot(d, d, j->width) / 2);              \
        }                                                                      \
    }                                                                          \
    /* sums[k] is what the rows of class k are off, counts[k] their number. */ \
    static void move_##t(const center_job *j, const T *diff, int64_t *counts,  \
                         T *sums, T *centers)                                  \
    {                                                                          \
        memset(counts, 0, j->n_classes * sizeof(*counts));                     \
        memset(sums, 0, j->n_classes * j->width * sizeof(T));                  \
        for (size_t i = 0; i < j->n; i++) {                                    \
            size_t k = (size_t)fl_label_at(j->label, i);                       \
                                                                               \
            counts[k]++;                                                       \
            fl_vec_##t()->axpy(sums + k * j->width, 1, diff + i * j->width,    \
                               j->width);                                      \
        }                                                                      \
        for (size_t k = 0; k < j->n_classes; k++)                              \
            if (counts[k])                                                     \
                fl_vec_##t()->axpy(centers + k * j->width,                     \
                                   (T)(j->rate / (double)(1 + counts[k])),     \
                                   sums + k * j->width, j->width);             \
    }                                                                          \
    static void backward_##t(const center_job *j, fl_span s, const T *diff,    \
                             const T *g, T *dx)                                \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            fl_vec_##t()->scale(dx + i * j->width, g[i], diff + i * j->width,  \
                                0, j->width);                                  \
    }
FL_FLOATS(KERNELS)

static center_job job_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;

    return (center_job){ .label = fl_in_t(c, LABEL),
                         .n = (size_t)x->dim[0],
                         .width = (size_t)x->dim[1],
                         .n_classes = (size_t)fl_int(c, CLUSTER_NUM) };
}

static fl_status move_centers(fl_op_ctx *c, center_job *j, const void *diff)
{
    size_t bytes = fl_dtype_bytes(fl_in_t(c, X)->dtype);
    int64_t *counts = fl_scratch(c, j->n_classes * sizeof(*counts));
    void *sums = fl_scratch(c, (j->n_classes * j->width + 1) * bytes);

    if (!counts || !sums)
        return FL_NOMEM(c);
    j->rate = fl_float_at(fl_in_t(c, RATE), 0);
    FL_BY_FLOAT(c, X, move, j, diff, counts, sums, fl_out(c, CENTERS_OUT));
    return FL_OK;
}

/* The centres as they were count for all rows, so they move last. */
static fl_status center_loss_run(fl_op_ctx *c)
{
    center_job j = job_of(c);
    size_t bytes = fl_dtype_bytes(fl_in_t(c, X)->dtype);
    void *diff = fl_out(c, SAMPLE_CENTER_DIFF);

    if (!diff)
        diff = fl_scratch(c, (j.n * j.width + 1) * bytes);
    if (!diff)
        return FL_NOMEM(c);
    FL_TRY(
        fl_check_labels(j.label, (fl_span){ 0, j.n }, (int64_t)j.n_classes, 0));
    FL_BY_FLOAT(c, X, differ, &j, fl_in(c, X), fl_in(c, CENTERS), diff,
                fl_out(c, LOSS));
    fl_carry_over(c, CENTERS, CENTERS_OUT);
    return fl_bool(c, NEED_UPDATE) ? move_centers(c, &j, diff) : FL_OK;
}

static fl_status center_loss_back(fl_op_ctx *c)
{
    center_job j = job_of(c);

    if (fl_din_t(c, X) && fl_dout_t(c, LOSS))
        FL_BY_FLOAT(c, X, backward, &j, (fl_span){ 0, j.n },
                    fl_saved_out(c, SAMPLE_CENTER_DIFF), fl_dout(c, LOSS),
                    fl_din(c, X));
    else
        fl_din_zero(c, X);
    return FL_OK;
}

static fl_status center_loss_back_infer(fl_infer *c)
{
    return fl_back_needs(c, SAMPLE_CENTER_DIFF);
}

static const fl_op_case center_loss_cases[] = {
    { .in = { "f32[6,5]", "i64[6,1] below=4", "f32[4,5]", "f32[1]" },
      .attrs = "{cluster_num=4, need_update=false}" },
    { .in = { "f32[33,3]", "i64[33] below=4", "f32[4,3]", "f32[1]" },
      .attrs = "{cluster_num=4, need_update=true}" },
    { .in = { "f32[5,2] lod=[0,2,2,5]", "i32[5,1] below=2", "f32[2,2]",
              "f32[1]" },
      .attrs = "{cluster_num=2, need_update=true}" },
    { .in = { "f32[0,5]", "i64[0,1]", "f32[4,5]", "f32[1]" },
      .attrs = "{cluster_num=4, need_update=true}" },
};

const fl_op fl_op_center_loss = {
    .name = "center_loss",
    .doc = "Loss[i] = |d|^2 / 2 with d = SampleCenterDiff[i] = X[i] - "
           "Centers[Label[i]]; with need_update each of CentersOut, of which "
           "there are cluster_num, moves by CenterUpdateRate times the sum of "
           "d over the n rows of its class, divided by n + 1",
    .in = { { "X", 0 },
            { "Label", FL_SLOT_NO_GRAD },
            { "Centers", FL_OP_SLOT_STATE | FL_SLOT_NO_GRAD },
            { "CenterUpdateRate", FL_SLOT_NO_GRAD } },
    .out = { { "CentersOut", FL_SLOT_NO_GRAD },
             { "SampleCenterDiff", FL_OP_SLOT_BYPRODUCT },
             { "Loss", 0 } },
    .attrs = { { "cluster_num", FL_ATTR_INT, "0" },
               { "need_update", FL_ATTR_BOOL, "false" } },
    .infer = center_loss_infer,
    .run = center_loss_run,
    .back = center_loss_back,
    .back_uses = FL_USES_OUT(SAMPLE_CENTER_DIFF),
    .back_infer = center_loss_back_infer,
    .cases = center_loss_cases,
    .n_cases = FL_LEN(center_loss_cases),
};
