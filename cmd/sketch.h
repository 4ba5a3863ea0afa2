/* sketch.h - how many numbers of each size were there? Quantiles come of it.
 *
 * Numbers are rounded to 13 binary digits and counted: whole ones up to 8192 are
 * exact, others right to 1 part in 8192. Counts do not depend on the order, and
 * those of several threads are put together. Owner thread only.
 */
#ifndef FL_CMD_SKETCH_H
#define FL_CMD_SKETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sketch_cell {
    int32_t key;    /* ascends with the number */
    uint64_t count; /* 0: a free cell */
} sketch_cell;

/* All zero: none yet. */
typedef struct sketch {
    sketch_cell *cells;
    size_t n_cells, n_used;
    uint64_t total;
} sketch;

/* False without memory. x is a number. */
bool sketch_add(sketch *s, float x);
bool sketch_merge(sketch *into, const sketch *from);
void sketch_release(sketch *s);

/* out[i] becomes the least number that i / (n - 1) of all are not above; false
   without memory. There is one number at least, and n is 2 or more. */
bool sketch_quantiles(const sketch *s, double *out, size_t n);

#endif
