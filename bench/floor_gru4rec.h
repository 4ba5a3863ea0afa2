/* floor_gru4rec.h - GRU4Rec with the loss over all items in straight C: the
 * same network, sizes and rule as models/gru4rec.c, hand-written loops and the
 * same matrix library, one thread.
 */
#ifndef BENCH_FLOOR_GRU4REC_H
#define BENCH_FLOOR_GRU4REC_H

#include <stddef.h>

enum { GRU4REC_ITEMS = 43098, GRU4REC_BATCH = 50, GRU4REC_LEN_MAX = 16 };

typedef struct floor_gru4rec floor_gru4rec;

/* Trains on n sessions, a multiple of the batch: session i has the clicks
   items[offsets[i]] to items[offsets[i + 1]], 2 to GRU4REC_LEN_MAX of them below
   GRU4REC_ITEMS. Both are the caller's. */
floor_gru4rec *floor_gru4rec_new(const int *items, const size_t *offsets,
                                 size_t n);
void floor_gru4rec_free(floor_gru4rec *f);

/* One pass; returns the mean loss. */
double floor_gru4rec_train(floor_gru4rec *f);

#endif
