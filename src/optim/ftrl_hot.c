/* ftrl_hot.c - follow the regularised leader: the weight is recomputed from
 * its two sums at every step, so a weight whose linear sum lies within l1 is
 * exactly 0, also one that started elsewhere and never saw a gradient.
 *
 *     s' = s + g^2                 with S(s) = s^-lr_power:
 *     z += g - (S(s') - S(s)) / lr * w
 *     w  = |z| > l1 ? (sign(z) l1 - z) / (S(s') / lr + 2 l2) : 0
 */
#include <float.h>
#include <math.h>

#include "base/thread.h"
#include "optim/rule.h"

enum { L1, L2, LR_POWER };
enum { SQUARED, LINEAR };

/* No arithmetic stands under a condition, which would keep the loop from
   vectorising: what |z| has over l1 is cut at 0 instead. Without gradients and
   without l2 the divisor is 0; then there is nothing to divide. The difference
   from 0 gives a weight that is cut the sign +. */
#define WEIGHT(T, t, ABS, SIGN)                                                \
    static inline __attribute__((always_inline))                               \
    T weight_##t(T z, T s, T lr, T l1, T l2)                                   \
    {                                                                          \
        T over = ABS(z) - l1;                                                  \
        T by = s / lr + 2 * l2;                                                \
                                                                               \
        over = over < 0 ? 0 : over;                                            \
        by = by > 0 ? by : 1;                                                  \
        return 0 - SIGN(over, z) / by;                                         \
    }

/* One weight; s_old and s_sum are S() of the sum before and after. What was
   read once stays in a local: the compiler cannot know that the arrays do not
   overlap. */
#define STEP(T, t, s_old, s_sum)                                               \
    {                                                                          \
        const T gi = g[i], wi = w[i], old = sq[i], sum = old + gi * gi;        \
        const T s = s_sum, zi = z[i] + (gi - (s - s_old) / lr * wi);           \
                                                                               \
        sq[i] = sum;                                                           \
        z[i] = zi;                                                             \
        w[i] = weight_##t(zi, s, lr, l1, l2);                                  \
    }

/* The usual power gets a loop of its own, which vectorises. */
#define UPDATE(T, t, SQRT, POW)                                                \
    FL_RACY                                                                    \
    static void update_##t(T *restrict w, T *const *state,                     \
                           const T *restrict g, size_t n, const fl_hyper *h)   \
    {                                                                          \
        const T lr = (T)h->lr, l1 = (T)h->p[L1], l2 = (T)h->p[L2];             \
        const T power = (T)-h->p[LR_POWER];                                    \
        T *restrict sq = state[SQUARED], *restrict z = state[LINEAR];          \
                                                                               \
        if (h->p[LR_POWER] == -0.5)                                            \
            for (size_t i = 0; i < n; i++)                                     \
                STEP(T, t, SQRT(old), SQRT(sum))                               \
        else                                                                   \
            for (size_t i = 0; i < n; i++)                                     \
                STEP(T, t, POW(old, power), POW(sum, power))                   \
    }

WEIGHT(float, f32, fabsf, copysignf)
WEIGHT(double, f64, fabs, copysign)
UPDATE(float, f32, sqrtf, powf)
UPDATE(double, f64, sqrt, pow)

/* A zero gradient still makes the weight anew from its sums, which would undo
   what others have made of it. */
const fl_rule FL_ISA_NAME(fl_rule_ftrl) = {
    .name = "ftrl",
    .doc = "SquaredAccumOut = SquaredAccumulator + Grad^2; with S(s) = "
           "s^-lr_power: LinearAccumOut = LinearAccumulator + Grad - "
           "(S(SquaredAccumOut) - S(SquaredAccumulator)) / LearningRate * "
           "Param; ParamOut = (sign(LinearAccumOut) * l1 - LinearAccumOut) / "
           "(S(SquaredAccumOut) / LearningRate + 2 * l2), or 0 where "
           "abs(LinearAccumOut) is within l1",
    .params = { [L1] = { .name = "l1", .value = 0, .lo = 0, .hi = DBL_MAX },
                [L2] = { .name = "l2", .value = 0, .lo = 0, .hi = DBL_MAX },
                [LR_POWER] = { .name = "lr_power",
                               .value = -0.5,
                               .lo = -DBL_MAX,
                               .hi = 0 } },
    .states = { [SQUARED] = { .slot = "SquaredAccumulator",
                              .out_slot = "SquaredAccumOut",
                              .suffix = "squared",
                              .below = 4 },
                [LINEAR] = { .slot = "LinearAccumulator",
                             .out_slot = "LinearAccumOut",
                             .suffix = "linear" } },
    .cases = { "{l1=0.1, l2=0.2}", "{l1=0.1, l2=0.1, lr_power=-0.7}" },
    .update_f32 = update_f32,
    .update_f64 = update_f64,
};
