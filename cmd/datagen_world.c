/* datagen_world.c - the lines of `flotilla datagen` and the model behind them.
 *
 * Every field of line i is drawn from a counter: the seed and i give a key, the
 * key and the number of the field give 64 bits. There is no state, so any cut
 * of the lines among threads or runs gives the same lines.
 *
 * Only sums, products and conversions of IEEE doubles are used, no function of
 * a mathematical library: the bytes are the same on every machine.
 *
 * The logit of a click is
 *
 *     base + sum over integers    voice * sign * scale(x)
 *          + sum over categories  voice * weight(c)
 *          + sum over pairs       voice * taste(c) * taste(c of its neighbour)
 *
 * where weights and tastes are planted for the common categories of a column
 * and 0 for the rare ones, and everything is normalised (datagen_norm). An
 * empty field adds nothing. The pairs are what a linear model cannot find.
 */
#include "datagen.h"

#include <string.h>

#define GOLDEN 0x9e3779b97f4a7c15u

/* Categories of a column that mean something, from the most popular on. */
#define COMMON 4096

/* Fields drawn per column to learn the mean and variance of what it adds. */
#define TRIALS 16384

/* Tuned for about 0.25 clicks per line and a best AUC of about 0.80. */
#define BASE_LOGIT (-1.44)
#define INT_VOICE 0.15
#define CAT_VOICE 0.65
#define PAIR_VOICE 0.4

/* Shares are counted in 2048ths: the low bits of a draw decide if a field is
   empty, the others what it holds. */
#define EMPTY_BITS 11
#define EMPTY_UNITS (1 << EMPTY_BITS)

/* Integers: lowest + floor(2^(middle + spread * z)), z about normal. The
   numbers follow the published statistics of the Criteo display data. */
typedef struct int_column {
    int empty; /* 2048ths */
    int lowest;
    double middle, spread;
} int_column;
static const int_column int_columns[DATAGEN_INTS] = {
    { 929, 0, 0.3, 2.0 },  { 0, -2, 3.5, 3.0 },  { 439, 0, 2.6, 2.3 },
    { 444, 0, 1.9, 1.6 },  { 53, 0, 10.8, 3.4 }, { 458, 0, 5.2, 2.4 },
    { 88, 0, 1.9, 2.4 },   { 1, 0, 2.6, 1.9 },   { 88, 0, 5.3, 2.1 },
    { 929, 0, -0.7, 1.1 }, { 88, 0, 0.6, 1.4 },  { 1567, 0, -1.2, 2.0 },
    { 444, 0, 2.1, 1.8 },
};

/* Categories: of 2^bits names, the one of rank r about as often as 1 / r. */
typedef struct cat_column {
    int empty; /* 2048ths */
    double bits;
} cat_column;
static const cat_column cat_columns[DATAGEN_CATS] = {
    { 0, 10.5 },   { 0, 9.2 },    { 70, 23.3 }, { 70, 21.1 },  { 0, 8.2 },
    { 248, 4.6 },  { 0, 13.6 },   { 0, 9.3 },   { 0, 3.5 },    { 0, 16.5 },
    { 0, 12.5 },   { 70, 23.0 },  { 0, 11.6 },  { 0, 4.8 },    { 0, 13.9 },
    { 70, 22.4 },  { 0, 3.4 },    { 0, 12.5 },  { 901, 11.1 }, { 901, 3.6 },
    { 70, 22.7 },  { 1561, 4.2 }, { 0, 4.0 },   { 70, 18.1 },  { 901, 6.7 },
    { 901, 17.1 },
};

/* What a number is drawn for; the fields of a line come first. */
enum {
    FIELD_INT = 1,
    FIELD_CAT = FIELD_INT + DATAGEN_INTS,
    FIELD_CLICK = FIELD_CAT + DATAGEN_CATS,
    PLANT_NAME,
    PLANT_SIGN,
    PLANT_WEIGHT, /* one per column of categories */
    PLANT_TRIAL = PLANT_WEIGHT + DATAGEN_CATS
};

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t draw(uint64_t key, uint64_t what)
{
    return mix(key + what * GOLDEN);
}

