/* feed_numbers.c - numbers of any type become the numbers of a slot. */
#include "data/reader/feed_numbers.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/tensor.h"

/* Each gives the index of the first value that does not fit, n when all do. */
typedef size_t (*convert_fn)(void *to, const void *from, size_t n);

static inline bool double_fits_id(double x)
{
    return x >= -0x1p63 && x < 0x1p64 && x == trunc(x);
}

static inline uint64_t id_of_double(double x)
{
    return x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x;
}

#define FLOAT_TO_ID(T, t)                                                      \
    static size_t t##_to_id(void *to, const void *from, size_t n)              \
    {                                                                          \
        uint64_t *y = to;                                                      \
        const T *x = from;                                                     \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            if (!double_fits_id((double)x[i]))                                 \
                return i;                                                      \
            y[i] = id_of_double((double)x[i]);                                 \
        }                                                                      \
        return n;                                                              \
    }
FLOAT_TO_ID(float, f32)
FLOAT_TO_ID(double, f64)

#define INT_TO_ID(T, t)                                                        \
    static size_t t##_to_id(void *to, const void *from, size_t n)              \
    {                                                                          \
        uint64_t *y = to;                                                      \
        const T *x = from;                                                     \
                                                                               \
        for (size_t i = 0; i < n; i++)                                         \
            y[i] = (uint64_t)x[i];                                             \
        return n;                                                              \
    }
INT_TO_ID(int32_t, i32)
INT_TO_ID(uint8_t, u8)
INT_TO_ID(int8_t, i8)
INT_TO_ID(int16_t, i16)

#define INT_TO_FLOAT(T, t)                                                     \
    static size_t t##_to_float(void *to, const void *from, size_t n)           \
    {                                                                          \
        float *y = to;                                                         \
        const T *x = from;                                                     \
                                                                               \
        for (size_t i = 0; i < n; i++)                                         \
            y[i] = (float)x[i];                                                \
        return n;                                                              \
    }
INT_TO_FLOAT(int32_t, i32)
INT_TO_FLOAT(int64_t, i64)
INT_TO_FLOAT(uint64_t, u64)
INT_TO_FLOAT(uint8_t, u8)
INT_TO_FLOAT(int8_t, i8)
INT_TO_FLOAT(int16_t, i16)

/* Halfway between the largest float and the next power of two: from here on
   the nearest float would be infinite. */
#define FLOAT_EDGE (0x1.ffffffp127)

static size_t f64_to_float(void *to, const void *from, size_t n)
{
    float *y = to;
    const double *x = from;

    for (size_t i = 0; i < n; i++) {
        if (fabs(x[i]) >= FLOAT_EDGE && !isinf(x[i]))
            return i;
        y[i] = (float)x[i];
    }
    return n;
}

static size_t f16_to_float(void *to, const void *from, size_t n)
{
    const uint16_t *x = from;
    float *y = to;

    for (size_t i = 0; i < n; i++)
        y[i] = fl_half_value(x[i]);
    return n;
}

static size_t f16_to_id(void *to, const void *from, size_t n)
{
    const uint16_t *x = from;

    for (size_t i = 0; i < n; i++) {
        float v = fl_half_value(x[i]);

        if (!f32_to_id((uint64_t *)to + i, &v, 1))
            return i;
    }
    return n;
}

/* By kind of slot and type; NULL where the bytes are right as they are. */
static const convert_fn converts[][FL_N_DTYPES] = {
    [FL_SLOT_IDS] = { [FL_DTYPE_F32] = f32_to_id,
                      [FL_DTYPE_F64] = f64_to_id,
                      [FL_DTYPE_I32] = i32_to_id,
                      [FL_DTYPE_U8] = u8_to_id,
                      [FL_DTYPE_BOOL] = u8_to_id,
                      [FL_DTYPE_F16] = f16_to_id,
                      [FL_DTYPE_I8] = i8_to_id,
                      [FL_DTYPE_I16] = i16_to_id },
    [FL_SLOT_FLOATS] = { [FL_DTYPE_F64] = f64_to_float,
                         [FL_DTYPE_I32] = i32_to_float,
                         [FL_DTYPE_I64] = i64_to_float,
                         [FL_DTYPE_U64] = u64_to_float,
                         [FL_DTYPE_U8] = u8_to_float,
                         [FL_DTYPE_BOOL] = u8_to_float,
                         [FL_DTYPE_F16] = f16_to_float,
                         [FL_DTYPE_I8] = i8_to_float,
                         [FL_DTYPE_I16] = i16_to_float },
};

size_t fl_feed_list_end(const fl_feed_place *at, size_t i)
{
    int64_t end = at->offsets[i];

    return (size_t)(at->inner ? at->inner[end] : end);
}

static fl_status does_not_fit(const fl_slot *slot, fl_feed_place at, double x,
                              size_t k)
{
    if (at.offsets) {
        FL_ASSERT(at.width);
        while (fl_feed_list_end(&at, at.row + 1) <= k / at.width)
            at.row++;
        k -= fl_feed_list_end(&at, at.row) * at.width;
    } else if (at.width) {
        at.row += k / at.width;
        k %= at.width;
    }
    if (slot->kind == FL_SLOT_FLOATS)
        FL_FAIL(FL_ERR_NUMERIC,
                "feed %s: value %zu of row %zu is %.15g, too large for a "
                "float32; scale it down",
                slot->name, k, at.row, x);
    FL_FAIL(FL_ERR_NUMERIC,
            "feed %s: value %zu of row %zu is %.15g, and an id is a whole "
            "number from -2^63 to 2^64-1; give ids as integers",
            slot->name, k, at.row, x);
}

/* Of a type that has values which do not fit. */
static double value_of(fl_dtype dtype, const void *from, size_t i)
{
    switch (dtype) {
    case FL_DTYPE_F16:
        return (double)fl_half_value(((const uint16_t *)from)[i]);
    case FL_DTYPE_F32:
        return (double)((const float *)from)[i];
    default:
        return ((const double *)from)[i];
    }
}

fl_status fl_feed_numbers(const fl_slot *slot, const fl_feed_array *from,
                          void *to, fl_feed_place at)
{
    convert_fn convert = converts[slot->kind][from->dtype];
    size_t n = from->n, bad = n;

    if (!n)
        return FL_OK;
    if (convert)
        bad = convert(to, from->data, n);
    else if (n == 1 && slot->kind == FL_SLOT_IDS)
        memcpy(to, from->data, 8);
    else
        memcpy(to, from->data, n * fl_slot_bytes(slot));
    if (bad == n)
        return FL_OK;
    return does_not_fit(slot, at, value_of(from->dtype, from->data, bad), bad);
}
