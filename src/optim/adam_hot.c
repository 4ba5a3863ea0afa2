/* adam_hot.c - decaying means of the gradient and of its square, corrected for
 * their start at zero. The powers of beta belong to the parameter: they are
 * used as they are at the start of a step and advanced after it. */
#include <float.h>
#include <math.h>

#include "base/thread.h"
#include "optim/rule.h"

enum { BETA1, BETA2, EPSILON };
enum { MOMENT1, MOMENT2 };
enum { BETA1_POW, BETA2_POW };
enum { RATE }; /* lr with both corrections */

static void prepare(fl_hyper *h)
{
    h->c[RATE] =
        h->lr * sqrt(1 - h->scalar[BETA2_POW]) / (1 - h->scalar[BETA1_POW]);
}

static void advance(fl_hyper *h)
{
    h->scalar[BETA1_POW] *= h->p[BETA1];
    h->scalar[BETA2_POW] *= h->p[BETA2];
}

#define UPDATE(T, t, SQRT)                                                     \
    FL_RACY                                                                    \
    static void update_##t(T *restrict w, T *const *state,                     \
                           const T *restrict g, size_t n, const fl_hyper *h)   \
    {                                                                          \
        const T b1 = (T)h->p[BETA1], c1 = (T)(1 - h->p[BETA1]);                \
        const T b2 = (T)h->p[BETA2], c2 = (T)(1 - h->p[BETA2]);                \
        const T rate = (T)h->c[RATE], eps = (T)h->p[EPSILON];                  \
        T *restrict m = state[MOMENT1], *restrict v = state[MOMENT2];          \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            const T gi = g[i];                                                 \
            const T mi = b1 * m[i] + c1 * gi, vi = b2 * v[i] + c2 * gi * gi;   \
                                                                               \
            m[i] = mi;                                                         \
            v[i] = vi;                                                         \
            w[i] -= rate * mi / (SQRT(vi) + eps);                              \
        }                                                                      \
    }

UPDATE(float, f32, sqrtf)
UPDATE(double, f64, sqrt)

/* A zero gradient lets the moments decay and move the weight on; the first has
   a direction, which is that of one trainer. */
const fl_rule FL_ISA_NAME(fl_rule_adam) = {
    .name = "adam",
    .doc = "Moment1Out = beta1 * Moment1 + (1 - beta1) * Grad; Moment2Out = "
           "beta2 * Moment2 + (1 - beta2) * Grad^2; ParamOut = Param - "
           "LearningRate * sqrt(1 - Beta2Pow) / (1 - Beta1Pow) * Moment1Out / "
           "(sqrt(Moment2Out) + epsilon); then the powers are multiplied by "
           "beta1 and beta2. They are used before they are multiplied, for "
           "sparse gradients too (PaddlePaddle 1.8.5 does it the other way "
           "round)",
    .params = { [BETA1] = { .name = "beta1",
                            .value = 0.9,
                            .lo = 0,
                            .hi = FL_BELOW_1,
                            .slot = "Beta1Tensor" },
                [BETA2] = { .name = "beta2",
                            .value = 0.999,
                            .lo = 0,
                            .hi = FL_BELOW_1,
                            .slot = "Beta2Tensor" },
                [EPSILON] = { .name = "epsilon",
                              .value = 1e-8,
                              .lo = 0,
                              .hi = DBL_MAX } },
    .states = { [MOMENT1] = { .slot = "Moment1",
                              .out_slot = "Moment1Out",
                              .suffix = "moment1" },
                [MOMENT2] = { .slot = "Moment2",
                              .out_slot = "Moment2Out",
                              .suffix = "moment2",
                              .below = 4 } },
    .cases = { "{beta1=0.8, beta2=0.99, epsilon=1e-4}" },
    .scalars = { [BETA1_POW] = { .slot = "Beta1Pow",
                                 .out_slot = "Beta1PowOut",
                                 .suffix = "beta1_pow_acc",
                                 .first_from = "beta1" },
                 [BETA2_POW] = { .slot = "Beta2Pow",
                                 .out_slot = "Beta2PowOut",
                                 .suffix = "beta2_pow_acc",
                                 .first_from = "beta2" } },
    .prepare = prepare,
    .advance = advance,
    .update_f32 = update_f32,
    .update_f64 = update_f64,
};
