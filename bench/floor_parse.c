/* floor_parse.c - parsers that check nothing.
 *
 * The ones by hand trust every byte of the line: that digits stand where they
 * should, that a category has eight of them, that a float which begins with two
 * digits or a minus is rare. Numbers are taken eight bytes at a time, and where
 * their lengths differ by chance, no branch depends on them. Their values are
 * made in vectors where this machine has them, so that the search for the next
 * number has the other units for itself.
 *
 * Records are of one size and lie one behind the other, as those of the library
 * do for these lines, and like its rows their memory is used again for each
 * block.
 */
#include "floor_parse.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSSE3__
#include <immintrin.h>
#endif

#define EVERY UINT64_C(0x0101010101010101)

static const double tenths[] = { 1e-0,  1e-1,  1e-2,  1e-3,  1e-4,
                                 1e-5,  1e-6,  1e-7,  1e-8,  1e-9,
                                 1e-10, 1e-11, 1e-12, 1e-13, 1e-14,
                                 1e-15, 1e-16, 1e-17, 1e-18 };

static uint64_t load8(const char *s)
{
    uint64_t w;

    memcpy(&w, s, sizeof w);
    return w;
}

static unsigned digit(const char *s)
{
    return (unsigned)(unsigned char)*s - '0';
}

/* --- MultiSlot by hand --------------------------------------------------- */

/* Digits from the first byte of w on, at most seven. */
static uint64_t digits_of(uint64_t w)
{
    return (uint64_t)__builtin_ctzll(~w & 0x10 * EVERY) / 8;
}

/* Value of eight digits, the first one lowest in w. */
static uint64_t eight_digits(uint64_t w)
{
#ifdef __SSSE3__
    __m128i x = _mm_cvtsi64_si128((int64_t)w);

    x = _mm_maddubs_epi16(x, _mm_set1_epi16(1 << 8 | 10));
    x = _mm_madd_epi16(x, _mm_set1_epi32(1 << 16 | 100));
    x = _mm_madd_epi16(_mm_packs_epi32(x, x), _mm_set1_epi32(1 << 16 | 10000));
    return (uint32_t)_mm_cvtsi128_si32(x);
#else
    w = w * 2561 >> 8;
    w = (w & UINT64_C(0x00ff00ff00ff00ff)) * 6553601 >> 16;
    return (w & UINT64_C(0x0000ffff0000ffff)) * UINT64_C(42949672960001) >> 32;
#endif
}

/* Value of the first n digits of w. */
static uint64_t value_of(uint64_t w, uint64_t n)
{
    return eight_digits(w << (56 - 8 * n) << 8 & 0x0f * EVERY);
}

static uint64_t take_id(const char **at)
{
    uint64_t w = load8(*at), n = digits_of(w);

    *at += n;
    return value_of(w, n);
}

static float take_float(const char **at)
{
    const char *s = *at, *point;
    int minus = *s == '-';
    int64_t m = 0;
    unsigned d;
    double x;

    for (s += minus; (d = digit(s)) <= 9; s++)
        m = m * 10 + d;
    point = s;
    if (*s == '.')
        for (s++; (d = digit(s)) <= 9; s++)
            m = m * 10 + d;
    x = (double)m * tenths[s - point - (s != point)];
    *at = s;
    return (float)(minus ? -x : x);
}

/* A float that most often is one digit, a point and a few more. */
static float take_unit(const char **at)
{
    static const uint32_t tens[] = { 1,     10,     100,     1000,
                                     10000, 100000, 1000000, 10000000 };
    const char *s = *at;
    uint64_t point = s[1] == '.', w = load8(s + 2), n;

    if (digit(s) > 9 || digit(s + 1) <= 9)
        return take_float(at);
    n = digits_of(w) & (0 - point);
    *at = s + 1 + point + n;
    return (float)((double)(digit(s) * tens[n] + (uint32_t)value_of(w, n)) *
                   tenths[n]);
}

static uint64_t take_count(const char **at)
{
    uint64_t n = digit(*at);
    unsigned d;

    while ((d = digit(++*at)) <= 9)
        n = n * 10 + d;
    return n;
}

/* Of a slot with several ids the last one is kept: the text has none. */
static uint64_t take_slot(const char **at)
{
    uint64_t id = 0;

    ++*at;
    for (uint64_t n = take_count(at); n > 0; n--) {
        ++*at;
        id = take_id(at);
    }
    return id;
}

size_t floor_multislot(const char *text, size_t len, floor_record *out)
{
    const char *end = text + len;
    floor_record *r = out;

    for (const char *s = text; s < end; s++, r++) {
        uint64_t n = take_count(&s);

        for (uint64_t i = 0; i < n; i++) {
            s++;
            r->floats[i] = take_unit(&s);
        }
        for (int i = 0; i < FLOOR_IDS; i++)
            r->ids[i] = take_slot(&s);
        r->label = take_slot(&s);
    }
    return (size_t)(r - out);
}

