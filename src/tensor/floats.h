/* floats.h - choosing by float type: the only ways there are, and none of them
 * takes one type for another (docs/decisions/017-dtype-and-device.md). */
#ifndef FL_TENSOR_FLOATS_H
#define FL_TENSOR_FLOATS_H

#include "base/status.h"
#include "flotilla/tensor.h"

/* Expands M(float, f32) and M(double, f64). */
#define FL_FLOATS(M) M(float, f32) M(double, f64)

/* Calls fn_f32 or fn_f64 by the dtype of a tensor. Another type is our fault:
   infer lets none through (docs/decisions/017-dtype-and-device.md). */
#define FL_BY_DTYPE(dtype_, fn, ...)                                           \
    do {                                                                       \
        switch (dtype_) {                                                      \
        case FL_DTYPE_F32:                                                     \
            fn##_f32(__VA_ARGS__);                                             \
            break;                                                             \
        case FL_DTYPE_F64:                                                     \
            fn##_f64(__VA_ARGS__);                                             \
            break;                                                             \
        default:                                                               \
            fl_die(__FILE__, __LINE__, "%s has no form for %s", #fn,           \
                   fl_dtype_text(dtype_));                                     \
        }                                                                      \
    } while (0)

/* Number i of a tensor of floats. */
static inline double fl_float_at(const fl_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case FL_DTYPE_F32:
        return (double)((const float *)t->data)[i];
    case FL_DTYPE_F64:
        return ((const double *)t->data)[i];
    default:
        fl_die(__FILE__, __LINE__, "%s is no float", fl_dtype_text(t->dtype));
    }
}

#endif
