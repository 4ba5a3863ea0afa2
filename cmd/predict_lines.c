/* predict_lines.c - scores as lines, one for each record. */
#include "predict.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sink.h"

/* The longest number, with what stands before it. */
#define NUMBER_BYTES 32

static bool reserve(predict_batch *b, size_t more)
{
    size_t cap = b->cap ? b->cap : 4096;
    char *text;

    while (cap < b->len + more)
        cap *= 2;
    if (cap == b->cap)
        return true;
    text = realloc(b->text, cap);
    if (!text)
        return false;
    b->text = text;
    b->cap = cap;
    return true;
}

#define PRINTER(name, type, format, shown)                                     \
    static int print_##name(char *to, const void *data, size_t i)              \
    {                                                                          \
        return snprintf(to, NUMBER_BYTES, format,                              \
                        (shown)((const type *)data)[i]);                       \
    }

/* As many digits as it takes to read the same number back. */
PRINTER(f32, float, "%.9g", double)
PRINTER(f64, double, "%.17g", double)
PRINTER(i32, int32_t, "%" PRId32, int32_t)
PRINTER(i64, int64_t, "%" PRId64, int64_t)
PRINTER(u64, uint64_t, "%" PRIu64, uint64_t)
PRINTER(u8, uint8_t, "%u", unsigned)
PRINTER(i8, int8_t, "%d", int)
PRINTER(i16, int16_t, "%d", int)

static int print_f16(char *to, const void *data, size_t i)
{
    return snprintf(to, NUMBER_BYTES, "%.5g",
                    (double)fl_half_value(((const uint16_t *)data)[i]));
}

static int (*const printers[])(char *, const void *, size_t) = {
    [FL_DTYPE_F32] = print_f32, [FL_DTYPE_F64] = print_f64,
    [FL_DTYPE_I32] = print_i32, [FL_DTYPE_I64] = print_i64,
    [FL_DTYPE_U64] = print_u64, [FL_DTYPE_U8] = print_u8,
    [FL_DTYPE_BOOL] = print_u8, [FL_DTYPE_F16] = print_f16,
    [FL_DTYPE_I8] = print_i8,   [FL_DTYPE_I16] = print_i16,
};

/* The numbers of one record of one output, each with a tab behind it. */
static bool add_numbers(predict_batch *b, const fl_tensor *t, size_t row,
                        size_t n_rows)
{
    size_t width = (size_t)fl_tensor_numel(t) / n_rows;

    if (!reserve(b, (width + 1) * NUMBER_BYTES))
        return false;
    for (size_t i = row * width; i < (row + 1) * width; i++) {
        b->len += (size_t)printers[t->dtype](b->text + b->len, t->data, i);
        b->text[b->len++] = '\t';
    }
    return true;
}

static bool add_line(predict_batch *b, size_t row, size_t n_rows)
{
    for (size_t o = 0; o < b->n_outputs; o++)
        if (!add_numbers(b, &b->outputs[o], row, n_rows))
            return false;
    b->text[b->len - 1] = '\n'; /* instead of the last tab */
    return true;
}

/* An output that does not have a row for each record cannot be a score. */
static const char *make_lines(predict_batch *b)
{
    size_t n_rows = b->n_rows;

    b->len = 0;
    for (size_t o = 0; o < b->n_outputs; o++) {
        const fl_shape *s = &b->outputs[o].shape;

        if (!s->rank || s->dim[0] != (int64_t)n_rows ||
            !fl_tensor_numel(&b->outputs[o]))
            return "an output of the model has no number for each record; only "
                   "such outputs can be written as lines";
    }
    for (size_t i = 0; i < n_rows; i++)
        if (!add_line(b, i, n_rows))
            return "no memory for the lines of a batch";
    return NULL;
}

static bool write_lines(void *arg, const predict_batch *b,
                        char why[PREDICT_WHY_BYTES])
{
    sink *to = arg;

    if (sink_write(to, b->text, b->len))
        return true;
    (void)snprintf(why, PREDICT_WHY_BYTES, "%s", to->why);
    return false;
}

/* The file is there when every line is. */
int predict_lines(const predict_args *a, fl_model *m, data_input *in)
{
    sink to;
    const predict_taker taker = { .make = make_lines,
                                  .take = write_lines,
                                  .arg = &to };
    int code;

    if (!sink_open(&to, a->data.out, "-o"))
        return sink_failed(&to, a->self);
    code = predict_pass(a, m, in, &taker);
    if (!code && !sink_close(&to))
        code = sink_failed(&to, a->self);
    if (code)
        sink_abandon(&to);
    return code;
}
