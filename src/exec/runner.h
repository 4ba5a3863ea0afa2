/* runner.h - runs a plan: one frame of temporaries, and the loop over steps.
 *
 * A runner is used by one thread at a time; its team helps it when the plan is
 * concurrent. Runners of one plan share the scope and nothing else; but a thread
 * that looks ahead has several, of which one runs at a time: these share all
 * memory that what began before its run does not need.
 */
#ifndef FL_EXEC_RUNNER_H
#define FL_EXEC_RUNNER_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/team.h"
#include "conf/weigh.h"
#include "exec/form.h"
#include "exec/plan.h"
#include "exec/scope.h"
#include "exec/trace.h"
#include "tensor/array.h"

/* What all runners of an executor have in common. */
typedef struct fl_exec_options {
    bool check_nan_inf;
    int64_t slice_min_elements;
    int64_t pending_timeout_ms;
    fl_weighing weighing; /* of gradients of several batches */
    bool is_frozen;       /* the scope's values stay as they are: taken once */
    fl_scope *scope;
    fl_comm *comm;   /* may be NULL */
    fl_trace *trace; /* NULL: no profile */
} fl_exec_options;

typedef struct fl_sched fl_sched;
typedef struct fl_turns fl_turns;
typedef struct fl_child fl_child; /* a block that a step runs, see blocks.h */

/* What a thread does for later runs while one waits for the outside: some of it,
   or nothing, and false. */
typedef struct fl_meanwhile {
    bool (*fn)(void *arg); /* NULL: nothing */
    void *arg;
} fl_meanwhile;

/* What an operator keeps from run to run. */
typedef struct fl_step_memory {
    void *keep;
    void (*keep_free)(void *);
    fl_workspace workspace;
} fl_step_memory;

/* One operator as this runner calls it. */
typedef struct fl_run_step {
    fl_targs *in, *out; /* tensors of the frame, by slot */
    fl_step_memory *memory;
    fl_child *child; /* NULL until it runs a block */
} fl_run_step;

typedef struct fl_runner {
    const fl_plan *plan;
    const fl_exec_options *options;
    fl_team *team; /* borrowed; NULL: the caller alone */
    int replica;
    fl_worker_id worker; /* what operators are told of who runs */
    fl_arena arena;      /* bindings */
    fl_tensor *tensors;  /* by plan variable */
    fl_array **arrays;   /* lists of plan->arrays */
    fl_buf **buffers;    /* by place: the home of its temporaries */
    fl_run_step *steps;
    struct fl_runner
        *lead;         /* whose memory it shares; NULL: it has all itself */
    int n_members;     /* the largest team that may run it */
    fl_arena *scratch; /* one per member, emptied after each operator */
    fl_arena *step;    /* one per member, emptied after each run */
    fl_sched *sched;   /* made by the first run that needs it */
    fl_turns *turns;   /* NULL: every run is a step */
    int turn;          /* of the coming run, from 0 */
    uint64_t step_no;
    uint64_t samples;       /* of the step, over all replicas */
    uint64_t lap;           /* of a block: which of its runs in the step */
    bool is_ahead;          /* steps of the coming run have begun */
    bool is_behind;         /* they begin now, and another run comes first */
    bool did_early;         /* of these their early parts have been made */
    fl_meanwhile meanwhile; /* of the run of one member */
    const fl_scope *taken;  /* frozen: the scope whose values it has, */
    uint64_t n_taken;       /* and how many it has had */
    bool *is_plain;         /* by plan variable: tensors[] has a fed value, and
                              one of the same form may take its place */
    /* Frozen: since the last run feeds, values or memory are others; when they
       were not, steady steps need not be prepared. Threads of a team set and
       read them; what they stand for is ordered by the steps. */
    atomic_bool has_changed, is_steady;
} fl_runner;

/* The seat is that of a run alone; others set theirs. team is the runner's own,
   or NULL; n_members is the size of the largest team that fl_runner_run will be
   given. */
fl_runner *fl_runner_new(const fl_plan *plan, const fl_exec_options *options,
                         fl_team *team, int n_members, int replica);
/* Another one for the thread that has `lead`, which outlives it. */
fl_runner *fl_runner_beside(fl_runner *lead);
void fl_runner_free(fl_runner *r);

/* Whether a value may be fed for what is described so: type, shape, offsets. */
FL_MUST_CHECK
fl_status fl_feed_check(const char *name, const fl_tensor *meta,
                        const fl_tensor *value);

