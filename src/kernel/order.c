/* order.c - a radix sort of as many of the top bits as tell most of n hashes
 * apart, in two passes, and an insertion sort of what is left to do.
 *
 *     hash   [ high digit | low digit | hardly ever looked at ]
 *
 * A digit has half the bits of n: counters are few and stay in the cache. It has
 * two more where it still writes to few places at a time: of sixteen times as many
 * values as there are hashes few come twice, which no processor foresees in the
 * insertion sort.
 */
#include "kernel/order.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Counters fit into a stack and the nearest cache. */
#define DIGIT_BITS_MAX 11
/* Where a digit of so many bits writes to is in the nearest cache. */
#define DIGIT_BITS_FEW 10

/* Moves per hash of the last step. Hashes need one at most, a hundred million of
   them six; chosen values could need as many as there are. */
#define MOVES_MAX 16

typedef struct digit {
    int shift, bits;
} digit;

static size_t value_of(digit d, uint64_t hash)
{
    return (size_t)(hash >> d.shift & ((UINT64_C(1) << d.bits) - 1));
}

/* Stable. */
static void sort_by(digit d, const uint64_t *from, size_t n, uint64_t *to)
{
    size_t first[1 << DIGIT_BITS_MAX];
    size_t sum = 0;

    memset(first, 0, sizeof(*first) << d.bits);
    for (size_t i = 0; i < n; i++)
        first[value_of(d, from[i])]++;
    for (size_t i = 0; i < (size_t)1 << d.bits; i++) {
        size_t n_here = first[i];

        first[i] = sum;
        sum += n_here;
    }
    for (size_t i = 0; i < n; i++)
        to[first[value_of(d, from[i])]++] = from[i];
}

/* False when they are not as near to their places as hashes are. */
static bool sort_near(uint64_t *h, size_t n)
{
    size_t moves = MOVES_MAX * n;

    for (size_t i = 1; i < n; i++) {
        uint64_t x = h[i];
        size_t at = i;

        for (; at && h[at - 1] > x; at--)
            h[at] = h[at - 1];
        h[at] = x;
        if (i - at > moves)
            return false;
        moves -= i - at;
    }
    return true;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static int digit_bits(size_t n)
{
    int bits = 1;

    while (bits < DIGIT_BITS_MAX && n >> (2 * bits))
        bits++;
    if (bits >= DIGIT_BITS_FEW)
        return bits;
    return bits + 2 < DIGIT_BITS_FEW ? bits + 2 : DIGIT_BITS_FEW;
}

void fl_order_hashes(uint64_t *hashes, size_t n, uint64_t *scratch)
{
    int bits = digit_bits(n);

    sort_by((digit){ 64 - 2 * bits, bits }, hashes, n, scratch);
    sort_by((digit){ 64 - bits, bits }, scratch, n, hashes);
    if (!sort_near(hashes, n))
        qsort(hashes, n, sizeof(*hashes), compare);
}

size_t fl_order_unite(uint64_t *sorted, size_t n)
{
    size_t n_left = 0;

    for (size_t i = 0; i < n; i++)
        if (!i || sorted[i] != sorted[i - 1])
            sorted[n_left++] = sorted[i];
    return n_left;
}
