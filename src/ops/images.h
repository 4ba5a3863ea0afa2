/* images.h - windows that go over images: what convolutions and pooling share.
 *
 * An image is [n, c, h, w], or [n, h, w, c] with data_format NHWC. A window has
 * as many places along each of the two sides as its size, stride, dilation and
 * the padding at both ends leave it.
 */
#ifndef FL_OPS_IMAGES_H
#define FL_OPS_IMAGES_H

#include "ops/kit.h"

/* One of the two sides, h or w. */
typedef struct fl_side_size {
    int64_t in, out, window, stride, dilation, before, after;
} fl_side_size;

typedef struct fl_windows {
    int64_t n, c;
    fl_side_size side[2];
    bool is_last; /* channels are the last dimension */
} fl_windows;

/* Where the attributes of an operator are. */
typedef struct fl_window_attrs {
    int strides, paddings, dilations; /* -1: it has none, all are 1 */
    int algorithm, format;
    int ceil; /* -1: it has none */
} fl_window_attrs;

/* Sizes of X in windows[2]; -1 where X is not known yet. */
FL_MUST_CHECK
fl_status fl_windows_of(const fl_op_node *n, const fl_shape *x,
                        const int64_t window[2], const fl_window_attrs *attrs,
                        fl_windows *out);

/* The shape that c channels have after it. */
fl_shape fl_windows_shape(const fl_windows *w, int64_t channels);

/* Element (channel, y, x) of an image that begins at 0. */
static inline int64_t fl_pixel(const fl_windows *w, int64_t channel, int64_t y,
                               int64_t x)
{
    return w->is_last ? (y * w->side[1].in + x) * w->c + channel
                      : (channel * w->side[0].in + y) * w->side[1].in + x;
}

#endif
