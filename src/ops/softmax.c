/* softmax.c - numbers along an axis, or of a sequence, to probabilities. */
#include <tgmath.h>

#include "kernel/vec.h"
#include "ops/helpers.h"
#include "ops/sequences.h"

enum { X };
enum { OUT };
enum { AXIS };

/* X as [before][n][after]: n numbers, `after` apart, make one line. */
typedef struct lines {
    size_t n, after;
    fl_span s; /* this call's lines, of before * after */
} lines;

static size_t start_of(const lines *l, size_t line)
{
    return line / l->after * l->n * l->after + line % l->after;
}

#define KERNELS(T, t)                                                          \
    static T max_##t(const T *x, const lines *l)                               \
    {                                                                          \
        T max = x[0];                                                          \
                                                                               \
        for (size_t i = 1; i < l->n; i++)                                      \
            max = x[i * l->after] > max ? x[i * l->after] : max;               \
        return max;                                                            \
    }                                                                          \
    static void forward_line_##t(T *y, const T *x, const lines *l)             \
    {                                                                          \
        T max = max_##t(x, l);                                                 \
        double sum = 0;                                                        \
                                                                               \
        for (size_t i = 0; i < l->n; i++) {                                    \
            T d = x[i * l->after] - max;                                       \
                                                                               \
            y[i * l->after] =                                                  \
                exp(d < FL_SOFTMAX_LEAST ? (T)FL_SOFTMAX_LEAST : d);           \
            sum += (double)y[i * l->after];                                    \
        }                                                                      \
        for (size_t i = 0; i < l->n; i++)                                      \
            y[i * l->after] /= (T)sum;                                         \
    }                                                                          \
    static void backward_line_##t(T *dx, const T *y, const T *g,               \
                                  const lines *l)                              \
    {                                                                          \
        double dot = 0;                                                        \
                                                                               \
        for (size_t i = 0; i < l->n; i++)                                      \
            dot += (double)y[i * l->after] * (double)g[i * l->after];          \
        for (size_t i = 0; i < l->n; i++)                                      \
            dx[i * l->after] = y[i * l->after] * (g[i * l->after] - (T)dot);   \
    }                                                                          \
    static void forward_##t(T *y, const T *x, const lines *l)                  \
    {                                                                          \
        for (size_t line = l->s.lo; line < l->s.hi; line++)                    \
            if (l->after == 1)                                                 \
                fl_vec_##t()->softmax(y + line * l->n, x + line * l->n, l->n); \
            else                                                               \
                forward_line_##t(y + start_of(l, line), x + start_of(l, line), \
                                 l);                                           \
    }                                                                          \
    static void backward_##t(T *dx, const T *y, const T *g, const lines *l)    \
    {                                                                          \
        for (size_t line = l->s.lo; line < l->s.hi; line++) {                  \
            size_t at = start_of(l, line);                                     \
                                                                               \
            backward_line_##t(dx + at, y + at, g + at, l);                     \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

#define SEQUENCES(T, t)                                                        \
    static void forward_seqs_##t(T *y, const T *x, const fl_seqs *q,           \
                                 fl_span s)                                    \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++) {                                 \
            size_t n = fl_seqs_len(q, i);                                      \
                                                                               \
            if (n)                                                             \
                fl_vec_##t()->softmax(y + q->off[i], x + q->off[i], n);        \
        }                                                                      \
    }                                                                          \
    static void backward_seqs_##t(T *dx, const T *y, const T *g,               \
                                  const fl_seqs *q, fl_span s)                 \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++) {                                 \
            lines l = { .n = fl_seqs_len(q, i), .after = 1 };                  \
            int64_t at = q->off[i];                                            \
                                                                               \
            if (l.n)                                                           \
                backward_line_##t(dx + at, y + at, g + at, &l);                \
        }                                                                      \
    }
FL_FLOATS(SEQUENCES)

static fl_status softmax_infer(fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX];

    if (fl_shape_axis(&fl_infer_in(c, X)->shape, fl_int(c, AXIS)) < 0)
        FL_FAIL(FL_ERR_INVAL, "op softmax: %s has no axis %d",
                fl_infer_text(c, X, buf), (int)fl_int(c, AXIS));
    return fl_infer_same(c, X, OUT);
}

