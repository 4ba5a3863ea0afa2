/* sequence_pad.c - ragged rows to a dense tensor, and back.
 *
 *     packed [rows, ...] with offsets  <->  padded [sequences, length, ...]
 *
 * Both operators, forward and backward, are one of two moves: pack takes the
 * rows out of their lines, unpack puts them in and fills what is left.
 */
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/sequences.h"

enum { X, PAD_VALUE };
enum { OUT, LENGTH };
enum { PADDED_LENGTH };
enum { UNPAD_LENGTH = 1 }; /* the second input of sequence_unpad */

typedef struct pad_job {
    fl_seqs seqs;
    size_t length, row_bytes; /* of a line in rows, of a row */
    fl_span s;                /* this share's sequences */
} pad_job;

static void pack(const pad_job *j, const char *padded, char *packed)
{
    for (size_t i = j->s.lo; i < j->s.hi; i++)
        memcpy(packed + (size_t)j->seqs.off[i] * j->row_bytes,
               padded + i * j->length * j->row_bytes,
               fl_seqs_len(&j->seqs, i) * j->row_bytes);
}

/* `fill` is size bytes that are repeated. */
static void fill_rows(char *to, size_t bytes, const char *fill, size_t size)
{
    for (size_t at = 0; at < bytes; at += size)
        memcpy(to + at, fill, size);
}

static void unpack(const pad_job *j, const char *packed, char *padded,
                   const char *fill, size_t fill_bytes)
{
    for (size_t i = j->s.lo; i < j->s.hi; i++) {
        size_t n = fl_seqs_len(&j->seqs, i) * j->row_bytes;
        char *line = padded + i * j->length * j->row_bytes;

        memcpy(line, packed + (size_t)j->seqs.off[i] * j->row_bytes, n);
        fill_rows(line + n, j->length * j->row_bytes - n, fill, fill_bytes);
    }
}

/* --- sequence_pad --------------------------------------------------------- */

static fl_status check_pad_value(const fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    int64_t n = fl_shape_numel(&fl_infer_in(c, PAD_VALUE)->shape);
    int64_t width = fl_shape_count(x, 1, x->rank);
    char tx[FL_SLOT_TEXT_MAX], tp[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_same_dtype(c, X, PAD_VALUE));
    if (n >= 0 && n != 1 && width >= 0 && n != width)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_pad: %s must be one number or one row of %s",
                fl_infer_text(c, PAD_VALUE, tp), fl_infer_text(c, X, tx));
    return FL_OK;
}

/* Rows of a line of Out; -1: not known yet. */
static fl_status padded_length(const fl_infer *c, int64_t *out)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int64_t given = fl_int(c, PADDED_LENGTH), longest = -1;
    char buf[FL_SLOT_TEXT_MAX];

    if (given < -1 || given == 0)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_pad: padded_length=%lld is neither a length nor "
                "-1, which stands for the longest sequence",
                (long long)given);
    if (c->running) {
        fl_seqs q = fl_seqs_of(x);

        longest = (int64_t)fl_seqs_longest(&q);
    }
    if (given > 0 && longest > given)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_pad: %s has a sequence of %lld rows, more than "
                "padded_length=%lld",
                fl_infer_text(c, X, buf), (long long)longest, (long long)given);
    *out = given > 0 ? given : longest;
    return FL_OK;
}

static fl_status sequence_pad_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int64_t dims[FL_RANK_MAX] = { 0 }, n;
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_one_level(c, X));
    FL_TRY(check_pad_value(c));
    if (x->shape.rank < 1 || x->shape.rank >= FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_pad: %s must have 1 to %d dimensions",
                fl_infer_text(c, X, buf), FL_RANK_MAX - 1);
    n = c->running ? x->lod_len[0] - 1 : -1;
    dims[0] = n;
    FL_TRY(padded_length(c, &dims[1]));
    for (int i = 1; i < x->shape.rank; i++)
        dims[i + 1] = x->shape.dim[i];
    fl_infer_dense(c, OUT, x->dtype, x->shape.rank + 1, dims);
    fl_infer_dense(c, LENGTH, FL_DTYPE_I64, 1, &n);
    return FL_OK;
}

static pad_job pad_job_of(const fl_op_ctx *c, const fl_tensor *padded)
{
    const fl_tensor *x = fl_in_t(c, X);
    pad_job j = { .seqs = fl_seqs_of(x),
                  .length = (size_t)padded->shape.dim[1],
                  .row_bytes = fl_row_bytes(x) };

    j.s = fl_op_span(c, j.seqs.n);
    return j;
}

