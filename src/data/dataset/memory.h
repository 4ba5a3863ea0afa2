/* memory.h - records kept in memory, and their order.
 *
 * Blocks of packed rows are kept as they come; a reference of eight bytes says
 * where each record is. Shuffling moves references only. Adding is for any
 * thread, the rest for one.
 */
#ifndef FL_DATA_DATASET_MEMORY_H
#define FL_DATA_DATASET_MEMORY_H

#include "data/columns.h"

typedef struct fl_memory fl_memory;

fl_memory *fl_memory_new(const fl_schema *s);
void fl_memory_free(fl_memory *m);

/* Copies the rows in and leaves `rows` empty. Any thread. */
FL_MUST_CHECK
fl_status fl_memory_add(fl_memory *m, fl_records *rows);

/* The same for rows that are a run of a file (runs.h). */
FL_MUST_CHECK
fl_status fl_memory_add_run(fl_memory *m, const fl_row_run *from,
                            fl_records *rows);

/* All runs are there: they are put into the order of their files and blocks,
   whatever threads have added them. */
FL_MUST_CHECK
fl_status fl_memory_settle(fl_memory *m);

uint64_t fl_memory_len(const fl_memory *m);
uint64_t fl_memory_bytes(const fl_memory *m);

/* Puts the records into an order that depends on what they are and not on how
   they came: by their bytes. A shuffle with a seed after it is the same for any
   number of reading threads. */
FL_MUST_CHECK
fl_status fl_memory_sort(fl_memory *m);

/* A uniform permutation (Fisher-Yates) drawn from the seed. */
void fl_memory_shuffle(fl_memory *m, uint64_t seed);

/* Deals the values of one slot anew among the records. */
FL_MUST_CHECK
fl_status fl_memory_shuffle_slot(fl_memory *m, uint32_t slot, uint64_t seed);

/* Records on their way out of a memory, each with a tag that was given by its
   place in the order. They come in the order in which they lie there, so that
   memory is freed as they go. Owner thread only. */
typedef struct fl_drain fl_drain;
typedef uint16_t (*fl_tag_of)(void *arg, uint64_t place);

/* Takes all records out; the memory is empty then, and ready for others. */
FL_MUST_CHECK
fl_status fl_memory_drain(fl_memory *m, fl_tag_of tag_of, void *arg,
                          fl_drain **out);
/* The next record, until the call after; NULL at the end. */
const uint32_t *fl_drain_next(fl_drain *d, uint16_t *tag);
void fl_drain_free(fl_drain *d); /* with what is left; NULL is fine */

/* Records [lo, hi) of the order as a batch. Any thread, while nothing moves. */
FL_MUST_CHECK
fl_status fl_memory_batch(const fl_memory *m, uint64_t lo, uint64_t hi,
                          fl_columns *out);

#endif
