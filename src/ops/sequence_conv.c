/* sequence_conv.c - a product of the rows around each row with a filter.
 *
 * The window of row i is the contextLength rows from i + contextStart on; what
 * lies outside of its sequence is zeros, or rows of PaddingData. Windows are
 * copied for one strip of rows at a time: a product takes no row longer than
 * the distance to the next, and a strip is still in the cache when it is used.
 *
 * Forward, shares take strips. Backward, neighbours add to the same row, so
 * shares take units: whole sequences, until they have enough rows. The
 * gradients of Filter and PaddingData are sums over units (partials.h).
 */
#include "kernel/gemm.h"
#include "kernel/vec.h"
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/partials.h"
#include "ops/sequences.h"

enum { X, PADDING_DATA, FILTER };
enum { OUT };
enum { LENGTH, START, STRIDE, PADDING_TRAINABLE };

#define STRIP_ROWS FL_GEMM_BLOCK
#define UNIT_ROWS 512

typedef struct conv_job {
    fl_seqs seqs;
    size_t n_rows, width, n_out;
    int64_t length, start;
    size_t n_pad_up, n_pad; /* rows of PaddingData before the first row, all */
    bool padded;            /* by PaddingData */
} conv_job;

/* The window of one row: so many rows of padding from pad_before on, of X from
   `first` on, and of padding from pad_after on. */
typedef struct window {
    size_t before, inside, after;
    size_t first, pad_before, pad_after;
} window;

static int64_t clamp(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* Of row i, which lies in sequence s. */
static window window_of(const conv_job *j, int64_t i, size_t s)
{
    int64_t lo = j->seqs.off[s], hi = j->seqs.off[s + 1], at = i + j->start;
    int64_t a = clamp(lo - at, 0, j->length), b = clamp(hi - at, a, j->length);
    int64_t up = (int64_t)j->n_pad_up;

    return (window){ .before = (size_t)a,
                     .inside = (size_t)(b - a),
                     .after = (size_t)(j->length - b),
                     .first = (size_t)(at + a),
                     .pad_before = (size_t)(a ? up + at - lo : 0),
                     .pad_after =
                         (size_t)(b < j->length ? up + at + b - hi : 0) };
}

static size_t window_len(const conv_job *j)
{
    return (size_t)j->length * j->width;
}

#define WINDOWS(T, t)                                                          \
    static T *put_padding_##t(const conv_job *j, T *to, const T *pad,          \
                              size_t row, size_t n)                            \
    {                                                                          \
        if (j->padded)                                                         \
            memcpy(to, pad + row * j->width, n * j->width * sizeof(T));        \
        else                                                                   \
            memset(to, 0, n * j->width * sizeof(T));                           \
        return to + n * j->width;                                              \
    }                                                                          \
    static void fill_strip_##t(const conv_job *j, fl_span rows, const T *x,    \
                               const T *pad, T *to)                            \
    {                                                                          \
        size_t s = fl_seqs_find(&j->seqs, (int64_t)rows.lo);                   \
                                                                               \
        for (size_t i = rows.lo; i < rows.hi; i++) {                           \
            window w;                                                          \
                                                                               \
            while ((size_t)j->seqs.off[s + 1] <= i)                            \
                s++;                                                           \
            w = window_of(j, (int64_t)i, s);                                   \
            to = put_padding_##t(j, to, pad, w.pad_before, w.before);          \
            memcpy(to, x + w.first * j->width,                                 \
                   w.inside * j->width * sizeof(T));                           \
            to += w.inside * j->width;                                         \
            to = put_padding_##t(j, to, pad, w.pad_after, w.after);            \
        }                                                                      \
    }                                                                          \
    static const T *add_rows_##t(const conv_job *j, T *to, const T *from,      \
                                 size_t row, size_t n)                         \
    {                                                                          \
        if (to)                                                                \
            fl_vec_##t()->add(to + row * j->width, to + row * j->width, from,  \
                              n * j->width);                                   \
        return from + n * j->width;                                            \
    }                                                                          \
    /* The way back: windows are added to where they came from. */             \
    static void spread_strip_##t(const conv_job *j, fl_span rows,              \
                                 const T *from, T *dx, T *dpad)                \
    {                                                                          \
        size_t s = fl_seqs_find(&j->seqs, (int64_t)rows.lo);                   \
                                                                               \
        for (size_t i = rows.lo; i < rows.hi; i++) {                           \
            window w;                                                          \
                                                                               \
            while ((size_t)j->seqs.off[s + 1] <= i)                            \
                s++;                                                           \
            w = window_of(j, (int64_t)i, s);                                   \
            from = add_rows_##t(j, dpad, from, w.pad_before, w.before);        \
            from = add_rows_##t(j, dx, from, w.first, w.inside);               \
            from = add_rows_##t(j, dpad, from, w.pad_after, w.after);          \
        }                                                                      \
    }

