/* round_work.h - what is to be done for a round, as tasks that several threads
 * take: a part of the keys of a table, or a block.
 *
 * A task adds up what members sent for it, in the order in which it was added
 * here, each times its weight, and updates the table or the block. Parts of a
 * table have no key in common, so that neither the number of threads nor who
 * takes which task changes a bit. Memory of tasks and sums is used again in the
 * next round.
 *
 * All functions are called under the owner's lock; fl_round_work_do lays it down
 * while a task runs.
 */
#ifndef FL_PS_STORE_ROUND_WORK_H
#define FL_PS_STORE_ROUND_WORK_H

#include "ps/store/store_inside.h"

/* Of the keys of a table: some for each of a few threads, so that a slow one
   does not hold up the others. */
#define FL_ROUND_PARTS 8

/* Gradients of a table, by part of the server's range of hashes. */
typedef struct fl_round_rows {
    uint32_t table;
    fl_rows parts[FL_ROUND_PARTS];
} fl_round_rows;

typedef struct fl_round_work fl_round_work;

fl_round_work *fl_round_work_new(fl_mutex *owners);
void fl_round_work_free(fl_round_work *w); /* NULL is fine */

/* What is added is borrowed until the end of the work. */
void fl_round_work_clear(fl_round_work *w, uint64_t round);
void fl_round_work_add_rows(fl_round_work *w, const fl_round_rows *rows,
                            float weight);
void fl_round_work_add_block(fl_round_work *w, const fl_block_item *block,
                             float weight);

/* Everything is there: makes the tasks. */
void fl_round_work_begin(fl_round_work *w, const fl_store_ctx *c);

/* Takes tasks until none is left. Others may still be at theirs. */
void fl_round_work_do(fl_round_work *w);

/* Waits for those; the first error is the work's. *is_touched: something was
   changed. */
FL_MUST_CHECK
fl_status fl_round_work_end(fl_round_work *w, bool *is_touched);

#endif