static fl_status sequence_pad_run(fl_op_ctx *c)
{
    pad_job j = pad_job_of(c, fl_out_t(c, OUT));
    const fl_tensor *value = fl_in_t(c, PAD_VALUE);
    int64_t *length = fl_out(c, LENGTH);

    if (j.row_bytes)
        unpack(&j, fl_in(c, X), fl_out(c, OUT), value->data,
               (size_t)fl_tensor_numel(value) * fl_dtype_bytes(value->dtype));
    for (size_t i = j.s.lo; i < j.s.hi; i++)
        length[i] = (int64_t)fl_seqs_len(&j.seqs, i);
    return FL_OK;
}

static fl_status sequence_pad_back(fl_op_ctx *c)
{
    pad_job j;

    if (!fl_din_t(c, X))
        return FL_OK;
    if (!fl_dout_t(c, OUT)) {
        fl_share_zero(c, fl_din_t(c, X));
        return FL_OK;
    }
    j = pad_job_of(c, fl_dout_t(c, OUT));
    pack(&j, fl_dout(c, OUT), fl_din(c, X));
    return FL_OK;
}

static const fl_op_case sequence_pad_cases[] = {
    { .in = { "f32[10,5] lod=[0,3,4,8,10]", "f32[1]" } },
    { .in = { "f32[10,5] lod=[0,3,4,8,10]", "f32[5]" },
      .attrs = "{padded_length=7}" },
    { .in = { "f32[6,2,3] lod=[0,2,2,5,5,6]", "f32[2,3]" } },
    { .in = { "i64[6] lod=[0,2,2,5,5,6]", "i64[1]" } },
    { .in = { "f32[1,1] lod=[0,1]", "f32[1]" } },
    { .in = { "f32[0,5] lod=[0,0,0]", "f32[1]" } },
    { .in = { "f32[0,5] lod=[0,0,0]", "f32[1]" },
      .attrs = "{padded_length=2}" },
    { .in = { "f32[0,5] lod=[0]", "f32[1]" } },
    { .in = { "f32[33,2] lod=[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,"
              "18,33]",
              "f32[1]" } },
};

const fl_op fl_op_sequence_pad = {
    .name = "sequence_pad",
    .doc = "Out[s] = the rows of sequence s, then PadValue (one number or one "
           "row) up to padded_length rows (-1: as many as the longest has); "
           "Length[s] = the rows of sequence s",
    .in = { { "X", 0 }, { "PadValue", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 }, { "Length", FL_SLOT_NO_GRAD } },
    .attrs = { { "padded_length", FL_ATTR_INT, "-1" } },
    .flags = FL_OP_SLICED,
    .infer = sequence_pad_infer,
    .run = sequence_pad_run,
    .back = sequence_pad_back,
    .cases = sequence_pad_cases,
    .n_cases = FL_LEN(sequence_pad_cases),
};

/* --- sequence_unpad ------------------------------------------------------- */

static fl_status check_unpad(const fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *l = &fl_infer_in(c, UNPAD_LENGTH)->shape;
    char tx[FL_SLOT_TEXT_MAX], tl[FL_SLOT_TEXT_MAX];
    int64_t n = fl_shape_numel(l);

    FL_TRY(fl_infer_ids(c, UNPAD_LENGTH));
    if (x->rank < 2)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_unpad: %s must have at least two dimensions",
                fl_infer_text(c, X, tx));
    if (l->rank < 1 || (n >= 0 && x->dim[0] >= 0 && n != x->dim[0]))
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_unpad: %s must have one number per line of %s",
                fl_infer_text(c, UNPAD_LENGTH, tl), fl_infer_text(c, X, tx));
    return FL_OK;
}

static fl_status add_lengths(const fl_infer *c, int64_t *off)
{
    const fl_tensor *x = fl_infer_in(c, X);
    const fl_tensor *length = fl_infer_in(c, UNPAD_LENGTH);
    char tl[FL_SLOT_TEXT_MAX], tx[FL_SLOT_TEXT_MAX];

    for (int64_t i = 0; i < x->shape.dim[0]; i++) {
        int64_t n = fl_id_at(length, i);

        if (n < 0 || n > x->shape.dim[1])
            FL_FAIL(FL_ERR_INVAL,
                    "op sequence_unpad: %s says %lld at place %lld, but a line "
                    "of %s has %lld rows",
                    fl_infer_text(c, UNPAD_LENGTH, tl), (long long)n,
                    (long long)i, fl_infer_text(c, X, tx),
                    (long long)x->shape.dim[1]);
        off[i + 1] = off[i] + n;
    }
    return FL_OK;
}

