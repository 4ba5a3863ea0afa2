/* lr.c - learning-rate schedules. */
#include "optim/lr.h"

#include <math.h>

double fl_lr_exponential(double lr, double decay_steps, double rate,
                         bool staircase, int64_t step)
{
    double exponent = (double)step / decay_steps;

    return lr * pow(rate, staircase ? floor(exponent) : exponent);
}

double fl_lr_piecewise(const int64_t *boundaries, const double *values,
                       size_t n, int64_t step)
{
    size_t i = 0;

    while (i < n && step >= boundaries[i])
        i++;
    return values[i];
}

double fl_lr_warmup(double inner, double warmup_steps, double start, double end,
                    int64_t step)
{
    if ((double)step >= warmup_steps)
        return inner;
    return start + (end - start) * ((double)step / warmup_steps);
}
