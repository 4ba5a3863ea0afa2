/* sequence_reverse.c - the rows of each sequence from the last to the first. */
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/sequences.h"

enum { X };
enum { Y };

static void reverse(const fl_op_ctx *c, const fl_tensor *from, fl_tensor *to)
{
    fl_seqs q = fl_seqs_of(fl_in_t(c, X));
    fl_span s = fl_op_span(c, q.n);
    size_t row = fl_row_bytes(from);
    const char *x = from->data;
    char *y = to->data;

    for (size_t i = s.lo; i < s.hi; i++) {
        size_t lo = (size_t)q.off[i], hi = (size_t)q.off[i + 1];

        for (size_t k = lo; k < hi; k++)
            memcpy(y + k * row, x + (lo + hi - 1 - k) * row, row);
    }
}

static fl_status sequence_reverse_infer(fl_infer *c)
{
    FL_TRY(fl_infer_seqs(c, X));
    fl_tensor_like(fl_infer_out(c, Y), fl_infer_in(c, X));
    return FL_OK;
}

static fl_status sequence_reverse_run(fl_op_ctx *c)
{
    reverse(c, fl_in_t(c, X), fl_out_t(c, Y));
    return FL_OK;
}

static fl_status sequence_reverse_back(fl_op_ctx *c)
{
    if (fl_din_t(c, X) && fl_dout_t(c, Y))
        reverse(c, fl_dout_t(c, Y), fl_din_t(c, X));
    else
        fl_din_zero(c, X);
    return FL_OK;
}

static const fl_op_case sequence_reverse_cases[] = {
    { .in = { "f32[10,5] lod=[0,3,4,8,10]" } },
    { .in = { "f32[6,2,2] lod=[0,2,2,5,5,6]" } },
    { .in = { "i64[10,1] lod=[0,3,4,8,10]" } },
    { .in = { "f32[6,1] lod=[0,2,3] lod=[0,2,5,6]" } },
    { .in = { "f32[1,1] lod=[0,1]" } },
    { .in = { "f32[0,5] lod=[0,0,0]" } },
    { .in = { "f32[0,5] lod=[0]" } },
    { .in = { "f32[33,2] lod=[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,"
              "18,33]" } },
};

const fl_op fl_op_sequence_reverse = {
    .name = "sequence_reverse",
    .doc = "Y = the rows of each sequence of the innermost level of X, from "
           "the last to the first",
    .in = { { "X", 0 } },
    .out = { { "Y", 0 } },
    .flags = FL_OP_SLICED,
    .infer = sequence_reverse_infer,
    .run = sequence_reverse_run,
    .back = sequence_reverse_back,
    .cases = sequence_reverse_cases,
    .n_cases = FL_LEN(sequence_reverse_cases),
};
