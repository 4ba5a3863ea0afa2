/* scan.c - numbers out of text and back.
 *
 * A float is read as m * 10^e, m from its first 19 digits. In doubles that
 * costs at most three roundings (m, the power, the product or quotient), and
 * what was cut off behind 19 digits is far less than one more; so the double is
 * wrong by less than four units in its last place, and its nearest float is the
 * right one unless it lies that near to the middle of two floats. Only then,
 * and where floats are subnormal or end, strtof decides: over the digits as one
 * whole number with an exponent, a form without a point that is the same in
 * every locale.
 */
#include "data/format/scan.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "data/format/scan_fast.h"

/* Digits of a float that can matter: the middle of two neighbours has at most
   113. What comes behind them counts as zero or not. */
#define DIGITS_MAX 128
#define DIGITS_U64 19

/* Far beyond any exponent that digits of one line could make up for. */
#define EXPONENT_MAX INT64_C(100000000000)
#define EXPONENT_TEXT_MAX 100000

const double fl_tens[FL_TENS] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10,
    1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21,
    1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31, 1e32,
    1e33, 1e34, 1e35, 1e36, 1e37, 1e38, 1e39, 1e40, 1e41, 1e42, 1e43,
    1e44, 1e45, 1e46, 1e47, 1e48, 1e49, 1e50, 1e51, 1e52, 1e53, 1e54,
    1e55, 1e56, 1e57, 1e58, 1e59, 1e60, 1e61, 1e62, 1e63, 1e64,
};

const double fl_tenths[FL_DIGITS_I64 + 1] = {
    1e-0,  1e-1,  1e-2,  1e-3,  1e-4,  1e-5,  1e-6,  1e-7,  1e-8,  1e-9,
    1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15, 1e-16, 1e-17, 1e-18,
};

static bool is_digit(const char *s, const char *end)
{
    return s < end && fl_digit(s) <= 9;
}

/* --- whole numbers ------------------------------------------------------- */

/* Up to `most`. */
static bool scan_decimal(const char **at, const char *end, uint64_t most,
                         uint64_t *out)
{
    const char *s = *at;
    uint64_t v = 0, t;

    if (!is_digit(s, end))
        return false;
    while (end - s >= 8 && v < 100000000 &&
           !fl_no_digits(t = fl_load_digits(s))) {
        v = v * 100000000 + fl_eight_digits(t);
        s += 8;
    }
    for (; is_digit(s, end); s++) {
        unsigned d = fl_digit(s);

        if (v > (most - d) / 10) {
            *at = s;
            return false;
        }
        v = v * 10 + d;
    }
    *at = s;
    *out = v;
    return true;
}

bool fl_scan_u64(const char **at, const char *end, uint64_t *out)
{
    return scan_decimal(at, end, UINT64_MAX, out);
}

bool fl_scan_i64(const char **at, const char *end, int64_t *out)
{
    bool minus = *at < end && **at == '-';
    uint64_t v;

    *at += minus;
    if (!scan_decimal(at, end, (uint64_t)INT64_MAX + minus, &v))
        return false;
    *out = (int64_t)(minus ? 0 - v : v);
    return true;
}

/* Above 15: no digit. */
static unsigned hex_digit(const char *s)
{
    unsigned c = (unsigned char)*s, letter = (c | 0x20) - 'a';

    return c - '0' <= 9 ? c - '0' : letter <= 5 ? letter + 10 : 16;
}

bool fl_scan_hex(const char **at, const char *end, uint64_t *out)
{
    const char *s = *at;
    uint64_t v = 0;

    for (; s < end && hex_digit(s) <= 15; s++) {
        if (s - *at == 16) {
            *at = s;
            return false;
        }
        v = v << 4 | hex_digit(s);
    }
    if (s == *at)
        return false;
    *at = s;
    *out = v;
    return true;
}

/* --- floats -------------------------------------------------------------- */

/* A number as digits * 10^exponent. */
typedef struct decimal {
    bool minus, cut; /* cut: digits behind those kept were not all zero */
    char digits[DIGITS_MAX + 16]; /* room for what exact() adds */
    int n_digits;                 /* without leading zeros; 0: the number 0 */
    int64_t exponent;
} decimal;

