/* rounds.h - gradients that are kept until the whole round is there, and then
 * applied as one.
 *
 * Members of a round send their gradients of rows and blocks, each under its
 * rank; whoever knows that all of them are there (trainers do, by a barrier at
 * the coordinator) asks for the round to be applied, with the members and their
 * weights. Then every table gets one push and every block one gradient: the sum
 * over the members, in the order of ranks, of weight times gradient. So the
 * result depends neither on who came first nor on how keys and blocks are
 * spread over servers. A table that no member has pushed to is left alone; one
 * without keys on this server gets an empty push, which advances its rule.
 *
 * The rate of a push is that of the member with the lowest rank. What was kept
 * of ranks that are no members, and of earlier rounds, is dropped. Of two
 * incarnations of a rank the newer counts.
 *
 * Any thread; one lock for all of it, but not while sums are made and applied:
 * all members who ask for the round to be applied work on it together.
 */
#ifndef FL_PS_STORE_ROUNDS_H
#define FL_PS_STORE_ROUNDS_H

#include "ps/store/store_inside.h"

typedef struct fl_rounds fl_rounds;

fl_rounds *fl_rounds_new(void);
void fl_rounds_free(fl_rounds *r); /* NULL is fine */

/* Keeps a copy of the items of a ROUND_PUSH or ROUND_DENSE, which were checked
   and are those of the request. Refuses rounds that were applied already. Of a
   rank one round is kept, the latest that it sends for. */
FL_MUST_CHECK
fl_status fl_rounds_keep_rows(const fl_store_ctx *c, uint64_t round);
FL_MUST_CHECK
fl_status fl_rounds_keep_blocks(const fl_store_ctx *c, uint64_t round);

/* Applies the round when it is the next one (the first that comes begins);
   changes nothing when it was the last one. Members are in the order of ranks.
   Schedules see its number as the step. After an error before anything was
   changed it can be asked for again; after one in its midst everything is
   refused from then on. */
FL_MUST_CHECK
fl_status fl_rounds_apply(const fl_store_ctx *c, const fl_apply_request *a);

#endif
