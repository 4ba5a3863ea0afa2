/* compare.c - comparisons and logic, element by element, over shapes that meet
 * (broadcast.h). Out is bool, and no gradient flows. */
#include "ops/broadcast.h"
#include "ops/helpers.h"

enum { X, Y };
enum { OUT };
enum { AXIS };

/* Steps are 0 where there is a single number, else 1. */
typedef void (*row_fn)(bool *to, const void *x, const void *y, size_t n,
                       const size_t step[2]);

#define LOOP(T, t, name, OP, value)                                            \
    static void name##_##t(bool *to, const void *xs, const void *ys, size_t n, \
                           const size_t step[2])                               \
    {                                                                          \
        const T *x = xs, *y = ys;                                              \
                                                                               \
        for (size_t i = 0; i < n; i++)                                         \
            to[i] = value(x[i * step[X]]) OP value(y[i * step[Y]]);            \
    }
#define AS_IT_IS(v) (v)

#define BY_TYPE(name)                                                          \
    {                                                                          \
        [FL_DTYPE_F32] = name##_f32, [FL_DTYPE_F64] = name##_f64,              \
        [FL_DTYPE_I32] = name##_i32, [FL_DTYPE_I64] = name##_i64,              \
        [FL_DTYPE_U64] = name##_u64, [FL_DTYPE_U8] = name##_u8,                \
        [FL_DTYPE_BOOL] = name##_bool, [FL_DTYPE_I8] = name##_i8,              \
        [FL_DTYPE_I16] = name##_i16, [FL_DTYPE_F16] = name##_f16               \
    }

static fl_status rows_run(fl_op_ctx *c, const row_fn *by_type, int64_t axis)
{
    const fl_tensor *x = fl_in_t(c, X), *y = fl_in_t(c, Y);
    fl_meeting m = fl_meeting_of(&x->shape, &y->shape, axis);
    size_t step[] = { m.form != FL_BINARY_ONE_X, m.form != FL_BINARY_ONE_Y };
    size_t size = fl_dtype_bytes(x->dtype);
    fl_meeting_rows it =
        fl_meeting_rows_of(&m, fl_op_span(c, (size_t)fl_shape_numel(&m.out)));
    fl_meeting_row r;

    while (fl_meeting_next(&it, &r))
        by_type[x->dtype]((bool *)fl_out(c, OUT) + r.out,
                          (const char *)x->data + r.x * size,
                          (const char *)y->data + r.y * size, r.n, step);
    return FL_OK;
}

/* --- comparisons ---------------------------------------------------------- */

static fl_status compare_infer(fl_infer *c)
{
    return fl_infer_meeting(c, fl_int(c, AXIS), FL_DTYPE_BOOL);
}

static const fl_op_case compare_cases[] = {
    { .in = { "f32[1]", "f32[1]" } },
    { .in = { "f32[33,7]", "f32[33,7]" } },
    { .in = { "i64[33,7] below=3", "i64[33,1] below=3" } },
    { .in = { "i32[7] below=3", "i32[33,7] below=3" } },
    { .in = { "u64[3,1] below=3", "u64[1,4] below=3" } },
    { .in = { "bool[33]", "bool[33]" } },
    { .in = { "i8[33] below=3", "i8[1] below=3" } },
    { .in = { "i16[3,7] below=3", "i16[3,7] below=3" } },
    { .in = { "u8[2,3,4] below=3", "u8[3] below=3" }, .attrs = "{axis=1}" },
    { .in = { "f32[7,3] lod=[0,2,2,7]", "f32[1]" } },
    { .in = { "f32[0,8]", "f32[8]" } },
};

/* name, operator of C, words */
#define COMPARE_LIST(C)                                                        \
    C(less_than, <, "is less than")                                            \
    C(less_equal, <=, "is at most")                                            \
    C(greater_than, >, "is greater than")                                      \
    C(greater_equal, >=, "is at least")                                        \
    C(equal, ==, "equals")                                                     \
    C(not_equal, !=, "differs from")

