/* numbers.h - elements of calls: pieces of them, and sums. */
#ifndef FL_COLL_NUMBERS_H
#define FL_COLL_NUMBERS_H

#include "coll/coll.h"

/* Elements. */
typedef struct fl_coll_span {
    size_t lo, hi;
} fl_coll_span;

/* Piece i of n elements that are cut into nearly equal ones. */
fl_coll_span fl_coll_block(size_t n, int n_blocks, int i);

/* to = x (op) y for so many elements of the call's type; each may be `to`. */
void fl_coll_combine(const fl_coll_call *call, void *to, const void *x,
                     const void *y, size_t n);

#endif
