/* plan.h - a program made ready to run: order, dependencies, memory places.
 *
 * A plan is built once and then only read; any number of runners use it at
 * once. Every temporary has a place; temporaries whose lives do not overlap
 * share one. Places are sizes-free: a runner keeps one growing buffer per
 * place, so a batch larger than any before raises a mark, and a smaller one
 * costs nothing.
 */
#ifndef FL_EXEC_PLAN_H
#define FL_EXEC_PLAN_H

#include "exec/device.h"
#include "ir/program.h"

/* Where the value of a variable lives. */
typedef enum fl_home { FL_HOME_FEED, FL_HOME_SCOPE, FL_HOME_PLACE } fl_home;

typedef struct fl_plan_var {
    const fl_var *var;
    fl_home home;
    int place;       /* home place: index of the buffer */
    int first, last; /* steps of its first write and last read */
    int n_writers;   /* steps that write it */
    bool read_first; /* read before any step writes it */
    bool fetched;
    bool is_fixed; /* home scope: dense, of one shape that is known */
} fl_plan_var;

/* Which steps of a plan a run covers. Replicas run the parts one by one, in
   this order. */
typedef enum fl_plan_part {
    FL_PART_ALL,
    FL_PART_COMPUTE, /* forward, backward and schedules */
    FL_PART_EACH,    /* updates that every replica makes for its own part */
    FL_PART_UPDATE,  /* updates with the gradients of all replicas */
    FL_PART_RATES    /* of what is computed, schedules alone */
} fl_plan_part;

/* One operator. */
typedef struct fl_plan_step {
    const fl_op_node *node;
    fl_op_fn run; /* on the device of the plan */
    fl_plan_part part;
    int n_in, n_out;       /* slots */
    int *in_len, *out_len; /* variables per slot */
    int *in, *out;         /* indices into vars, slot after slot; -1: none */
    int n_deps;
    int *next, n_next; /* steps that wait for this one */
    bool fed_grad;     /* a gradient is fed: its shape must be checked */
    bool is_ahead;     /* one of plan->ahead */
    bool is_late;      /* nothing but what is late waits for it, in the run or
                          outside: a metric */
    bool settles;      /* writes what is in the scope and not fixed */
    bool is_steady;    /* what it is inferred to be follows from the forms of
                          feeds and of values in the scope: FL_OP_BY_FORM */
} fl_plan_step;

typedef struct fl_plan {
    fl_program *program; /* owned */
    const fl_device_ops *device;
    fl_arena arena;
    fl_plan_var *vars;
    fl_plan_step *steps;
    int n_vars, n_steps, n_places;
    int *ahead, n_ahead;   /* steps that can begin before their run: they wait
                            for the outside and need nothing but feeds */
    bool *is_place_ahead;  /* by place: what these steps make lies there */
    int *arrays, n_arrays; /* variables that are arrays */
    int mixed;   /* a step that serves both kinds of updates; -1: none */
    int n_turns; /* runs that make one step; the last of them updates */
    bool trains; /* changes what is trained: a run is a step */
    bool waits;  /* some operator may return FL_PENDING */
    bool concurrent;
} fl_plan;

typedef struct fl_plan_options {
    bool concurrent;       /* independent steps may run at the same time */
    int64_t nominal_batch; /* stands for -1 when places are chosen */
    fl_map *fed;           /* names that are fed */
} fl_plan_options;

/* Takes the program, also on failure. Its fetches are kept to the end. */
FL_MUST_CHECK
fl_status fl_plan_new(fl_plan **out, fl_program *program,
                      const fl_plan_options *options);
void fl_plan_free(fl_plan *p);

static inline bool fl_part_has(fl_plan_part part, const fl_plan_step *s)
{
    if (part == FL_PART_RATES)
        return s->part == FL_PART_COMPUTE && s->node->role == FL_OP_ROLE_LR;
    return part == FL_PART_ALL || s->part == part;
}

/* Index of a variable by name; -1 when the plan has none. */
int fl_plan_find(const fl_plan *p, const char *name);

/* Finds the parts of replicas, fills steps[].part and mixed; used by
   fl_plan_new. */
void fl_plan_parts(fl_plan *p);

/* Is it computed from the batch? */
bool fl_plan_computes(const fl_plan *p, int var);
/* Is it made by the update that runs once? */
bool fl_plan_updates(const fl_plan *p, int var);

/* The gradients that cross from what is computed into the update that runs
   once: indices into vars, so many. out has room for all variables. */
int fl_plan_grads(const fl_plan *p, int *out);
/* The same with what crosses of other types. */
int fl_plan_crossing(const fl_plan *p, int *out);

/* What all workers run together, each of them once, is made by the update:
   refuses plans of several replicas or threads where it is computed. */
FL_MUST_CHECK
fl_status fl_plan_check_ordered(const fl_plan *p);

/* Chooses places; used by fl_plan_new. before[j] has bit i set when step i is
   done before step j starts, whatever the schedule; NULL: program order. */
void fl_plan_places(fl_plan *p, const uint64_t *before, size_t words,
                    int64_t nominal_batch);

#endif
