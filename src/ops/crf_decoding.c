/* crf_decoding.c - the likeliest tags of a sequence in a chain (crf.h), or
 * whether they are those of Label. */
#include "ops/crf.h"
#include "ops/helpers.h"
#include "ops/labels.h"

enum { EMISSION, TRANSITION, LABEL, LENGTH };
enum { VITERBI_PATH };

static fl_status crf_decoding_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, EMISSION);
    fl_tensor *path = fl_infer_out(c, VITERBI_PATH);

    FL_TRY(fl_crf_infer(c));
    fl_tensor_like(path, x);
    path->dtype = FL_DTYPE_I64;
    path->shape = fl_shape_of(
        2, (int64_t[]){ x->shape.dim[0],
                        fl_infer_in(c, LENGTH) ? x->shape.dim[1] : 1 });
    return FL_OK;
}

/* Rows of a sequence, and its best ways so far: what the best one that ends in a
   tag weighs, and where it came from. */
typedef struct search {
    const void *x, *w;
    void *best;
    size_t *from;
    size_t n;
} search;

#define KERNELS(T, t)                                                          \
    /* The tag before that makes the best way to tag i, and its weight. */     \
    static size_t best_before_##t(const search *q, const T *before, size_t i,  \
                                  T *weight)                                   \
    {                                                                          \
        const T *w = q->w;                                                     \
        size_t best = 0;                                                       \
                                                                               \
        for (size_t k = 0; k < q->n; k++) {                                    \
            T here = before[k] + w[(FL_CRF_BEHIND + k) * q->n + i];            \
                                                                               \
            if (!k || here > *weight) {                                        \
                *weight = here;                                                \
                best = k;                                                      \
            }                                                                  \
        }                                                                      \
        return best;                                                           \
    }                                                                          \
    static void walk_##t(const search *q, fl_span s)                           \
    {                                                                          \
        const T *w = q->w;                                                     \
                                                                               \
        for (size_t k = s.lo; k < s.hi; k++) {                                 \
            const T *x = (const T *)q->x + k * q->n;                           \
            T *best = (T *)q->best + (k - s.lo) * q->n;                        \
                                                                               \
            for (size_t i = 0; i < q->n; i++) {                                \
                T weight = w[FL_CRF_START * q->n + i];                         \
                                                                               \
                if (k > s.lo)                                                  \
                    q->from[(k - s.lo) * q->n + i] =                           \
                        best_before_##t(q, best - q->n, i, &weight);           \
                best[i] = weight + x[i];                                       \
            }                                                                  \
        }                                                                      \
    }                                                                          \
    static void decode_##t(const search *q, fl_span s, int64_t *path)          \
    {                                                                          \
        const T *w = q->w;                                                     \
        const T *last = (const T *)q->best + (s.hi - s.lo - 1) * q->n;         \
        size_t tag = 0;                                                        \
                                                                               \
        walk_##t(q, s);                                                        \
        for (size_t i = 1; i < q->n; i++)                                      \
            if (last[i] + w[FL_CRF_END * q->n + i] >                           \
                last[tag] + w[FL_CRF_END * q->n + tag])                        \
                tag = i;                                                       \
        for (size_t k = s.hi; k-- > s.lo;) {                                   \
            path[k] = (int64_t)tag;                                            \
            if (k > s.lo)                                                      \
                tag = q->from[(k - s.lo) * q->n + tag];                        \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

static fl_status crf_decoding_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, EMISSION), *label = fl_in_t(c, LABEL);
    fl_runs r = fl_runs_of(x, fl_in_t(c, LENGTH));
    size_t n = (size_t)fl_tensor_numel(x) + 1;
    search q = { .x = x->data,
                 .w = fl_in(c, TRANSITION),
                 .best = fl_scratch(c, n * fl_dtype_bytes(x->dtype)),
                 .from = fl_scratch(c, n * sizeof(*q.from)),
                 .n = (size_t)fl_in_t(c, TRANSITION)->shape.dim[1] };
    int64_t *path = fl_out(c, VITERBI_PATH);

    if (!q.best || !q.from)
        return FL_NOMEM(c);
    FL_TRY(fl_runs_check(&r, c, LENGTH));
    fl_share_zero(c, fl_out_t(c, VITERBI_PATH));
    for (size_t i = 0; i < r.n; i++) {
        fl_span s = fl_runs_at(&r, i);

        if (s.lo < s.hi)
            FL_BY_FLOAT(c, EMISSION, decode, &q, s, path);
        for (size_t k = s.lo; k < s.hi && label; k++)
            path[k] = path[k] == fl_label_at(label, k);
    }
    return FL_OK;
}

static const fl_op_case crf_decoding_cases[] = {
    { .in = { "f32[7,3] lod=[0,2,2,7]", "f32[5,3]" } },
    { .in = { "f32[7,3] lod=[0,2,2,7]", "f32[5,3]",
              "i64[7,1] lod=[0,2,2,7] below=3" } },
    { .in = { "f32[2,4,3]", "f32[5,3]", "i64[2,4] below=3",
              "i64[2] is=[3,4]" } },
    { .in = { "f32[0,3] lod=[0,0]", "f32[5,3]" } },
};

const fl_op fl_op_crf_decoding = {
    .name = "crf_decoding",
    .doc = "ViterbiPath = for each row of Emission the tag that it has in the "
           "likeliest tags of its sequence, or 1 where that is its Label and 0 "
           "elsewhere; weights are those of linear_chain_crf. Sequences have "
           "offsets, or are padded and have Length",
    .in = { { "Emission", FL_SLOT_NO_GRAD },
            { "Transition", FL_SLOT_NO_GRAD },
            { "Label", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD },
            { "Length", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD } },
    .out = { { "ViterbiPath", FL_SLOT_NO_GRAD } },
    .infer = crf_decoding_infer,
    .run = crf_decoding_run,
    .cases = crf_decoding_cases,
    .n_cases = FL_LEN(crf_decoding_cases),
};
