/* distinct.c - HyperLogLog with the estimator of Otmar Ertl.
 *
 * A number is hashed; 14 bits choose a register, which keeps the largest
 * position of the first 1 among the other 50. With c[k] registers that hold k,
 * of m:
 *
 *     estimate = m^2 / (2 ln 2) / (m sigma(c[0] / m) + sum over k of c[k] 2^-k)
 *     sigma(x) = x + sum over k >= 1 of x^(2^k) 2^(k-1)
 *
 * It needs no correction tables, for few numbers as for many.
 */
#include "distinct.h"

#include <stddef.h>

#define HASH_BITS (64 - DISTINCT_BITS)
#define LN_2 0.69314718055994531

static uint64_t hash(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void distinct_add(distinct *d, uint64_t x)
{
    uint64_t h = hash(x);
    size_t at = h >> HASH_BITS;
    /* A 1 behind the last bit ends the search. */
    uint64_t rest = h << DISTINCT_BITS | (uint64_t)1 << (DISTINCT_BITS - 1);
    uint8_t position = (uint8_t)(__builtin_clzll(rest) + 1);

    if (position > d->registers[at])
        d->registers[at] = position;
}

void distinct_merge(distinct *into, const distinct *from)
{
    for (size_t i = 0; i < DISTINCT_REGISTERS; i++)
        if (from->registers[i] > into->registers[i])
            into->registers[i] = from->registers[i];
}

/* For 0 <= x < 1. */
static double sigma(double x)
{
    double sum = x, before = -1, weight = 1;

    while (sum != before) {
        before = sum;
        x *= x;
        sum += x * weight;
        weight *= 2;
    }
    return sum;
}

double distinct_estimate(const distinct *d)
{
    const double m = DISTINCT_REGISTERS;
    uint32_t counts[HASH_BITS + 2] = { 0 };
    double sum = 0, power = 1;

    for (size_t i = 0; i < DISTINCT_REGISTERS; i++)
        counts[d->registers[i]]++;
    if (counts[0] == DISTINCT_REGISTERS)
        return 0;
    for (size_t k = 1; k < sizeof(counts) / sizeof(*counts); k++) {
        power /= 2;
        sum += counts[k] * power;
    }
    return m * m / (2 * LN_2) / (m * sigma(counts[0] / m) + sum);
}
