/* optimizer.h - the optimizer of a case: its kind, its settings in words, the
 * names of its accumulators. */
#ifndef GOLDEN_OPTIMIZER_H
#define GOLDEN_OPTIMIZER_H

#include "session.h"

typedef struct rule {
    const char *kind;     /* as the library calls it */
    const char *settings; /* "learning_rate=0.1, ..." */
    double beta1, beta2;
} rule;

/* `name` is the name of a case ("adam_lazy", "ftrl_l1l2"): a kind, perhaps
   with words after it. Reports and returns false when there is none. */
bool rule_find(golden_case *c, const char *name, const cJSON *hyper, rule *out);

/* The variable of the scope that holds an accumulator of a parameter. */
const char *accumulator_name(pool *p, const char *param, const char *suffix);

/* The recorded value of an accumulator as ours must be.
 *
 * The compared system multiplies the beta powers of a table with sparse
 * gradients before it uses them, and the cases start them at 1 to get the
 * right rule. They hold beta^t after t steps where ours, used first and
 * multiplied afterwards, hold beta^(t+1). */
double expected_accumulator(const rule *r, const char *suffix,
                            bool started_at_one, double recorded);

#endif
