/* adagrad_hot.c - a step size per weight that shrinks with the gradients seen.
 * State: the sum of their squares. */
#include <float.h>
#include <math.h>

#include "base/thread.h"
#include "optim/rule.h"

enum { EPSILON };
enum { MOMENT };

#define UPDATE(T, t, SQRT)                                                     \
    FL_RACY                                                                    \
    static void update_##t(T *restrict w, T *const *state,                     \
                           const T *restrict g, size_t n, const fl_hyper *h)   \
    {                                                                          \
        const T lr = (T)h->lr, eps = (T)h->p[EPSILON];                         \
        T *restrict m = state[MOMENT];                                         \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            const T gi = g[i], mi = m[i] + gi * gi;                            \
                                                                               \
            m[i] = mi;                                                         \
            w[i] -= lr * gi / (SQRT(mi) + eps);                                \
        }                                                                      \
    }

UPDATE(float, f32, sqrtf)
UPDATE(double, f64, sqrt)

/* A zero gradient adds nothing to the sum. It is a size without a direction, so
   others may move the weights meanwhile. */
const fl_rule FL_ISA_NAME(fl_rule_adagrad) = {
    .name = "adagrad",
    .doc = "MomentOut = Moment + Grad^2; ParamOut = Param - LearningRate * "
           "Grad / (sqrt(MomentOut) + epsilon)",
    .params = { [EPSILON] = { .name = "epsilon",
                              .value = 1e-6,
                              .lo = 0,
                              .hi = DBL_MAX } },
    .states = { [MOMENT] = { .slot = "Moment",
                             .out_slot = "MomentOut",
                             .suffix = "moment",
                             .below = 4 } },
    .cases = { "{epsilon=0.001}" },
    .zero_is_noop = true,
    .geo_safe = true,
    .update_f32 = update_f32,
    .update_f64 = update_f64,
};