/* Digits from s on; those behind the point make the exponent smaller. */
static const char *read_digits(const char *s, const char *end, int64_t step,
                               decimal *d)
{
    for (; is_digit(s, end); s++) {
        d->exponent -= step;
        if (d->n_digits == DIGITS_MAX) {
            d->exponent++;
            d->cut |= *s != '0';
        } else if (d->n_digits || *s != '0') {
            d->digits[d->n_digits++] = *s;
        }
    }
    return s;
}

/* Behind the e. NULL when there is no number. */
static const char *read_exponent(const char **at, const char *end, decimal *d)
{
    const char *s = *at;
    bool minus = s < end && *s == '-';
    int64_t x = 0;

    s += s < end && (*s == '-' || *s == '+');
    *at = s;
    if (!is_digit(s, end))
        return NULL;
    for (; is_digit(s, end); s++)
        if (x < EXPONENT_MAX)
            x = x * 10 + fl_digit(s);
    d->exponent += minus ? -x : x;
    return s;
}

/* Sets *at behind the number, or to the byte where it fails. */
static bool read_decimal(const char **at, const char *end, decimal *d)
{
    const char *s = *at;

    d->minus = s < end && *s == '-';
    s += s < end && (*s == '-' || *s == '+');
    *at = s;
    if (!is_digit(s, end))
        return false;
    s = read_digits(s, end, 0, d);
    if (s < end && *s == '.') {
        *at = ++s;
        if (!is_digit(s, end))
            return false;
        s = read_digits(s, end, 1, d);
    }
    if (s < end && (*s | 0x20) == 'e') {
        *at = s + 1;
        s = read_exponent(at, end, d);
        if (!s)
            return false;
    }
    *at = s;
    return true;
}

/* In double arithmetic. False when that does not decide. */
static bool approximate(const decimal *d, float *out)
{
    int n = d->n_digits < DIGITS_U64 ? d->n_digits : DIGITS_U64;
    int64_t exponent = d->exponent + (d->n_digits - n);
    uint64_t m = 0;
    double x;

    if (exponent <= -FL_TENS || exponent >= FL_TENS)
        return false;
    for (int i = 0; i < n; i++)
        m = m * 10 + fl_digit(&d->digits[i]);
    x = exponent < 0 ? (double)m / fl_tens[-exponent]
                     : (double)m * fl_tens[exponent];
    if (x < 2 * (double)FLT_MIN || x >= (double)FLT_MAX || !fl_rounds_alike(x))
        return false;
    *out = (float)x;
    return true;
}

/* By strtof. False when the number is too large for a float. */
static bool exact(decimal *d, float *out)
{
    int n = d->n_digits;
    int64_t e = d->exponent;

    if (d->cut) {
        d->digits[n++] = '1';
        e--;
    }
    if (e > EXPONENT_TEXT_MAX)
        e = EXPONENT_TEXT_MAX;
    if (e < -EXPONENT_TEXT_MAX)
        e = -EXPONENT_TEXT_MAX;
    n += snprintf(d->digits + n, sizeof(d->digits) - (size_t)n, "e%d", (int)e);
    FL_DEBUG_ASSERT((size_t)n < sizeof(d->digits));
    *out = strtof(d->digits, NULL);
    return isfinite(*out);
}

bool fl_scan_f32(const char **at, const char *end, float *out)
{
    const char *first = *at;
    decimal d;
    float x = 0;

    d.cut = false;
    d.n_digits = 0;
    d.exponent = 0;
    if (!read_decimal(at, end, &d))
        return false;
    if (d.n_digits && !approximate(&d, &x) && !exact(&d, &x)) {
        *at = first;
        return false;
    }
    *out = d.minus ? -x : x;
    return true;
}

/* Whatever stands for the point in this locale becomes one; it may have several
   bytes. */
static void write_point(char *text)
{
    size_t n = strspn(text, "-0123456789");
    size_t odd = strcspn(text + n, "+-0123456789e");

    if (!odd)
        return;
    text[n] = '.';
    memmove(text + n + 1, text + n + odd, strlen(text + n + odd) + 1);
}

void fl_print_f32(fl_str *out, float x)
{
    char text[32];
    int digits = 6;

    do
        snprintf(text, sizeof(text), "%.*g", digits, (double)x);
    while (++digits <= 9 && strtof(text, NULL) != x);
    if (isfinite(x))
        write_point(text);
    fl_str_add(out, text);
}
