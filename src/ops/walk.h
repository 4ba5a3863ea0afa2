/* walk.h - a tensor as seen in the memory of a larger one.
 *
 * The view has the shape of the smaller tensor; its numbers lie at equal
 * distances in the larger one, which may be negative. A slice with steps, a
 * tensor turned round, the inside of a padded one and a diagonal are views.
 */
#ifndef FL_OPS_WALK_H
#define FL_OPS_WALK_H

#include "ops/kit.h"

typedef struct fl_walk {
    fl_shape shape;
    int64_t first; /* where the first number lies, counted in numbers */
    int64_t step[FL_RANK_MAX];
} fl_walk;

/* All of a tensor of this shape, as it lies. */
fl_walk fl_walk_of(const fl_shape *whole);

/* Along one axis: count places from start on, at a distance of step. */
void fl_walk_along(fl_walk *w, int axis, int64_t start, int64_t step,
                   int64_t count);

/* The small tensor becomes what is seen, or the other way round; `size` is the
   bytes of a number. */
void fl_walk_take(const fl_walk *w, size_t size, void *small,
                  const void *large);
void fl_walk_put(const fl_walk *w, size_t size, const void *small, void *large);

#endif
