/* floor_predict.c - a hash, a gather and a few products.
 *
 * A slot of the hash has the key and the number of its row; at most half of them
 * are taken. Slots, then rows, are asked for a sample ahead.
 */
#include "floor_predict.h"

#include <dnnl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* oneDNN takes its threads from OpenMP. */
extern void omp_set_num_threads(int n);

#define LAYERS (CTR_LAYERS + 1)
#define IDS_WIDTH (CTR_SLOTS * CTR_DIM)
#define WIDTH (IDS_WIDTH + CTR_DENSE)

static const size_t n_in[LAYERS] = { WIDTH, CTR_WIDTHS };
static const size_t n_out[LAYERS] = { CTR_WIDTHS, CTR_CLASSES };

typedef struct slot {
    uint64_t key;
    uint64_t row; /* from 1; 0: free */
} slot;

struct floor_predict {
    slot *slots;
    size_t mask;
    float *rows;
    float *w[LAYERS], *b[LAYERS];
    float *x[LAYERS]; /* input of each layer, [max_batch][n_in] */
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* --- rows ----------------------------------------------------------------- */

static void insert(floor_predict *f, uint64_t key, uint64_t row)
{
    size_t at = mix(key) & f->mask;

    while (f->slots[at].row)
        at = (at + 1) & f->mask;
    f->slots[at] = (slot){ key, row };
}

static const float *row_of(const floor_predict *f, uint64_t key)
{
    size_t at = mix(key) & f->mask;

    while (f->slots[at].key != key)
        at = (at + 1) & f->mask;
    return f->rows + (f->slots[at].row - 1) * CTR_DIM;
}

static void ask_slots(const floor_predict *f, const uint64_t *ids)
{
    for (int s = 0; s < CTR_SLOTS; s++)
        __builtin_prefetch(&f->slots[mix(ids[s]) & f->mask]);
}

static void find_rows(const floor_predict *f, const uint64_t *ids,
                      const float *found[CTR_SLOTS])
{
    for (int s = 0; s < CTR_SLOTS; s++) {
        found[s] = row_of(f, ids[s]);
        __builtin_prefetch(found[s]);
        __builtin_prefetch(found[s] + CTR_DIM - 1);
    }
}

/* The slots of the next sample are on their way while this one's rows are. */
static void gather(const floor_predict *f, const uint64_t *ids,
                   const float *dense, size_t n, float *x)
{
    const float *found[2][CTR_SLOTS];

    ask_slots(f, ids);
    if (n > 1)
        ask_slots(f, ids + CTR_SLOTS);
    find_rows(f, ids, found[0]);
    for (size_t i = 0; i < n; i++, x += WIDTH) {
        if (i + 2 < n)
            ask_slots(f, ids + (i + 2) * CTR_SLOTS);
        if (i + 1 < n)
            find_rows(f, ids + (i + 1) * CTR_SLOTS, found[(i + 1) % 2]);
        for (int s = 0; s < CTR_SLOTS; s++)
            memcpy(x + s * CTR_DIM, found[i % 2][s], CTR_DIM * sizeof *x);
        memcpy(x + IDS_WIDTH, dense + i * CTR_DENSE, CTR_DENSE * sizeof *x);
    }
}

/* --- layers --------------------------------------------------------------- */

static void layer(const floor_predict *f, int l, size_t n)
{
    const float *b = f->b[l];
    float *y = f->x[l + 1];
    dnnl_status_t st =
        dnnl_sgemm('N', 'N', (dnnl_dim_t)n, (dnnl_dim_t)n_out[l],
                   (dnnl_dim_t)n_in[l], 1, f->x[l], (dnnl_dim_t)n_in[l],
                   f->w[l], (dnnl_dim_t)n_out[l], 0, y, (dnnl_dim_t)n_out[l]);

    if (st != dnnl_success) {
        fprintf(stderr, "floor: oneDNN refused a product\n");
        exit(1);
    }
    for (size_t i = 0; i < n; i++, y += n_out[l])
        for (size_t j = 0; j < n_out[l]; j++) {
            float sum = y[j] + b[j];

            y[j] = sum > 0 ? sum : 0;
        }
}

/* The last layer is kept transposed: its two columns are rows that vectorise. */
static void head(const floor_predict *f, size_t n, float *scores)
{
    const float *restrict w = f->w[CTR_LAYERS], *b = f->b[CTR_LAYERS];
    const float *x = f->x[CTR_LAYERS];

    for (size_t i = 0; i < n; i++, x += CTR_LAST) {
        float z0 = 0, z1 = 0;

#pragma omp simd reduction(+ : z0, z1)
        for (int j = 0; j < CTR_LAST; j++) {
            z0 += x[j] * w[j];
            z1 += x[j] * w[CTR_LAST + j];
        }
        scores[i] = 1 / (1 + expf(z0 + b[0] - z1 - b[1]));
    }
}

void floor_predict_run(floor_predict *f, const uint64_t *ids,
                       const float *dense, size_t n, float *scores)
{
    omp_set_num_threads(1);
    gather(f, ids, dense, n, f->x[0]);
    for (int l = 0; l < CTR_LAYERS; l++)
        layer(f, l, n);
    head(f, n, scores);
}

/* --- making one ----------------------------------------------------------- */

static float *copy(const float *from, size_t n)
{
    float *to = bench_alloc(n * sizeof *to);

    memcpy(to, from, n * sizeof *to);
    return to;
}

static float *transposed(const float *from, size_t n)
{
    float *to = bench_alloc(n * CTR_CLASSES * sizeof *to);

    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < CTR_CLASSES; c++)
            to[c * n + i] = from[i * CTR_CLASSES + c];
    return to;
}

floor_predict *floor_predict_new(const float *const *dense, const float *rows,
                                 size_t n_rows, size_t max_batch)
{
    floor_predict *f = bench_alloc(sizeof *f);
    size_t cap = 1;

    while (cap < 2 * n_rows)
        cap *= 2;
    f->mask = cap - 1;
    f->slots = bench_alloc(cap * sizeof *f->slots);
    for (size_t i = 0; i < n_rows; i++)
        insert(f, i, i + 1);
    f->rows = copy(rows, n_rows * CTR_DIM);
    for (int l = 0; l < LAYERS; l++) {
        f->w[l] = l < CTR_LAYERS ? copy(dense[2 * l], n_in[l] * n_out[l])
                                 : transposed(dense[2 * l], n_in[l]);
        f->b[l] = copy(dense[2 * l + 1], n_out[l]);
        f->x[l] = bench_alloc(max_batch * n_in[l] * sizeof(float));
    }
    return f;
}

void floor_predict_free(floor_predict *f)
{
    if (!f)
        return;
    for (int l = 0; l < LAYERS; l++) {
        free(f->w[l]);
        free(f->b[l]);
        free(f->x[l]);
    }
    free(f->slots);
    free(f->rows);
    free(f);
}
