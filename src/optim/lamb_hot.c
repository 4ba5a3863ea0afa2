/* lamb_hot.c - adam whose step is as long as the parameter, times the rate.
 *
 *     r = m' / (sqrt(v') + epsilon) + weight_decay w     m', v': corrected
 *     w -= lr |w| / |r| r
 *
 * r is needed twice, for its length and for the step. It is made twice, a strip
 * at a time, since there is no memory for all of it.
 */
#include <float.h>

#include "optim/norm.h"
#include "optim/rule.h"

enum { BETA1, BETA2, EPSILON, WEIGHT_DECAY };
enum { MOMENT1, MOMENT2 };
enum { BETA1_POW, BETA2_POW };
enum { FIX1, FIX2 }; /* what corrects the moments */

#define STRIP 256

static void prepare(fl_hyper *h)
{
    h->c[FIX1] = 1 / (1 - h->scalar[BETA1_POW]);
    h->c[FIX2] = 1 / (1 - h->scalar[BETA2_POW]);
}

static void advance(fl_hyper *h)
{
    h->scalar[BETA1_POW] *= h->p[BETA1];
    h->scalar[BETA2_POW] *= h->p[BETA2];
}

/* A parameter or a step of size 0 leaves the rate as it is. */
static double local_rate(double w, double r, const fl_hyper *h)
{
    return w > 0 && r > 0 ? h->lr * w / r : h->lr;
}

#define UPDATE(T, t, SQRT)                                                     \
    FL_RACY                                                                    \
    static void take_moments_##t(T *restrict m, T *restrict v,                 \
                                 const T *restrict g, size_t n,                \
                                 const fl_hyper *h)                            \
    {                                                                          \
        const T b1 = (T)h->p[BETA1], c1 = (T)(1 - h->p[BETA1]);                \
        const T b2 = (T)h->p[BETA2], c2 = (T)(1 - h->p[BETA2]);                \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            const T gi = g[i];                                                 \
                                                                               \
            m[i] = b1 * m[i] + c1 * gi;                                        \
            v[i] = b2 * v[i] + c2 * gi * gi;                                   \
        }                                                                      \
    }                                                                          \
    /* The direction of the weights [lo, hi), which are a strip. */            \
    FL_RACY                                                                    \
    static void direction_##t(T *restrict r, const T *restrict w,              \
                              T *const *state, size_t lo, size_t hi,           \
                              const fl_hyper *h)                               \
    {                                                                          \
        const T fix1 = (T)h->c[FIX1], fix2 = (T)h->c[FIX2];                    \
        const T eps = (T)h->p[EPSILON], decay = (T)h->p[WEIGHT_DECAY];         \
        const T *restrict m = state[MOMENT1], *restrict v = state[MOMENT2];    \
                                                                               \
        for (size_t i = lo; i < hi; i++)                                       \
            r[i - lo] =                                                        \
                m[i] * fix1 / (SQRT(v[i] * fix2) + eps) + decay * w[i];        \
    }                                                                          \
    static double length_##t(const T *w, T *const *state, size_t n,            \
                             const fl_hyper *h)                                \
    {                                                                          \
        double sum = 0;                                                        \
        T r[STRIP];                                                            \
                                                                               \
        for (size_t lo = 0; lo < n; lo += STRIP) {                             \
            size_t hi = lo + STRIP < n ? lo + STRIP : n;                       \
                                                                               \
            direction_##t(r, w, state, lo, hi, h);                             \
            sum += square_sum_##t(r, hi - lo);                                 \
        }                                                                      \
        return sqrt(sum);                                                      \
    }                                                                          \
    FL_RACY                                                                    \
    static void update_##t(T *restrict w, T *const *state,                     \
                           const T *restrict g, size_t n, const fl_hyper *h)   \
    {                                                                          \
        double size = norm_##t(w, n);                                          \
        T r[STRIP], lr;                                                        \
                                                                               \
        take_moments_##t(state[MOMENT1], state[MOMENT2], g, n, h);             \
        lr = (T)local_rate(size, length_##t(w, state, n, h), h);               \
        for (size_t lo = 0; lo < n; lo += STRIP) {                             \
            size_t hi = lo + STRIP < n ? lo + STRIP : n;                       \
                                                                               \
            direction_##t(r, w, state, lo, hi, h);                             \
            for (size_t i = lo; i < hi; i++)                                   \
                w[i] -= lr * r[i - lo];                                        \
        }                                                                      \
    }

FL_NORM(float, f32)
FL_NORM(double, f64)
UPDATE(float, f32, sqrtf)
UPDATE(double, f64, sqrt)

/* A zero gradient lets the moments decay and move the weights on; they have a
   direction, which is that of one trainer. */
const fl_rule FL_ISA_NAME(fl_rule_lamb) = {
    .name = "lamb",
    .doc = "Moment1Out = beta1 * Moment1 + (1 - beta1) * Grad; Moment2Out = "
           "beta2 * Moment2 + (1 - beta2) * Grad^2; with both divided by 1 - "
           "their power of beta, step = Moment1Out / (sqrt(Moment2Out) + "
           "epsilon) + weight_decay * Param; with |x| the root of the sum of "
           "squares, ParamOut = Param - LearningRate * |Param| / |step| * "
           "step, where one of them is 0 without the quotient; then the powers "
           "are multiplied by beta1 and beta2 (PaddlePaddle 1.8.5 leaves them "
           "as they are and corrects nothing)",
    .params = { [BETA1] = { .name = "beta1",
                            .value = 0.9,
                            .lo = 0,
                            .hi = FL_BELOW_1 },
                [BETA2] = { .name = "beta2",
                            .value = 0.999,
                            .lo = 0,
                            .hi = FL_BELOW_1 },
                [EPSILON] = { .name = "epsilon",
                              .value = 1e-6,
                              .lo = 0,
                              .hi = DBL_MAX },
                [WEIGHT_DECAY] = { .name = "weight_decay",
                                   .value = 0.01,
                                   .lo = 0,
                                   .hi = DBL_MAX,
                                   .word = "lamb_weight_decay" } },
    .states = { [MOMENT1] = { .slot = "Moment1",
                              .out_slot = "Moment1Out",
                              .suffix = "moment1" },
                [MOMENT2] = { .slot = "Moment2",
                              .out_slot = "Moment2Out",
                              .suffix = "moment2",
                              .below = 4 } },
    .scalars = { [BETA1_POW] = { .slot = "Beta1Pow",
                                 .out_slot = "Beta1PowOut",
                                 .suffix = "beta1_pow_acc",
                                 .first_from = "beta1" },
                 [BETA2_POW] = { .slot = "Beta2Pow",
                                 .out_slot = "Beta2PowOut",
                                 .suffix = "beta2_pow_acc",
                                 .first_from = "beta2" } },
    .whole = true,
    .cases = { "{beta1=0.8, beta2=0.99, epsilon=1e-4, weight_decay=0.1}" },
    .prepare = prepare,
    .advance = advance,
    .update_f32 = update_f32,
    .update_f64 = update_f64,
};
