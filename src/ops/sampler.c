/* sampler.c - classes drawn as noise. */
#include "ops/sampler.h"

#include <inttypes.h>
#include <math.h>

#include "base/rng.h"
#include "ops/labels.h"

double fl_sampler_prob(const fl_sampler *s, int64_t k)
{
    switch (s->kind) {
    case FL_SAMPLER_LOG_UNIFORM:
        return log((double)(k + 2) / (double)(k + 1)) / log((double)s->n);
    case FL_SAMPLER_CUSTOM:
        return fl_float_at(s->probs, k);
    default:
        return 1 / (double)s->n;
    }
}

static int64_t place_below(double unit, int64_t n)
{
    int64_t k = (int64_t)(unit * (double)n);

    return k < n ? k : n - 1;
}

static int64_t draw_alias(const fl_sampler *s, uint64_t stream, size_t row,
                          size_t col)
{
    int64_t k = place_below(fl_rng_unit(stream, row, 2 * col), s->n);

    if (fl_rng_unit(stream, row, 2 * col + 1) < fl_float_at(s->alias_probs, k))
        return k;
    return fl_label_at(s->alias, (size_t)k);
}

/* The inverse of the sum of the probabilities below k, log(k + 1) / log n. The
   last class is never drawn: those before it have all of the probability. */
static int64_t draw_log_uniform(const fl_sampler *s, double unit)
{
    return place_below((exp(unit * log((double)s->n)) - 1) / (double)s->n,
                       s->n);
}

fl_status fl_sampler_draw(const fl_sampler *s, uint64_t stream, size_t row,
                          size_t col, int64_t *out)
{
    if (s->kind == FL_SAMPLER_UNIFORM)
        *out = place_below(fl_rng_unit(stream, row, col), s->n);
    else if (s->kind == FL_SAMPLER_LOG_UNIFORM)
        *out = draw_log_uniform(s, fl_rng_unit(stream, row, col));
    else
        *out = draw_alias(s, stream, row, col);
    if ((uint64_t)*out >= (uint64_t)s->n)
        FL_FAIL(FL_ERR_INVAL,
                "CustomDistAlias: class %" PRId64 " is not in 0..%" PRId64,
                *out, s->n - 1);
    return FL_OK;
}
