/* ctr_data.c - ids by a power law, clicks by a planted model. */
#include "ctr_data.h"

#include <math.h>
#include <stdlib.h>

#include "harness.h"

#define EXPONENT 1.05

/* Larger vocabularies would only fold more values onto each row. */
#define VOCABULARY_MAX 350000

/* Of the planted model: weight of the single ids, of the slots that act
   together, of the dense numbers, and the base rate. */
#define LINEAR 1.0
#define CROSS 0.8
#define DENSE 0.5
#define BASE (-1.5)
#define N_FACTORS 3

/* Different values of C1 to C26 in the Kaggle set. */
static const double vocabulary[CTR_SLOTS] = {
    1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
    93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
    2173,  4,    7046547,  18,      15,  286181, 105,     142572
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t ctr_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return mix(*state);
}

static double unit(uint64_t x)
{
    return (double)(x >> 11) * 0x1p-53;
}

double ctr_uniform(uint64_t *state)
{
    return unit(ctr_random(state));
}

/* Inverts the integral of x^-EXPONENT over [1, size). */
static uint64_t draw_value(double size, uint64_t *state)
{
    const double e = 1 - EXPONENT;
    double top = pow(fmin(size, VOCABULARY_MAX), e) - 1;

    return (uint64_t)pow(1 + ctr_uniform(state) * top, 1 / e);
}

/* What the planted model knows of a value: its place in factor k, in
   [-0.5, 0.5). Factor 0 is the value's own weight. */
static double factor(uint64_t key, uint64_t k)
{
    return unit(mix(key + (k + 1) * 0xd1b54a32d192ed03u)) - 0.5;
}

/* Draws the ids and the numbers of one sample and returns its log odds. */
static double draw_sample(uint64_t *ids, float *dense, uint64_t *state)
{
    double odds = BASE, sum[N_FACTORS] = { 0 };

    for (int s = 0; s < CTR_SLOTS; s++) {
        uint64_t value = draw_value(vocabulary[s], state);
        uint64_t key = mix((uint64_t)s << 32 | value);

        ids[s] = key % CTR_ROWS;
        odds += LINEAR * factor(key, 0);
        for (int k = 0; k < N_FACTORS; k++)
            sum[k] += factor(key, (uint64_t)k + 1);
    }
    for (int d = 0; d < CTR_DENSE; d++) {
        dense[d] = (float)ctr_uniform(state);
        odds += DENSE * (d % 2 ? -1 : 1) * dense[d];
    }
    for (int k = 0; k < N_FACTORS; k++)
        odds += CROSS * sum[k] * fabs(sum[k]) / N_FACTORS;
    return odds;
}

void ctr_data_init(ctr_data *d, size_t n_batches, uint64_t seed)
{
    size_t n = n_batches * CTR_BATCH;
    uint64_t state = seed;

    *d = (ctr_data){ .n = n,
                     .ids = bench_alloc(n * CTR_SLOTS * sizeof *d->ids),
                     .dense = bench_alloc(n * CTR_DENSE * sizeof *d->dense),
                     .labels = bench_alloc(n * sizeof *d->labels),
                     .odds = bench_alloc(n * sizeof *d->odds) };
    for (size_t i = 0; i < n; i++) {
        double odds = draw_sample(d->ids + i * CTR_SLOTS,
                                  d->dense + i * CTR_DENSE, &state);

        d->labels[i] = ctr_uniform(&state) < 1 / (1 + exp(-odds));
        d->odds[i] = (float)odds;
    }
}

void ctr_data_release(ctr_data *d)
{
    free(d->ids);
    free(d->dense);
    free(d->labels);
    free(d->odds);
    *d = (ctr_data){ 0 };
}