static lines lines_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    int axis = fl_shape_axis(x, fl_int(c, AXIS));
    size_t before = (size_t)fl_shape_count(x, 0, axis);
    lines l = { .n = (size_t)x->dim[axis],
                .after = (size_t)fl_shape_count(x, axis + 1, x->rank) };

    l.s = fl_op_span(c, l.n ? before * l.after : 0);
    return l;
}

static fl_status softmax_run(fl_op_ctx *c)
{
    lines l = lines_of(c);

    FL_BY_FLOAT(c, X, forward, fl_out(c, OUT), fl_in(c, X), &l);
    return FL_OK;
}

static fl_status softmax_back(fl_op_ctx *c)
{
    lines l = lines_of(c);

    if (!fl_din_t(c, X))
        return FL_OK;
    if (fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, X, backward, fl_din(c, X), fl_saved_out(c, OUT),
                    fl_dout(c, OUT), &l);
    else
        fl_share_zero(c, fl_din_t(c, X));
    return FL_OK;
}

static const fl_op_case softmax_cases[] = {
    { .in = { "f32[1,1]" } },
    { .in = { "f32[33,7]" } },
    { .in = { "f32[18,2]" } },
    { .in = { "f32[9]" } },
    { .in = { "f32[5,4,7]" }, .attrs = "{axis=1}" },
    { .in = { "f32[5,4,7]" }, .attrs = "{axis=0}" },
    { .in = { "f32[7,3] lod=[0,2,2,7]" } },
    { .in = { "f32[0,8]" } },
    { .in = { "f32[8,0]" } },
};

const fl_op fl_op_softmax = {
    .name = "softmax",
    .doc = "Out = exp(X - max) / the sum of these along axis; X - max is cut "
           "off at -64, so that no probability is 0",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "axis", FL_ATTR_INT, "-1" } },
    .flags = FL_OP_INPLACE | FL_OP_SLICED | FL_OP_BY_FORM,
    .infer = softmax_infer,
    .run = softmax_run,
    .back = softmax_back,
    .back_uses = FL_USES_OUT(OUT),
    .cases = softmax_cases,
    .n_cases = FL_LEN(softmax_cases),
};

static fl_status sequence_softmax_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    char buf[FL_SLOT_TEXT_MAX];
    int64_t width;

    FL_TRY(fl_infer_seqs(c, X));
    width = fl_shape_count(x, 1, x->rank);
    if (width >= 0 && width != 1)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_softmax: %s must have one number per row",
                fl_infer_text(c, X, buf));
    return fl_infer_same(c, X, OUT);
}

static fl_status sequence_softmax_run(fl_op_ctx *c)
{
    fl_seqs q = fl_seqs_of(fl_in_t(c, X));

    FL_BY_FLOAT(c, X, forward_seqs, fl_out(c, OUT), fl_in(c, X), &q,
                fl_op_span(c, q.n));
    return FL_OK;
}

static fl_status sequence_softmax_back(fl_op_ctx *c)
{
    fl_seqs q = fl_seqs_of(fl_in_t(c, X));

    if (!fl_din_t(c, X))
        return FL_OK;
    if (fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, X, backward_seqs, fl_din(c, X), fl_saved_out(c, OUT),
                    fl_dout(c, OUT), &q, fl_op_span(c, q.n));
    else
        fl_share_zero(c, fl_din_t(c, X));
    return FL_OK;
}

static const fl_op_case sequence_softmax_cases[] = {
    { .in = { "f32[10,1] lod=[0,3,4,8,10]" } },
    { .in = { "f32[6] lod=[0,2,2,5,5,6]" } },
    { .in = { "f32[6,1] lod=[0,2,3] lod=[0,2,5,6]" } },
    { .in = { "f32[1,1] lod=[0,1]" } },
    { .in = { "f32[0,1] lod=[0,0,0]" } },
    { .in = { "f32[0,1] lod=[0]" } },
    { .in = { "f32[25,1] lod=[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,"
              "18,25]" } },
};

const fl_op fl_op_sequence_softmax = {
    .name = "sequence_softmax",
    .doc = "Out = softmax over the numbers of each sequence of the innermost "
           "level",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_INPLACE | FL_OP_SLICED,
    .infer = sequence_softmax_infer,
    .run = sequence_softmax_run,
    .back = sequence_softmax_back,
    .back_uses = FL_USES_OUT(OUT),
    .cases = sequence_softmax_cases,
    .n_cases = FL_LEN(sequence_softmax_cases),
};
