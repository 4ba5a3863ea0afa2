/* binary.h - loops of the functions of two numbers (binary.def), chosen by
 * CPU.
 *
 * A loop runs over n elements of Out. X and Y have as many, or one of them has
 * a single number there. `to` may be one of the others. A loop does not touch
 * what its expression does not name.
 */
#ifndef FL_KERNEL_BINARY_H
#define FL_KERNEL_BINARY_H

#include <stddef.h>

#include "kernel/isa.h"

/* Which of the two has n elements along a loop. */
typedef enum fl_binary_form {
    FL_BINARY_BOTH,
    FL_BINARY_ONE_Y,
    FL_BINARY_ONE_X,
    FL_BINARY_FORMS
} fl_binary_form;

enum fl_binary_flag {
    FL_BINARY_INTS = 1,    /* integers too */
    FL_BINARY_DX_IS_G = 2, /* the gradient of X is that of Out */
    FL_BINARY_DY_IS_G = 4,
    FL_BINARY_DIVIDES = 8, /* an integer Y of 0 is an error */
    FL_BINARY_NO_BACK = 16,
    FL_BINARY_ROWS = 32 /* X may be rows + values, Y is one number then */
};

/* z and g are Out and its gradient, for gradients. */
typedef void (*fl_binary_loop)(void *to, const void *x, const void *y,
                               const void *z, const void *g, size_t n);

/* By type: f32, f64, i32, i64; gradients by input, X and Y, too. */
typedef struct fl_binary {
    fl_binary_loop value[4][FL_BINARY_FORMS];
    fl_binary_loop gradient[2][2][FL_BINARY_FORMS];
} fl_binary;

typedef enum fl_binary_kind {
#define B(name, ...) FL_BINARY_##name,
#include "kernel/binary.def"
#undef B
    FL_BINARY_COUNT
} fl_binary_kind;

const fl_binary *fl_binary_of(fl_binary_kind k);

#endif