/* A permutation of the 32-bit numbers: ranks of one column never share a
   name. */
static uint32_t mix32(uint32_t x)
{
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    return x ^ (x >> 16);
}

/* Uniform in [0, 1), without the bits that decide on emptiness. */
static double unit(uint64_t bits)
{
    return (double)(bits >> EMPTY_BITS) / ((uint64_t)1 << (64 - EMPTY_BITS));
}

/* Uniform in [-1, 1). */
static double both_ways(uint32_t bits)
{
    return (double)(int32_t)bits / 2147483648.0;
}

/* 2^x for |x| < 1000, good to 8 digits: the power of the nearest integer, and
   exp(f ln 2) for the rest f by its series. */
static double power_of_2(double x)
{
    int whole = (int)(x + 1024.5) - 1024;
    double f = (x - whole) * 0.69314718055994531;
    double series =
        1 +
        f * (1 +
             f / 2 *
                 (1 +
                  f / 3 *
                      (1 + f / 4 * (1 + f / 5 * (1 + f / 6 * (1 + f / 7))))));
    uint64_t bits = (uint64_t)(whole + 1023) << 52;
    double power;

    memcpy(&power, &bits, sizeof(power));
    return power * series;
}

/* About log2 of a number >= 1: exact at the powers, straight between them. */
static double log_scale(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return (double)((int64_t)bits - ((int64_t)1023 << 52)) /
           (double)((int64_t)1 << 52);
}

static bool is_there(uint64_t bits, int empty)
{
    return (bits & (EMPTY_UNITS - 1)) >= (uint64_t)empty;
}

/* About normal: the sum of four uniform numbers of 13 bits, with mean 0 and
   variance 1. */
static double normal(uint64_t bits)
{
    const uint64_t ones = (1 << 13) - 1;
    uint64_t sum = (bits >> 51) + (bits >> 38 & ones) + (bits >> 25 & ones) +
                   (bits >> 12 & ones);

    return ((double)sum - 2 * (double)ones) / 4729.0;
}

/* The scale tells no more than the integer does, so that a model can know all
   that the click depends on. */
static int32_t int_value(const int_column *c, uint64_t bits, double *scale)
{
    int32_t x = (int32_t)power_of_2(c->middle + c->spread * normal(bits));

    *scale = log_scale(1.0 + x);
    return c->lowest + x;
}

static uint32_t cat_rank(const cat_column *c, uint64_t bits)
{
    return (uint32_t)power_of_2(c->bits * unit(bits)) - 1;
}

/* What the planted model knows of a category. */
typedef struct planted {
    double weight, taste;
} planted;

static planted plant(const datagen_world *w, int column, uint32_t rank)
{
    uint64_t key, bits;

    if (rank >= COMMON)
        return (planted){ 0, 0 };
    key = w->key + (uint64_t)(PLANT_WEIGHT + column) * GOLDEN;
    bits = mix(mix(key) + rank);
    return (planted){ both_ways((uint32_t)(bits >> 32)),
                      both_ways((uint32_t)bits) };
}

/* --- making the world ---------------------------------------------------- */

typedef struct moments {
    double sum, squares;
} moments;

static void add(moments *m, double x)
{
    m->sum += x;
    m->squares += x * x;
}

/* 1 / sqrt(x) by Newton, from below: the library's may differ in its last
   bit. */
static double inverse_root(double x)
{
    double y = x > 1 ? 1 / x : 1;

    for (int i = 0; i < 60; i++)
        y = y * (1.5 - 0.5 * x * y * y);
    return y;
}

static datagen_norm norm_of(const moments *m)
{
    double mean = m->sum / TRIALS;
    double variance = m->squares / TRIALS - mean * mean;

    /* A column that is nearly constant has nothing to say. */
    return (datagen_norm){ mean, variance > 1e-6 ? inverse_root(variance) : 0 };
}

