/* strips.h - a tensor and the parts it is cut into along one axis.
 *
 * With the dimensions before the axis as rows, a row of the whole is the rows
 * of its parts, one behind the other.
 */
#ifndef FL_OPS_STRIPS_H
#define FL_OPS_STRIPS_H

#include "ops/kit.h"

typedef struct fl_strip {
    char *data; /* NULL: a part that is left out */
    size_t row_bytes;
} fl_strip;

/* The strip of a part of shape `s`, its data still missing. */
fl_strip fl_strip_of(const fl_shape *s, int axis, fl_dtype dtype);

/* Rows of the share become those of the parts; missing parts count as 0. */
void fl_strips_join(char *whole, const fl_strip *parts, int n, fl_span rows);

/* The parts become their share of the whole; missing parts are skipped. */
void fl_strips_cut(const char *whole, const fl_strip *parts, int n,
                   fl_span rows);

#endif
