/* linear_chain_crf.c - how unlikely the tags of a sequence are in a chain, where
 * a tag depends on its neighbours (crf.h).
 *
 * With e = exp(Emission - its largest of the row) and w = exp(Transition),
 *
 *     alpha[0] = e[0] w[start],   alpha[k] = e[k] (alpha[k - 1] w[behind])
 *
 * column by column, each row divided by its sum; the logarithms of what was
 * divided by add up to that of the sum over all ways to tag the sequence. Back,
 * beta is the same from the end: alpha beta is how likely a tag is at a place.
 */
#include <math.h>

#include "kernel/vec.h"
#include "ops/crf.h"
#include "ops/helpers.h"
#include "ops/labels.h"

enum { EMISSION, TRANSITION, LABEL, LENGTH };
enum { ALPHA, EMISSION_EXPS, TRANSITION_EXPS, LOG_LIKELIHOOD };

/* --- shapes --------------------------------------------------------------- */

static fl_status refuse(const fl_infer *c, int slot, const char *want)
{
    char buf[FL_SLOT_TEXT_MAX];

    FL_FAIL(FL_ERR_INVAL, "op %s: %s must be %s", c->node->def->name,
            fl_infer_text(c, slot, buf), want);
}

static fl_status check_label(const fl_infer *c)
{
    const fl_tensor *label = fl_infer_in(c, FL_CRF_LABEL);
    const fl_shape *x = &fl_infer_in(c, FL_CRF_EMISSION)->shape;
    int64_t n = label ? fl_shape_numel(&label->shape) : -1;
    int64_t rows = fl_shape_count(x, 0, x->rank - 1);

    if (!label)
        return FL_OK;
    FL_TRY(fl_infer_ids(c, FL_CRF_LABEL));
    if (n >= 0 && rows >= 0 && n != rows)
        return refuse(c, FL_CRF_LABEL, "a tag for each row of Emission");
    return FL_OK;
}

fl_status fl_crf_infer(const fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, FL_CRF_EMISSION)->shape;
    const fl_shape *w = &fl_infer_in(c, FL_CRF_TRANSITION)->shape;
    bool is_padded = fl_infer_in(c, FL_CRF_LENGTH);
    int64_t n = x->dim[x->rank - 1];

    FL_TRY(fl_infer_float(c, FL_CRF_EMISSION));
    FL_TRY(fl_infer_same_dtype(c, FL_CRF_EMISSION, FL_CRF_TRANSITION));
    if (x->rank != (is_padded ? 3 : 2))
        return refuse(c, FL_CRF_EMISSION,
                      "[rows, tags] with offsets, or [n, steps, tags] with "
                      "Length");
    if (!fl_shape_matches(w, &(fl_shape){ 2, { n < 0 ? -1 : n + 2, n } }))
        return refuse(c, FL_CRF_TRANSITION, "[tags + 2, tags]");
    FL_TRY(check_label(c));
    return fl_infer_runs(c, FL_CRF_EMISSION, FL_CRF_LENGTH);
}

static fl_status crf_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, EMISSION);
    int64_t n = c->running ? (int64_t)fl_runs_of(x, fl_infer_in(c, LENGTH)).n
                           : (fl_infer_in(c, LENGTH) ? x->shape.dim[0] : -1);

    FL_TRY(fl_crf_infer(c));
    fl_tensor_like(fl_infer_out(c, ALPHA), x);
    fl_tensor_like(fl_infer_out(c, EMISSION_EXPS), x);
    fl_tensor_like(fl_infer_out(c, TRANSITION_EXPS),
                   fl_infer_in(c, TRANSITION));
    fl_infer_dense(c, LOG_LIKELIHOOD, x->dtype, 2, (int64_t[]){ n, 1 });
    return FL_OK;
}

/* --- numbers -------------------------------------------------------------- */

typedef struct chain {
    const fl_tensor *label;
    const void *x, *w;   /* Emission, Transition */
    void *alpha, *e, *u; /* u: exp of Transition */
    size_t n, n_rows;    /* tags, and rows with padding */
} chain;

static size_t tag_at(const chain *j, size_t row)
{
    return (size_t)fl_label_at(j->label, row);
}

