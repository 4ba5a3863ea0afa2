/* rule.h - an update rule (optimizer) of your own. Experimental: it may change
 * with any version.
 *
 * One rule serves a dense parameter, a dense block on a server and a sparse
 * row: it sees n weights, their state and their gradient, nothing else. What
 * is the same for all weights of one step (rate, bias correction) comes in
 * fl_hyper, computed once per step by `prepare`. Added, it is an operator of its
 * name, an optimizer (fl_optimizer_by_name) and a rule of tables
 * ("optimizer=NAME"). In a job every process adds it, servers too.
 */
#ifndef FLOTILLA_EXPERIMENTAL_RULE_H
#define FLOTILLA_EXPERIMENTAL_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flotilla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FL_RULE_STATE_MAX 3  /* accumulators as large as the weights */
#define FL_RULE_SCALAR_MAX 2 /* scalars per parameter (beta powers) */
#define FL_RULE_PARAM_MAX 8  /* settings of the rule */
#define FL_RULE_CASES_MAX 3  /* sets of attributes for the sweep */

/* For ranges: what must not reach 1, such as the share that a mean keeps. */
#define FL_BELOW_1 0.999999999

/* A rule with a setting of this name draws numbers: fl_hyper.stream. */
#define FL_RULE_SEED "seed"

/* One setting of a rule: its attribute's name, default and range. */
typedef struct fl_rule_param {
    const char *name;
    double value, lo, hi;
    bool is_flag;     /* true or false: 1 or 0 */
    const char *word; /* what optimizers also call it, or NULL */
    const char *slot; /* the operator's slot that may give it, or NULL */
} fl_rule_param;

/* One accumulator: the operator's input and output slot, the suffix of its
   variable ("moment1": `fc_0.w_0_moment1_0`) and its first value, a number or
   the value of the setting called first_from. Cases of the sweep draw its
   values between 0 and `below`, or of both signs where that is 0. */
typedef struct fl_rule_state {
    const char *slot, *out_slot, *suffix;
    double first;
    const char *first_from;
    int below;
    int with; /* 1 + the setting, a flag, without which an operator may leave
                 the state out; 0: it may not */
} fl_rule_state;

/* Everything one step needs, the same for every weight. */
typedef struct fl_hyper {
    double lr;
    double p[FL_RULE_PARAM_MAX];       /* settings, in the rule's order */
    double scalar[FL_RULE_SCALAR_MAX]; /* beta powers before this step */
    double c[4];                       /* what prepare derives from them */
    uint64_t stream; /* of base/rng.h, for this parameter and this step */
} fl_hyper;

typedef struct fl_rule {
    const char *name;
    const char *doc; /* of the operator, in the names of its slots */
    fl_rule_param params[FL_RULE_PARAM_MAX];
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
    /* True: the step needs all weights of a parameter at once (a norm). Then it
       is no rule for rows and tables, nor for blocks of a parameter. */
    bool whole;
    /* True: it makes its own rate and does not look at the one it is given. */
    bool own_rate;
    /* Attributes with which the sweep runs the operator, besides the defaults
       and each switch: "{l1=0.1, l2=0.2}". */
    const char *cases[FL_RULE_CASES_MAX];
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

/* For all programs of this process, before the first that has it. The descriptor
   and all it points to must stay. A name that another rule has is refused; the
   same descriptor may be added again. Any thread. */
#define fl_rule_add(rule) fl_rule_add_sized(rule, sizeof(fl_rule))
FL_API FL_MUST_CHECK
fl_status fl_rule_add_sized(const fl_rule *rule, size_t size);

#ifdef __cplusplus
}
#endif
#endif
