/* half.c - float16, which is kept, moved and converted, and never computed
 * with: as bits, since not every compiler has the type. */
#include <math.h>

#include "flotilla/tensor.h"

/* 1 bit of sign, 5 of exponent (biased by 15), 10 of fraction. */
#define HALF_INF 0x7c00
#define HALF_NAN 0x7e00
#define HALF_LEAST_NORMAL 0x1p-14
#define HALF_TOO_LARGE 65520.0 /* from here on it rounds to infinity */

float fl_half_value(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 0x3ff;
    float v;

    if (exponent == 31)
        v = fraction ? NAN : INFINITY;
    else if (exponent)
        v = ldexpf((float)(fraction + 1024), exponent - 25);
    else
        v = ldexpf((float)fraction, -24);
    return h & 0x8000 ? -v : v;
}

uint16_t fl_half_of(double v)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double a = fabs(v);
    int e;

    if (isnan(v))
        return sign | HALF_NAN;
    if (a >= HALF_TOO_LARGE)
        return sign | HALF_INF;
    if (a < HALF_LEAST_NORMAL)
        return (uint16_t)(sign | (int)rint(ldexp(a, 24)));
    e = ilogb(a);
    /* A fraction that rounds up to 1024 carries into the exponent. */
    return (uint16_t)(sign |
                      (((e + 15) << 10) + (int)rint(ldexp(a, 10 - e)) - 1024));
}
