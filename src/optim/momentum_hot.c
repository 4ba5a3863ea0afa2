/* momentum_hot.c - gradient descent with a velocity, plain or Nesterov's. A
 * weight without a gradient still moves by its velocity. */
#include <float.h>

#include "base/thread.h"
#include "optim/rule.h"

enum { MU, USE_NESTEROV };
enum { VELOCITY };

#define UPDATE(T, t)                                                           \
    FL_RACY                                                                    \
    static void update_##t(T *restrict w, T *const *state,                     \
                           const T *restrict g, size_t n, const fl_hyper *h)   \
    {                                                                          \
        const T lr = (T)h->lr, mu = (T)h->p[MU];                               \
        T *restrict v = state[VELOCITY];                                       \
                                                                               \
        if (h->p[USE_NESTEROV])                                                \
            for (size_t i = 0; i < n; i++) {                                   \
                const T gi = g[i], vi = mu * v[i] + gi;                        \
                                                                               \
                v[i] = vi;                                                     \
                w[i] -= lr * (gi + mu * vi);                                   \
            }                                                                  \
        else                                                                   \
            for (size_t i = 0; i < n; i++) {                                   \
                const T vi = mu * v[i] + g[i];                                 \
                                                                               \
                v[i] = vi;                                                     \
                w[i] -= lr * vi;                                               \
            }                                                                  \
    }

UPDATE(float, f32)
UPDATE(double, f64)

/* A zero gradient leaves the velocity to move the weight; it has a direction,
   which is that of one trainer. */
const fl_rule FL_ISA_NAME(fl_rule_momentum) = {
    .name = "momentum",
    .doc = "VelocityOut = mu * Velocity + Grad; ParamOut = Param - "
           "LearningRate * VelocityOut, or with use_nesterov Param - "
           "LearningRate * (Grad + mu * VelocityOut)",
    .params = { [MU] = { .name = "mu",
                         .value = 0.9,
                         .lo = 0,
                         .hi = DBL_MAX,
                         .word = "momentum" },
                [USE_NESTEROV] = { .name = "use_nesterov", .is_flag = true } },
    .states = { [VELOCITY] = { .slot = "Velocity",
                               .out_slot = "VelocityOut",
                               .suffix = "velocity" } },
    .cases = { "{mu=0.5}" },
    .update_f32 = update_f32,
    .update_f64 = update_f64,
};
