/* print.c - shows a tensor, or its gradient, as it passes through. The text
 * of one tensor is written in one piece, so that several threads do not mix
 * their lines. */
#include <inttypes.h>

#include "ops/helpers.h"

enum { IN };
enum { OUT };
enum {
    FIRST_N,
    MESSAGE,
    SUMMARIZE,
    PRINT_TENSOR_NAME,
    PRINT_TENSOR_TYPE,
    PRINT_TENSOR_SHAPE,
    PRINT_TENSOR_LOD,
    PRINT_PHASE
};

/* How often this operator has printed. */
typedef struct count {
    int64_t n;
} count;

static void add_element(fl_str *text, const fl_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case FL_DTYPE_F32:
        fl_str_addf(text, "%.9g", (double)((const float *)t->data)[i]);
        break;
    case FL_DTYPE_F64:
        fl_str_addf(text, "%.17g", ((const double *)t->data)[i]);
        break;
    case FL_DTYPE_I32:
        fl_str_addf(text, "%" PRId32, ((const int32_t *)t->data)[i]);
        break;
    case FL_DTYPE_I64:
        fl_str_addf(text, "%" PRId64, ((const int64_t *)t->data)[i]);
        break;
    case FL_DTYPE_U64:
        fl_str_addf(text, "%" PRIu64, ((const uint64_t *)t->data)[i]);
        break;
    case FL_DTYPE_U8:
        fl_str_addf(text, "%d", ((const uint8_t *)t->data)[i]);
        break;
    case FL_DTYPE_I8:
        fl_str_addf(text, "%d", ((const int8_t *)t->data)[i]);
        break;
    case FL_DTYPE_I16:
        fl_str_addf(text, "%d", ((const int16_t *)t->data)[i]);
        break;
    case FL_DTYPE_F16:
        fl_str_addf(text, "%.5g",
                    (double)fl_half_value(((const uint16_t *)t->data)[i]));
        break;
    case FL_DTYPE_BOOL:
        fl_str_add(text, ((const bool *)t->data)[i] ? "true" : "false");
        break;
    }
}

static void add_data(fl_str *text, const fl_tensor *t, int64_t summarize)
{
    int64_t n = fl_tensor_numel(t);
    int64_t shown = summarize < 0 || summarize > n ? n : summarize;

    fl_str_add(text, "  data: [");
    for (int64_t i = 0; i < shown; i++) {
        fl_str_add(text, i ? ", " : "");
        add_element(text, t, i);
    }
    fl_str_add(text, shown < n ? ", ...]\n" : "]\n");
}

static void add_lod(fl_str *text, const fl_tensor *t)
{
    fl_str_add(text, "  lod:");
    for (int k = 0; k < t->n_lod; k++) {
        fl_str_add(text, " [");
        for (int64_t i = 0; i < t->lod_len[k]; i++)
            fl_str_addf(text, "%s%" PRId64, i ? ", " : "", t->lod[k][i]);
        fl_str_add(text, "]");
    }
    fl_str_add(text, "\n");
}

static void describe(fl_str *text, const fl_op_ctx *c, const fl_tensor *t)
{
    const char *message = fl_str_attr(c, MESSAGE);
    char shape[FL_SHAPE_TEXT_MAX];

    if (*message)
        fl_str_addf(text, "%s\n", message);
    if (fl_bool(c, PRINT_TENSOR_NAME))
        fl_str_addf(text, "  variable: %s%s\n", c->node->in[IN].vars[0]->name,
                    c->node->is_grad ? FL_GRAD_SUFFIX : "");
    if (fl_bool(c, PRINT_TENSOR_TYPE))
        fl_str_addf(text, "  type: %s\n", fl_dtype_text(t->dtype));
    if (fl_bool(c, PRINT_TENSOR_SHAPE))
        fl_str_addf(text, "  shape: %s\n", fl_shape_text(&t->shape, shape));
    if (fl_bool(c, PRINT_TENSOR_LOD) && t->n_lod)
        add_lod(text, t);
    add_data(text, t, fl_int(c, SUMMARIZE));
}

static void show(fl_op_ctx *c, const fl_tensor *t, const char *phase)
{
    const char *wanted = fl_str_attr(c, PRINT_PHASE);
    int64_t first_n = fl_int(c, FIRST_N);
    fl_str text = { 0 };
    count *times;

    if (strcmp(wanted, phase) && strcmp(wanted, "BOTH"))
        return;
    times = fl_op_keep(c, sizeof(*times), NULL);
    if (first_n > 0 && times->n == first_n)
        return;
    times->n++;
    describe(&text, c, t);
    fputs(fl_str_text(&text), stdout);
    fflush(stdout);
    fl_str_release(&text);
}

static fl_status print_infer(fl_infer *c)
{
    const char *phase = fl_str_attr(c, PRINT_PHASE);

    if (strcmp(phase, "FORWARD") && strcmp(phase, "BACKWARD") &&
        strcmp(phase, "BOTH"))
        FL_FAIL(FL_ERR_INVAL,
                "op print: print_phase '%s' is not FORWARD, BACKWARD or BOTH",
                phase);
    fl_tensor_like(fl_infer_out(c, OUT), fl_infer_in(c, IN));
    return FL_OK;
}

static fl_status print_run(fl_op_ctx *c)
{
    show(c, fl_in_t(c, IN), "FORWARD");
    fl_share_copy(c, fl_out_t(c, OUT), fl_in_t(c, IN));
    return FL_OK;
}

static fl_status print_back(fl_op_ctx *c)
{
    if (fl_dout_t(c, OUT))
        show(c, fl_dout_t(c, OUT), "BACKWARD");
    if (fl_din_t(c, IN))
        fl_share_copy(c, fl_din_t(c, IN), fl_dout_t(c, OUT));
    return FL_OK;
}

static const fl_op_case print_cases[] = {
    { .in = { "f32[2,3]" },
      .attrs = "{first_n=1, message=\"a case\", summarize=3}" },
    { .in = { "i64[7,1] lod=[0,2,2,7] below=10" },
      .attrs = "{first_n=1, print_phase=FORWARD, print_tensor_name=false, "
               "print_tensor_type=false, print_tensor_shape=false}" },
    { .in = { "f32[33,7]" }, .attrs = "{first_n=1, print_phase=BACKWARD}" },
    { .in = { "f32[0,8]" }, .attrs = "{first_n=1, print_tensor_lod=false}" },
};

const fl_op fl_op_print = {
    .name = "print",
    .doc = "Out = In, written to standard output with the message: the first "
           "summarize numbers (-1: all), the first first_n times (0 or less: "
           "always), when it passes forwards, its gradient backwards or BOTH",
    .in = { { "In", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "first_n", FL_ATTR_INT, "-1" },
               { "message", FL_ATTR_STRING, "" },
               { "summarize", FL_ATTR_INT, "20" },
               { "print_tensor_name", FL_ATTR_BOOL, "true" },
               { "print_tensor_type", FL_ATTR_BOOL, "true" },
               { "print_tensor_shape", FL_ATTR_BOOL, "true" },
               { "print_tensor_lod", FL_ATTR_BOOL, "true" },
               { "print_phase", FL_ATTR_STRING, "BOTH" } },
    .flags = FL_OP_INPLACE | FL_OP_EFFECT,
    .infer = print_infer,
    .run = print_run,
    .back = print_back,
    .cases = print_cases,
    .n_cases = FL_LEN(print_cases),
};
