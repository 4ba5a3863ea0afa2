/* lr.c - learning-rate schedules. */
#include "optim/lr.h"

#include <math.h>

static double periods(const fl_lr_decay *d, int64_t step)
{
    double t = (double)step / d->steps;

    return d->staircase ? floor(t) : t;
}

double fl_lr_exponential(const fl_lr_decay *d, int64_t step)
{
    return d->lr * pow(d->rate, periods(d, step));
}

double fl_lr_natural_exp(const fl_lr_decay *d, int64_t step)
{
    return d->lr * exp(-d->rate * periods(d, step));
}

double fl_lr_inverse_time(const fl_lr_decay *d, int64_t step)
{
    return d->lr / (1 + d->rate * periods(d, step));
}

double fl_lr_noam(double lr, double d_model, double warmup_steps, int64_t step)
{
    double n = (double)step + 1;

    return lr / sqrt(d_model) * fmin(1 / sqrt(n), n * pow(warmup_steps, -1.5));
}

double fl_lr_polynomial_decay(const fl_lr_polynomial *p, int64_t step)
{
    double at = (double)step, steps = p->steps;

    if (p->cycle)
        steps *= fmax(1, ceil(at / steps));
    else
        at = fmin(at, steps);
    return (p->lr - p->end) * pow(1 - at / steps, p->power) + p->end;
}

double fl_lr_cosine(double lr, double steps_per_epoch, double epochs,
                    int64_t step)
{
    const double pi = 3.14159265358979323846;
    double epoch = floor((double)step / steps_per_epoch);

    return lr * 0.5 * (cos(epoch * pi / epochs) + 1);
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
