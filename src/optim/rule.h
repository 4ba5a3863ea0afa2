/* rule.h - update rules: what an optimizer does to w, given g.
 *
 * One rule serves a dense parameter, a dense block on a server and a sparse
 * row: it sees n weights, their state and their gradient, nothing else. What
 * is the same for all weights of one step (rate, bias correction) comes in
 * fl_hyper, computed once per step by `prepare`.
 *
 * A rule is a const descriptor in its own *_hot.c file plus one row in
 * optims.def; it is compiled once per instruction set (kernel/isa.h).
 */
#ifndef FL_OPTIM_RULE_H
#define FL_OPTIM_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "kernel/isa.h"

#define FL_RULE_STATE_MAX 2  /* accumulators as large as the weights */
#define FL_RULE_SCALAR_MAX 2 /* scalars per parameter (beta powers) */
#define FL_RULE_PARAM_MAX 4  /* settings of the rule */

/* One setting of a rule: its attribute name and default. */
typedef struct fl_rule_param {
    const char *name;
    double value;
} fl_rule_param;

/* One accumulator: the operator's input and output slot, the suffix of its
   variable ("moment1": `fc_0.w_0_moment1_0`) and its first value, a number or
   the value of the setting called first_from. */
typedef struct fl_rule_state {
    const char *slot, *out_slot, *suffix;
    double first;
    const char *first_from;
} fl_rule_state;

/* Everything one step needs, the same for every weight. */
typedef struct fl_hyper {
    double lr;
    double p[FL_RULE_PARAM_MAX];       /* settings, in the rule's order */
    double scalar[FL_RULE_SCALAR_MAX]; /* beta powers before this step */
    double c[4];                       /* what prepare derives from them */
    bool flag;                         /* momentum: Nesterov */
} fl_hyper;

typedef struct fl_rule {
    const char *name, *doc;
    fl_rule_param params[FL_RULE_PARAM_MAX];
    const char *flag; /* name of a boolean setting, or NULL */
    fl_rule_state states[FL_RULE_STATE_MAX];
    fl_rule_state scalars[FL_RULE_SCALAR_MAX];
    /* True: a zero gradient leaves weight and state as they are, so the lazy
       rule for sparse rows and the dense rule agree. */
    bool zero_is_noop;
    /* True: weights may change by others' doing between two updates (mode geo).
       Not where state has a direction (momentum, adam) or determines the
       weights (ftrl): it belongs to the gradients of one trainer, and the next
       update would carry it on from, or undo, what the others have changed. */
    bool geo_safe;
    /* Fills h->c from lr, p and scalar; may be NULL. */
    void (*prepare)(fl_hyper *h);
    /* The scalars after the step; may be NULL. */
    void (*advance)(fl_hyper *h);
    /* w and state[] are updated in place. */
    void (*update_f32)(float *w, float *const *state, const float *g, size_t n,
                       const fl_hyper *h);
    void (*update_f64)(double *w, double *const *state, const double *g,
                       size_t n, const fl_hyper *h);
} fl_rule;

/* The rule called `name` for this machine's instruction set, or NULL. */
const fl_rule *fl_rule_find(const char *name);

/* All rules in the order of optims.def. */
size_t fl_rule_count(void);
const fl_rule *fl_rule_at(size_t i);

int fl_rule_n_states(const fl_rule *r);
int fl_rule_n_scalars(const fl_rule *r);
int fl_rule_n_params(const fl_rule *r);

#endif