/* Out [rows, n_out] = windows [rows, k] Filter [k, n_out] */
static fl_gemm_shape product_of(const conv_job *j, fl_span rows)
{
    int64_t k = (int64_t)window_len(j), n = (int64_t)j->n_out;

    return (fl_gemm_shape){ .ta = FL_NO_TRANS,
                            .tb = FL_NO_TRANS,
                            .m = (int64_t)(rows.hi - rows.lo),
                            .n = n,
                            .k = k,
                            .lda = k,
                            .ldb = n,
                            .ldc = n };
}

static fl_span strip_from(size_t lo, size_t hi)
{
    return (fl_span){ lo, hi - lo < STRIP_ROWS ? hi : lo + STRIP_ROWS };
}

#define FORWARD(T, t)                                                          \
    static void forward_##t(const fl_op_ctx *c, const conv_job *j, T *strip)   \
    {                                                                          \
        fl_span s = fl_op_blocks(c, j->n_rows, STRIP_ROWS);                    \
        T *out = fl_out(c, OUT);                                               \
                                                                               \
        for (size_t i = s.lo; i < s.hi; i += STRIP_ROWS) {                     \
            fl_span rows = strip_from(i, s.hi);                                \
            fl_gemm_shape z = product_of(j, rows);                             \
                                                                               \
            fill_strip_##t(j, rows, fl_in(c, X), fl_in(c, PADDING_DATA),       \
                           strip);                                             \
            fl_gemm_##t(&z, 1, strip, fl_in(c, FILTER), 0,                     \
                        out + i * j->n_out);                                   \
        }                                                                      \
    }

/* --- backward ------------------------------------------------------------- */

/* The sequence behind the unit that begins with sequence s. */
static size_t unit_end(const conv_job *j, size_t s)
{
    int64_t enough = j->seqs.off[s] + UNIT_ROWS;

    while (s < j->seqs.n && j->seqs.off[s] < enough)
        s++;
    return s;
}

static size_t n_units(const conv_job *j)
{
    size_t n = 0;

    for (size_t s = 0; s < j->seqs.n; s = unit_end(j, s))
        n++;
    return n;
}

static size_t filter_len(const conv_job *j)
{
    return window_len(j) * j->n_out;
}

static size_t part_len(const conv_job *j)
{
    return filter_len(j) + j->n_pad * j->width;
}

