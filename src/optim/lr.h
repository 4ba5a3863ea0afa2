/* lr.h - learning-rate schedules as functions of the global step, which starts
 * at 0. Pure; any thread. */
#ifndef FL_OPTIM_LR_H
#define FL_OPTIM_LR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decay by periods: with t = step / steps, rounded down where `staircase`. */
typedef struct fl_lr_decay {
    double lr, steps, rate;
    bool staircase;
} fl_lr_decay;

double fl_lr_exponential(const fl_lr_decay *d, int64_t step); /* lr rate^t */
double fl_lr_natural_exp(const fl_lr_decay *d, int64_t step); /* lr e^-rate t */
double fl_lr_inverse_time(const fl_lr_decay *d,
                          int64_t step); /* lr/(1+rate t) */

/* lr / sqrt(d_model) * min(1 / sqrt(n), n / warmup^1.5) in step n, from 1. */
double fl_lr_noam(double lr, double d_model, double warmup_steps, int64_t step);

/* From lr to end over `steps`, with (1 - t)^power. Then it stays there, or with
   `cycle` begins again, at lr, with a period as much longer as steps have
   passed. */
typedef struct fl_lr_polynomial {
    double lr, steps, end, power;
    bool cycle;
} fl_lr_polynomial;

double fl_lr_polynomial_decay(const fl_lr_polynomial *p, int64_t step);

/* Half a wave from lr to 0 over `epochs`, the same in all steps of one. */
double fl_lr_cosine(double lr, double steps_per_epoch, double epochs,
                    int64_t step);

/* values[i] where i counts the boundaries that step has reached;
   n boundaries, n + 1 values. */
double fl_lr_piecewise(const int64_t *boundaries, const double *values,
                       size_t n, int64_t step);

/* From start to end over warmup_steps, then `inner`. */
double fl_lr_warmup(double inner, double warmup_steps, double start, double end,
                    int64_t step);

#endif
