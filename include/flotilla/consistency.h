/* consistency.h - is what is online what was trained?
 *
 *     fl_model_open(&online, "models/ctr", .rows = rows);
 *     fl_consistency_open(&c, "trained", online);
 *     fl_consistency_compare(c);
 *     fl_consistency_add(c, slots, n_slots, n_records, scores, n_scores);
 *     while (fl_consistency_result_at(c, i++, &r))
 *         ...
 *
 * The trained model says what is right: one that was saved to train on, or one
 * that was saved for prediction. The other is a model as it is opened to score:
 * with the program, the variables and the source of rows (files, live servers,
 * Redis) that are used online. Owner thread only.
 */
#ifndef FLOTILLA_CONSISTENCY_H
#define FLOTILLA_CONSISTENCY_H

#include "flotilla/predict.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_consistency fl_consistency;

typedef struct fl_consistency_args {
    uint32_t size;
    uint64_t sample; /* so many rows of a table, about; 0: all of them */
    uint64_t seed;   /* by which they are drawn */
    /* By how much passes may change a score: they add up in another order. */
    double tolerance;
} fl_consistency_args;

/* The model stays the caller's, and goes after it. */
#define fl_consistency_open(out, trained, online, ...)                         \
    fl_consistency_open_with(out, trained, online,                             \
                             FL_OPTIONS(fl_consistency_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_consistency_open_with(fl_consistency **out, const char *trained,
                                   fl_model *online,
                                   const fl_consistency_args *args);
FL_API void fl_consistency_close(fl_consistency *c); /* NULL is fine */

/* Compares all but scores. What differs is no error, but a result. */
FL_API FL_MUST_CHECK
fl_status fl_consistency_compare(fl_consistency *c);

/* Compares the scores of n_records records, batch after batch. Slots are what the
   data has, and may be more than either model takes; where they are all that the
   program to train with takes, it runs as a whole, else only what the targets
   need. scores are what the online model gave, in the order of its outputs. */
FL_API FL_MUST_CHECK
fl_status fl_consistency_add(fl_consistency *c, const fl_feed *slots,
                             size_t n_slots, size_t n_records,
                             const fl_tensor *scores, size_t n_scores);

/* What was compared, in this order:
     names       inputs, outputs, variables and tables, with types and shapes
     program     operator by operator: the one that was trained, in test mode and
                 pruned to the targets, and the one that is online
     parameters  variables by bits
     rows        of tables by bits
     scores      in test mode as it was trained, and online without passes, by
                 bits
     passes      online without passes, and as it is */
typedef struct fl_consistency_result {
    uint32_t size;
    const char *name;
    const char *what;             /* "records" */
    uint64_t compared, different; /* of them */
    double largest;               /* difference of scores; 0 elsewhere */
    const char *first; /* the first difference in words; NULL: there is none.
                          Borrowed until the next call */
} fl_consistency_result;

/* Number i; false behind the last. */
FL_API bool fl_consistency_result_at(const fl_consistency *c, size_t i,
                                     fl_consistency_result *out);

/* Whether nothing differs so far. */
FL_API bool fl_consistency_holds(const fl_consistency *c);

#ifdef __cplusplus
}
#endif
#endif