/* --- Criteo by hand ------------------------------------------------------ */

static const double lows[] = { 0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
static const double spans[] = { 20, 603, 100, 50, 64000, 500, 100,
                                50, 500, 10,  10, 10,    50 };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t id_of(uint64_t column, uint64_t value)
{
    return mix(column << 32 | value) % FLOOR_HASH_SIZE;
}

static uint64_t id_of_missing(uint64_t column)
{
    return mix(UINT64_C(1) << 40 | column << 32) % FLOOR_HASH_SIZE;
}

static uint32_t hex8(const char *s)
{
#ifdef __SSSE3__
    __m128i w = _mm_loadl_epi64((const __m128i *)(const void *)s);
    __m128i letters = _mm_cmpgt_epi8(w, _mm_set1_epi8('9'));
    __m128i x = _mm_add_epi8(_mm_and_si128(w, _mm_set1_epi8(0x0f)),
                             _mm_and_si128(letters, _mm_set1_epi8(9)));

    x = _mm_maddubs_epi16(x, _mm_set1_epi16(1 << 8 | 16));
    x = _mm_packus_epi16(x, x);
    return __builtin_bswap32((uint32_t)_mm_cvtsi128_si32(x));
#else
    uint64_t w = load8(s);

    w = (w & 0x0f * EVERY) + (w >> 6 & EVERY) * 9;
    w = (w << 4 | w >> 8) & UINT64_C(0x00ff00ff00ff00ff);
    w = (w << 8 | w >> 16) & UINT64_C(0x0000ffff0000ffff);
    return (uint32_t)(w << 16 | w >> 32);
#endif
}

/* 0 when there is none. */
static float take_int(const char **at, int column)
{
    const char *s = *at + (**at == '-');
    uint64_t w = load8(s), n = digits_of(w);
    double x = (double)(int64_t)value_of(w, n);
    uint32_t bits;
    float scaled;

    scaled = (float)(((**at == '-' ? -x : x) - lows[column]) / spans[column]);
    memcpy(&bits, &scaled, sizeof bits);
    bits &= 0 - (uint32_t)(n > 0);
    memcpy(&scaled, &bits, sizeof scaled);
    *at = s + n;
    return scaled;
}

size_t floor_criteo(const char *text, size_t len, floor_record *out)
{
    const char *end = text + len;
    floor_record *r = out;

    for (const char *s = text; s < end; r++) {
        r->label = digit(s++);
        for (int i = 0; i < FLOOR_FLOATS; i++) {
            s++;
            r->floats[i] = take_int(&s, i);
        }
        for (unsigned i = 0; i < FLOOR_IDS; i++) {
            s++;
            if (*s == '\t' || *s == '\n') {
                r->ids[i] = id_of_missing(14 + i);
                continue;
            }
            r->ids[i] = id_of(14 + i, hex8(s));
            s += 8;
        }
        s++;
    }
    return (size_t)(r - out);
}

/* --- a first attempt ----------------------------------------------------- */

size_t naive_multislot(const char *text, size_t len, floor_record *out)
{
    const char *end = text + len;
    floor_record *r = out;

    for (char *s = (char *)(uintptr_t)text; s < end; r++) {
        long n = strtol(s, &s, 10);

        for (long i = 0; i < n; i++)
            r->floats[i] = strtof(s, &s);
        for (int i = 0; i < FLOOR_IDS; i++) {
            n = strtol(s, &s, 10);
            for (long k = 0; k < n; k++)
                r->ids[i] = strtoul(s, &s, 10);
        }
        n = strtol(s, &s, 10);
        for (long k = 0; k < n; k++)
            r->label = strtoul(s, &s, 10);
        s = strchr(s, '\n') + 1;
    }
    return (size_t)(r - out);
}

size_t naive_criteo(const char *text, size_t len, floor_record *out)
{
    const char *end = text + len;
    floor_record *r = out;

    for (char *s = (char *)(uintptr_t)text; s < end; r++) {
        r->label = strtoul(s, &s, 10);
        for (int i = 0; i < FLOOR_FLOATS; i++) {
            s++;
            r->floats[i] = 0;
            if (*s != '\t')
                r->floats[i] =
                    (float)(((double)strtol(s, &s, 10) - lows[i]) / spans[i]);
        }
        for (unsigned i = 0; i < FLOOR_IDS; i++) {
            s++;
            if (*s == '\t' || *s == '\n')
                r->ids[i] = id_of_missing(14 + i);
            else
                r->ids[i] = id_of(14 + i, strtoul(s, &s, 16));
        }
        s++;
    }
    return (size_t)(r - out);
}
