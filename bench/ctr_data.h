/* ctr_data.h - made-up clicks with the shape of Criteo's, for the floor and
 * for the library alike.
 *
 * A sample has one id in each of 26 slots and 13 dense numbers. Ids follow a
 * power law inside the vocabulary of their slot, whose sizes are Criteo's up
 * to a limit, and are hashed into one table. A click is drawn from a model
 * that the ids and the numbers decide, so there is something to learn. The
 * same seed gives the same data; another one gives other samples of the same
 * model.
 */
#ifndef BENCH_CTR_DATA_H
#define BENCH_CTR_DATA_H

#include <stddef.h>
#include <stdint.h>

/* The network that is measured: ids of all slots share one table of rows. It
   has two shapes. In the large one products of matrices are most of the work;
   in the small one (CTR_SMALL), with smaller batches, everything else is.
   CTR_PER_LARGE: batches that have about as many samples as a large one. */
#ifdef CTR_SMALL
#define CTR_BATCH 128
#define CTR_PER_LARGE 8
#define CTR_LAYERS 2 /* hidden ones */
#define CTR_WIDTHS 64, 32
#define CTR_LAST 32
#ifndef CTR_DIM
#define CTR_DIM 8
#endif
#else
#define CTR_BATCH 1000
#define CTR_PER_LARGE 1
#define CTR_LAYERS 3
#define CTR_WIDTHS 400, 400, 400
#define CTR_LAST 400
#define CTR_DIM 10
#endif
#define CTR_SLOTS 26
#define CTR_DENSE 13
#define CTR_ROWS 1000001
#define CTR_CLASSES 2
#define CTR_ROW_RANGE 0.01 /* rows start between -0.01 and 0.01 */

typedef struct ctr_data {
    size_t n;        /* samples, a multiple of CTR_BATCH */
    uint64_t *ids;   /* [n][CTR_SLOTS], below CTR_ROWS */
    float *dense;    /* [n][CTR_DENSE], in [0, 1) */
    int64_t *labels; /* [n], 0 or 1 */
    float *odds;     /* [n], the log odds that the label was drawn with */
} ctr_data;

/* Makes n_batches batches; ends the program when there is no memory. */
void ctr_data_init(ctr_data *d, size_t n_batches, uint64_t seed);
void ctr_data_release(ctr_data *d);

/* The next number of a random sequence, and one in [0, 1). */
uint64_t ctr_random(uint64_t *state);
double ctr_uniform(uint64_t *state);

#endif
