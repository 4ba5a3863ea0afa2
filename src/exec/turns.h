/* turns.h - updates that are made once in several runs.
 *
 * A program may say that k batches make one step (`accumulate`). Its runner
 * then takes turns: gradients that the update reads are kept and added up, and
 * the update runs in the last turn, with their mean. Gradients of tables are
 * kept by the operators that push them (FL_OP_EACH), since every batch numbers
 * the rows in its own way.
 *
 * A plan without turns has one, which is the last: all of these do nothing.
 * Thread of the runner.
 */
#ifndef FL_EXEC_TURNS_H
#define FL_EXEC_TURNS_H

#include "exec/runner.h"

/* Refuses what cannot be done once in several batches: a step of the update
   that works on gradients of tables, and fetches that the update computes. */
FL_MUST_CHECK
fl_status fl_turns_check(const fl_plan *p);

/* Made with the runner; NULL for a plan without turns. */
fl_turns *fl_turns_new(const fl_plan *p);
void fl_turns_free(fl_turns *t, int n_turns);

static inline bool fl_turns_is_last(const fl_runner *r)
{
    return r->turn + 1 == r->plan->n_turns;
}

/* What the gradients of one turn count in the step. */
double fl_turns_share(const fl_runner *r);

/* After what is computed: keeps the gradients, or, in the last turn, gives the
   frame those of all turns. */
FL_MUST_CHECK
fl_status fl_turns_gather(fl_runner *r);

/* The samples of the turns before this one. */
uint64_t fl_turns_samples(const fl_runner *r);

/* The turn is over, and well. */
void fl_turns_end(fl_runner *r);

/* One run of all parts that belong to this turn. */
FL_MUST_CHECK
fl_status fl_turns_run(fl_runner *r, fl_team *team);

#endif
