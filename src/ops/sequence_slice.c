/* sequence_slice.c - a piece of every sequence. */
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/sequences.h"

enum { X, OFFSET, LENGTH };
enum { OUT };

static fl_status check_counts(const fl_infer *c, int slot)
{
    int64_t n = fl_shape_numel(&fl_infer_in(c, slot)->shape);
    int64_t n_seq = fl_infer_in(c, X)->lod_len[0] - 1;
    char tx[FL_SLOT_TEXT_MAX], ts[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_ids(c, slot));
    if (c->running && n != n_seq)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_slice: %s must have one number for each of the "
                "%lld sequences of %s",
                fl_infer_text(c, slot, ts), (long long)n_seq,
                fl_infer_text(c, X, tx));
    return FL_OK;
}

/* Offset and Length are read here: they say how large Out is. */
static fl_status infer_pieces(const fl_infer *c, int64_t *off)
{
    fl_seqs q = fl_seqs_of(fl_infer_in(c, X));
    char buf[FL_SLOT_TEXT_MAX];

    for (size_t s = 0; s < q.n; s++) {
        int64_t from = fl_id_at(fl_infer_in(c, OFFSET), (int64_t)s);
        int64_t n = fl_id_at(fl_infer_in(c, LENGTH), (int64_t)s);
        int64_t rows = (int64_t)fl_seqs_len(&q, s);

        if (from < 0 || n < 0 || from > rows || n > rows - from)
            FL_FAIL(FL_ERR_INVAL,
                    "op sequence_slice: Offset=%lld and Length=%lld do not lie "
                    "within the %lld rows of sequence %zu of %s",
                    (long long)from, (long long)n, (long long)rows, s,
                    fl_infer_text(c, X, buf));
        off[s + 1] = off[s] + n;
    }
    return FL_OK;
}

static fl_status sequence_slice_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_tensor *out = fl_infer_out(c, OUT);
    int64_t *off;
    size_t n;

    FL_TRY(fl_infer_one_level(c, X));
    FL_TRY(check_counts(c, OFFSET));
    FL_TRY(check_counts(c, LENGTH));
    n = c->running ? (size_t)x->lod_len[0] - 1 : 0;
    fl_tensor_like(out, x);
    out->shape.dim[0] = -1;
    FL_TRY(fl_infer_new_seqs(c, OUT, n, &off));
    if (!off)
        return FL_OK;
    FL_TRY(infer_pieces(c, off));
    out->shape.dim[0] = off[n];
    return FL_OK;
}

/* The rows of X that piece s takes. */
static fl_span piece_of(const fl_op_ctx *c, size_t s)
{
    int64_t lo =
        fl_in_t(c, X)->lod[0][s] + fl_id_at(fl_in_t(c, OFFSET), (int64_t)s);

    return (fl_span){ (size_t)lo,
                      (size_t)(lo + fl_id_at(fl_in_t(c, LENGTH), (int64_t)s)) };
}

/* The row of Out where piece s begins. */
static size_t first_row(const fl_op_ctx *c, size_t s)
{
    size_t at = 0;

    for (size_t i = 0; i < s; i++)
        at += (size_t)fl_id_at(fl_in_t(c, LENGTH), (int64_t)i);
    return at;
}

static fl_status sequence_slice_run(fl_op_ctx *c)
{
    size_t row = fl_row_bytes(fl_in_t(c, X));
    fl_span s = fl_op_span(c, fl_seqs_of(fl_in_t(c, X)).n);
    const char *x = fl_in(c, X);
    char *out = (char *)fl_out(c, OUT) + first_row(c, s.lo) * row;

    for (size_t i = s.lo; i < s.hi; i++) {
        fl_span p = piece_of(c, i);

        memcpy(out, x + p.lo * row, (p.hi - p.lo) * row);
        out += (p.hi - p.lo) * row;
    }
    return FL_OK;
}

static fl_status sequence_slice_back(fl_op_ctx *c)
{
    size_t row = fl_row_bytes(fl_in_t(c, X));
    fl_seqs q = fl_seqs_of(fl_in_t(c, X));
    fl_span s = fl_op_span(c, q.n);
    const char *dout = fl_dout(c, OUT);
    char *dx = fl_din(c, X);

    if (!fl_din_t(c, X) || !fl_dout_t(c, OUT)) {
        fl_din_zero(c, X);
        return FL_OK;
    }
    dout += first_row(c, s.lo) * row;
    for (size_t i = s.lo; i < s.hi; i++) {
        fl_span p = piece_of(c, i);

        memset(dx + (size_t)q.off[i] * row, 0, fl_seqs_len(&q, i) * row);
        memcpy(dx + p.lo * row, dout, (p.hi - p.lo) * row);
        dout += (p.hi - p.lo) * row;
    }
    return FL_OK;
}

static const fl_op_case sequence_slice_cases[] = {
    { .in = { "f32[10,5] lod=[0,4,10]", "i64[2,1] below=3",
              "i64[2,1] below=2" } },
    { .in = { "i64[10,1] lod=[0,4,10]", "i32[2] below=3",
              "i64[2,1] below=2" } },
    { .in = { "f32[3,2,2] lod=[0,0,3]", "i64[2,1] below=1",
              "i64[2,1] below=1" } },
    { .in = { "f32[1,1] lod=[0,1]", "i64[1] below=1", "i64[1] below=2" } },
    { .in = { "f32[0,5] lod=[0,0]", "i64[1] below=1", "i64[1] below=1" } },
    { .in = { "f32[0,5] lod=[0]", "i64[0,1]", "i64[0,1]" } },
    { .in = { "f32[36,2] lod=[0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,"
              "34,36]",
              "i64[18,1] below=2", "i64[18,1] below=2" } },
};

const fl_op fl_op_sequence_slice = {
    .name = "sequence_slice",
    .doc = "sequence s of Out = Length[s] rows of sequence s of X from "
           "Offset[s] on",
    .in = { { "X", 0 },
            { "Offset", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE },
            { "Length", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = sequence_slice_infer,
    .run = sequence_slice_run,
    .back = sequence_slice_back,
    .cases = sequence_slice_cases,
    .n_cases = FL_LEN(sequence_slice_cases),
};
