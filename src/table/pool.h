/* pool.h - rows of one size in slabs, addressed by number.
 *
 * Slabs are 8 to 16 MB of zeros that take memory as they are touched, on huge
 * pages; the first one starts small and is moved while it grows, so a tiny
 * table stays tiny. Freed rows are threaded through their own first bytes.
 *
 * Owner: the partition, under its lock. A row's address is good until the next
 * fl_pool_take.
 */
#ifndef FL_TABLE_POOL_H
#define FL_TABLE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/vec.h"

typedef struct fl_pool {
    uint32_t stride; /* bytes of a row, a multiple of 4 */
    uint32_t mask;   /* of a row's number in its slab: 2^shift - 1 */
    int shift;       /* 2^shift rows are a slab */
    FL_VEC(char *) slabs;
    size_t first_bytes; /* of slab 0; the others are whole */
    uint32_t n_used;    /* rows ever taken: [0, n_used) */
    uint32_t free_head; /* 1 + a free row; 0: none */
    uint32_t n_free;
} fl_pool;

#define FL_POOL_ROWS_MAX (UINT32_C(1) << 30)

void fl_pool_init(fl_pool *p, uint32_t stride);
void fl_pool_release(fl_pool *p);

/* A row whose bytes are not set. Fails with FL_ERR_NOMEM. */
FL_MUST_CHECK
fl_status fl_pool_take(fl_pool *p, uint32_t *row);
void fl_pool_give(fl_pool *p, uint32_t row);

static inline void *fl_pool_row(const fl_pool *p, uint32_t row)
{
    return p->slabs.data[row >> p->shift] + (size_t)(row & p->mask) * p->stride;
}

/* Rows taken and not given back. */
uint32_t fl_pool_len(const fl_pool *p);

/* Closing up: rows from fl_pool_len on are to move below it. Gives the next
   free row below the length, removing it from the free ones; after every row
   above has moved, fl_pool_trim gives the memory back. */
bool fl_pool_next_hole(fl_pool *p, uint32_t *row);
void fl_pool_trim(fl_pool *p);

/* Memory in use, by the rows ever taken. */
size_t fl_pool_bytes(const fl_pool *p);

#endif