#define BACKWARD(T, t)                                                         \
    /* Sums of Filter begin with beta 0; part NULL: not wanted. */             \
    static void back_strip_##t(const fl_op_ctx *c, const conv_job *j,          \
                               fl_span rows, T beta, T *part, T *strip)        \
    {                                                                          \
        fl_gemm_shape z = product_of(j, rows);                                 \
        const T *dout = (const T *)fl_dout(c, OUT) + rows.lo * j->n_out;       \
        fl_gemm_shape for_filter = { .ta = FL_TRANS,                           \
                                     .tb = FL_NO_TRANS,                        \
                                     .m = z.k,                                 \
                                     .n = z.n,                                 \
                                     .k = z.m,                                 \
                                     .lda = z.k,                               \
                                     .ldb = z.n,                               \
                                     .ldc = z.n };                             \
        fl_gemm_shape for_x = { .ta = FL_NO_TRANS,                             \
                                .tb = FL_TRANS,                                \
                                .m = z.m,                                      \
                                .n = z.k,                                      \
                                .k = z.n,                                      \
                                .lda = z.n,                                    \
                                .ldb = z.n,                                    \
                                .ldc = z.k };                                  \
                                                                               \
        if (fl_din_t(c, FILTER)) {                                             \
            fill_strip_##t(j, rows, fl_in(c, X), fl_in(c, PADDING_DATA),       \
                           strip);                                             \
            fl_gemm_##t(&for_filter, 1, strip, dout, beta, part);              \
        }                                                                      \
        if (!fl_din_t(c, X) && !fl_din_t(c, PADDING_DATA))                     \
            return;                                                            \
        fl_gemm_##t(&for_x, 1, dout, fl_in(c, FILTER), 0, strip);              \
        spread_strip_##t(j, rows, strip, fl_din(c, X),                         \
                         j->padded &&part ? part + filter_len(j) : NULL);      \
    }                                                                          \
    static void backward_##t(const fl_op_ctx *c, const conv_job *j, size_t s,  \
                             T *part, T *strip)                                \
    {                                                                          \
        size_t lo = (size_t)j->seqs.off[s];                                    \
        size_t hi = (size_t)j->seqs.off[unit_end(j, s)];                       \
                                                                               \
        if (part && lo == hi)                                                  \
            memset(part, 0, filter_len(j) * sizeof(T));                        \
        if (part && j->padded)                                                 \
            memset(part + filter_len(j), 0,                                    \
                   (part_len(j) - filter_len(j)) * sizeof(T));                 \
        if (fl_din_t(c, X))                                                    \
            memset((T *)fl_din(c, X) + lo * j->width, 0,                       \
                   (hi - lo) * j->width * sizeof(T));                          \
        for (size_t i = lo; i < hi; i += STRIP_ROWS)                           \
            back_strip_##t(c, j, strip_from(i, hi), i > lo, part, strip);      \
    }                                                                          \
    static void back_units_##t(const fl_op_ctx *c, const conv_job *j,          \
                               T *parts, T *strip)                             \
    {                                                                          \
        size_t unit = 0;                                                       \
                                                                               \
        for (size_t s = 0; s < j->seqs.n; s = unit_end(j, s), unit++)          \
            if (unit % (size_t)c->nth == (size_t)c->ith)                       \
                backward_##t(c, j, s,                                          \
                             parts ? parts + unit *part_len(j) : NULL, strip); \
    }

FL_FLOATS(WINDOWS)
FL_FLOATS(FORWARD)
FL_FLOATS(BACKWARD)

/* --- settings ------------------------------------------------------------- */

/* Rows that a sequence needs before its first row and behind its last. */
static int64_t pad_up(const fl_op_node *n)
{
    int64_t start = fl_attr_int(n, START);

    return start < 0 ? -start : 0;
}

static int64_t pad_down(const fl_op_node *n)
{
    int64_t end = fl_attr_int(n, START) + fl_attr_int(n, LENGTH) - 1;

    return end > 0 ? end : 0;
}

static fl_status check_attrs(const fl_infer *c)
{
    if (fl_int(c, LENGTH) < 1 || fl_int(c, LENGTH) > INT32_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_conv: contextLength=%lld is not at least 1",
                (long long)fl_int(c, LENGTH));
    if (fl_int(c, START) < INT32_MIN || fl_int(c, START) > INT32_MAX)
        FL_FAIL(FL_ERR_INVAL, "op sequence_conv: contextStart=%lld is too far",
                (long long)fl_int(c, START));
    if (fl_int(c, STRIDE) != 1)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_conv: contextStride=%lld; it can only be 1",
                (long long)fl_int(c, STRIDE));
    return FL_OK;
}

