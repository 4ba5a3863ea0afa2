/* walk.c - copies through the views of walk.h, a row of the last axis at a
 * time. */
#include "ops/walk.h"

#include <string.h>

fl_walk fl_walk_of(const fl_shape *whole)
{
    fl_walk w = { .shape = *whole };

    for (int i = 0; i < whole->rank; i++)
        w.step[i] = fl_shape_count(whole, i + 1, whole->rank);
    return w;
}

void fl_walk_along(fl_walk *w, int axis, int64_t start, int64_t step,
                   int64_t count)
{
    w->first += start * w->step[axis];
    w->step[axis] *= step;
    w->shape.dim[axis] = count;
}

/* Where row `row` of the view begins in the large tensor. */
static int64_t place_of(const fl_walk *w, int64_t row)
{
    int64_t at = w->first;

    for (int i = w->shape.rank - 2; i >= 0; i--) {
        at += row % w->shape.dim[i] * w->step[i];
        row /= w->shape.dim[i];
    }
    return at;
}

/* n numbers; a distance is a number of them. */
static void copy(char *to, int64_t to_step, const char *from, int64_t from_step,
                 int64_t n, size_t size)
{
    int64_t bytes = (int64_t)size;

    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * to_step * bytes, from + i * from_step * bytes, size);
}

void fl_walk_take(const fl_walk *w, size_t size, void *small, const void *large)
{
    int last = w->shape.rank - 1;
    int64_t n = w->shape.dim[last];
    int64_t rows = n ? fl_shape_count(&w->shape, 0, last) : 0;

    for (int64_t r = 0; r < rows; r++)
        copy((char *)small + r * n * (int64_t)size, 1,
             (const char *)large + place_of(w, r) * (int64_t)size,
             w->step[last], n, size);
}

void fl_walk_put(const fl_walk *w, size_t size, const void *small, void *large)
{
    int last = w->shape.rank - 1;
    int64_t n = w->shape.dim[last];
    int64_t rows = n ? fl_shape_count(&w->shape, 0, last) : 0;

    for (int64_t r = 0; r < rows; r++)
        copy((char *)large + place_of(w, r) * (int64_t)size, w->step[last],
             (const char *)small + r * n * (int64_t)size, 1, n, size);
}
