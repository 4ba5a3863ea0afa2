/* adadelta_hot.c - steps in the units of the weights: the gradient times the
 * usual size of late steps over its own. It needs no rate, and takes none. */
#include <float.h>
#include <math.h>

#include "base/thread.h"
#include "optim/rule.h"

enum { RHO, EPSILON };
enum { SQUARED_GRAD, SQUARED_UPDATE };

#define UPDATE(T, t, SQRT)                                                     \
    FL_RACY                                                                    \
    static void update_##t(T *restrict w, T *const *state,                     \
                           const T *restrict g, size_t n, const fl_hyper *h)   \
    {                                                                          \
        const T keep = (T)h->p[RHO], take = (T)(1 - h->p[RHO]);                \
        const T eps = (T)h->p[EPSILON];                                        \
        T *restrict s = state[SQUARED_GRAD];                                   \
        T *restrict u = state[SQUARED_UPDATE];                                 \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            const T gi = g[i], si = keep * s[i] + take * gi * gi;              \
            const T ui = u[i], by = SQRT((ui + eps) / (si + eps)) * gi;        \
                                                                               \
            s[i] = si;                                                         \
            u[i] = keep * ui + take * by * by;                                 \
            w[i] -= by;                                                        \
        }                                                                      \
    }

UPDATE(float, f32, sqrtf)
UPDATE(double, f64, sqrt)

/* A zero gradient lets both means decay. They are sizes without a direction, so
   others may move the weights meanwhile. */
const fl_rule FL_ISA_NAME(fl_rule_adadelta) = {
    .name = "adadelta",
    .doc = "AvgSquaredGradOut = rho * AvgSquaredGrad + (1 - rho) * Grad^2; "
           "step = sqrt((AvgSquaredUpdate + epsilon) / (AvgSquaredGradOut + "
           "epsilon)) * Grad; AvgSquaredUpdateOut = rho * AvgSquaredUpdate + "
           "(1 - rho) * step^2; ParamOut = Param - step. LearningRate has no "
           "part in it",
    .params = { [RHO] = { .name = "rho",
                          .value = 0.95,
                          .lo = 0,
                          .hi = FL_BELOW_1 },
                [EPSILON] = { .name = "epsilon",
                              .value = 1e-6,
                              .lo = FLT_MIN,
                              .hi = DBL_MAX } },
    .states = { [SQUARED_GRAD] = { .slot = "AvgSquaredGrad",
                                   .out_slot = "AvgSquaredGradOut",
                                   .suffix = "_avg_squared_grad",
                                   .below = 4 },
                [SQUARED_UPDATE] = { .slot = "AvgSquaredUpdate",
                                     .out_slot = "AvgSquaredUpdateOut",
                                     .suffix = "_avg_squared_update",
                                     .below = 4 } },
    .cases = { "{rho=0.5, epsilon=0.001}" },
    .geo_safe = true,
    .own_rate = true,
    .update_f32 = update_f32,
    .update_f64 = update_f64,
};
