/* assert.c - ends a run when a condition does not hold, and whether a tensor
 * has no elements. */
#include "ops/helpers.h"
#include "ops/values.h"

/* --- assert --------------------------------------------------------------- */

enum { COND, DATA };
enum { SUMMARIZE };

/* Numbers of one tensor that fit into a message. */
#define SHOWN_MAX 64

static fl_status assert_infer(fl_infer *c)
{
    const fl_tensor *t = fl_infer_in(c, COND);
    char buf[FL_SLOT_TEXT_MAX];

    if (t->dtype != FL_DTYPE_BOOL || !fl_is_one(t))
        FL_FAIL(FL_ERR_INVAL, "op assert: %s must hold one bool",
                fl_infer_text(c, COND, buf));
    return FL_OK;
}

static double number_at(const fl_tensor *t, int64_t i)
{
    if (fl_dtype_is_float(t->dtype))
        return fl_float_at(t, i);
    if (fl_dtype_is_id(t->dtype))
        return (double)fl_id_at(t, i);
    return ((const uint8_t *)t->data)[i];
}

static void add_data(fl_str *text, const fl_op_ctx *c, int entry)
{
    const fl_tensor *t = fl_in_at(c, DATA, entry);
    int64_t n = fl_tensor_numel(t), most = fl_int(c, SUMMARIZE);
    char shape[FL_SHAPE_TEXT_MAX];

    most = most < 0 || most > SHOWN_MAX ? SHOWN_MAX : most;
    fl_str_addf(text, "; %s %s%s is [", c->node->in[DATA].vars[entry]->name,
                fl_dtype_text(t->dtype), fl_shape_text(&t->shape, shape));
    for (int64_t i = 0; i < n && i < most; i++)
        fl_str_addf(text, "%s%g", i ? ", " : "", number_at(t, i));
    fl_str_add(text, n > most ? ", ...]" : "]");
}

static fl_status assert_run(fl_op_ctx *c)
{
    fl_str text = { 0 };

    if (*(const bool *)fl_in(c, COND))
        return FL_OK;
    for (int i = 0; i < fl_n_in(c, DATA); i++)
        add_data(&text, c, i);
    (void)fl_err_set(FL_ERR_INVAL, "the assertion that %s is true failed%s",
                     c->node->in[COND].vars[0]->name, fl_str_text(&text));
    fl_str_release(&text);
    return FL_ERR_INVAL;
}

static const fl_op_case assert_cases[] = {
    { .in = { "bool[1] is=[1]", "f32[3,2];i64[2] below=7" } },
    { .in = { "bool[1] is=[1]", "f32[0,2]" } },
    { .in = { "bool[1] is=[1]" } },
};

const fl_op fl_op_assert = {
    .name = "assert",
    .doc = "ends the run with an error that shows the first summarize numbers "
           "of each of Data, unless Cond is true",
    .in = { { "Cond", FL_SLOT_NO_GRAD },
            { "Data",
              FL_OP_SLOT_LIST | FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD } },
    .attrs = { { "summarize", FL_ATTR_INT, "-1" } },
    .flags = FL_OP_EFFECT,
    .infer = assert_infer,
    .run = assert_run,
    .cases = assert_cases,
    .n_cases = FL_LEN(assert_cases),
};

/* --- is_empty ------------------------------------------------------------- */

enum { EMPTY_X };
enum { EMPTY_OUT };

static fl_status is_empty_infer(fl_infer *c)
{
    fl_infer_dense(c, EMPTY_OUT, FL_DTYPE_BOOL, 1, (int64_t[]){ 1 });
    return FL_OK;
}

static fl_status is_empty_run(fl_op_ctx *c)
{
    *(bool *)fl_out(c, EMPTY_OUT) = !fl_tensor_numel(fl_in_t(c, EMPTY_X));
    return FL_OK;
}

static const fl_op_case is_empty_cases[] = {
    { .in = { "f32[3,2]" } },
    { .in = { "f32[0,2]" } },
};

const fl_op fl_op_is_empty = {
    .name = "is_empty",
    .doc = "Out = whether X has no elements",
    .in = { { "X", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .infer = is_empty_infer,
    .run = is_empty_run,
    .cases = is_empty_cases,
    .n_cases = FL_LEN(is_empty_cases),
};