static fl_status check_padding(const fl_infer *c)
{
    fl_shape want = { .rank = 2,
                      .dim = { pad_up(c->node) + pad_down(c->node),
                               fl_infer_in(c, X)->shape.dim[1] } };
    bool given = fl_infer_in(c, PADDING_DATA);
    char buf[FL_SLOT_TEXT_MAX], text[FL_SHAPE_TEXT_MAX];

    if (given != fl_bool(c, PADDING_TRAINABLE))
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_conv: PaddingData is %s, paddingTrainable is %s; "
                "they go together",
                given ? "given" : "left out", given ? "false" : "true");
    FL_TRY(fl_infer_same_dtype(c, X, PADDING_DATA));
    if (given && !fl_shape_matches(&fl_infer_in(c, PADDING_DATA)->shape, &want))
        FL_FAIL(FL_ERR_INVAL, "op sequence_conv: %s must be %s",
                fl_infer_text(c, PADDING_DATA, buf),
                fl_shape_text(&want, text));
    return FL_OK;
}

static fl_status check_filter(const fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *f = &fl_infer_in(c, FILTER)->shape;
    char tx[FL_SLOT_TEXT_MAX], tf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_same_dtype(c, X, FILTER));
    if (x->rank != 2)
        FL_FAIL(FL_ERR_INVAL, "op sequence_conv: %s must have two dimensions",
                fl_infer_text(c, X, tx));
    if (f->rank != 2 || f->dim[1] < 0 ||
        (x->dim[1] >= 0 && f->dim[0] != fl_int(c, LENGTH) * x->dim[1]))
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_conv: %s must have contextLength=%lld times the "
                "columns of %s as rows",
                fl_infer_text(c, FILTER, tf), (long long)fl_int(c, LENGTH),
                fl_infer_text(c, X, tx));
    return FL_OK;
}

static fl_status sequence_conv_infer(fl_infer *c)
{
    fl_tensor *out = fl_infer_out(c, OUT);

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_one_level(c, X));
    FL_TRY(check_attrs(c));
    FL_TRY(check_filter(c));
    FL_TRY(check_padding(c));
    fl_tensor_like(out, fl_infer_in(c, X));
    out->shape.dim[1] = fl_infer_in(c, FILTER)->shape.dim[1];
    return FL_OK;
}

static conv_job job_of(const fl_op_node *n, const fl_targs *in)
{
    const fl_tensor *x = in[X].t[0];

    return (conv_job){
        .seqs = fl_seqs_of(x),
        .n_rows = (size_t)x->shape.dim[0],
        .width = (size_t)x->shape.dim[1],
        .n_out = (size_t)in[FILTER].t[0]->shape.dim[1],
        .length = fl_attr_int(n, LENGTH),
        .start = fl_attr_int(n, START),
        .n_pad_up = (size_t)pad_up(n),
        .n_pad = fl_attr_bool(n, PADDING_TRAINABLE)
                     ? (size_t)(pad_up(n) + pad_down(n))
                     : 0,
        .padded = fl_attr_bool(n, PADDING_TRAINABLE),
    };
}

/* --- running -------------------------------------------------------------- */

static void *strip_buffer(fl_op_ctx *c, const conv_job *j)
{
    return fl_scratch(c, STRIP_ROWS * window_len(j) *
                             fl_dtype_bytes(fl_in_t(c, X)->dtype));
}

static fl_status sequence_conv_run(fl_op_ctx *c)
{
    conv_job j = job_of(c->node, c->in);
    void *strip = strip_buffer(c, &j);

    if (!strip)
        return FL_NOMEM(c);
    FL_BY_FLOAT(c, X, forward, c, &j, strip);
    return FL_OK;
}

static bool wants_sums(const fl_targs *out)
{
    return (out[FILTER].n && out[FILTER].t[0]) ||
           (out[PADDING_DATA].n && out[PADDING_DATA].t[0]);
}

static fl_status sequence_conv_back_infer(fl_infer *c)
{
    conv_job j;

    if (!c->running || !wants_sums(c->out))
        return FL_OK;
    j = job_of(c->node, c->in);
    return fl_partials_infer(c, fl_infer_in(c, X)->dtype, n_units(&j),
                             part_len(&j));
}