/* Length is read here: it says how large Out is. */
static fl_status sequence_unpad_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_tensor *out = fl_infer_out(c, OUT);
    int64_t *off;

    FL_TRY(check_unpad(c));
    fl_tensor_like(out, x);
    out->shape.rank = x->shape.rank > 2 ? x->shape.rank - 1 : 2;
    out->shape.dim[0] = -1;
    out->shape.dim[1] = 1;
    for (int i = 2; i < x->shape.rank; i++)
        out->shape.dim[i - 1] = x->shape.dim[i];
    FL_TRY(fl_infer_new_seqs(c, OUT, (size_t)x->shape.dim[0], &off));
    if (!off)
        return FL_OK;
    FL_TRY(add_lengths(c, off));
    out->shape.dim[0] = off[x->shape.dim[0]];
    return FL_OK;
}

static pad_job unpad_job_of(const fl_op_ctx *c, fl_seqs seqs)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;

    return (pad_job){ .seqs = seqs,
                      .length = (size_t)x->dim[1],
                      .row_bytes = (size_t)fl_shape_count(x, 2, x->rank) *
                                   fl_dtype_bytes(fl_in_t(c, X)->dtype),
                      .s = fl_op_span(c, seqs.n) };
}

static fl_status sequence_unpad_run(fl_op_ctx *c)
{
    pad_job j = unpad_job_of(c, fl_seqs_of(fl_out_t(c, OUT)));

    pack(&j, fl_in(c, X), fl_out(c, OUT));
    return FL_OK;
}

/* From Length again: a gradient that is fed has no offsets. */
static fl_status seqs_of_lengths(fl_op_ctx *c, fl_seqs *out)
{
    const fl_tensor *length = fl_in_t(c, UNPAD_LENGTH);
    size_t n = (size_t)fl_tensor_numel(length);
    int64_t *off = fl_scratch(c, (n + 1) * sizeof(*off));

    if (!off)
        return FL_NOMEM(c);
    off[0] = 0;
    for (size_t i = 0; i < n; i++)
        off[i + 1] = off[i] + fl_id_at(length, (int64_t)i);
    *out = (fl_seqs){ off, n };
    return FL_OK;
}

static fl_status sequence_unpad_back(fl_op_ctx *c)
{
    static const double zero;
    fl_seqs seqs;
    pad_job j;

    if (!fl_din_t(c, X))
        return FL_OK;
    if (!fl_dout_t(c, OUT)) {
        fl_share_zero(c, fl_din_t(c, X));
        return FL_OK;
    }
    FL_TRY(seqs_of_lengths(c, &seqs));
    j = unpad_job_of(c, seqs);
    if (j.row_bytes)
        unpack(&j, fl_dout(c, OUT), fl_din(c, X), (const char *)&zero,
               fl_dtype_bytes(fl_in_t(c, X)->dtype));
    return FL_OK;
}

static const fl_op_case sequence_unpad_cases[] = {
    { .in = { "f32[4,5,3]", "i64[4] below=6" } },
    { .in = { "f32[5,3]", "i64[5,1] below=4" } },
    { .in = { "f32[3,4,2,2]", "i32[3] below=5" } },
    { .in = { "i64[3,4]", "i64[3] below=5" } },
    { .in = { "f32[2,3,2]", "i64[2] below=1" } },
    { .in = { "f32[1,1,1]", "i64[1] below=2" } },
    { .in = { "f32[0,3,2]", "i64[0]" } },
    { .in = { "f32[33,3]", "i64[33] below=4" } },
};

const fl_op fl_op_sequence_unpad = {
    .name = "sequence_unpad",
    .doc = "Out = the first Length[s] rows of every line X[s], as sequences",
    .in = { { "X", 0 }, { "Length", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = sequence_unpad_infer,
    .run = sequence_unpad_run,
    .back = sequence_unpad_back,
    .cases = sequence_unpad_cases,
    .n_cases = FL_LEN(sequence_unpad_cases),
};
