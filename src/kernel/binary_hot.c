/* binary_hot.c - the loops of the functions of two numbers, compiled per
 * instruction set. */
#include "kernel/binary.h"

#include <stdint.h>
#include <tgmath.h>

#include "kernel/hot.h"

/* What the rows of the list are written with. */
#define MODULO(a, b)                                                           \
    _Generic((a), float : modulo_f32, double : modulo_f64)(a, b)

#define MODULO_OF(T, t)                                                        \
    static inline T modulo_##t(T a, T b)                                       \
    {                                                                          \
        T r = fmod(a, b);                                                      \
                                                                               \
        return r != 0 && (b < 0) != (r < 0) ? r + b : r;                       \
    }
MODULO_OF(float, f32)
MODULO_OF(double, f64)

/* The callers refuse a divisor of 0; the least number by -1 wraps around. */
#define WRAP(op) (T)((U)x[k] op(U) y[j])
#define QUOTIENT y[j] == -1 ? (T)(0 - (U)x[k]) : x[k] / y[j]
#define REMAINDER y[j] == -1 ? 0 : x[k] % y[j]

/* Powers wrap around too; of a negative one the fraction is left out. */
static inline int64_t whole_power(int64_t x, int64_t y)
{
    uint64_t base = (uint64_t)x, out = 1;

    if (y < 0)
        return x == 1 || (x == -1 && y % 2 == 0) ? 1 : x == -1 ? -1 : 0;
    for (; y; y >>= 1, base *= base)
        if (y & 1)
            out *= base;
    return (int64_t)out;
}
#define POWER (T)(U) whole_power(x[k], y[j])

/* The three forms of one expression. A single number is copied first, so that
   the compiler need not fear that the loop changes it. */
#define LOOPS(name, EXPRESSION)                                                \
    static void name##_both(void *out, const void *xs, const void *ys,         \
                            const void *zs, const void *gs, size_t n)          \
    {                                                                          \
        const T *x = xs, *y = ys;                                              \
        BODY(EXPRESSION, i, i)                                                 \
    }                                                                          \
    static void name##_one_y(void *out, const void *xs, const void *ys,        \
                             const void *zs, const void *gs, size_t n)         \
    {                                                                          \
        const T one = *(const T *)ys, *x = xs, *y = &one;                      \
        BODY(EXPRESSION, i, 0)                                                 \
    }                                                                          \
    static void name##_one_x(void *out, const void *xs, const void *ys,        \
                             const void *zs, const void *gs, size_t n)         \
    {                                                                          \
        const T one = *(const T *)xs, *x = &one, *y = ys;                      \
        BODY(EXPRESSION, 0, i)                                                 \
    }

#define BODY(EXPRESSION, AT_X, AT_Y)                                           \
    const T *z = zs, *g = gs;                                                  \
    T *to = out;                                                               \
                                                                               \
    (void)x, (void)y, (void)z, (void)g;                                        \
    FL_FOR_EACH(i, n, {                                                        \
        const size_t k = AT_X, j = AT_Y;                                       \
                                                                               \
        (void)k, (void)j;                                                      \
        to[i] = EXPRESSION;                                                    \
    })

#define FORMS(name)                                                            \
    {                                                                          \
        name##_both, name##_one_y, name##_one_x                                \
    }

#define T float
#define B(name, text, VALUE, DX, DY, ...)                                      \
    LOOPS(name##_f32, VALUE)                                                   \
    LOOPS(name##_dx_f32, DX)                                                   \
    LOOPS(name##_dy_f32, DY)
#include "kernel/binary.def"
#undef B
#undef T

#define T double
#define B(name, text, VALUE, DX, DY, ...)                                      \
    LOOPS(name##_f64, VALUE)                                                   \
    LOOPS(name##_dx_f64, DX)                                                   \
    LOOPS(name##_dy_f64, DY)
#include "kernel/binary.def"
#undef B
#undef T

#define T int32_t
#define U uint32_t
#define B(name, text, VALUE, DX, DY, INTS, ...) LOOPS(name##_i32, INTS)
#include "kernel/binary.def"
#undef B
#undef U
#undef T

#define T int64_t
#define U uint64_t
#define B(name, text, VALUE, DX, DY, INTS, ...) LOOPS(name##_i64, INTS)
#include "kernel/binary.def"
#undef B
#undef U
#undef T

const fl_binary FL_ISA_NAME(fl_binary_table_of)[] = {
#define B(name, ...)                                                           \
    { { FORMS(name##_f32), FORMS(name##_f64), FORMS(name##_i32),               \
        FORMS(name##_i64) },                                                   \
      { { FORMS(name##_dx_f32), FORMS(name##_dy_f32) },                        \
        { FORMS(name##_dx_f64), FORMS(name##_dy_f64) } } },
#include "kernel/binary.def"
#undef B
};
