/* unary_hot.c - the loops of the functions of one number, compiled per
 * instruction set. */
#include "kernel/unary.h"

#include <tgmath.h>

#include "kernel/hot.h"
#include "kernel/math_hot.h"

/* What the rows of the list are written with. NaN stays NaN: a comparison with
   it is false. */
#define SQUARE(v) ((v) * (v))
/* log(1 + exp(v)) and its slope, which are simple far from 0. */
#define MISH_PLUS(v, far)                                                      \
    ((v) > (far) ? (v) : (v) < -(far) ? FL_EXP(v) : FL_LOG1P(FL_EXP(v)))
#define MISH_SLOPE(v, far)                                                     \
    ((v) > (far) ? 1 : (v) < -(far) ? FL_EXP(v) : FL_SIGMOID(v))
#define CUT(v, lo, hi) ((v) < (lo) ? (lo) : (v) > (hi) ? (hi) : (v))

/* Of the normal distribution: the share below v, and the density at v. */
#define NORMAL_SHARE(v) ((1 + erf((v) * (T)0.70710678118654752440)) / 2)
#define NORMAL_DENSITY(v) (FL_EXP(-(v) * (v) / 2) * (T)0.39894228040143267794)

/* The share's near relation that needs no error function, and the slope of
   v times it. */
#define GELU_ANGLE(v)                                                          \
    ((T)0.79788456080286535588 * ((v) + (T)0.044715 * (v) * (v) * (v)))
#define GELU_SHARE(v) ((1 + FL_TANH(GELU_ANGLE(v))) / 2)
#define GELU_SLOPE(v)                                                          \
    (GELU_SHARE(v) + (v) * (1 - SQUARE(FL_TANH(GELU_ANGLE(v)))) / 2 *          \
                         (T)0.79788456080286535588 *                           \
                         (1 + 3 * (T)0.044715 * (v) * (v)))

#define READ_ATTRS                                                             \
    const T a0 = (T)attrs[0], a1 = (T)attrs[1], a2 = (T)attrs[2];              \
                                                                               \
    (void)a0, (void)a1, (void)a2

#define LOOPS(type, t, name, VALUE, GRADIENT)                                  \
    static void name##_value_##t(void *out, const void *in, size_t n,          \
                                 const double *attrs)                          \
    {                                                                          \
        typedef type T;                                                        \
        const T *x = in;                                                       \
        T *y = out;                                                            \
        READ_ATTRS;                                                            \
                                                                               \
        FL_FOR_EACH(i, n, y[i] = VALUE;)                                       \
    }                                                                          \
    static void name##_gradient_##t(void *din, const void *in,                 \
                                    const void *out, const void *dout,         \
                                    size_t n, const double *attrs)             \
    {                                                                          \
        typedef type T;                                                        \
        const T *x = in, *y = out, *g = dout;                                  \
        T *dx = din;                                                           \
        READ_ATTRS;                                                            \
                                                                               \
        (void)x, (void)y, (void)g;                                             \
        FL_FOR_EACH(i, n, dx[i] = GRADIENT;)                                   \
    }

#define U(name, text, VALUE, GRADIENT, ...)                                    \
    LOOPS(float, f32, name, VALUE, GRADIENT)                                   \
    LOOPS(double, f64, name, VALUE, GRADIENT)
#include "kernel/unary.def"
#undef U

const fl_unary FL_ISA_NAME(fl_unary_table_of)[] = {
#define U(name, ...)                                                           \
    { { name##_value_f32, name##_value_f64 },                                  \
      { name##_gradient_f32, name##_gradient_f64 } },
#include "kernel/unary.def"
#undef U
};
