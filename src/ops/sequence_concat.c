/* sequence_concat.c - sequence s of Out is sequence s of every input, one
 * behind the other. */
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/sequences.h"

enum { X };
enum { OUT };

static fl_status check_input(const fl_infer *c, int i)
{
    const fl_tensor *x = fl_infer_in(c, X), *y = fl_infer_in_at(c, X, i);
    fl_shape a = x->shape, b = y->shape;
    char ta[FL_SLOT_TEXT_MAX], tb[FL_SLOT_TEXT_MAX];

    if (y->n_lod != 1)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_concat: %s has %d levels of offsets, it must have "
                "one",
                fl_infer_text_at(c, X, i, tb), y->n_lod);
    a.dim[0] = b.dim[0] = -1;
    if (x->dtype != y->dtype || !fl_shape_matches(&a, &b))
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_concat: %s and %s have rows of different types or "
                "shapes",
                fl_infer_text_at(c, X, 0, ta), fl_infer_text_at(c, X, i, tb));
    if (c->running && x->lod_len[0] != y->lod_len[0])
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_concat: %s has %lld sequences, but %s has %lld",
                fl_infer_text_at(c, X, 0, ta), (long long)x->lod_len[0] - 1,
                fl_infer_text_at(c, X, i, tb), (long long)y->lod_len[0] - 1);
    return FL_OK;
}

static fl_status sequence_concat_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_tensor *out = fl_infer_out(c, OUT);
    int64_t *off;
    size_t n;

    for (int i = 0; i < fl_infer_n_in(c, X); i++)
        FL_TRY(check_input(c, i));
    n = c->running ? (size_t)x->lod_len[0] - 1 : 0;
    fl_tensor_like(out, x);
    out->shape.dim[0] = -1;
    FL_TRY(fl_infer_new_seqs(c, OUT, n, &off));
    if (!off)
        return FL_OK;
    memset(off, 0, (n + 1) * sizeof(*off));
    for (int i = 0; i < fl_infer_n_in(c, X); i++)
        for (size_t s = 0; s <= n; s++)
            off[s] += fl_infer_in_at(c, X, i)->lod[0][s];
    out->shape.dim[0] = off[n];
    return FL_OK;
}

/* Where sequence s of input i lies in Out, in rows. */
static size_t place_of(const fl_op_ctx *c, size_t s, int i)
{
    int64_t at = 0;

    for (int k = 0; k < fl_n_in(c, X); k++)
        at += fl_in_at(c, X, k)->lod[0][s + (k < i)];
    return (size_t)at;
}

static fl_status sequence_concat_run(fl_op_ctx *c)
{
    size_t row = fl_row_bytes(fl_in_t(c, X));
    char *out = fl_out(c, OUT);

    for (int i = 0; i < fl_n_in(c, X); i++) {
        const fl_tensor *x = fl_in_at(c, X, i);
        fl_seqs q = fl_seqs_of(x);
        fl_span s = fl_op_span(c, q.n);

        for (size_t k = s.lo; k < s.hi; k++)
            memcpy(out + place_of(c, k, i) * row,
                   (const char *)x->data + (size_t)q.off[k] * row,
                   fl_seqs_len(&q, k) * row);
    }
    return FL_OK;
}

static void back_one(const fl_op_ctx *c, int i, fl_tensor *dx)
{
    size_t row = fl_row_bytes(dx);
    fl_seqs q = fl_seqs_of(fl_in_at(c, X, i));
    fl_span s = fl_op_span(c, q.n);
    const char *dout = fl_dout(c, OUT);

    for (size_t k = s.lo; k < s.hi; k++)
        memcpy((char *)dx->data + (size_t)q.off[k] * row,
               dout + place_of(c, k, i) * row, fl_seqs_len(&q, k) * row);
}

static fl_status sequence_concat_back(fl_op_ctx *c)
{
    for (int i = 0; i < fl_n_in(c, X); i++) {
        fl_tensor *dx = fl_din_at(c, X, i);

        if (dx && fl_dout_t(c, OUT))
            back_one(c, i, dx);
        else if (dx)
            fl_share_zero(c, dx);
    }
    return FL_OK;
}

static const fl_op_case sequence_concat_cases[] = {
    { .in = { "f32[6,5] lod=[0,2,5,6];f32[6,5] lod=[0,1,2,6]" } },
    { .in = { "f32[3,5] lod=[0,2,2,3];f32[4,5] lod=[0,0,0,4];"
              "f32[1,5] lod=[0,0,1,1]" } },
    { .in = { "i64[3,1] lod=[0,2,3];i64[2,1] lod=[0,1,2]" } },
    { .in = { "f32[3,2,2] lod=[0,2,3]" } },
    { .in = { "f32[0,5] lod=[0,0];f32[1,5] lod=[0,1]" } },
    { .in = { "f32[0,5] lod=[0];f32[0,5] lod=[0]" } },
    { .in = { "f32[18,2] lod=[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18];"
              "f32[18,2] lod=[0,0,0,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,"
              "18]" } },
};

const fl_op fl_op_sequence_concat = {
    .name = "sequence_concat",
    .doc = "sequence s of Out = sequence s of every X, one behind the other",
    .in = { { "X", FL_OP_SLOT_LIST } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = sequence_concat_infer,
    .run = sequence_concat_run,
    .back = sequence_concat_back,
    .cases = sequence_concat_cases,
    .n_cases = FL_LEN(sequence_concat_cases),
};
