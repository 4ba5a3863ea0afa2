/* scoring.h - threads that score what many callers ask, waiting requests as one
 * batch.
 *
 * A request is the caller's memory from the call until its `done`, which comes
 * exactly once, from a scoring thread. Nothing is waited for to fill a batch: a
 * thread that is free takes what is there. Any thread may ask.
 */
#ifndef FL_FRONT_SCORING_H
#define FL_FRONT_SCORING_H

#include "base/stats.h"
#include "flotilla/predict.h"

/* Requests that may wait; the next ones are refused. */
#define FL_SCORING_WAITING_MAX 10000

typedef struct fl_scoring fl_scoring;
typedef struct fl_score fl_score;

struct fl_score {
    fl_feed *feeds;   /* as fl_scoring_check leaves them */
    size_t n_records; /* set by it */
    /* outputs are views for the call; NULL with an error, this thread's last. */
    void (*done)(fl_score *s, fl_status st, const fl_tensor *outputs);
    /* The pool's. */
    fl_score *next;
    uint64_t since_ns;
};

typedef struct fl_scoring_options {
    int n_threads;    /* 0: one per core */
    size_t max_batch; /* records of a batch; 0: 1024 */
} fl_scoring_options;

/* The model is the caller's and stays. */
FL_MUST_CHECK
fl_status fl_scoring_new(fl_scoring **out, fl_model *m,
                         const fl_scoring_options *o);
/* Ends the threads; requests that wait, and those that come later, get
   FL_ERR_CLOSED. */
void fl_scoring_stop(fl_scoring *s);
/* Stops, as needed, when nobody can ask any more; NULL is fine. */
void fl_scoring_free(fl_scoring *s);

/* Puts n feeds, in any order, into that of the inputs and checks names, types,
   shapes and numbers of records. `out` has room for all inputs. */
FL_MUST_CHECK
fl_status fl_scoring_check(const fl_scoring *s, const fl_feed *feeds, size_t n,
                           fl_score *out);

/* Asks; on failure (too many wait, the pool ends) `done` does not come. */
FL_MUST_CHECK
fl_status fl_scoring_ask(fl_scoring *s, fl_score *score);

fl_model *fl_scoring_model(const fl_scoring *s);
size_t fl_scoring_n_inputs(const fl_scoring *s);
const fl_model_var *fl_scoring_outputs(const fl_scoring *s, size_t *n);

#define FL_SCORING_STATS(X)                                                    \
    X(requests, COUNT)                                                         \
    X(failed, COUNT)                                                           \
    X(refused, COUNT)                                                          \
    X(batches, COUNT)                                                          \
    X(records, COUNT)                                                          \
    X(answered, SECONDS)                                                       \
    X(waiting, GAUGE)
FL_STATS(fl_scoring_stats, FL_SCORING_STATS);
/* answered: from asking to the answer, of all requests together. */
const fl_scoring_stats *fl_scoring_stats_of(const fl_scoring *s);

#endif