static void add_parts(const fl_op_ctx *c, const conv_job *j)
{
    fl_partial_use filter = { fl_din_t(c, FILTER), 0 };
    fl_partial_use padding = { fl_din_t(c, PADDING_DATA), filter_len(j) };
    size_t n = n_units(j), len = part_len(j);

    FL_BY_FLOAT(c, X, fl_partials_sum, fl_op_workspace(c), n, len, &filter);
    FL_BY_FLOAT(c, X, fl_partials_sum, fl_op_workspace(c), n, len, &padding);
}

static fl_status sequence_conv_back(fl_op_ctx *c)
{
    conv_job j = job_of(c->node, c->in);
    bool sums = wants_sums(c->out);
    void *strip;

    if (!fl_dout_t(c, OUT)) {
        for (int slot = X; slot <= FILTER; slot++)
            fl_din_zero(c, slot);
        return FL_OK;
    }
    strip = strip_buffer(c, &j);
    if (!strip)
        return FL_NOMEM(c);
    FL_BY_FLOAT(c, X, back_units, c, &j, sums ? fl_op_workspace(c) : NULL,
                strip);
    if (sums && fl_op_is_last(c))
        add_parts(c, &j);
    return FL_OK;
}

static const fl_op_case sequence_conv_cases[] = {
    { .in = { "f32[10,5] lod=[0,3,4,8,10]", "", "f32[15,3]" },
      .attrs = "{contextLength=3, contextStart=-1}" },
    { .in = { "f32[10,2] lod=[0,3,4,8,10]", "", "f32[10,7]" },
      .attrs = "{contextLength=5, contextStart=-2}" },
    { .in = { "f32[6,5] lod=[0,2,2,5,5,6]", "", "f32[10,3]" },
      .attrs = "{contextLength=2}" },
    { .in = { "f32[6,2] lod=[0,2,2,5,6]", "", "f32[4,3]" },
      .attrs = "{contextLength=2, contextStart=3}" },
    { .in = { "f32[6,2] lod=[0,2,2,5,6]", "", "f32[4,3]" },
      .attrs = "{contextLength=2, contextStart=-4}" },
    { .in = { "f32[6,2] lod=[0,1,1,5,6]", "f32[4,2]", "f32[10,3]" },
      .attrs = "{contextLength=5, contextStart=-2, paddingTrainable=true}" },
    { .in = { "f32[6,2] lod=[0,1,1,5,6]", "f32[4,2]", "f32[4,3]" },
      .attrs = "{contextLength=2, contextStart=3, paddingTrainable=true}" },
    { .in = { "f32[1,5] lod=[0,1]", "", "f32[5,2]" },
      .attrs = "{contextLength=1}" },
    { .in = { "f32[0,5] lod=[0,0,0]", "", "f32[15,2]" },
      .attrs = "{contextLength=3}" },
    { .in = { "f32[0,5] lod=[0]", "", "f32[15,2]" },
      .attrs = "{contextLength=3}" },
    /* several strips, several units */
    { .in = { "f32[1300,1] lod=[0,600,601,1200,1300]", "", "f32[3,2]" },
      .attrs = "{contextLength=3, contextStart=-1}" },
};

const fl_op fl_op_sequence_conv = {
    .name = "sequence_conv",
    .doc = "Out[i] = [X[i + contextStart], ..., contextLength rows] Filter; "
           "rows outside of the sequence of row i are 0, with "
           "paddingTrainable those of PaddingData: first the rows before a "
           "sequence, then those behind it",
    .in = { { "X", 0 },
            { "PaddingData", FL_OP_SLOT_OPTIONAL },
            { "Filter", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "contextLength", FL_ATTR_INT, "1" },
               { "contextStart", FL_ATTR_INT, "0" },
               { "contextStride", FL_ATTR_INT, "1" },
               { "paddingTrainable", FL_ATTR_BOOL, "false" } },
    .flags = FL_OP_SLICED,
    .infer = sequence_conv_infer,
    .run = sequence_conv_run,
    .back = sequence_conv_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(PADDING_DATA) | FL_USES_IN(FILTER),
    .back_infer = sequence_conv_back_infer,
    .cases = sequence_conv_cases,
    .n_cases = FL_LEN(sequence_conv_cases),
};
