/* where.c - a choice by a condition: where takes each number from one of two
 * tensors, where_index gives the places at which it holds. */
#include "ops/helpers.h"

enum { CONDITION, X, Y };
enum { OUT };

/* --- where ---------------------------------------------------------------- */

static fl_status where_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    if (fl_infer_in(c, CONDITION)->dtype != FL_DTYPE_BOOL)
        FL_FAIL(FL_ERR_TYPE, "op where: %s must be bool",
                fl_infer_text(c, CONDITION, a));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    for (int s = CONDITION; s <= Y; s++)
        if (!fl_shape_matches(&fl_infer_in(c, s)->shape, &x->shape))
            FL_FAIL(FL_ERR_INVAL, "op where: %s and %s differ in shape",
                    fl_infer_text(c, s, a), fl_infer_text(c, X, b));
    fl_tensor_like(fl_infer_out(c, OUT), x);
    return FL_OK;
}

static fl_status where_run(fl_op_ctx *c)
{
    const bool *condition = fl_in(c, CONDITION);
    const char *x = fl_in(c, X), *y = fl_in(c, Y);
    size_t size = fl_dtype_bytes(fl_in_t(c, X)->dtype);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));

    for (size_t i = s.lo; i < s.hi; i++)
        memcpy((char *)fl_out(c, OUT) + i * size,
               (condition[i] ? x : y) + i * size, size);
    return FL_OK;
}

#define KERNELS(T, t)                                                          \
    static void backward_##t(T *dx, const T *g, const bool *condition,         \
                             bool mine, fl_span s)                             \
    {                                                                          \
        for (size_t i = s.lo; dx && i < s.hi; i++)                             \
            dx[i] = g && condition[i] == mine ? g[i] : 0;                      \
    }
FL_FLOATS(KERNELS)

static fl_status where_back(fl_op_ctx *c)
{
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));

    FL_BY_FLOAT(c, X, backward, fl_din(c, X), fl_dout(c, OUT),
                fl_in(c, CONDITION), true, s);
    FL_BY_FLOAT(c, X, backward, fl_din(c, Y), fl_dout(c, OUT),
                fl_in(c, CONDITION), false, s);
    return FL_OK;
}

/* --- where_index ---------------------------------------------------------- */

/* As many rows as there are numbers, until the run has counted. */
static fl_status where_index_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, CONDITION)->shape;
    int64_t n = c->running ? fl_shape_numel(x) : -1;

    fl_infer_dense(c, OUT, FL_DTYPE_I64, 2, (int64_t[]){ n, x->rank });
    return FL_OK;
}

static bool holds(const fl_tensor *t, int64_t i)
{
    switch (t->dtype) {
#define HOLDS(name, value, T, text, long_text)                                 \
    case FL_DTYPE_##name:                                                      \
        return ((const T *)t->data)[i] != 0;
        FL_DTYPE_PLAIN_MAP(HOLDS)
#undef HOLDS
    case FL_DTYPE_F16:
        return fl_half_value(((const uint16_t *)t->data)[i]) != 0;
    }
    return false;
}

static fl_status where_index_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, CONDITION);
    int64_t *out = fl_out(c, OUT);
    size_t found = 0;

    for (int64_t i = 0; i < fl_tensor_numel(x); i++) {
        int64_t rest = i;

        if (!holds(x, i))
            continue;
        for (int k = x->shape.rank - 1; k >= 0; k--) {
            out[found * (size_t)x->shape.rank + (size_t)k] =
                rest % x->shape.dim[k];
            rest /= x->shape.dim[k];
        }
        found++;
    }
    fl_out_rows(c, OUT, found);
    return FL_OK;
}

static const fl_op_case where_cases[] = {
    { .in = { "bool[33,7] below=2", "f32[33,7]", "f32[33,7]" } },
    { .in = { "bool[5] below=2", "i64[5]", "i64[5]" } },
    { .in = { "bool[7,1] below=2", "f32[7,1] lod=[0,2,2,7]", "f32[7,1]" } },
    { .in = { "bool[0,8]", "f32[0,8]", "f32[0,8]" } },
};

static const fl_op_case where_index_cases[] = {
    { .in = { "bool[33,7] below=2" } }, { .in = { "bool[5] is=[0,0,0,0,0]" } },
    { .in = { "i64[2,3,4] below=3" } }, { .in = { "f32[5,2]" } },
    { .in = { "bool[0,8]" } },
};

const fl_op fl_op_where = {
    .name = "where",
    .doc = "Out = X where Condition holds and Y where it does not",
    .in = { { "Condition", FL_SLOT_NO_GRAD }, { "X", 0 }, { "Y", 0 } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = where_infer,
    .run = where_run,
    .back = where_back,
    .back_uses = FL_USES_IN(CONDITION),
    .cases = where_cases,
    .n_cases = FL_LEN(where_cases),
};

const fl_op fl_op_where_index = {
    .name = "where_index",
    .doc = "Out = a row for each number of Condition that is true, or not 0, "
           "in order: its place along each axis",
    .in = { { "Condition", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .infer = where_index_infer,
    .run = where_index_run,
    .cases = where_index_cases,
    .n_cases = FL_LEN(where_index_cases),
};
