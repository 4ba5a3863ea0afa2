/* dpsgd_hot.c - gradient descent that hides single samples: the gradient is cut
 * to a length, and noise is added to it. No state. The noise is a matter of the
 * parameter, the step and the place of the weight (base/rng.h). */
#include <float.h>

#include "base/rng.h"
#include "optim/norm.h"
#include "optim/rule.h"

enum { CLIP, BATCH_SIZE, SIGMA, SEED };

#define UPDATE(T, t)                                                           \
    FL_RACY                                                                    \
    static void update_##t(T *restrict w, T *const *state,                     \
                           const T *restrict g, size_t n, const fl_hyper *h)   \
    {                                                                          \
        const double size = norm_##t(g, n), limit = h->p[CLIP];                \
        const T cut = size > limit ? (T)(limit / size) : 1, lr = (T)h->lr;     \
        const double noise = h->p[SIGMA] / h->p[BATCH_SIZE];                   \
                                                                               \
        (void)state;                                                           \
        for (size_t i = 0; i < n; i++)                                         \
            w[i] -= lr * (cut * g[i] +                                         \
                          (T)(noise * fl_rng_normal(h->stream, 0, i)));        \
    }

FL_NORM(float, f32)
FL_NORM(double, f64)
UPDATE(float, f32)
UPDATE(double, f64)

/* A zero gradient still gets noise. There is no state that others could
   disturb. */
const fl_rule FL_ISA_NAME(fl_rule_dpsgd) = {
    .name = "dpsgd",
    .doc = "With |Grad| the root of the sum of squares, ParamOut = Param - "
           "LearningRate * (Grad * min(1, clip / |Grad|) + noise / "
           "batch_size); noise is drawn for each weight from a normal "
           "distribution with deviation sigma (PaddlePaddle 1.8.5 draws one "
           "number for all weights); seed 0 takes the program's",
    .params = { [CLIP] = { .name = "clip",
                           .value = 0.9,
                           .lo = FLT_MIN,
                           .hi = DBL_MAX },
                [BATCH_SIZE] = { .name = "batch_size",
                                 .value = 0.999,
                                 .lo = FLT_MIN,
                                 .hi = DBL_MAX },
                [SIGMA] = { .name = "sigma",
                            .value = 1e-8,
                            .lo = 0,
                            .hi = DBL_MAX },
                [SEED] = { .name = FL_RULE_SEED,
                           .value = 0,
                           .lo = 0,
                           .hi = INT32_MAX } },
    .whole = true,
    .cases = { "{clip=0.1, batch_size=4, sigma=0.5, seed=7}" },
    .geo_safe = true,
    .update_f32 = update_f32,
    .update_f64 = update_f64,
};
