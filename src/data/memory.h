/* memory.h - records kept in memory, and their order.
 *
 * Blocks of packed rows are kept as they come; a reference of eight bytes says
 * where each record is. Shuffling moves references only. Adding is for any
 * thread, the rest for one.
 */
#ifndef FL_DATA_MEMORY_H
#define FL_DATA_MEMORY_H

#include "data/columns.h"

typedef struct fl_memory fl_memory;

fl_memory *fl_memory_new(const fl_schema *s);
void fl_memory_free(fl_memory *m);

/* Copies the rows in and leaves `rows` empty. Any thread. */
FL_MUST_CHECK
fl_status fl_memory_add(fl_memory *m, fl_rows *rows);

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

/* Records [lo, hi) of the order as a batch. Any thread, while nothing moves. */
FL_MUST_CHECK
fl_status fl_memory_batch(const fl_memory *m, uint64_t lo, uint64_t hi,
                          fl_columns *out);

#endif
