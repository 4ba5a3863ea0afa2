/* unary.h - loops of the functions of one number (unary.def), chosen by CPU.
 *
 * Tables are indexed by float type: 0 is f32, 1 is f64. n may be 0; outputs
 * may be inputs. A gradient does not touch the arrays that its row of the list
 * does not read. Attributes come as doubles, FL_UNARY_ATTRS_MAX of them.
 */
#ifndef FL_KERNEL_UNARY_H
#define FL_KERNEL_UNARY_H

#include <stddef.h>

#include "kernel/isa.h"

#define FL_UNARY_ATTRS_MAX 3

typedef struct fl_unary {
    void (*value[2])(void *y, const void *x, size_t n, const double *attrs);
    void (*gradient[2])(void *dx, const void *x, const void *y, const void *g,
                        size_t n, const double *attrs);
} fl_unary;

typedef enum fl_unary_kind {
#define U(name, ...) FL_UNARY_##name,
#include "kernel/unary.def"
#undef U
    FL_UNARY_COUNT
} fl_unary_kind;

const fl_unary *fl_unary_of(fl_unary_kind k);

#endif
