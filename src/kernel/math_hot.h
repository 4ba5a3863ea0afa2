/* math_hot.h - exp, log, log1p and tanh for the loops of *_hot.c.
 *
 * The f32 forms are sums, products and selections without a branch, a table or
 * a call, so that a loop over them becomes vector code; since nothing in them
 * depends on the width of a vector, all instruction sets give the same bits.
 * They are right to 2 units in the last place, tanh to 7, with infinities, NaN,
 * zeros and denormal numbers. In f64, where nobody trains, the C library's are
 * taken.
 */
#ifndef FL_KERNEL_MATH_HOT_H
#define FL_KERNEL_MATH_HOT_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t fl_bits_of_f32(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof(u));
    return u;
}

static inline float fl_f32_of_bits(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof(x));
    return x;
}

/* 2 to the power of n, n in [-126, 127]; 0 for -127, infinite for 128. */
static inline float fl_exp2i_f32(int32_t n)
{
    return fl_f32_of_bits((uint32_t)(n + 127) << 23);
}

/* exp(x) = p 2^n for x in [-104, 89], by x = n ln 2 + r with |r| <= ln 2 / 2;
   exp(r) is a polynomial. Adding 1.5 2^23 rounds n and leaves it in the low
   bits. */
static inline float fl_exp_parts_f32(float x, int32_t *n)
{
    const float round = 0x1.8p23f;
    float shifted = x * 0x1.715476p0f + round;
    float k = shifted - round;
    float r = (x - k * 0x1.63p-1f) - k * -0x1.bd0106p-13f;
    float p = 1.9875691500e-4f;

    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    *n = (int32_t)(fl_bits_of_f32(shifted) - fl_bits_of_f32(round));
    return p * (r * r) + r + 1;
}

/* Two factors make 2^n, because the result may be denormal. */
static inline float fl_exp_f32(float x)
{
    int32_t n;
    float p = fl_exp_parts_f32(x > 89 ? 89 : x < -104 ? -104 : x, &n);

    p = p * fl_exp2i_f32(n >> 1) * fl_exp2i_f32(n - (n >> 1));
    /* NaN would stay NaN by itself, but then gcc 12 leaves loops over
       log1p(exp(x)) scalar. */
    return x != x ? x : p;
}

/* exp of x in [-88, 89] with one factor: what would be denormal is 0, and what
   is above 2^127.5 is infinite. */
static inline float fl_exp_near_f32(float x)
{
    int32_t n;
    float p = fl_exp_parts_f32(x, &n);

    return p * fl_exp2i_f32(n);
}

static inline double fl_exp_near_f64(double x)
{
    return exp(x);
}

/* 1 / (1 + exp(-x)); NaN stays NaN. */
static inline float fl_sigmoid_f32(float x)
{
    return 1 / (1 + fl_exp_near_f32(x < -89 ? 89 : x > 88 ? -88 : -x));
}

static inline double fl_sigmoid_f64(double x)
{
    return 1 / (1 + exp(-x));
}

/* x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), and log(1 + f) as a
   series in s = f / (2 + f). */
static inline float fl_log_f32(float x)
{
    const uint32_t half = 0x3f3504f3; /* the bits of sqrt(1/2) */
    float scaled = x < FLT_MIN ? x * 0x1p25f : x;
    uint32_t u = fl_bits_of_f32(scaled) + (0x3f800000 - half);
    float k = (float)((int32_t)(u >> 23) - 127) - (x < FLT_MIN ? 25.0f : 0.0f);
    float f = fl_f32_of_bits((u & 0x007fffff) + half) - 1;
    float s = f / (2 + f), z = s * s, w = z * z, h = 0.5f * f * f;
    float even = w * (0.40000972152f + w * 0.24279078841f);
    float odd = z * (0.66666662693f + w * 0.28498786688f);
    float y = s * (h + (odd + even)) + k * 9.0580006145e-6f - h + f +
              k * 6.9313812256e-1f;

    y = x > FLT_MAX ? x : y;
    y = x == 0 ? -INFINITY : y;
    return x < 0 || x != x ? NAN : y;
}

/* log(u) for u = 1 + x as it is rounded, and what the rounding took. */
static inline float fl_log1p_f32(float x)
{
    float u = 1 + x, lost = (x - (u - 1)) / u;

    return fl_log_f32(u) + (u > 0 && u <= FLT_MAX ? lost : 0);
}

/* A quotient of two polynomials; beyond the cut it is 1 to the last bit. */
static inline float fl_tanh_f32(float x)
{
    float cut = x > 7.90531110763549805f    ? 7.90531110763549805f
                : x < -7.90531110763549805f ? -7.90531110763549805f
                                            : x;
    float z = cut * cut;
    float p = -2.76076847742355e-16f, q = 1.19825839466702e-06f;

    p = p * z + 2.00018790482477e-13f;
    p = p * z - 8.60467152213735e-11f;
    p = p * z + 5.12229709037114e-08f;
    p = p * z + 1.48572235717979e-05f;
    p = p * z + 6.37261928875436e-04f;
    p = p * z + 4.89352455891786e-03f;
    q = q * z + 1.18534705686654e-04f;
    q = q * z + 2.26843463243900e-03f;
    q = q * z + 4.89352518554385e-03f;
    return fabsf(x) < 0.0004f ? x : cut * p / q;
}

/* The same for either type. */
#define FL_EXP(x) _Generic((x), float : fl_exp_f32, double : exp)(x)
#define FL_LOG(x) _Generic((x), float : fl_log_f32, double : log)(x)
#define FL_LOG1P(x) _Generic((x), float : fl_log1p_f32, double : log1p)(x)
#define FL_TANH(x) _Generic((x), float : fl_tanh_f32, double : tanh)(x)
#define FL_SIGMOID(x)                                                          \
    _Generic((x), float : fl_sigmoid_f32, double : fl_sigmoid_f64)(x)

#endif
