/* rmsprop_hot.c - steps divided by a decaying mean of the gradient's size.
 * State: the mean of the squares, the velocity, and the mean of the gradients,
 * which only the centred form moves. */
#include <float.h>
#include <math.h>

#include "base/thread.h"
#include "optim/rule.h"

enum { EPSILON, DECAY, MOMENTUM, CENTERED };
enum { MOMENT, MEAN_SQUARE, MEAN_GRAD };

/* One weight; `size` is what stands under the root. */
#define STEP(size, SQRT)                                                       \
    const T gi = g[i], si = keep * s[i] + take * gi * gi;                      \
                                                                               \
    s[i] = si;                                                                 \
    v[i] = mu * v[i] + lr * gi / SQRT((size) + eps);                           \
    w[i] -= v[i];

#define UPDATE(T_, t, SQRT)                                                    \
    FL_RACY                                                                    \
    static void update_##t(T_ *restrict w, T_ *const *state,                   \
                           const T_ *restrict g, size_t n, const fl_hyper *h)  \
    {                                                                          \
        typedef T_ T;                                                          \
        const T lr = (T)h->lr, eps = (T)h->p[EPSILON];                         \
        const T keep = (T)h->p[DECAY], take = (T)(1 - h->p[DECAY]);            \
        const T mu = (T)h->p[MOMENTUM];                                        \
        T *restrict v = state[MOMENT], *restrict s = state[MEAN_SQUARE];       \
        T *restrict m = state[MEAN_GRAD];                                      \
                                                                               \
        if (h->p[CENTERED])                                                    \
            for (size_t i = 0; i < n; i++) {                                   \
                m[i] = keep * m[i] + take * g[i];                              \
                STEP(si - m[i] * m[i], SQRT)                                   \
            }                                                                  \
        else                                                                   \
            for (size_t i = 0; i < n; i++) {                                   \
                STEP(si, SQRT)                                                 \
            }                                                                  \
    }

UPDATE(float, f32, sqrtf)
UPDATE(double, f64, sqrt)

/* A zero gradient lets the means decay and the velocity move on; the velocity
   and the mean of the gradients have a direction, that of one trainer. */
const fl_rule FL_ISA_NAME(fl_rule_rmsprop) = {
    .name = "rmsprop",
    .doc = "MeanSquareOut = decay * MeanSquare + (1 - decay) * Grad^2; "
           "MomentOut = momentum * Moment + LearningRate * Grad / "
           "sqrt(MeanSquareOut + epsilon); ParamOut = Param - MomentOut. With "
           "centered, MeanGradOut = decay * MeanGrad + (1 - decay) * Grad, and "
           "MeanGradOut^2 is taken from what stands under the root",
    .params = { [EPSILON] = { .name = "epsilon",
                              .value = 1e-6,
                              .lo = 0,
                              .hi = DBL_MAX },
                [DECAY] = { .name = "decay",
                            .value = 0.95,
                            .lo = 0,
                            .hi = FL_BELOW_1,
                            .word = "rho" },
                [MOMENTUM] = { .name = "momentum",
                               .value = 0,
                               .lo = 0,
                               .hi = DBL_MAX },
                [CENTERED] = { .name = "centered", .is_flag = true } },
    .states = { [MOMENT] = { .slot = "Moment",
                             .out_slot = "MomentOut",
                             .suffix = "momentum" },
                [MEAN_SQUARE] = { .slot = "MeanSquare",
                                  .out_slot = "MeanSquareOut",
                                  .suffix = "mean_square",
                                  .below = 20 },
                [MEAN_GRAD] = { .slot = "MeanGrad",
                                .out_slot = "MeanGradOut",
                                .suffix = "mean_grad",
                                .below = 1,
                                .with = 1 + CENTERED } },
    .cases = { "{momentum=0.9}", "{decay=0.5, momentum=0.5, centered=true}" },
    .update_f32 = update_f32,
    .update_f64 = update_f64,
};
