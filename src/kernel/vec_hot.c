/* vec_hot.c - the element-wise and column loops, compiled per instruction set.
 *
 * Outputs may be the inputs themselves (y = relu(y)) but may not overlap them
 * otherwise, which FL_FOR_EACH tells the compiler. Sums run in LANES partial
 * sums in double, lane l takes the elements l, l + LANES, ..., and the lanes
 * are folded in a fixed order: the same bits for every vector width.
 */
#include "kernel/vec.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/thread.h"
#include "kernel/hot.h"
#include "kernel/math_hot.h"

/* How many elements find_not_finite tests before it looks at the outcome. */
#define FINITE_BLOCK 256

/* Numbers of which a sum is made while they are near; a multiple of the lanes,
   so that sums of blocks are those of the whole. */
#define SUM_BLOCK 256
enum { SUM_LANES_f32 = 16, SUM_LANES_f64 = 8 };

/* Folds the upper half onto the lower until one lane is left. */
static double fold(double *lane, size_t n)
{
    for (size_t half = n / 2; half; half /= 2)
        for (size_t l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

#define ELEMENTWISE(T, t)                                                      \
    static void axpy_##t(T *y, T a, const T *x, size_t n)                      \
    {                                                                          \
        FL_FOR_EACH(i, n, y[i] += a * x[i];)                                   \
    }                                                                          \
    static void scale_##t(T *y, T a, const T *x, T b, size_t n)                \
    {                                                                          \
        FL_FOR_EACH(i, n, y[i] = a * x[i] + b;)                                \
    }                                                                          \
    static void add_##t(T *z, const T *x, const T *y, size_t n)                \
    {                                                                          \
        FL_FOR_EACH(i, n, z[i] = x[i] + y[i];)                                 \
    }                                                                          \
    static void sub_##t(T *z, const T *x, const T *y, size_t n)                \
    {                                                                          \
        FL_FOR_EACH(i, n, z[i] = x[i] - y[i];)                                 \
    }                                                                          \
    static void mul_##t(T *z, const T *x, const T *y, size_t n)                \
    {                                                                          \
        FL_FOR_EACH(i, n, z[i] = x[i] * y[i];)                                 \
    }                                                                          \
    static void div_##t(T *z, const T *x, const T *y, size_t n)                \
    {                                                                          \
        FL_FOR_EACH(i, n, z[i] = x[i] / y[i];)                                 \
    }                                                                          \
    /* NaN stays NaN: a comparison with it is false. */                        \
    static void relu_##t(T *y, const T *x, size_t n)                           \
    {                                                                          \
        FL_FOR_EACH(i, n, y[i] = x[i] < 0 ? 0 : x[i];)                         \
    }                                                                          \
    static void relu_grad_##t(T *dx, const T *y, const T *dy, size_t n)        \
    {                                                                          \
        FL_FOR_EACH(i, n, {                                                    \
            T g = dy[i];                                                       \
                                                                               \
            dx[i] = y[i] > 0 ? g : 0;                                          \
        })                                                                     \
    }                                                                          \
    static void positive_##t(uint8_t *is, const T *y, size_t n)                \
    {                                                                          \
        FL_FOR_EACH(i, n, is[i] = y[i] > 0;)                                   \
    }                                                                          \
    static void keep_where_##t(T *dx, const uint8_t *is, const T *dy,          \
                               size_t n)                                       \
    {                                                                          \
        FL_FOR_EACH(i, n, {                                                    \
            T g = dy[i];                                                       \
                                                                               \
            dx[i] = is[i] ? g : 0;                                             \
        })                                                                     \
    }

/* s + a b. The product of two floats is exact in double, so fusing it with the
   sum changes no bit; that of two doubles is not. */
static inline double add_product_f32(double s, double a, double b)
{
#ifdef __FMA__
    return __builtin_fma(a, b, s);
#else
    return s + a * b;
#endif
}

static inline double add_product_f64(double s, double a, double b)
{
    return s + a * b;
}

#define INLINE static inline __attribute__((always_inline))

#define REDUCTIONS(T, t, LANES)                                                \
    INLINE void add_lanes_##t(double *lane, const T *x, size_t n)              \
    {                                                                          \
        size_t i = 0;                                                          \
                                                                               \
        for (; i + LANES <= n; i += LANES)                                     \
            for (size_t l = 0; l < LANES; l++)                                 \
                lane[l] += (double)x[i + l];                                   \
        for (size_t l = 0; i + l < n; l++)                                     \
            lane[l] += (double)x[i + l];                                       \
    }                                                                          \
    static double sum_##t(const T *x, size_t n)                                \
    {                                                                          \
        double lane[LANES] = { 0 };                                            \
                                                                               \
        add_lanes_##t(lane, x, n);                                             \
        return fold(lane, LANES);                                              \
    }                                                                          \
    static void row_sums_##t(T *out, const T *x, size_t rows, size_t n)        \
    {                                                                          \
        for (size_t i = 0; i < rows; i++) {                                    \
            double lane[LANES] = { 0 };                                        \
                                                                               \
            add_lanes_##t(lane, x + i * n, n);                                 \
            out[i] = (T)fold(lane, LANES);                                     \
        }                                                                      \
    }                                                                          \
    static double dot_##t(const T *x, const T *y, size_t n)                    \
    {                                                                          \
        double lane[LANES] = { 0 };                                            \
        size_t i = 0;                                                          \
                                                                               \
        for (; i + LANES <= n; i += LANES)                                     \
            for (size_t l = 0; l < LANES; l++)                                 \
                lane[l] = add_product_##t(lane[l], (double)x[i + l],           \
                                          (double)y[i + l]);                   \
        for (size_t l = 0; i + l < n; l++)                                     \
            lane[l] =                                                          \
                add_product_##t(lane[l], (double)x[i + l], (double)y[i + l]);  \
        return fold(lane, LANES);                                              \
    }                                                                          \
    /* n products of each kind, to the first n lanes. */                       \
    INLINE void add_dots_##t(double *xx, double *yy, double *xy, const T *x,   \
                             const T *y, size_t n)                             \
    {                                                                          \
        for (size_t l = 0; l < n; l++) {                                       \
            double a = (double)x[l], b = (double)y[l];                         \
                                                                               \
            xx[l] = add_product_##t(xx[l], a, a);                              \
            yy[l] = add_product_##t(yy[l], b, b);                              \
            xy[l] = add_product_##t(xy[l], a, b);                              \
        }                                                                      \
    }                                                                          \
    static void dots_##t(double out[3], const T *x, const T *y, size_t n)      \
    {                                                                          \
        double xx[LANES], yy[LANES], xy[LANES];                                \
        size_t i = 0;                                                          \
                                                                               \
        /* One { 0 } for all would be a call of memset. */                     \
        for (size_t l = 0; l < LANES; l++)                                     \
            xx[l] = yy[l] = xy[l] = 0;                                         \
        for (; i + LANES <= n; i += LANES)                                     \
            add_dots_##t(xx, yy, xy, x + i, y + i, LANES);                     \
        if (i < n)                                                             \
            add_dots_##t(xx, yy, xy, x + i, y + i, n - i);                     \
        out[0] = fold(xx, LANES);                                              \
        out[1] = fold(yy, LANES);                                              \
        out[2] = fold(xy, LANES);                                              \
    }                                                                          \
    /* Four rows per sweep: a quarter of the traffic on out, same order. */    \
    static void col_sum_##t(T *out, const T *x, size_t rows, size_t cols,      \
                            size_t ld)                                         \
    {                                                                          \
        size_t i = 0;                                                          \
                                                                               \
        FL_FOR_EACH(j, cols, out[j] = 0;)                                      \
        for (; i + 4 <= rows; i += 4) {                                        \
            const T *r = x + i * ld;                                           \
                                                                               \
            FL_FOR_EACH(j, cols,                                               \
                        out[j] =                                               \
                            (((out[j] + r[j]) + r[ld + j]) + r[2 * ld + j]) +  \
                            r[3 * ld + j];)                                    \
        }                                                                      \
        for (; i < rows; i++) {                                                \
            const T *r = x + i * ld;                                           \
                                                                               \
            FL_FOR_EACH(j, cols, out[j] += r[j];)                              \
        }                                                                      \
    }