/* Sets the two flags. Relaxed: a fence costs more than a steady run spares. */
static inline void fl_runner_note(fl_runner *r, bool has_changed,
                                  bool is_steady)
{
    atomic_store_explicit(&r->has_changed, has_changed, memory_order_relaxed);
    atomic_store_explicit(&r->is_steady, is_steady, memory_order_relaxed);
}

/* Feeds, values or memory are others from now on. */
static inline void fl_runner_note_change(fl_runner *r)
{
    fl_runner_note(r, true, false);
}

/* Gives the plan variable at `index` a value of the form of the one it has; false
   when it is of another. `good` is zeros for the first value of a run. */
static inline bool fl_runner_feed_again(fl_runner *r, int index,
                                        const fl_tensor *value,
                                        fl_good_offsets *good)
{
    fl_tensor *t = &r->tensors[index];

    if (!r->is_plain[index] || !fl_form_is_like(value, t, good))
        return false;
    t->data = value->data;
    memcpy(t->lod, value->lod, sizeof(t->lod));
    return true;
}

/* Gives the plan variable at `index` its value for the coming run; the value
   is borrowed. Checks type, shape and offsets against the program. */
FL_MUST_CHECK
fl_status fl_runner_feed(fl_runner *r, int index, const fl_tensor *value);

/* Takes the values of the scope and starts a new step with so many samples. */
FL_MUST_CHECK
fl_status fl_runner_begin(fl_runner *r, uint64_t step_no, uint64_t samples);

/* Whose run is the next one of the thread: its own, or another one that trains. */
typedef enum fl_ahead { FL_AHEAD_OWN, FL_AHEAD_OTHER } fl_ahead;

/* Between feeding and fl_runner_begin: begins plan->ahead, which asks the
   outside for what the coming run of all parts will need. A step that fails now
   is left to that run, which tells the error. */
void fl_runner_start_ahead(fl_runner *r, fl_ahead next);

/* The same, but asks for nothing yet: it may be called before that. */
void fl_runner_do_early(fl_runner *r);

/* The bytes of what has begun so, as far as it is known now. */
size_t fl_runner_ahead_bytes(const fl_runner *r);

/* The coming run is not made: waits for what has begun and forgets it. */
void fl_runner_drop_ahead(fl_runner *r);

/* Runs the part's steps, with `team` in place of the runner's own where it is
   not NULL. */
FL_MUST_CHECK
fl_status fl_runner_run(fl_runner *r, fl_plan_part part, fl_team *team);

/* Share ith of nth of a step, run by that member of the team. */
typedef struct fl_step_share {
    int step, ith, nth, member;
    bool resumed;  /* it was woken */
    bool is_early; /* not run, but what comes ahead of it */
} fl_step_share;

/* The name of its first output, "" without one. */
const char *fl_step_what(const fl_op_node *n);

/* One step, by the two schedulers below. */
FL_MUST_CHECK
fl_status fl_step_prepare(fl_runner *r, int step);
FL_MUST_CHECK
fl_status fl_step_run(fl_runner *r, const fl_step_share *share,
                      fl_waker *waker);
FL_MUST_CHECK
fl_status fl_step_finish(fl_runner *r, int step);

/* Whether a step need not be prepared, and not finished. */
static inline bool fl_step_is_steady(const fl_runner *r, int step)
{
    return atomic_load_explicit(&r->is_steady, memory_order_relaxed) &&
           r->plan->steps[step].is_steady;
}

static inline bool fl_step_is_silent(const fl_runner *r, int step)
{
    return !r->options->check_nan_inf && !r->plan->steps[step].settles;
}

/* Memory for an output as its tensor has it now. */
FL_MUST_CHECK
fl_status fl_runner_place(fl_runner *r, int var);

/* How many shares a prepared step is cut into for a team of n. */
int fl_step_shares(const fl_runner *r, int step, int n);

/* The scheduler for teams and for operators that wait (sched.c). */
FL_MUST_CHECK
fl_status fl_sched_run(fl_runner *r, fl_plan_part part, fl_team *team);
/* One step after the other, in the thread of the caller. */
FL_MUST_CHECK
fl_status fl_sched_run_in_order(fl_runner *r, fl_plan_part part);

/* What stands behind fl_runner_start_ahead and fl_runner_drop_ahead. */
void fl_sched_start_ahead(fl_runner *r);
void fl_sched_drop_ahead(fl_sched *s); /* NULL is fine */

/* False when an operator still waits for an answer, which may come at any
   time and needs the runner's memory: then nothing is freed. */
bool fl_sched_free(fl_sched *s);

/* Bytes kept for temporaries, and the most that were alive at once in the
   last run. */
size_t fl_runner_kept_bytes(const fl_runner *r);
size_t fl_runner_live_bytes(const fl_runner *r);

#endif
