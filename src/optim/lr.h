/* lr.h - learning-rate schedules as functions of the global step, which starts
 * at 0. Pure; any thread. */
#ifndef FL_OPTIM_LR_H
#define FL_OPTIM_LR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* lr * rate ^ (step / decay_steps); staircase floors the exponent. */
double fl_lr_exponential(double lr, double decay_steps, double rate,
                         bool staircase, int64_t step);

/* values[i] where i counts the boundaries that step has reached;
   n boundaries, n + 1 values. */
double fl_lr_piecewise(const int64_t *boundaries, const double *values,
                       size_t n, int64_t step);

/* From start to end over warmup_steps, then `inner`. */
double fl_lr_warmup(double inner, double warmup_steps, double start, double end,
                    int64_t step);

#endif
