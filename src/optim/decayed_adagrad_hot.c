/* decayed_adagrad_hot.c - adagrad that forgets. State: a decaying mean of the
 * squares of the gradients. */
#include <float.h>
#include <math.h>

#include "base/thread.h"
#include "optim/rule.h"

enum { DECAY, EPSILON };
enum { MOMENT };

#define UPDATE(T, t, SQRT)                                                     \
    FL_RACY                                                                    \
    static void update_##t(T *restrict w, T *const *state,                     \
                           const T *restrict g, size_t n, const fl_hyper *h)   \
    {                                                                          \
        const T lr = (T)h->lr, eps = (T)h->p[EPSILON];                         \
        const T keep = (T)h->p[DECAY], take = (T)(1 - h->p[DECAY]);            \
        T *restrict m = state[MOMENT];                                         \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            const T gi = g[i], mi = keep * m[i] + take * gi * gi;              \
                                                                               \
            m[i] = mi;                                                         \
            w[i] -= lr * gi / (SQRT(mi) + eps);                                \
        }                                                                      \
    }

UPDATE(float, f32, sqrtf)
UPDATE(double, f64, sqrt)

/* A zero gradient lets the mean decay. It is a size without a direction, so
   others may move the weights meanwhile. */
const fl_rule FL_ISA_NAME(fl_rule_decayed_adagrad) = {
    .name = "decayed_adagrad",
    .doc = "MomentOut = decay * Moment + (1 - decay) * Grad^2; ParamOut = "
           "Param - LearningRate * Grad / (sqrt(MomentOut) + epsilon)",
    .params = { [DECAY] = { .name = "decay",
                            .value = 0.95,
                            .lo = 0,
                            .hi = FL_BELOW_1 },
                [EPSILON] = { .name = "epsilon",
                              .value = 1e-6,
                              .lo = 0,
                              .hi = DBL_MAX } },
    .states = { [MOMENT] = { .slot = "Moment",
                             .out_slot = "MomentOut",
                             .suffix = "moment",
                             .below = 4 } },
    .cases = { "{decay=0.5, epsilon=0.001}" },
    .geo_safe = true,
    .update_f32 = update_f32,
    .update_f64 = update_f64,
};