/* The largest is sought in lanes, too; more of them, since comparing is quick
   and waiting for the one before is not. */
#define EXTREMES(T, t, LANES)                                                  \
    static T max_##t(const T *x, size_t n)                                     \
    {                                                                          \
        T lane[LANES];                                                         \
        size_t i = 0;                                                          \
                                                                               \
        for (size_t l = 0; l < LANES; l++)                                     \
            lane[l] = x[0];                                                    \
        for (; i + LANES <= n; i += LANES)                                     \
            for (size_t l = 0; l < LANES; l++)                                 \
                lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];             \
        for (size_t l = 0; i + l < n; l++)                                     \
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];                 \
        for (size_t half = LANES / 2; half; half /= 2)                         \
            for (size_t l = 0; l < half; l++)                                  \
                lane[l] = lane[l + half] > lane[l] ? lane[l + half] : lane[l]; \
        return lane[0];                                                        \
    }                                                                          \
    static void max_rows_##t(T *best, int32_t *at, const T *x, size_t rows,    \
                             size_t n, int32_t first)                          \
    {                                                                          \
        FL_FOR_EACH(i, n, {                                                    \
            best[i] = x[i];                                                    \
            at[i] = first;                                                     \
        })                                                                     \
        for (size_t r = 1; r < rows; r++) {                                    \
            const T *row = x + r * n;                                          \
            int32_t number = first + (int32_t)r;                               \
                                                                               \
            FL_FOR_EACH(i, n, {                                                \
                T v = row[i], b = best[i];                                     \
                int32_t a = at[i];                                             \
                                                                               \
                at[i] = v > b ? number : a;                                    \
                best[i] = v > b ? v : b;                                       \
            })                                                                 \
        }                                                                      \
    }                                                                          \
    /* Two classes, the usual case: the same bits without lanes. */            \
    static fl_softmax_of softmax_two_##t(T *y, const T *x)                     \
    {                                                                          \
        T top = x[1] > x[0] ? x[1] : x[0], least = FL_SOFTMAX_LEAST;           \
        T d0 = x[0] - top, d1 = x[1] - top;                                    \
        T e0 = fl_exp_near_##t(d0 < least ? least : d0);                       \
        T e1 = fl_exp_near_##t(d1 < least ? least : d1);                       \
        fl_softmax_of of = { (double)top, (double)e0 + (double)e1 };           \
                                                                               \
        if (y) {                                                               \
            y[0] = e0 * (T)(1 / of.sum);                                       \
            y[1] = e1 * (T)(1 / of.sum);                                       \
        }                                                                      \
        return of;                                                             \
    }                                                                          \
    /* A block stays in the first cache between its exponentials and their   \
       sum. */ \
    static fl_softmax_of softmax_many_##t(T *y, const T *x, size_t n)          \
    {                                                                          \
        double lane[SUM_LANES_##t] = { 0 };                                    \
        T top = max_##t(x, n), least = FL_SOFTMAX_LEAST, here[SUM_BLOCK];      \
        fl_softmax_of of = { (double)top, 0 };                                 \
                                                                               \
        for (size_t lo = 0; lo < n; lo += SUM_BLOCK) {                         \
            size_t len = n - lo < SUM_BLOCK ? n - lo : SUM_BLOCK;              \
            const T *from = x + lo;                                            \
            T *to = y ? y + lo : here;                                         \
                                                                               \
            FL_FOR_EACH(i, len, {                                              \
                T d = from[i] - top;                                           \
                                                                               \
                to[i] = fl_exp_near_##t(d < least ? least : d);                \
            })                                                                 \
            add_lanes_##t(lane, to, len);                                      \
        }                                                                      \
        of.sum = fold(lane, SUM_LANES_##t);                                    \
        if (y)                                                                 \
            scale_##t(y, (T)(1 / of.sum), y, 0, n);                            \
        return of;                                                             \
    }                                                                          \
    static fl_softmax_of softmax_##t(T *y, const T *x, size_t n)               \
    {                                                                          \
        return n == 2 ? softmax_two_##t(y, x) : softmax_many_##t(y, x, n);     \
    }                                                                          \
    static size_t count_from_##t(const T *x, T v, size_t n)                    \
    {                                                                          \
        uint32_t count = 0;                                                    \
                                                                               \
        for (size_t i = 0; i < n; i++)                                         \
            count += !(x[i] < v);                                              \
        return count;                                                          \
    }                                                                          \
    static size_t count_above_##t(const T *x, T v, size_t n)                   \
    {                                                                          \
        uint32_t count = 0;                                                    \
                                                                               \
        for (size_t i = 0; i < n; i++)                                         \
            count += !(x[i] <= v);                                             \
        return count;                                                          \
    }                                                                          \
    static void logistic_loss_##t(T *loss, const T *x, const T *label,         \
                                  T ignore, size_t n)                          \
    {                                                                          \
        FL_FOR_EACH(i, n, {                                                    \
            T v = x[i], l = label[i];                                          \
            T y = (v > 0 ? v : 0) - v * l + FL_LOG1P(FL_EXP(v > 0 ? -v : v));  \
                                                                               \
            loss[i] = l == ignore ? 0 : y;                                     \
        })                                                                     \
    }                                                                          \
    static void logistic_grad_##t(T *dx, const T *x, const T *label,           \
                                  const T *g, T ignore, size_t n)              \
    {                                                                          \
        FL_FOR_EACH(i, n, {                                                    \
            T d = (FL_SIGMOID(x[i]) - label[i]) * g[i];                        \
                                                                               \
            dx[i] = label[i] == ignore ? 0 : d;                                \
        })                                                                     \
    }

