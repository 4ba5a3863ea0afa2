/* sampler.h - classes drawn as noise, by counter: a class is a matter of the
 * stream, the row and the column alone.
 */
#ifndef FL_OPS_SAMPLER_H
#define FL_OPS_SAMPLER_H

#include "ops/kit.h"

/* The numbers are those of the attribute `sampler`. */
typedef enum fl_sampler_kind {
    FL_SAMPLER_UNIFORM,
    FL_SAMPLER_LOG_UNIFORM, /* class k with log((k + 2) / (k + 1)) / log n */
    FL_SAMPLER_CUSTOM,
    FL_SAMPLER_KINDS
} fl_sampler_kind;

typedef struct fl_sampler {
    fl_sampler_kind kind;
    int64_t n; /* classes */
    /* Of a custom distribution: the probability of each class, and the alias
       table: place k stands for class k with probability alias_probs[k], else
       for class alias[k]. */
    const fl_tensor *probs, *alias, *alias_probs;
} fl_sampler;

double fl_sampler_prob(const fl_sampler *s, int64_t k);

/* Fails when the alias table names a class that is none. */
FL_MUST_CHECK
fl_status fl_sampler_draw(const fl_sampler *s, uint64_t stream, size_t row,
                          size_t col, int64_t *out);

#endif