static double normalised(const datagen_norm *n, double x)
{
    return (x - n->mean) * n->factor;
}

static void learn_int(datagen_world *w, int column)
{
    uint64_t key = draw(w->key, PLANT_TRIAL) + (uint64_t)column;
    moments m = { 0 };

    for (uint64_t i = 0; i < TRIALS; i++) {
        double scale;

        int_value(&int_columns[column], draw(mix(key), i), &scale);
        add(&m, scale);
    }
    w->ints[column] = norm_of(&m);
}

static void learn_cat(datagen_world *w, int column)
{
    moments weight = { 0 }, taste = { 0 };

    /* The quantiles of the popularity, which need no luck. */
    for (uint64_t i = 0; i < TRIALS; i++) {
        uint64_t bits = (2 * i + 1) * (UINT64_MAX / (2 * TRIALS));
        planted p = plant(w, column, cat_rank(&cat_columns[column], bits));

        add(&weight, p.weight);
        add(&taste, p.taste);
    }
    w->weights[column] = norm_of(&weight);
    w->tastes[column] = norm_of(&taste);
}

void datagen_world_init(datagen_world *w, uint64_t seed)
{
    uint64_t signs;

    *w = (datagen_world){ .key = mix(seed + GOLDEN) };
    signs = draw(w->key, PLANT_SIGN);
    for (int i = 0; i < DATAGEN_INTS; i++) {
        learn_int(w, i);
        w->int_voices[i] = signs >> i & 1 ? INT_VOICE : -INT_VOICE;
    }
    for (int i = 0; i < DATAGEN_CATS; i++) {
        w->names[i] = (uint32_t)mix(draw(w->key, PLANT_NAME) + (uint64_t)i);
        learn_cat(w, i);
        /* Some columns say much and most say little, as in life. */
        w->cat_voices[i] = 1 / (1 + i / 3.0);
    }
}

/* --- one line ------------------------------------------------------------ */

static double draw_ints(const datagen_world *w, uint64_t key, datagen_record *r)
{
    double logit = 0;

    for (int i = 0; i < DATAGEN_INTS; i++) {
        uint64_t bits = draw(key, FIELD_INT + (uint64_t)i);

        r->has_int[i] = is_there(bits, int_columns[i].empty);
        r->ints[i] = int_value(&int_columns[i], bits, &r->scales[i]);
        if (r->has_int[i])
            logit += w->int_voices[i] * normalised(&w->ints[i], r->scales[i]);
    }
    return logit;
}

static double draw_cats(const datagen_world *w, uint64_t key, datagen_record *r)
{
    double tastes[DATAGEN_CATS];
    double logit = 0;

    for (int i = 0; i < DATAGEN_CATS; i++) {
        uint64_t bits = draw(key, FIELD_CAT + (uint64_t)i);
        uint32_t rank = cat_rank(&cat_columns[i], bits);
        planted p = plant(w, i, rank);

        r->has_cat[i] = is_there(bits, cat_columns[i].empty);
        r->cats[i] = mix32(rank + w->names[i]);
        tastes[i] = 0;
        if (!r->has_cat[i])
            continue;
        logit +=
            CAT_VOICE * w->cat_voices[i] * normalised(&w->weights[i], p.weight);
        tastes[i] = normalised(&w->tastes[i], p.taste);
    }
    for (int i = 0; i + 1 < DATAGEN_CATS; i += 2)
        logit += PAIR_VOICE * w->cat_voices[i] * tastes[i] * tastes[i + 1];
    return logit;
}

void datagen_draw(const datagen_world *w, uint64_t line, datagen_record *r)
{
    const double log2_e = 1.4426950408889634;
    uint64_t key = mix(w->key + line * GOLDEN);
    double logit = BASE_LOGIT;

    logit += draw_ints(w, key, r);
    logit += draw_cats(w, key, r);
    r->p = 1 / (1 + power_of_2(-logit * log2_e));
    r->click = unit(draw(key, FIELD_CLICK)) < r->p;
}