/* The biases are weights: other threads may be changing them. */
#define ACTIVATIONS(T, t)                                                      \
    FL_RACY                                                                    \
    static void bias_row_##t(T *y, const T *bias, size_t n, fl_act act)        \
    {                                                                          \
        if (act != FL_ACT_RELU) {                                              \
            FL_FOR_EACH(j, n, y[j] += bias[j];)                                \
            return;                                                            \
        }                                                                      \
        FL_FOR_EACH(j, n, {                                                    \
            T v = y[j] + bias[j];                                              \
                                                                               \
            y[j] = v < 0 ? 0 : v;                                              \
        })                                                                     \
    }                                                                          \
    static void act_row_##t(T *y, size_t n, fl_act act)                        \
    {                                                                          \
        switch (act) {                                                         \
        case FL_ACT_NONE:                                                      \
            break;                                                             \
        case FL_ACT_RELU:                                                      \
            relu_##t(y, y, n);                                                 \
            break;                                                             \
        case FL_ACT_SIGMOID:                                                   \
            FL_FOR_EACH(j, n, y[j] = FL_SIGMOID(y[j]);)                        \
            break;                                                             \
        case FL_ACT_TANH:                                                      \
            FL_FOR_EACH(j, n, y[j] = FL_TANH(y[j]);)                           \
            break;                                                             \
        }                                                                      \
    }                                                                          \
    static void bias_act_##t(T *y, const T *bias, size_t rows, size_t cols,    \
                             size_t ld, fl_act act)                            \
    {                                                                          \
        for (size_t i = 0; i < rows; i++) {                                    \
            if (bias)                                                          \
                bias_row_##t(y + i * ld, bias, cols, act);                     \
            if (!bias || act != FL_ACT_RELU)                                   \
                act_row_##t(y + i * ld, cols, act);                            \
        }                                                                      \
    }                                                                          \
    static void act_grad_##t(T *dz, const T *dy, const T *y, size_t n,         \
                             fl_act act)                                       \
    {                                                                          \
        switch (act) {                                                         \
        case FL_ACT_NONE:                                                      \
            if (n && dz != dy)                                                 \
                memcpy(dz, dy, n * sizeof(T));                                 \
            break;                                                             \
        case FL_ACT_RELU:                                                      \
            relu_grad_##t(dz, y, dy, n);                                       \
            break;                                                             \
        case FL_ACT_SIGMOID:                                                   \
            FL_FOR_EACH(i, n, dz[i] = dy[i] * y[i] * (1 - y[i]);)              \
            break;                                                             \
        case FL_ACT_TANH:                                                      \
            FL_FOR_EACH(i, n, dz[i] = dy[i] * (1 - y[i] * y[i]);)              \
            break;                                                             \
        }                                                                      \
    }

