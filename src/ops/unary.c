/* unary.c - functions of one number, element by element: the operators of the
 * rows of kernel/unary.def. */
#include "kernel/unary.h"
#include "ops/helpers.h"

enum { X };   /* index into .in  */
enum { OUT }; /* index into .out */

#define ATTR(name, value)                                                      \
    {                                                                          \
        name, FL_ATTR_FLOAT, value                                             \
    }
#define FLAG(name, value)                                                      \
    {                                                                          \
        name, FL_ATTR_BOOL, value                                              \
    }
#define NO_ATTRS                                                               \
    {                                                                          \
        NULL, 0, NULL                                                          \
    }

static fl_status unary_infer(fl_infer *c)
{
    return fl_infer_same(c, X, OUT);
}

static void read_attrs(const fl_op_ctx *c, double to[FL_UNARY_ATTRS_MAX])
{
    const fl_op *def = c->node->def;

    for (int i = 0; i < fl_op_n_attrs(def); i++)
        to[i] =
            def->attrs[i].type == FL_ATTR_BOOL ? fl_bool(c, i) : fl_float(c, i);
}

/* Element `i` of p, which may be NULL: a gradient does not read it then. */
static const void *at(const void *p, size_t i, size_t size)
{
    return p ? (const char *)p + i * size : NULL;
}

static fl_status unary_run(fl_op_ctx *c, fl_unary_kind kind)
{
    const fl_tensor *x = fl_in_t(c, X);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(x));
    size_t size = fl_dtype_bytes(x->dtype);
    double attrs[FL_UNARY_ATTRS_MAX] = { 0 };

    if (s.lo == s.hi)
        return FL_OK;
    read_attrs(c, attrs);
    fl_unary_of(kind)->value[fl_float_index(x->dtype, c->node)](
        (char *)fl_out(c, OUT) + s.lo * size, at(x->data, s.lo, size),
        s.hi - s.lo, attrs);
    return FL_OK;
}

static fl_status unary_back(fl_op_ctx *c, fl_unary_kind kind)
{
    fl_tensor *dx = fl_din_t(c, X);
    double attrs[FL_UNARY_ATTRS_MAX] = { 0 };
    size_t size;
    fl_span s;

    if (!dx)
        return FL_OK;
    if (!fl_dout_t(c, OUT)) {
        fl_share_zero(c, dx);
        return FL_OK;
    }
    s = fl_op_span(c, (size_t)fl_tensor_numel(dx));
    size = fl_dtype_bytes(dx->dtype);
    if (s.lo == s.hi)
        return FL_OK;
    read_attrs(c, attrs);
    fl_unary_of(kind)->gradient[fl_float_index(dx->dtype, c->node)](
        (char *)dx->data + s.lo * size, at(fl_in(c, X), s.lo, size),
        at(fl_saved_out(c, OUT), s.lo, size), at(fl_dout(c, OUT), s.lo, size),
        s.hi - s.lo, attrs);
    return FL_OK;
}

#define U(name_, text, VALUE, GRADIENT, uses, draw, case_attrs, ...)           \
    static fl_status name_##_run(fl_op_ctx *c)                                 \
    {                                                                          \
        return unary_run(c, FL_UNARY_##name_);                                 \
    }                                                                          \
    static fl_status name_##_back(fl_op_ctx *c)                                \
    {                                                                          \
        return unary_back(c, FL_UNARY_##name_);                                \
    }                                                                          \
    static const fl_op_case name_##_cases[] = {                                \
        { .in = { "f32[1]" }, .flags = draw },                                 \
        { .in = { "f32[0,8]" }, .flags = draw },                               \
        { .in = { "f32[33,7]" }, .flags = draw },                              \
        { .in = { "f32[5,3] lod=[0,2,2,5]" }, .flags = draw },                 \
        { .in = { "f32[9,4]" }, .attrs = case_attrs, .flags = draw },          \
    };                                                                         \
    const fl_op fl_op_##name_ = {                                              \
        .name = #name_,                                                        \
        .doc = "Out = " text ", element by element",                           \
        .in = { { "X", 0 } },                                                  \
        .out = { { "Out", 0 } },                                               \
        .attrs = { __VA_ARGS__ },                                              \
        .flags = FL_OP_INPLACE | FL_OP_SLICED | FL_OP_BY_FORM,                 \
        .infer = unary_infer,                                                  \
        .run = name_##_run,                                                    \
        .back = name_##_back,                                                  \
        .back_uses = uses,                                                     \
        .cases = name_##_cases,                                                \
        .n_cases = FL_LEN(name_##_cases),                                      \
    };
#include "kernel/unary.def"
