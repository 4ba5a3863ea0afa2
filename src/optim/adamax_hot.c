/* adamax_hot.c - adam with the largest gradient of late in place of the mean of
 * squares, which needs no root and no correction. */
#include <float.h>
#include <math.h>

#include "base/thread.h"
#include "optim/rule.h"

enum { BETA1, BETA2, EPSILON };
enum { MOMENT, INF_NORM };
enum { BETA1_POW };
enum { RATE }; /* lr with the correction */

static void prepare(fl_hyper *h)
{
    h->c[RATE] = h->lr / (1 - h->scalar[BETA1_POW]);
}

static void advance(fl_hyper *h)
{
    h->scalar[BETA1_POW] *= h->p[BETA1];
}

#define UPDATE(T, t, ABS)                                                      \
    FL_RACY                                                                    \
    static void update_##t(T *restrict w, T *const *state,                     \
                           const T *restrict g, size_t n, const fl_hyper *h)   \
    {                                                                          \
        const T b1 = (T)h->p[BETA1], c1 = (T)(1 - h->p[BETA1]);                \
        const T b2 = (T)h->p[BETA2], eps = (T)h->p[EPSILON];                   \
        const T rate = (T)h->c[RATE];                                          \
        T *restrict m = state[MOMENT], *restrict u = state[INF_NORM];          \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            const T gi = g[i], now = ABS(gi), old = b2 * u[i] + eps;           \
            const T mi = b1 * m[i] + c1 * gi, ui = now > old ? now : old;      \
                                                                               \
            m[i] = mi;                                                         \
            u[i] = ui;                                                         \
            w[i] -= rate * (mi / ui);                                          \
        }                                                                      \
    }

UPDATE(float, f32, fabsf)
UPDATE(double, f64, fabs)

/* A zero gradient lets both states decay, and the moment moves the weight on;
   the moment has a direction, which is that of one trainer. */
const fl_rule FL_ISA_NAME(fl_rule_adamax) = {
    .name = "adamax",
    .doc = "MomentOut = beta1 * Moment + (1 - beta1) * Grad; InfNormOut = "
           "max(beta2 * InfNorm + epsilon, abs(Grad)); ParamOut = Param - "
           "LearningRate / (1 - Beta1Pow) * MomentOut / InfNormOut; then the "
           "power is multiplied by beta1",
    .params = { [BETA1] = { .name = "beta1",
                            .value = 0.9,
                            .lo = 0,
                            .hi = FL_BELOW_1 },
                [BETA2] = { .name = "beta2",
                            .value = 0.999,
                            .lo = 0,
                            .hi = FL_BELOW_1 },
                [EPSILON] = { .name = "epsilon",
                              .value = 1e-8,
                              .lo = FLT_MIN,
                              .hi = DBL_MAX } },
    .states = { [MOMENT] = { .slot = "Moment",
                             .out_slot = "MomentOut",
                             .suffix = "moment" },
                [INF_NORM] = { .slot = "InfNorm",
                               .out_slot = "InfNormOut",
                               .suffix = "inf_norm",
                               .below = 4 } },
    .scalars = { [BETA1_POW] = { .slot = "Beta1Pow",
                                 .out_slot = "Beta1PowOut",
                                 .suffix = "beta1_pow_acc",
                                 .first_from = "beta1" } },
    .cases = { "{beta1=0.8, beta2=0.99, epsilon=1e-4}" },
    .prepare = prepare,
    .advance = advance,
    .update_f32 = update_f32,
    .update_f64 = update_f64,
};
