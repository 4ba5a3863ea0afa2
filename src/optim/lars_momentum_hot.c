/* lars_momentum_hot.c - momentum whose rate follows the size of the parameter
 * against that of its gradient, layer by layer. */
#include <float.h>

#include "optim/norm.h"
#include "optim/rule.h"

enum { MU, LARS_COEFF, LARS_WEIGHT_DECAY, EPSILON };
enum { VELOCITY };

/* A parameter or gradient of size 0 leaves the rate as it is. */
static double local_rate(double w, double g, const fl_hyper *h)
{
    double by = g + h->p[LARS_WEIGHT_DECAY] * w + h->p[EPSILON];

    return w > 0 && g > 0 ? h->lr * h->p[LARS_COEFF] * w / by : h->lr;
}

#define UPDATE(T, t)                                                           \
    FL_RACY                                                                    \
    static void update_##t(T *restrict w, T *const *state,                     \
                           const T *restrict g, size_t n, const fl_hyper *h)   \
    {                                                                          \
        const T lr = (T)local_rate(norm_##t(w, n), norm_##t(g, n), h);         \
        const T mu = (T)h->p[MU], decay = (T)h->p[LARS_WEIGHT_DECAY];          \
        T *restrict v = state[VELOCITY];                                       \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            const T vi = mu * v[i] + lr * (g[i] + decay * w[i]);               \
                                                                               \
            v[i] = vi;                                                         \
            w[i] -= vi;                                                        \
        }                                                                      \
    }

FL_NORM(float, f32)
FL_NORM(double, f64)
UPDATE(float, f32)
UPDATE(double, f64)

/* A zero gradient leaves the velocity to move the weights, and the decay; the
   velocity has a direction, which is that of one trainer. */
const fl_rule FL_ISA_NAME(fl_rule_lars_momentum) = {
    .name = "lars_momentum",
    .doc = "With |x| the root of the sum of squares, rate = LearningRate * "
           "lars_coeff * |Param| / (|Grad| + lars_weight_decay * |Param| + "
           "epsilon), or LearningRate where one of them is 0; VelocityOut = mu "
           "* Velocity + rate * (Grad + lars_weight_decay * Param); ParamOut = "
           "Param - VelocityOut",
    .params = { [MU] = { .name = "mu",
                         .value = 0.9,
                         .lo = 0,
                         .hi = DBL_MAX,
                         .word = "momentum" },
                [LARS_COEFF] = { .name = "lars_coeff",
                                 .value = 0.001,
                                 .lo = 0,
                                 .hi = DBL_MAX },
                [LARS_WEIGHT_DECAY] = { .name = "lars_weight_decay",
                                        .value = 0.0005,
                                        .lo = 0,
                                        .hi = DBL_MAX },
                [EPSILON] = { .name = "epsilon",
                              .value = 0,
                              .lo = 0,
                              .hi = DBL_MAX } },
    .states = { [VELOCITY] = { .slot = "Velocity",
                               .out_slot = "VelocityOut",
                               .suffix = "velocity" } },
    .whole = true,
    .cases = { "{mu=0.5, lars_coeff=0.1, lars_weight_decay=0.01}" },
    .update_f32 = update_f32,
    .update_f64 = update_f64,
};
