/* floor_w2v.h - skip-gram in straight C: what the cores can do at all.
 *
 * The same windows, negatives and steps as ours, over words that lie ready in
 * memory: no reading, no framework, hand-written loops, compiled for this
 * machine alone. Threads share the rows without locks. One floor at a time.
 */
#ifndef BENCH_FLOOR_W2V_H
#define BENCH_FLOOR_W2V_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLOOR_W2V_WINDOW 5
#define FLOOR_W2V_NEGATIVES 5

typedef struct floor_w2v floor_w2v;

/* A text of word numbers, which stays the caller's, and how often each of the
   words occurs. */
floor_w2v *floor_w2v_new(const int32_t *ids, size_t len, const uint64_t *counts,
                         size_t n_words, int dim);
void floor_w2v_free(floor_w2v *f);

/* Trains on n_words of the text, which begins anew at its end: negatives are
   drawn for each pair, or once for the pairs of a word. */
void floor_w2v_train(floor_w2v *f, size_t n_words, int n_threads, bool shared);

/* The sum of squares of the input rows, to see that it learns. */
double floor_w2v_norm(const floor_w2v *f);

#endif
