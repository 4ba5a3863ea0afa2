/* sequence_scatter.c - adds the numbers of each sequence to places of a row:
 * sequence i of Ids says which places of row i of X, Updates what is added. A
 * place may come several times. */
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/labels.h"
#include "ops/sequences.h"

enum { X, IDS, UPDATES };
enum { OUT };

static fl_status check_shapes(const fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_tensor *ids = fl_infer_in(c, IDS), *up = fl_infer_in(c, UPDATES);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    if (x->rank != 2)
        FL_FAIL(FL_ERR_INVAL, "op sequence_scatter: %s must be a matrix",
                fl_infer_text(c, X, a));
    if (!fl_shape_matches(&ids->shape, &up->shape) ||
        (c->running &&
         ids->lod[0][ids->lod_len[0] - 1] != up->lod[0][up->lod_len[0] - 1]))
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_scatter: %s and %s must have a number for each "
                "other's",
                fl_infer_text(c, IDS, a), fl_infer_text(c, UPDATES, b));
    if (c->running && ids->lod_len[0] - 1 != x->dim[0])
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_scatter: %s has %lld sequences, one for each row "
                "of %s is needed",
                fl_infer_text(c, IDS, a), (long long)ids->lod_len[0] - 1,
                fl_infer_text(c, X, b));
    return FL_OK;
}

static fl_status sequence_scatter_infer(fl_infer *c)
{
    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, UPDATES));
    FL_TRY(fl_infer_ids(c, IDS));
    FL_TRY(fl_infer_one_level(c, IDS));
    FL_TRY(fl_infer_one_level(c, UPDATES));
    FL_TRY(check_shapes(c));
    fl_tensor_like(fl_infer_out(c, OUT), fl_infer_in(c, X));
    return FL_OK;
}

typedef struct scatter_job {
    const fl_tensor *ids;
    fl_seqs q;
    size_t dim;
} scatter_job;

static scatter_job job_of(const fl_op_ctx *c)
{
    return (scatter_job){ .ids = fl_in_t(c, IDS),
                          .q = fl_seqs_of(fl_in_t(c, IDS)),
                          .dim = (size_t)fl_in_t(c, X)->shape.dim[1] };
}

/* Of number k of the sequence that row i has. */
static size_t place_of(const scatter_job *j, size_t i, size_t k)
{
    return i * j->dim + (size_t)fl_label_at(j->ids, k);
}

#define KERNELS(T, t)                                                          \
    static void forward_##t(const scatter_job *j, fl_span s, const T *up,      \
                            T *out)                                            \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            for (size_t k = (size_t)j->q.off[i]; k < (size_t)j->q.off[i + 1];  \
                 k++)                                                          \
                out[place_of(j, i, k)] += up[k];                               \
    }                                                                          \
    static void backward_##t(const scatter_job *j, fl_span s, const T *dout,   \
                             T *dup)                                           \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++)                                   \
            for (size_t k = (size_t)j->q.off[i]; k < (size_t)j->q.off[i + 1];  \
                 k++)                                                          \
                dup[k] = dout[place_of(j, i, k)];                              \
    }
FL_FLOATS(KERNELS)

static fl_status sequence_scatter_run(fl_op_ctx *c)
{
    scatter_job j = job_of(c);
    fl_tensor *out = fl_out_t(c, OUT);

    FL_TRY(fl_check_ids(j.ids, "Ids", j.dim, 0));
    if (out->data != fl_in(c, X))
        memcpy(out->data, fl_in(c, X),
               (size_t)fl_tensor_numel(out) * fl_dtype_bytes(out->dtype));
    FL_BY_FLOAT(c, X, forward, &j, (fl_span){ 0, j.q.n }, fl_in(c, UPDATES),
                out->data);
    return FL_OK;
}

static fl_status sequence_scatter_back(fl_op_ctx *c)
{
    scatter_job j = job_of(c);

    if (fl_din_t(c, X))
        fl_share_copy(c, fl_din_t(c, X), fl_dout_t(c, OUT));
    if (!fl_dout_t(c, OUT))
        fl_din_zero(c, UPDATES);
    else if (fl_din_t(c, UPDATES))
        FL_BY_FLOAT(c, X, backward, &j, (fl_span){ 0, j.q.n }, fl_dout(c, OUT),
                    fl_din(c, UPDATES));
    return FL_OK;
}

static const fl_op_case sequence_scatter_cases[] = {
    { .in = { "f32[3,6]", "i64[5,1] lod=[0,3,3,5] below=6",
              "f32[5,1] lod=[0,3,3,5]" } },
    { .in = { "f32[2,1]", "i32[4,1] lod=[0,3,4] below=1",
              "f32[4,1] lod=[0,3,4]" } },
    { .in = { "f32[0,6]", "i64[0,1] lod=[0]", "f32[0,1] lod=[0]" } },
};

const fl_op fl_op_sequence_scatter = {
    .name = "sequence_scatter",
    .doc =
        "Out = X, and for each number of Updates, in sequence i, that number "
        "more in row i at the column that Ids has at its place",
    .in = { { "X", 0 }, { "Ids", FL_SLOT_NO_GRAD }, { "Updates", 0 } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_INPLACE,
    .infer = sequence_scatter_infer,
    .run = sequence_scatter_run,
    .back = sequence_scatter_back,
    .back_uses = FL_USES_IN(IDS),
    .cases = sequence_scatter_cases,
    .n_cases = FL_LEN(sequence_scatter_cases),
};