#define FORWARD(T, t)                                                          \
    static double normalize_##t(T *x, size_t n)                                \
    {                                                                          \
        double sum = fl_vec_##t()->sum(x, n);                                  \
                                                                               \
        fl_vec_##t()->scale(x, (T)(1 / sum), x, 0, n);                         \
        return sum;                                                            \
    }                                                                          \
    static void exps_##t(T *to, const T *x, T less, size_t n)                  \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            to[i] = (T)exp((double)(x[i] - less));                             \
    }                                                                          \
    /* The row of alpha behind `before`, NULL for the first. */                \
    static void step_##t(const chain *j, size_t row, const T *before)          \
    {                                                                          \
        const T *u = j->u, *e = (const T *)j->e + row * j->n;                  \
        T *a = (T *)j->alpha + row * j->n;                                     \
                                                                               \
        if (!before) {                                                         \
            fl_vec_##t()->mul(a, e, u + FL_CRF_START * j->n, j->n);            \
            return;                                                            \
        }                                                                      \
        memset(a, 0, j->n * sizeof(T));                                        \
        for (size_t i = 0; i < j->n; i++)                                      \
            fl_vec_##t()->axpy(a, before[i], u + (FL_CRF_BEHIND + i) * j->n,   \
                               j->n);                                          \
        fl_vec_##t()->mul(a, a, e, j->n);                                      \
    }                                                                          \
    /* The logarithm of the sum over all ways. */                              \
    static double all_ways_##t(const chain *j, fl_span s)                      \
    {                                                                          \
        const T *u = j->u;                                                     \
        T *alpha = j->alpha, *last = alpha + (s.hi - 1) * j->n;                \
        double sum = 0;                                                        \
                                                                               \
        for (size_t k = s.lo; k < s.hi; k++) {                                 \
            const T *x = (const T *)j->x + k * j->n;                           \
            T max = fl_vec_##t()->max(x, j->n);                                \
                                                                               \
            step_##t(j, k, k > s.lo ? alpha + (k - 1) * j->n : NULL);          \
            sum += (double)max + log(normalize_##t(alpha + k * j->n, j->n));   \
        }                                                                      \
        return sum +                                                           \
               log(fl_vec_##t()->dot(last, u + FL_CRF_END * j->n, j->n));      \
    }                                                                          \
    static double this_way_##t(const chain *j, fl_span s)                      \
    {                                                                          \
        const T *x = j->x, *w = j->w;                                          \
        double sum = (double)w[FL_CRF_START * j->n + tag_at(j, s.lo)] +        \
                     (double)w[FL_CRF_END * j->n + tag_at(j, s.hi - 1)];       \
                                                                               \
        for (size_t k = s.lo; k < s.hi; k++) {                                 \
            sum += (double)x[k * j->n + tag_at(j, k)];                         \
            if (k > s.lo)                                                      \
                sum += (double)w[(FL_CRF_BEHIND + tag_at(j, k - 1)) * j->n +   \
                                 tag_at(j, k)];                                \
        }                                                                      \
        return sum;                                                            \
    }                                                                          \
    static double cost_##t(const chain *j, fl_span s)                          \
    {                                                                          \
        return s.lo < s.hi ? all_ways_##t(j, s) - this_way_##t(j, s) : 0;      \
    }                                                                          \
    /* Rows that are padding have theirs too. */                               \
    static void fill_exps_##t(const chain *j)                                  \
    {                                                                          \
        exps_##t(j->u, j->w, 0, (FL_CRF_BEHIND + j->n) * j->n);                \
        for (size_t k = 0; k < j->n_rows; k++) {                               \
            const T *x = (const T *)j->x + k * j->n;                           \
                                                                               \
            exps_##t((T *)j->e + k * j->n, x, fl_vec_##t()->max(x, j->n),      \
                     j->n);                                                    \
        }                                                                      \
    }                                                                          \
    static fl_status forward_##t(const chain *j, const fl_runs *r, T *out)     \
    {                                                                          \
        fill_exps_##t(j);                                                      \
        for (size_t i = 0; i < r->n; i++) {                                    \
            double cost = cost_##t(j, fl_runs_at(r, i));                       \
                                                                               \
            if (!isfinite(cost))                                               \
                FL_FAIL(FL_ERR_NUMERIC,                                        \
                        "the likelihood of sequence %zu is not finite: "       \
                        "weights of Emission or Transition are too large",     \
                        i);                                                    \
            out[i] = (T)cost;                                                  \
        }                                                                      \
        return FL_OK;                                                          \
    }
FL_FLOATS(FORWARD)

typedef struct chain_back {
    chain j;
    void *beta, *some; /* rows of beta, and room for one row */
    void *dx, *dw;     /* NULL: not wanted */
} chain_back;

#define BACKWARD(T, t)                                                         \
    /* some = e beta of a row: what comes from there. */                       \
    static const T *from_##t(const chain_back *b, size_t row)                  \
    {                                                                          \
        size_t n = b->j.n;                                                     \
                                                                               \
        fl_vec_##t()->mul(b->some, (const T *)b->j.e + row * n,                \
                          (const T *)b->beta + row * n, n);                    \
        return b->some;                                                        \
    }                                                                          \
    static void betas_##t(const chain_back *b, fl_span s)                      \
    {                                                                          \
        size_t n = b->j.n;                                                     \
        const T *u = b->j.u;                                                   \
                                                                               \
        for (size_t k = s.hi; k-- > s.lo;) {                                   \
            T *beta = (T *)b->beta + k * n;                                    \
            const T *next = k + 1 < s.hi ? from_##t(b, k + 1) : NULL;          \
                                                                               \
            for (size_t i = 0; i < n; i++)                                     \
                beta[i] = next ? (T)fl_vec_##t()->dot(                         \
                                     u + (FL_CRF_BEHIND + i) * n, next, n)     \
                               : u[FL_CRF_END * n + i];                        \
            normalize_##t(beta, n);                                            \
        }                                                                      \
    }                                                                          \
    /* How likely each tag is at a place, less 1 for the one it has. */        \
    static const T *off_##t(const chain_back *b, size_t row)                   \
    {                                                                          \
        size_t n = b->j.n;                                                     \
        T *some = b->some;                                                     \
                                                                               \
        fl_vec_##t()->mul(some, (const T *)b->j.alpha + row * n,               \
                          (const T *)b->beta + row * n, n);                    \
        normalize_##t(some, n);                                                \
        some[tag_at(&b->j, row)] -= 1;                                         \
        return some;                                                           \
    }                                                                          \
    static void pairs_##t(const chain_back *b, size_t row, T g)                \
    {                                                                          \
        size_t n = b->j.n;                                                     \
        const T *u = (const T *)b->j.u + FL_CRF_BEHIND * n;                    \
        const T *alpha = (const T *)b->j.alpha + (row - 1) * n;                \
        const T *next = from_##t(b, row);                                      \
        T *dw = (T *)b->dw + FL_CRF_BEHIND * n;                                \
        double sum = 0;                                                        \
                                                                               \
        for (size_t i = 0; i < n; i++)                                         \
            sum += (double)alpha[i] * fl_vec_##t()->dot(u + i * n, next, n);   \
        for (size_t i = 0; i < n; i++)                                         \
            for (size_t k = 0; k < n; k++)                                     \
                dw[i * n + k] += (T)((double)(g * alpha[i]) / sum) *           \
                                 u[i * n + k] * next[k];                       \
        dw[tag_at(&b->j, row - 1) * n + tag_at(&b->j, row)] -= g;              \
    }                                                                          \
    static void backward_##t(const chain_back *b, fl_span s, T g)              \
    {                                                                          \
        size_t n = b->j.n;                                                     \
        T *dx = b->dx, *dw = b->dw;                                            \
                                                                               \
        betas_##t(b, s);                                                       \
        for (size_t k = s.lo; k < s.hi && dx; k++)                             \
            fl_vec_##t()->scale(dx + k * n, g, off_##t(b, k), 0, n);           \
        if (!dw || s.lo == s.hi)                                               \
            return;                                                            \
        fl_vec_##t()->axpy(dw + FL_CRF_START * n, g, off_##t(b, s.lo), n);     \
        fl_vec_##t()->axpy(dw + FL_CRF_END * n, g, off_##t(b, s.hi - 1), n);   \
        for (size_t k = s.lo + 1; k < s.hi; k++)                               \
            pairs_##t(b, k, g);                                                \
    }                                                                          \
    static void all_back_##t(const chain_back *b, const fl_runs *r,            \
                             const T *g)                                       \
    {                                                                          \
        for (size_t i = 0; i < r->n; i++)                                      \
            backward_##t(b, fl_runs_at(r, i), g[i]);                           \
    }
