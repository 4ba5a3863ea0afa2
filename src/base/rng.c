/* rng.c - values from counters, the same bits on every machine.
 *
 *     key(stream, row) = mix(stream + mix(row * R + 1))
 *     bits(key, col)   = mix(key + col * C)
 *
 * Along a row this is splitmix64 started at the row's key.
 *
 * Normal values come by inversion: one draw, one value, whatever the value.
 * The inverse is Wichura's rational approximation (algorithm AS 241, error
 * about 1e-16). Only + - * / and sqrt are used, which IEEE 754 rounds exactly
 * in one way; the logarithm is our own, because the C library's differs in the
 * last bit from one CPU to the next.
 */
#include "base/rng.h"

#include <float.h>
#include <math.h>
#include <stddef.h>

#include "base/status.h"

_Static_assert(FLT_EVAL_METHOD == 0, "values are pinned to plain doubles");

/* P(Z < -2) for a standard normal Z. */
#define PHI_MINUS_2 0.022750131948179207

#define DEGREE 7

static double unit_of(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

/* The middles of 2^52 equal pieces of (0, 1): never 0, never 1, symmetric. */
static double open_of(uint64_t bits)
{
    return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

/* c[0] + c[1] x + ... + c[DEGREE] x^DEGREE */
static double poly(const double c[DEGREE + 1], double x)
{
    double y = c[DEGREE];

    for (int i = DEGREE - 1; i >= 0; i--)
        y = y * x + c[i];
    return y;
}

/* The natural logarithm of x > 0: with x = m 2^e and s = (m - 1) / (m + 1),
   ln x = e ln 2 + 2 (s + s^3/3 + s^5/5 + ...), |s| < 0.172. ln 2 comes in two
   parts, the first so short that its product with e is exact. */
static double natural_log(double x)
{
    const double ln2_hi = 0x1.62e42fee00000p-1;
    const double ln2_lo = 0x1.a39ef35793c76p-33;
    double m, s, square, sum = 0;
    int e;

    m = frexp(x, &e);
    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    s = (m - 1) / (m + 1);
    square = s * s;
    for (int k = 23; k >= 3; k -= 2)
        sum = (sum + 1.0 / k) * square;
    return e * ln2_hi + (2 * (s + s * sum) + e * ln2_lo);
}

/* Near the middle: z = q P(t) / Q(t), q = p - 1/2, t = 0.180625 - q^2. */
static double normal_inside(double q)
{
    static const double num[DEGREE + 1] = {
        3.3871328727963666080e0, 1.3314166789178437745e2,
        1.9715909503065514427e3, 1.3731693765509461125e4,
        4.5921953931549871457e4, 6.7265770927008700853e4,
        3.3430575583588128105e4, 2.5090809287301226727e3,
    };
    static const double den[DEGREE + 1] = {
        1.0,
        4.2313330701600911252e1,
        6.8718700749205790830e2,
        5.3941960214247511077e3,
        2.1213794301586595867e4,
        3.9307895800092710610e4,
        2.8729085735721942674e4,
        5.2264952788528545610e3,
    };
    double t = 0.180625 - q * q;

    return q * poly(num, t) / poly(den, t);
}

/* In the tails: |z| = P(t) / Q(t) with t = sqrt(-ln p) - 1.6, up to
   p = exp(-25). */
static double normal_near_tail(double t)
{
    static const double num[DEGREE + 1] = {
        1.42343711074968357734e0,  4.63033784615654529590e0,
        5.76949722146069140550e0,  3.64784832476320460504e0,
        1.27045825245236838258e0,  2.41780725177450611770e-1,
        2.27238449892691845833e-2, 7.74545014278341407640e-4,
    };
    static const double den[DEGREE + 1] = {
        1.0,
        2.05319162663775882187e0,
        1.67638483018380384940e0,
        6.89767334985100004550e-1,
        1.48103976427480074590e-1,
        1.51986665636164571966e-2,
        5.47593808499534494600e-4,
        1.05075007164441684324e-9,
    };

    return poly(num, t) / poly(den, t);
}

/* The same beyond, with t = sqrt(-ln p) - 5. */
static double normal_far_tail(double t)
{
    static const double num[DEGREE + 1] = {
        6.65790464350110377720e0,  5.46378491116411436990e0,
        1.78482653991729133580e0,  2.96560571828504891230e-1,
        2.65321895265761230930e-2, 1.24266094738807843860e-3,
        2.71155556874348757815e-5, 2.01033439929228813265e-7,
    };
    static const double den[DEGREE + 1] = {
        1.0,
        5.99832206555887937690e-1,
        1.36929880922735805310e-1,
        1.48753612908506148525e-2,
        7.86869131145613259100e-4,
        1.84631831751005468180e-5,
        1.42151175831644588870e-7,
        2.04426310338993978564e-15,
    };

    return poly(num, t) / poly(den, t);
}

/* z with P(Z < z) = p, for p in (0, 1). */
static double normal_inverse(double p)
{
    double q = p - 0.5;
    double r, z;

    if (fabs(q) <= 0.425)
        return normal_inside(q);
    r = sqrt(-natural_log(q < 0 ? p : 1 - p));
    z = r <= 5 ? normal_near_tail(r - 1.6) : normal_far_tail(r - 5);
    return q < 0 ? -z : z;
}

/* The part of (0, 1) between two deviations on either side; the inversion may
   still overshoot its ends by a last bit. */
static double truncated_of(uint64_t bits)
{
    double p = PHI_MINUS_2 + (1 - 2 * PHI_MINUS_2) * open_of(bits);

    return fmin(2.0, fmax(-2.0, normal_inverse(p)));
}

/* a + (b - a) u may round up to b, which is outside. */
static double uniform_of(double a, double b, uint64_t bits)
{
    double v = a + (b - a) * unit_of(bits);

    return a < b && v >= b ? nextafter(b, a) : v;
}

static double init_of(const fl_init *init, uint64_t bits)
{
    switch (init->kind) {
    case FL_INIT_CONSTANT:
        return init->a;
    case FL_INIT_UNIFORM:
        return uniform_of(init->a, init->b, bits);
    case FL_INIT_GAUSSIAN:
        return init->a + init->b * normal_inverse(open_of(bits));
    case FL_INIT_TRUNCATED:
        return init->a + init->b * truncated_of(bits);
    }
    fl_die(__FILE__, __LINE__, "initialiser kind %d is unknown",
           (int)init->kind);
}

uint64_t fl_rng_stream(uint64_t seed, const char *name)
{
    return fl_mix64(fl_mix64(seed + FL_RNG_COL_STEP) + fl_hash_str(name));
}

uint64_t fl_rng_bits(uint64_t stream, uint64_t row, uint64_t col)
{
    return fl_rng_row_bits(fl_rng_row(stream, row), col);
}

double fl_rng_unit(uint64_t stream, uint64_t row, uint64_t col)
{
    return unit_of(fl_rng_bits(stream, row, col));
}

double fl_rng_open(uint64_t stream, uint64_t row, uint64_t col)
{
    return open_of(fl_rng_bits(stream, row, col));
}

double fl_rng_normal(uint64_t stream, uint64_t row, uint64_t col)
{
    return normal_inverse(fl_rng_open(stream, row, col));
}

double fl_rng_truncated(uint64_t stream, uint64_t row, uint64_t col)
{
    return truncated_of(fl_rng_bits(stream, row, col));
}

double fl_init_value(const fl_init *init, uint64_t row, uint64_t col)
{
    return init_of(init, fl_rng_bits(init->stream, row, col));
}

void fl_init_row(const fl_init *init, uint64_t row, float *out, uint32_t n)
{
    uint64_t key = fl_rng_row(init->stream, row);

    for (uint32_t i = 0; i < n; i++)
        out[i] = (float)init_of(init, fl_rng_row_bits(key, i));
}