/* A block is tested as a whole first, without a branch per element. */
#define FINITE(T, t, ABS, MAX)                                                 \
    static size_t find_not_finite_##t(const T *x, size_t n)                    \
    {                                                                          \
        for (size_t lo = 0; lo < n; lo += FINITE_BLOCK) {                      \
            size_t hi = n - lo < FINITE_BLOCK ? n : lo + FINITE_BLOCK;         \
            unsigned bad = 0;                                                  \
                                                                               \
            for (size_t i = lo; i < hi; i++)                                   \
                bad |= !(ABS(x[i]) <= MAX);                                    \
            if (!bad)                                                          \
                continue;                                                      \
            while (ABS(x[lo]) <= MAX)                                          \
                lo++;                                                          \
            return lo;                                                         \
        }                                                                      \
        return n;                                                              \
    }

ELEMENTWISE(float, f32)
ELEMENTWISE(double, f64)
REDUCTIONS(float, f32, SUM_LANES_f32)
REDUCTIONS(double, f64, SUM_LANES_f64)
EXTREMES(float, f32, 64)
EXTREMES(double, f64, 32)
ACTIVATIONS(float, f32)
ACTIVATIONS(double, f64)
FINITE(float, f32, fabsf, FLT_MAX)
FINITE(double, f64, fabs, DBL_MAX)

#define ENTRY_F32(ret, name, params) .name = name##_f32,
#define ENTRY_F64(ret, name, params) .name = name##_f64,

const fl_vec_f32_table
    FL_ISA_NAME(fl_vec_f32_table_of) = { FL_VEC_FUNCTIONS(float, ENTRY_F32) };

const fl_vec_f64_table
    FL_ISA_NAME(fl_vec_f64_table_of) = { FL_VEC_FUNCTIONS(double, ENTRY_F64) };
