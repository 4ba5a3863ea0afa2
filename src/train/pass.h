/* pass.h - one pass over a dataset, as the files of this folder share it.
 *
 * Made and freed by who calls; its threads share counters with the watcher and
 * what says so.
 */
#ifndef FL_TRAIN_PASS_H
#define FL_TRAIN_PASS_H

#include <stdatomic.h>

#include "dist/job.h"
#include "ctx/passes.h"
#include "base/gate.h"
#include "base/thread.h"
#include "flotilla/data.h"

#define FL_TRAIN_BATCHES_MAX 17 /* that a thread has at once */

/* What one training thread counts. */
typedef struct fl_train_tally {
    _Atomic uint64_t samples;
    uint64_t taken, batches; /* batches that came, and that are done */
    double loss_sum;         /* over samples */
    double last_finite;      /* of what is watched; NaN: none yet */
    size_t n_rows[FL_TRAIN_BATCHES_MAX]; /* of the batches at hand, in turn */
    const fl_feed *feeds[FL_TRAIN_BATCHES_MAX]; /* of the same */
    char apart[64]; /* threads do not share a line */
} fl_train_tally;

typedef struct fl_train_pass {
    fl_dataset_run_args given;
    const fl_dataset_run_args *args; /* the same */
    fl_executor *exe;
    fl_program *program;
    fl_scope *scope;
    fl_dataset *data;
    bool is_infer;
    bool is_inner;           /* an examination: another pass is at rest */
    bool stops_at_bad;       /* the setting finite_loss */
    atomic_bool has_bad;     /* something watched is not finite any more */
    atomic_bool is_test_due; /* all threads come to an end for it */
    atomic_bool is_interrupted;
    atomic_bool is_ended;    /* by the caller's handler of batches */
    fl_gate *gate;           /* NULL: nothing is saved in the midst */
    uint64_t turns;          /* batches that make one step */
    fl_pass_counts before;   /* what a run before has counted of it */
    const fl_position *from; /* where that stopped; NULL: it begins anew */
    const char **fetches;    /* the caller's, then loss and AUC */
    size_t n_fetches;
    int loss_at, auc_at; /* -1: not fetched */
    /* The fetches that must stay finite: watch_lo, ... below watch_hi. */
    size_t watch_lo, watch_hi;
    const char **feed_names;
    size_t *feed_slots; /* by feed: its place among the slots */
    size_t n_feeds;
    int n_threads;
    int at_once;              /* batches that a thread has */
    fl_job *job;              /* that hears how far it is; NULL: none */
    const char *phase;        /* as it is told */
    uint64_t report_ns;       /* when it is told next */
    uint64_t total;           /* records of it; 0: not known */
    struct fl_record *record; /* gets its numbers; NULL: nobody does */
    uint64_t record_pass;     /* its number there */
    double record_seconds;    /* of the pass, when they are told next */
    double peer_before;       /* waits for others before the pass */
    fl_train_tally *tallies;
    uint64_t began_ns;
    _Atomic double loss, auc; /* of the newest batch */
    fl_err error;             /* of the data or of a number, guarded by mu */

    /* Examinations in the midst, if they are asked for. */
    fl_program *test_program; /* NULL: they are not */
    fl_scope *test_scope;     /* has counts of its own */
    _Atomic int64_t n_until_test;
    fl_mutex clock_mu;
    uint64_t stopped_ns; /* since when; 0: it runs; guarded by clock_mu */
    uint64_t rest_ns;    /* that does not count; guarded by clock_mu */

    /* The watcher. */
    fl_thread *watcher;
    fl_mutex mu;
    fl_cond wake;
    bool is_over;         /* guarded by mu */
    fl_mutex progress_mu; /* held while on_progress runs */
    double shown_seconds; /* when it got numbers last; the watcher's */
    /* Thread 0 fills copies when they are wanted. */
    atomic_bool wants_copies;
    bool has_copies; /* guarded by mu */
    fl_tensor *copies;
    fl_str *copied; /* their bytes */
} fl_train_pass;

/* Sets what follows from the arguments. */
FL_MUST_CHECK
fl_status fl_train_init(fl_train_pass *p, const fl_dataset_run_args *given);

/* Makes it, from its first record on. */
FL_MUST_CHECK
fl_status fl_train_run(fl_train_pass *p, fl_dataset_report *report);

/* Batches that were made of it, by a run before as well. */
uint64_t fl_train_batches(const fl_train_pass *p);

/* --- what is told of it (watch.c) ------------------------------------------ */

/* How far it is. */
fl_progress fl_train_progress(fl_train_pass *p);

/* Time in between is not that of the pass. */
void fl_train_stop_clock(fl_train_pass *p);
void fl_train_start_clock(fl_train_pass *p);

/* Tells the caller: numbers, or a text, which is logged when nobody is told. */
void fl_train_tell(fl_train_pass *p, const fl_progress *s);
void fl_train_tell_text(fl_train_pass *p, const char *text);

/* What thread 0 has fetched, after each of its batches. */
void fl_train_show(fl_train_pass *p, uint64_t batch, const fl_tensor *fetched);

/* Fails when the fetch handler could not be given what it asks for. */
FL_MUST_CHECK
fl_status fl_train_check_handled(const fl_train_pass *p);

/* The watcher's thread, from before the first batch until behind the last. */
FL_MUST_CHECK
fl_status fl_train_watch(fl_train_pass *p);
void fl_train_unwatch(fl_train_pass *p);

/* Of a job, after the watcher: its samples count, and it is idle. */
void fl_train_end_report(fl_train_pass *p);

/* --- the record of the process (record.c) ------------------------------------ */

/* Before the first batch. Fails where it cannot be begun. */
FL_MUST_CHECK
fl_status fl_train_record_begin(fl_train_pass *p);
/* Where it is time for it; and at the end, with the numbers of the pass. */
void fl_train_record_in_time(fl_train_pass *p);
void fl_train_record_end(fl_train_pass *p, const fl_dataset_report *r);

/* --- examinations (examine.c) ---------------------------------------------- */

/* Around a pass that trains. begin fails when what is asked for makes no sense;
   end is fine without it. */
FL_MUST_CHECK
fl_status fl_train_begin_tests(fl_train_pass *p);
void fl_train_end_tests(fl_train_pass *p);

/* Of a job: what this worker has learnt is with the servers; and, before it
   examines, what they have is here. */
FL_MUST_CHECK
fl_status fl_train_settle(const fl_train_pass *p);
FL_MUST_CHECK
fl_status fl_train_refresh(const fl_train_pass *p);

/* A thread is about to take a batch: is it to come to its end instead? */
bool fl_train_rests(fl_train_pass *p);

/* Before threads train: how far they go. */
void fl_train_plan_test(fl_train_pass *p);

/* All threads are at their end: examines, when it is due or, in a job, when it
   is for another worker. Then they may train again: while this says so. */
FL_MUST_CHECK
fl_status fl_train_test(fl_train_pass *p, bool *goes_on);

#endif