FL_FLOATS(BACKWARD)

/* --- running -------------------------------------------------------------- */

static fl_status check_values(const fl_op_ctx *c, const fl_runs *r)
{
    const fl_tensor *label = fl_in_t(c, LABEL);
    fl_span all = { 0, (size_t)fl_tensor_numel(label) };

    FL_TRY(fl_runs_check(r, c, LENGTH));
    return fl_check_labels(label, all, fl_in_t(c, TRANSITION)->shape.dim[1], 0);
}

static fl_status crf_run(fl_op_ctx *c)
{
    fl_runs r = fl_runs_of(fl_in_t(c, EMISSION), fl_in_t(c, LENGTH));
    chain j = { .label = fl_in_t(c, LABEL),
                .x = fl_in(c, EMISSION),
                .w = fl_in(c, TRANSITION),
                .alpha = fl_out(c, ALPHA),
                .e = fl_out(c, EMISSION_EXPS),
                .u = fl_out(c, TRANSITION_EXPS),
                .n = (size_t)fl_in_t(c, TRANSITION)->shape.dim[1],
                .n_rows = (size_t)fl_tensor_numel(fl_in_t(c, LABEL)) };

    FL_TRY(check_values(c, &r));
    fl_share_zero(c, fl_out_t(c, ALPHA)); /* what is padding stays so */
    if (fl_in_t(c, EMISSION)->dtype == FL_DTYPE_F32)
        return forward_f32(&j, &r, fl_out(c, LOG_LIKELIHOOD));
    return forward_f64(&j, &r, fl_out(c, LOG_LIKELIHOOD));
}

