/* executor.h - compiled programs and what runs them.
 *
 * A unit is one program compiled for one set of feeds and fetches and one way
 * to run it: alone, as replicas, or as hogwild threads. An executor keeps its
 * units. Owner thread only.
 */
#ifndef FL_EXEC_EXECUTOR_H
#define FL_EXEC_EXECUTOR_H

#include "exec/replicas.h"
#include "exec/runner.h"
#include "flotilla/executor.h"
#include "pass/pass.h"

typedef enum fl_unit_kind {
    FL_UNIT_ALONE,
    FL_UNIT_REPLICAS,
    FL_UNIT_HOGWILD
} fl_unit_kind;

/* What a unit is made from; also its key. Names are borrowed for the call. */
typedef struct fl_unit_spec {
    const fl_program *program;
    fl_unit_kind kind;
    int n_runners, n_threads; /* n_threads in all */
    const char *const *feeds;
    const char *const *fetches;
    size_t n_feeds, n_fetches;
    fl_merge_kind merge;
    double coeff;
    int n_ahead; /* hogwild: batches that are asked for together; */
    int n_frames; /* of a thread, used in turn: twice as many, and one more if the
                     source holds it; 0: one */
    const char *fed_grad; /* a variable that is fed instead of computed */
    int64_t nominal_batch;
    fl_pass_options passes;
} fl_unit_spec;

typedef struct fl_unit {
    fl_unit_spec spec; /* with names of its own */
    uint64_t program_id, program_version;
    fl_arena arena;
    fl_plan *plan;
    fl_runner **runners; /* behind them, the other frames of threads */
    int n_frames;        /* runners in all */
    fl_team **teams;     /* by runner; entries may be NULL */
    fl_team *team;       /* runs the runners */
    fl_replicas *replicas;
    int *feed_index, *fetch_index; /* plan variables; -1: not needed */
    bool *feed_kept;               /* by feed: it is persistent */
    bool *fetch_once; /* by fetch: of replicas, only the first one makes it */
    struct fl_unit *next;
} fl_unit;

struct fl_executor {
    fl_exec_options options;
    fl_unit *units;   /* newest use first */
    fl_unit *trained; /* the last that did; NULL: none */
    bool offers;      /* it was said to be ready for steps without batches */
    fl_trace trace;
    fl_ctx *ctx;
};

/* Finds or makes the unit. */
FL_MUST_CHECK
fl_status fl_executor_unit(fl_executor *e, const fl_unit_spec *spec,
                           fl_unit **out);
void fl_executor_drop_units(fl_executor *e);

/* The same for those of one program, which will not be run again. */
void fl_executor_drop_program(fl_executor *e, uint64_t program_id);

/* The program after the passes, for looking at it. */
FL_MUST_CHECK
fl_status fl_unit_program(const fl_unit_spec *spec, fl_program **out);

/* Feeds frame i of a unit, in the order of spec.feeds. */
FL_MUST_CHECK
fl_status fl_unit_feed(fl_unit *u, int i, const fl_feed *feeds);

/* Views of what frame i has for the fetches. */
void fl_unit_fetch(const fl_unit *u, int i, fl_tensor *out);

/* Hands large ones over to the caller, see fl_run_args: keep[] as out[]. */
void fl_unit_keep(const fl_unit *u, int i, const fl_tensor *out, fl_mem **keep);

/* A batch begins, and is over with all that belongs to it: around whatever
   follows. */
void fl_unit_begin_batch(const fl_executor *e, const fl_unit *u);
void fl_unit_end_batch(const fl_executor *e, const fl_unit *u);
/* So are all that were asked for together, or one that was alone. */
void fl_unit_end_group(const fl_executor *e, const fl_unit *u);

/* Starts the next step in frame i, whose batch has so many samples. */
FL_MUST_CHECK
fl_status fl_unit_begin(fl_executor *e, fl_unit *u, int i, uint64_t samples);

/* The number of the step that frame i begins: a run that trains is one, or with
   turns the last of them; others see the number of the next. */
uint64_t fl_unit_next_step(fl_executor *e, const fl_unit *u, int i);

/* The samples of one batch by its first feed: rows, or sequences. */
uint64_t fl_unit_samples(const fl_unit *u, const fl_feed *feeds);

/* Whoever else trains may ask for a step without a batch. Before a run. */
void fl_unit_offer(fl_executor *e, fl_unit *u);

FL_MUST_CHECK
fl_status fl_unit_run_alone(fl_executor *e, fl_unit *u, const fl_feed *feeds);
FL_MUST_CHECK
fl_status fl_unit_run_replicas(fl_executor *e, fl_unit *u,
                               const fl_feed *feeds);
FL_MUST_CHECK
fl_status fl_unit_run_hogwild(fl_executor *e, fl_unit *u,
                              const fl_hogwild_args *args);

#endif