#define COMPARE(name_, OP, words)                                              \
    LOOP(float, f32, name_, OP, AS_IT_IS)                                      \
    LOOP(double, f64, name_, OP, AS_IT_IS)                                     \
    LOOP(int32_t, i32, name_, OP, AS_IT_IS)                                    \
    LOOP(int64_t, i64, name_, OP, AS_IT_IS)                                    \
    LOOP(uint64_t, u64, name_, OP, AS_IT_IS)                                   \
    LOOP(uint8_t, u8, name_, OP, AS_IT_IS)                                     \
    LOOP(bool, bool, name_, OP, AS_IT_IS)                                      \
    LOOP(int8_t, i8, name_, OP, AS_IT_IS)                                      \
    LOOP(int16_t, i16, name_, OP, AS_IT_IS)                                    \
    LOOP(uint16_t, f16, name_, OP, fl_half_value)                              \
    static fl_status name_##_run(fl_op_ctx *c)                                 \
    {                                                                          \
        static const row_fn rows[] = BY_TYPE(name_);                           \
                                                                               \
        return rows_run(c, rows, fl_int(c, AXIS));                             \
    }                                                                          \
    const fl_op fl_op_##name_ = {                                              \
        .name = #name_,                                                        \
        .doc = "Out = whether X " words " Y, element by element, as bool; X "  \
               "and Y meet as in elementwise_add",                             \
        .in = { { "X", FL_SLOT_NO_GRAD }, { "Y", FL_SLOT_NO_GRAD } },          \
        .out = { { "Out", 0 } },                                               \
        .attrs = { { "axis", FL_ATTR_INT, "-1" } },                            \
        .flags = FL_OP_SLICED,                                                 \
        .infer = compare_infer,                                                \
        .run = name_##_run,                                                    \
        .cases = compare_cases,                                                \
        .n_cases = FL_LEN(compare_cases),                                      \
    };

COMPARE_LIST(COMPARE)

/* --- logic ---------------------------------------------------------------- */

static fl_status check_bool(const fl_infer *c, int slot)
{
    char buf[FL_SLOT_TEXT_MAX];

    if (fl_infer_in(c, slot)->dtype != FL_DTYPE_BOOL)
        FL_FAIL(FL_ERR_TYPE, "op %s: %s must be bool; compare or cast it first",
                c->node->def->name, fl_infer_text(c, slot, buf));
    return FL_OK;
}

static fl_status logic_infer(fl_infer *c)
{
    FL_TRY(check_bool(c, X));
    FL_TRY(check_bool(c, Y));
    return fl_infer_meeting(c, -1, FL_DTYPE_BOOL);
}

static const fl_op_case logic_cases[] = {
    { .in = { "bool[1]", "bool[1]" } },
    { .in = { "bool[33,7]", "bool[33,7]" } },
    { .in = { "bool[33,7]", "bool[7]" } },
    { .in = { "bool[33,1]", "bool[1,7]" } },
    { .in = { "bool[7,3] lod=[0,2,2,7]", "bool[7,3]" } },
    { .in = { "bool[0,8]", "bool[0,8]" } },
};

#define LOGIC_LIST(L)                                                          \
    L(logical_and, &, "X and Y are true")                                      \
    L(logical_or, |, "X or Y is true")                                         \
    L(logical_xor, !=, "one of X and Y alone is true")

#define LOGIC(name_, OP, words)                                                \
    LOOP(bool, bool, name_, OP, AS_IT_IS)                                      \
    static fl_status name_##_run(fl_op_ctx *c)                                 \
    {                                                                          \
        static const row_fn rows[] = { [FL_DTYPE_BOOL] = name_##_bool };       \
                                                                               \
        return rows_run(c, rows, -1);                                          \
    }                                                                          \
    const fl_op fl_op_##name_ = {                                              \
        .name = #name_,                                                        \
        .doc = "Out = whether " words ", element by element; all are bool, "   \
               "and X and Y meet as in elementwise_add",                       \
        .in = { { "X", FL_SLOT_NO_GRAD }, { "Y", FL_SLOT_NO_GRAD } },          \
        .out = { { "Out", 0 } },                                               \
        .flags = FL_OP_INPLACE | FL_OP_SLICED,                                 \
        .infer = logic_infer,                                                  \
        .run = name_##_run,                                                    \
        .cases = logic_cases,                                                  \
        .n_cases = FL_LEN(logic_cases),                                        \
    };

LOGIC_LIST(LOGIC)

static fl_status not_infer(fl_infer *c)
{
    FL_TRY(check_bool(c, X));
    fl_tensor_like(fl_infer_out(c, OUT), fl_infer_in(c, X));
    return FL_OK;
}

static fl_status not_run(fl_op_ctx *c)
{
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, X)));
    const bool *x = fl_in(c, X);
    bool *y = fl_out(c, OUT);

    for (size_t i = s.lo; i < s.hi; i++)
        y[i] = !x[i];
    return FL_OK;
}

static const fl_op_case not_cases[] = {
    { .in = { "bool[1]" } },
    { .in = { "bool[33,7]" } },
    { .in = { "bool[7,3] lod=[0,2,2,7]" } },
    { .in = { "bool[0,8]" } },
};

const fl_op fl_op_logical_not = {
    .name = "logical_not",
    .doc = "Out = whether X is false, element by element; both are bool",
    .in = { { "X", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_INPLACE | FL_OP_SLICED,
    .infer = not_infer,
    .run = not_run,
    .cases = not_cases,
    .n_cases = FL_LEN(not_cases),
};
