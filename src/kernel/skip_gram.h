/* skip_gram.h - rows of words against rows of words near them, chosen by CPU.
 *
 * A window is some input rows x[i], and some target rows y[j] of which the
 * first is right and the others are wrong:
 *
 *     z[i][j] = x[i] . y[j]        label[j] = 1 for j = 0, else 0
 *     loss   += -label log sigmoid(z) - (1 - label) log(1 - sigmoid(z))
 *     to_x[i] += step (label[j] - sigmoid(z[i][j])) y[j]     summed over j
 *     to_y[j] += step (label[j] - sigmoid(z[i][j])) x[i]     summed over i
 *
 * All z of a window are made before the first row changes. With step = -1 and
 * to_x, to_y apart from x, y this gives gradients; with to_x = x and to_y = y
 * it descends in place, and threads may do so on the same rows at once.
 */
#ifndef FL_KERNEL_SKIP_GRAM_H
#define FL_KERNEL_SKIP_GRAM_H

#include <stddef.h>
#include <stdint.h>

#include "kernel/isa.h"

/* Targets are taken in blocks of so many. */
#define FL_SKIP_GRAM_BLOCK 6
#define FL_SKIP_GRAM_STRIDE 8 /* from block to block in the work space */

/* Rows of one window: where each begins, counted in numbers and not in rows. */
typedef struct fl_skip_gram_window {
    const uint64_t *in, *target;
    size_t n_in, n_targets;
} fl_skip_gram_window;

/* A sum of -log and of products under one log: see fl_skip_gram_sum. */
typedef struct fl_skip_gram_loss {
    double sum, product;
} fl_skip_gram_loss;

#define FL_SKIP_GRAM_LOSS_ZERO                                                 \
    {                                                                          \
        .sum = 0, .product = 1                                                 \
    }

/* The rows, and work space that fl_skip_gram_room measures. */
#define FL_SKIP_GRAM_ROWS(T, t)                                                \
    typedef struct fl_skip_gram_##t##_rows {                                   \
        const T *x, *y;                                                        \
        T *to_x, *to_y;                                                        \
        T *room;                                                               \
        size_t dim;                                                            \
        T step;                                                                \
    } fl_skip_gram_##t##_rows;
FL_SKIP_GRAM_ROWS(float, f32)
FL_SKIP_GRAM_ROWS(double, f64)
#undef FL_SKIP_GRAM_ROWS

#define FL_SKIP_GRAM_TABLE(T, t)                                                 \
    typedef struct fl_skip_gram_##t##_table {                                    \
        /* step 0 changes nothing and gives the loss alone */                    \
        void (*window)(const fl_skip_gram_##t##_rows *r,                         \
                       const fl_skip_gram_window *w, fl_skip_gram_loss *loss);   \
        /* asks for what `next` has and `now` has not: another first target,   \
           the negatives, and the last input, to which the others moved up */ \
        void (*ahead)(const fl_skip_gram_##t##_rows *r,                          \
                      const fl_skip_gram_window *now,                            \
                      const fl_skip_gram_window *next);                          \
        /* out[i] = a (x[i] - y[i]) */                                           \
        void (*difference)(T * out, T a, const T *x, const T *y, size_t n);      \
    } fl_skip_gram_##t##_table;
FL_SKIP_GRAM_TABLE(float, f32)
FL_SKIP_GRAM_TABLE(double, f64)
#undef FL_SKIP_GRAM_TABLE

const fl_skip_gram_f32_table *fl_skip_gram_f32(void);
const fl_skip_gram_f64_table *fl_skip_gram_f64(void);

/* Numbers that `room` holds, for windows of at most so many rows. Those of the
   first row are zeros at first and stay so. */
size_t fl_skip_gram_room(size_t dim, size_t n_in, size_t n_targets);

/* The loss so far. */
double fl_skip_gram_sum(const fl_skip_gram_loss *loss);

#endif