static fl_status crf_back(fl_op_ctx *c)
{
    fl_runs r = fl_runs_of(fl_in_t(c, EMISSION), fl_in_t(c, LENGTH));
    size_t n = (size_t)fl_in_t(c, TRANSITION)->shape.dim[1];
    size_t numel = (size_t)fl_tensor_numel(fl_in_t(c, EMISSION));
    size_t bytes = fl_dtype_bytes(fl_in_t(c, EMISSION)->dtype);
    chain_back b = {
        .j = { .label = fl_in_t(c, LABEL),
               .alpha = (void *)fl_saved_out(c, ALPHA),
               .e = (void *)fl_saved_out(c, EMISSION_EXPS),
               .u = (void *)fl_saved_out(c, TRANSITION_EXPS),
               .n = n },
        .beta = fl_scratch(c, (numel + 1) * bytes),
        .some = fl_scratch(c, (n + 1) * bytes),
        .dx = fl_din(c, EMISSION),
        .dw = fl_din(c, TRANSITION),
    };

    fl_din_zero(c, EMISSION);
    fl_din_zero(c, TRANSITION);
    if (!b.beta || !b.some)
        return FL_NOMEM(c);
    if (fl_dout_t(c, LOG_LIKELIHOOD))
        FL_BY_FLOAT(c, EMISSION, all_back, &b, &r, fl_dout(c, LOG_LIKELIHOOD));
    return FL_OK;
}

static const fl_op_case crf_cases[] = {
    { .in = { "f32[7,3] lod=[0,2,2,7]", "f32[5,3]",
              "i64[7,1] lod=[0,2,2,7] below=3" } },
    { .in = { "f32[0,3] lod=[0,0]", "f32[5,3]", "i64[0,1] lod=[0,0]" } },
    { .in = { "f32[2,4,3]", "f32[5,3]", "i64[2,4] below=3",
              "i64[2] is=[3,4]" } },
    { .in = { "f32[2,3,2]", "f32[4,2]", "i64[2,3,1] below=2",
              "i64[2,1] is=[1,0]" } },
};

const fl_op fl_op_linear_chain_crf = {
    .name = "linear_chain_crf",
    .doc = "LogLikelihood = for each sequence of Emission, a row of weights of "
           "tags for each place, the negative logarithm of how likely the tags "
           "of Label are, when Transition has weights of a tag at the "
           "beginning (row 0), at the end (row 1) and behind tag i (row 2 + "
           "i). Alpha, EmissionExps and TransitionExps are for the gradient. "
           "Sequences have offsets, or are padded and have Length",
    .in = { { "Emission", 0 },
            { "Transition", 0 },
            { "Label", FL_SLOT_NO_GRAD },
            { "Length", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD } },
    .out = { { "Alpha", FL_SLOT_NO_GRAD },
             { "EmissionExps", FL_SLOT_NO_GRAD },
             { "TransitionExps", FL_SLOT_NO_GRAD },
             { "LogLikelihood", 0 } },
    .infer = crf_infer,
    .run = crf_run,
    .back = crf_back,
    .back_uses = FL_USES_IN(LABEL) | FL_USES_IN(LENGTH) | FL_USES_OUT(ALPHA) |
                 FL_USES_OUT(EMISSION_EXPS) | FL_USES_OUT(TRANSITION_EXPS),
    .cases = crf_cases,
    .n_cases = FL_LEN(crf_cases),
};
