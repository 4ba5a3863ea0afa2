/* scan_fast.h - the numbers of scan.h for loops that cannot afford a call.
 *
 * Only the common forms are read here, the rest is left to scan.c: decimals of
 * up to seven digits, floats of up to 18 digits without an exponent. For these
 * functions a byte that is no part of a number must stand behind it, and ten
 * bytes must be readable wherever a number begins; the text of a line is so
 * (format.h). False leaves *at as it is.
 *
 * Eight bytes are looked at as one word, their first byte lowest. What ends a
 * number leaves a mark in its place, so the number of leading digits is a count
 * of zeros; a shift drops what is behind them, and products of neighbours make
 * their value.
 *
 * A place in the text stays in a register as long as no call gets its address;
 * so calls get that of a copy.
 */
#ifndef FL_DATA_FORMAT_SCAN_FAST_H
#define FL_DATA_FORMAT_SCAN_FAST_H

#include <stddef.h>
#include <string.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include "data/format/scan.h"

#define FL_EVERY_BYTE UINT64_C(0x0101010101010101)
#define FL_LIKELY(x) __builtin_expect(!!(x), 1)
#define FL_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FL_HOT static inline __attribute__((always_inline))

/* Digits that fit into an int64, whatever they are. */
#define FL_DIGITS_I64 18

/* 10^0 and so on as the nearest doubles; up to 10^22 they are exact. */
#define FL_TENS 65
extern const double fl_tens[FL_TENS];

/* 10^0, 10^-1 and so on as the nearest doubles. */
extern const double fl_tenths[FL_DIGITS_I64 + 1];

static inline uint64_t fl_load8(const char *s)
{
    uint64_t w;

    memcpy(&w, s, sizeof(w));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    return w;
}

static inline void fl_store8(char *s, uint64_t w)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    memcpy(s, &w, sizeof(w));
}

/* Above 9: no digit. */
static inline unsigned fl_digit(const char *s)
{
    return (unsigned)(unsigned char)*s - '0';
}

/* Eight bytes with digits as their values: what is above 9 was none. */
static inline uint64_t fl_load_digits(const char *s)
{
    return fl_load8(s) ^ 0x30 * FL_EVERY_BYTE;
}

/* Not zero when one of the eight is no digit. */
static inline uint64_t fl_no_digits(uint64_t t)
{
    return ((t + 0x76 * FL_EVERY_BYTE) | t) & 0x80 * FL_EVERY_BYTE;
}

/* A mark for each byte that may be what stands behind a number: digits have one
   bit that blanks, tabs, points and ends of lines lack. The mark of byte n is
   bit 8 n + 4. */
static inline uint64_t fl_stops(uint64_t t)
{
    return t & 0x10 * FL_EVERY_BYTE;
}

/* Value of eight digits, the first one lowest in t. Vectors do that aside: the
   search for the next number, which takes longest, then has the other units for
   itself. */
static inline uint64_t fl_eight_digits(uint64_t t)
{
#ifdef __x86_64__
    __m128i x = _mm_cvtsi64_si128((int64_t)t), odd = _mm_srli_epi16(x, 8);

    x = _mm_madd_epi16(_mm_and_si128(x, _mm_set1_epi16(0xff)),
                       _mm_set1_epi32(10 << 16 | 1000));
    x = _mm_add_epi32(x, _mm_madd_epi16(odd, _mm_set1_epi32(1 << 16 | 100)));
    x = _mm_madd_epi16(_mm_packs_epi32(x, x), _mm_set1_epi32(1 << 16 | 10000));
    return (uint32_t)_mm_cvtsi128_si32(x);
#else
    t = t * 2561 >> 8;
    t = (t & UINT64_C(0x00ff00ff00ff00ff)) * 6553601 >> 16;
    return (t & UINT64_C(0x0000ffff0000ffff)) * UINT64_C(42949672960001) >> 32;
#endif
}

/* The first one to seven digits as a number; how many there are, 0 for anything
   else. Where a number ends is what the next one waits for, so that is told by
   one bit, and that all bytes before it are digits is found out aside. Without
   any byte before the stop nothing is shifted out, and the stop is no digit. */
FL_HOT uint64_t fl_short_u64(const char *s, uint64_t *out)
{
    uint64_t t = fl_load_digits(s), stops = fl_stops(t);
    unsigned mark;

    if (FL_UNLIKELY(!stops))
        return 0;
    mark = (unsigned)__builtin_ctzll(stops);
    t <<= (68 - mark) & 63;
    if (FL_UNLIKELY(fl_no_digits(t)))
        return 0;
    *out = fl_eight_digits(t);
    return mark / 8;
}

/* As fl_scan_u64. */
FL_HOT bool fl_fast_u64(const char **at, const char *end, uint64_t *out)
{
    uint64_t n = fl_short_u64(*at, out), id;
    const char *copy = *at;

    if (FL_LIKELY(n)) {
        *at += n;
        return true;
    }
    if (!fl_scan_u64(&copy, end, &id))
        return false;
    *at = copy;
    *out = id;
    return true;
}

/* True when x, which is off by less than four units in the last place of a
   double, has the nearest float of the true value as its own nearest: halfway
   between two floats is not that near. x is in the range of normal floats. */
static inline bool fl_rounds_alike(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return (bits & 0x1fffffff) - (0x10000000 - 4) > 8;
}

/* One digit, and a point with up to seven more or none: what scaled values look
   like. No branch depends on how many there are, since that differs from value
   to value. False for anything else.
   A number m / 10^n with n <= 7 that is below 10 is never the middle of two
   floats, and is away from it by 1 / (10^7 2^25) of itself or more; the product
   is wrong by 2^-52 at most. So its nearest float is always the right one. */
FL_HOT bool fl_unit_f32(const char **at, float *out)
{
    const char *s = *at;
    uint64_t t = fl_load_digits(s + 2), stops = fl_stops(t);
    uint64_t point = s[1] == '.', n;

    if (FL_UNLIKELY(!stops))
        return false;
    n = (uint64_t)__builtin_ctzll(stops) / 8 & (0 - point);
    t = (t << 8 | (unsigned char)(*s ^ 0x30)) << (56 - 8 * n);
    if (FL_UNLIKELY(n < point || fl_no_digits(t)))
        return false;
    *at = s + 1 + point + n;
    *out = (float)((double)(int64_t)fl_eight_digits(t) * fl_tenths[n]);
    return true;
}

/* A float of up to 18 digits. Neither sees an exponent: the caller looks at the
   byte behind. */
FL_HOT bool fl_short_f32(const char **at, float *out)
{
    bool minus = **at == '-';
    const char *s = *at + minus, *first = s, *point;
    uint64_t m = 0; /* wraps where there are too many digits */
    unsigned d;
    double x;

    for (; (d = fl_digit(s)) <= 9; s++)
        m = m * 10 + d;
    point = s;
    if (*s == '.')
        for (s++; (d = fl_digit(s)) <= 9; s++)
            m = m * 10 + d;
    if (FL_UNLIKELY(s - first > FL_DIGITS_I64 || point == first ||
                    s == point + 1))
        return false;
    x = (double)(int64_t)m * fl_tenths[s - point - (s != point)];
    if (FL_UNLIKELY(!fl_rounds_alike(x)))
        return false;
    *at = s;
    *out = (float)(minus ? -x : x);
    return true;
}

#endif
