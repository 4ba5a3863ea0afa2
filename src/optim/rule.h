/* rule.h - update rules: what an optimizer does to w, given g.
 *
 * One rule serves a dense parameter, a dense block on a server and a sparse
 * row: it sees n weights, their state and their gradient, nothing else. What
 * is the same for all weights of one step (rate, bias correction) comes in
 * fl_hyper, computed once per step by `prepare`.
 *
 * A rule is a const descriptor in its own *_hot.c file plus one row in
 * optims.def; it is compiled once per instruction set (kernel/isa.h). Its
 * operator (ops/optimize_ops.c) is made from the descriptor: slots, attributes,
 * defaults, cases of the sweep. The descriptor itself is public, for rules of
 * programs.
 */
#ifndef FL_OPTIM_RULE_H
#define FL_OPTIM_RULE_H

#include "base/status.h"
#include "conf/words.h"
#include "flotilla/experimental/rule.h"
#include "kernel/isa.h"

/* The rule called `name` for this machine's instruction set, or NULL. */
const fl_rule *fl_rule_find(const char *name);

/* All rules in the order of optims.def, and behind them those of programs. */
size_t fl_rule_count(void);
const fl_rule *fl_rule_at(size_t i);

int fl_rule_n_states(const fl_rule *r);
int fl_rule_n_scalars(const fl_rule *r);
int fl_rule_n_params(const fl_rule *r);

/* The states and then the scalars; NULL after the last. */
const fl_rule_state *fl_rule_state_at(const fl_rule *r, size_t i);

/* Refuses a name that no rule has; says which there are. */
fl_status fl_rule_refuse(const char *name);

/* The settings of a rule in words. Place of the one called so; -1: none. */
int fl_rule_find_param(const fl_rule *r, const char *name);
/* Writes the defaults to p. */
void fl_rule_defaults(const fl_rule *r, double p[FL_RULE_PARAM_MAX]);
/* Setting i from its word, refused when out of its range. */
FL_MUST_CHECK
fl_status fl_rule_set(const fl_rule *r, int i, const fl_word *w,
                      double p[FL_RULE_PARAM_MAX]);
/* Fails when one of them is out of its range. */
FL_MUST_CHECK
fl_status fl_rule_check(const fl_rule *r, const double p[FL_RULE_PARAM_MAX]);

/* A rule with values for its settings: what an update operator says. In words
   "optimizer=adam beta1=0.9 beta2=0.999 epsilon=1e-08", as tables have it. */
typedef struct fl_update {
    const fl_rule *rule;
    double p[FL_RULE_PARAM_MAX];
} fl_update;

FL_MUST_CHECK
fl_status fl_update_parse(const char *words, fl_update *out);
void fl_update_print(const fl_update *u, fl_str *out);

/* The first value of an accumulator or scalar of the rule. */
double fl_rule_first(const fl_rule *r, const fl_rule_state *s,
                     const double p[FL_RULE_PARAM_MAX]);

#endif
