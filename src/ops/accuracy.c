/* accuracy.c - how many samples have their label among the k best. */
#include <inttypes.h>

#include "ops/kit.h"

enum { OUT, INDICES, LABEL };      /* index into .in  */
enum { ACCURACY, CORRECT, TOTAL }; /* index into .out */

static fl_status mismatch(const fl_infer *c, int slot)
{
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_FAIL(FL_ERR_INVAL, "op accuracy: %s does not fit %s",
            fl_infer_text(c, slot, a), fl_infer_text(c, INDICES, b));
}

/* Indices [n,k], Out the same, Label [n,1] or [n]. */
static fl_status accuracy_infer(fl_infer *c)
{
    const fl_shape *s = &fl_infer_in(c, INDICES)->shape;
    const fl_shape *label = &fl_infer_in(c, LABEL)->shape;
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, OUT));
    FL_TRY(fl_infer_ids(c, INDICES));
    FL_TRY(fl_infer_ids(c, LABEL));
    if (s->rank != 2)
        FL_FAIL(FL_ERR_INVAL, "op accuracy: %s must have the shape [n,k]",
                fl_infer_text(c, INDICES, buf));
    if (!fl_shape_matches(s, &fl_infer_in(c, OUT)->shape))
        return mismatch(c, OUT);
    if (!fl_shape_matches(label, &(fl_shape){ 2, { s->dim[0], 1 } }) &&
        !fl_shape_matches(label, &(fl_shape){ 1, { s->dim[0] } }))
        return mismatch(c, LABEL);
    fl_infer_dense(c, ACCURACY, FL_DTYPE_F32, 1, (int64_t[]){ 1 });
    fl_infer_dense(c, CORRECT, FL_DTYPE_I32, 1, (int64_t[]){ 1 });
    fl_infer_dense(c, TOTAL, FL_DTYPE_I32, 1, (int64_t[]){ 1 });
    return FL_OK;
}

static int64_t id_at(const fl_tensor *t, int64_t i)
{
    return t->dtype == FL_DTYPE_I32 ? ((const int32_t *)t->data)[i]
                                    : ((const int64_t *)t->data)[i];
}

static bool is_among(const fl_tensor *indices, int64_t row, int64_t label)
{
    int64_t k = indices->shape.dim[1];

    for (int64_t j = 0; j < k; j++)
        if (id_at(indices, row * k + j) == label)
            return true;
    return false;
}

static fl_status accuracy_run(fl_op_ctx *c)
{
    const fl_tensor *indices = fl_in_t(c, INDICES);
    const fl_tensor *label = fl_in_t(c, LABEL);
    int64_t n = indices->shape.dim[0], correct = 0;

    if (n > INT32_MAX)
        FL_FAIL(FL_ERR_INVAL, "Total: %" PRId64 " samples do not fit in i32",
                n);
    for (int64_t i = 0; i < n; i++)
        correct += is_among(indices, i, id_at(label, i));
    *(float *)fl_out(c, ACCURACY) = n ? (float)correct / (float)n : 0;
    *(int32_t *)fl_out(c, CORRECT) = (int32_t)correct;
    *(int32_t *)fl_out(c, TOTAL) = (int32_t)n;
    return FL_OK;
}

static const fl_op_case accuracy_cases[] = {
    { .in = { "f32[1,1]", "i64[1,1] below=2", "i64[1,1] below=2" } },
    { .in = { "f32[0,2]", "i64[0,2] below=5", "i64[0,1] below=5" } },
    { .in = { "f32[33,3]", "i64[33,3] below=7", "i64[33,1] below=7" } },
    { .in = { "f32[33,1]", "i64[33,1] below=3", "i64[33] below=3" } },
};

const fl_op fl_op_accuracy = {
    .name = "accuracy",
    .doc = "Correct = samples whose Label is among their Indices, Total = "
           "samples, Accuracy = Correct / Total (0 without samples). Indices "
           "and Out are what top_k gives",
    .in = { { "Out", FL_SLOT_NO_GRAD },
            { "Indices", FL_SLOT_NO_GRAD },
            { "Label", FL_SLOT_NO_GRAD } },
    .out = { { "Accuracy", 0 }, { "Correct", 0 }, { "Total", 0 } },
    .infer = accuracy_infer,
    .run = accuracy_run,
    .cases = accuracy_cases,
    .n_cases = FL_LEN(accuracy_cases),
};
