/* sgd_hot.c - plain gradient descent. No state. */
#include "base/thread.h"
#include "optim/rule.h"

#define UPDATE(T, t)                                                           \
    FL_RACY                                                                    \
    static void update_##t(T *restrict w, T *const *state,                     \
                           const T *restrict g, size_t n, const fl_hyper *h)   \
    {                                                                          \
        const T lr = (T)h->lr;                                                 \
                                                                               \
        (void)state;                                                           \
        for (size_t i = 0; i < n; i++)                                         \
            w[i] -= lr * g[i];                                                 \
    }

UPDATE(float, f32)
UPDATE(double, f64)

/* A step is linear in the gradient: nothing happens without one, and there is no
   state that others could disturb. */
const fl_rule FL_ISA_NAME(fl_rule_sgd) = {
    .name = "sgd",
    .doc = "ParamOut = Param - LearningRate * Grad",
    .zero_is_noop = true,
    .geo_safe = true,
    .update_f32 = update_f32,
    .update_f64 = update_f64,
};
