/* sequence_reshape.c - rows of another width; sequences stay whole. */
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/sequences.h"

enum { X };
enum { OUT };
enum { NEW_DIM };

/* off of X in rows of the new width. */
static fl_status infer_offsets(const fl_infer *c, int64_t *off)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int64_t width = x->shape.dim[1], new_dim = fl_int(c, NEW_DIM);
    fl_seqs q = fl_seqs_of(x);
    char buf[FL_SLOT_TEXT_MAX];

    for (size_t s = 0; s < q.n; s++) {
        int64_t n = (int64_t)fl_seqs_len(&q, s) * width;

        if (n % new_dim)
            FL_FAIL(FL_ERR_INVAL,
                    "op sequence_reshape: sequence %zu of %s has %lld numbers, "
                    "which is no multiple of new_dim=%lld",
                    s, fl_infer_text(c, X, buf), (long long)n,
                    (long long)new_dim);
        off[s + 1] = off[s] + n / new_dim;
    }
    return FL_OK;
}

static fl_status sequence_reshape_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_tensor *out = fl_infer_out(c, OUT);
    size_t n = c->running && x->n_lod ? (size_t)x->lod_len[0] - 1 : 0;
    char buf[FL_SLOT_TEXT_MAX];
    int64_t *off;

    FL_TRY(fl_infer_one_level(c, X));
    if (x->shape.rank != 2)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_reshape: %s must have two dimensions",
                fl_infer_text(c, X, buf));
    if (fl_int(c, NEW_DIM) < 1)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_reshape: new_dim=%lld is not at least 1",
                (long long)fl_int(c, NEW_DIM));
    fl_tensor_like(out, x);
    out->shape.dim[0] = -1;
    out->shape.dim[1] = fl_int(c, NEW_DIM);
    FL_TRY(fl_infer_new_seqs(c, OUT, n, &off));
    if (!off)
        return FL_OK;
    FL_TRY(infer_offsets(c, off));
    out->shape.dim[0] = off[n];
    return FL_OK;
}

static fl_status sequence_reshape_run(fl_op_ctx *c)
{
    fl_share_copy(c, fl_out_t(c, OUT), fl_in_t(c, X));
    return FL_OK;
}

static fl_status sequence_reshape_back(fl_op_ctx *c)
{
    if (fl_din_t(c, X))
        fl_share_copy(c, fl_din_t(c, X), fl_dout_t(c, OUT));
    return FL_OK;
}

static const fl_op_case sequence_reshape_cases[] = {
    { .in = { "f32[6,2] lod=[0,2,6]" }, .attrs = "{new_dim=4}" },
    { .in = { "f32[3,6] lod=[0,0,1,3]" }, .attrs = "{new_dim=2}" },
    { .in = { "i64[4,1] lod=[0,4]" }, .attrs = "{new_dim=2}" },
    { .in = { "f32[1,5] lod=[0,1]" }, .attrs = "{new_dim=5}" },
    { .in = { "f32[0,4] lod=[0,0,0]" }, .attrs = "{new_dim=3}" },
    { .in = { "f32[0,4] lod=[0]" }, .attrs = "{new_dim=2}" },
    { .in = { "f32[33,4] lod=[0,1,33]" }, .attrs = "{new_dim=1}" },
};

const fl_op fl_op_sequence_reshape = {
    .name = "sequence_reshape",
    .doc = "Out = the numbers of each sequence in rows of new_dim",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "new_dim", FL_ATTR_INT, "1" } },
    .flags = FL_OP_INPLACE | FL_OP_SLICED,
    .infer = sequence_reshape_infer,
    .run = sequence_reshape_run,
    .back = sequence_reshape_back,
    .cases = sequence_reshape_cases,
    .n_cases = FL_LEN(sequence_reshape_cases),
};
