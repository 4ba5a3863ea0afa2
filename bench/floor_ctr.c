/* floor_ctr.c - one training step as a handful of matrix products and loops.
 *
 * All dense parameters stand in one block, with their gradients and moments in
 * blocks of the same layout, so that an update is a single loop:
 *
 *     w0 [273][400] | b0 | w1 [400][400] | b1 | w2 | b2 | w3 [2][400] | b3
 *
 * (of the large shape).
 *
 * The last layer is kept transposed: its two columns are then two rows that
 * vectorise. A row of the table carries its moments behind it (w m v, padded
 * to two cache lines), because the update wants them together. Everything that
 * reads an activation or its gradient once more is part of one loop over it.
 */
#include "floor_ctr.h"

#include <dnnl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* oneDNN takes its threads from OpenMP; each of ours brings its own work. */
extern void omp_set_num_threads(int n);

#define LAYERS (CTR_LAYERS + 1)
#define IDS_WIDTH (CTR_SLOTS * CTR_DIM)
#define WIDTH (IDS_WIDTH + CTR_DENSE)
#define BATCH_IDS (CTR_BATCH * CTR_SLOTS)
#define ADAM_STRIDE 32 /* floats of a row with its moments: 128 bytes */

/* A power of two, at least twice the ids of a batch. */
#define HASH_LEN (1u << 16)
_Static_assert(HASH_LEN >= 2 * BATCH_IDS, "the hash of a batch is too small");

/* How far ahead rows are asked for: samples, and merged rows. */
#define SAMPLES_AHEAD 2
#define ROWS_AHEAD 8

#define BETA1 0.9f
#define BETA2 0.999f
#define EPSILON 1e-8f
#define PROBABILITY_MIN 1e-20f

static const size_t n_in[LAYERS] = { WIDTH, CTR_WIDTHS };
static const size_t n_out[LAYERS] = { CTR_WIDTHS, CTR_CLASSES };

/* What belongs to one thread. */
typedef struct worker {
    floor_ctr *f;
    pthread_t thread;
    float *x[LAYERS]; /* input of each layer, [CTR_BATCH][n_in] */
    float *dy[2];     /* gradient of what a layer adds up, in turns; the first
                         layer is the widest */
    float *dx;        /* gradient of the rows, [CTR_BATCH][IDS_WIDTH] */
    float *grad;      /* of the dense block */
    uint32_t *hash;   /* 1 + index into merged_ids; 0 is free */
    uint64_t *merged_ids;
    float *merged; /* [..][CTR_DIM] */
    double loss;   /* sum over the batches of this run */
} worker;

struct floor_ctr {
    const ctr_data *data;
    floor_rule rule;
    float lr;
    size_t stride; /* floats from row to row */
    float *rows;
    size_t w_at[LAYERS], b_at[LAYERS], n_dense;
    float *dense, *moment1, *moment2;
    float beta1_pow, beta2_pow;
    worker workers[FLOOR_THREADS_MAX];
    atomic_size_t next; /* batch to deal */
    size_t end;
};

static void gemm(char ta, char tb, size_t m, size_t n, size_t k, const float *a,
                 size_t lda, const float *b, size_t ldb, float *c, size_t ldc)
{
    dnnl_status_t st =
        dnnl_sgemm(ta, tb, (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1, a,
                   (dnnl_dim_t)lda, b, (dnnl_dim_t)ldb, 0, c, (dnnl_dim_t)ldc);

    if (st == dnnl_success)
        return;
    fprintf(stderr, "floor: oneDNN refused a product\n");
    exit(1);
}

/* --- rows ---------------------------------------------------------------- */

static float *row_of(const floor_ctr *f, uint64_t id)
{
    return f->rows + id * f->stride;
}

/* Asks for the rows of a sample; a packed row may reach into a second line. */
static void prefetch_sample(const floor_ctr *f, const uint64_t *ids)
{
    for (int s = 0; s < CTR_SLOTS; s++) {
        const float *row = row_of(f, ids[s]);

        __builtin_prefetch(row);
        if (f->rule == FLOOR_SGD)
            __builtin_prefetch(row + CTR_DIM - 1);
    }
}

static void gather(const floor_ctr *f, float *x, size_t lo)
{
    const uint64_t *ids = f->data->ids + lo * CTR_SLOTS;
    const float *dense = f->data->dense + lo * CTR_DENSE;

    for (size_t i = 0; i < CTR_BATCH; i++, ids += CTR_SLOTS, x += WIDTH) {
        if (i + SAMPLES_AHEAD < CTR_BATCH)
            prefetch_sample(f, ids + SAMPLES_AHEAD * CTR_SLOTS);
        for (int s = 0; s < CTR_SLOTS; s++)
            memcpy(x + s * CTR_DIM, row_of(f, ids[s]), CTR_DIM * sizeof *x);
        memcpy(x + IDS_WIDTH, dense + i * CTR_DENSE, CTR_DENSE * sizeof *x);
    }
}

static void update_rows_sgd(floor_ctr *f, const float *dx, size_t lo)
{
    const uint64_t *ids = f->data->ids + lo * CTR_SLOTS;
    const float lr = f->lr;

    for (size_t i = 0; i < CTR_BATCH; i++, ids += CTR_SLOTS) {
        if (i + SAMPLES_AHEAD < CTR_BATCH)
            prefetch_sample(f, ids + SAMPLES_AHEAD * CTR_SLOTS);
        for (int s = 0; s < CTR_SLOTS; s++, dx += CTR_DIM) {
            float *row = row_of(f, ids[s]);

            for (int d = 0; d < CTR_DIM; d++)
                row[d] -= lr * dx[d];
        }
    }
}

/* The place of an id among the n_merged known ones, or n_merged. */
static uint32_t find_or_add(worker *w, uint64_t id, uint32_t n_merged)
{
    uint32_t h = (uint32_t)(id * 0x9e3779b97f4a7c15u >> 40) & (HASH_LEN - 1);

    for (; w->hash[h]; h = (h + 1) & (HASH_LEN - 1))
        if (w->merged_ids[w->hash[h] - 1] == id)
            return w->hash[h] - 1;
    w->hash[h] = n_merged + 1;
    w->merged_ids[n_merged] = id;
    return n_merged;
}

/* Adds up the gradients of equal ids; returns how many are different. */
static uint32_t merge(worker *w, size_t lo)
{
    const uint64_t *ids = w->f->data->ids + lo * CTR_SLOTS;
    const float *dx = w->dx;
    uint32_t n = 0;

    memset(w->hash, 0, HASH_LEN * sizeof *w->hash);
    for (size_t i = 0; i < BATCH_IDS; i++, dx += CTR_DIM) {
        uint32_t at = find_or_add(w, ids[i], n);
        float *sum = w->merged + (size_t)at * CTR_DIM;

        if (at == n) {
            memcpy(sum, dx, CTR_DIM * sizeof *sum);
            n++;
            continue;
        }
        for (int d = 0; d < CTR_DIM; d++)
            sum[d] += dx[d];
    }
    return n;
}

/* --- updates ------------------------------------------------------------- */

/* The rate with the corrections for moments that start at zero. */
static float adam_rate(const floor_ctr *f)
{
    return f->lr * sqrtf(1 - f->beta2_pow) / (1 - f->beta1_pow);
}

static inline void adam(float *restrict w, float *restrict m, float *restrict v,
                        const float *restrict g, size_t n, float rate)
{
    for (size_t i = 0; i < n; i++) {
        m[i] = BETA1 * m[i] + (1 - BETA1) * g[i];
        v[i] = BETA2 * v[i] + (1 - BETA2) * g[i] * g[i];
        w[i] -= rate * m[i] / (sqrtf(v[i]) + EPSILON);
    }
}

static void update_rows_adam(worker *w, size_t lo)
{
    const floor_ctr *f = w->f;
    const float rate = adam_rate(f);
    uint32_t n = merge(w, lo);

    for (uint32_t i = 0; i < n; i++) {
        float *row = row_of(f, w->merged_ids[i]);

        if (i + ROWS_AHEAD < n) {
            const float *ahead = row_of(f, w->merged_ids[i + ROWS_AHEAD]);

            __builtin_prefetch(ahead, 1);
            __builtin_prefetch(ahead + ADAM_STRIDE / 2, 1);
        }
        adam(row, row + CTR_DIM, row + 2 * CTR_DIM,
             w->merged + (size_t)i * CTR_DIM, CTR_DIM, rate);
    }
}

static void sgd(float *restrict w, const float *restrict g, size_t n, float lr)
{
    for (size_t i = 0; i < n; i++)
        w[i] -= lr * g[i];
}

static void update(worker *w, size_t lo)
{
    floor_ctr *f = w->f;

    if (f->rule == FLOOR_SGD) {
        sgd(f->dense, w->grad, f->n_dense, f->lr);
        update_rows_sgd(f, w->dx, lo);
        return;
    }
    adam(f->dense, f->moment1, f->moment2, w->grad, f->n_dense, adam_rate(f));
    update_rows_adam(w, lo);
    f->beta1_pow *= BETA1;
    f->beta2_pow *= BETA2;
}

/* --- the network --------------------------------------------------------- */

/* The hidden layers: y = max(x w + b, 0). */
static void forward(worker *w)
{
    const floor_ctr *f = w->f;

    for (int l = 0; l + 1 < LAYERS; l++) {
        const float *b = f->dense + f->b_at[l];
        float *y = w->x[l + 1];

        gemm('N', 'N', CTR_BATCH, n_out[l], n_in[l], w->x[l], n_in[l],
             f->dense + f->w_at[l], n_out[l], y, n_out[l]);
        for (size_t i = 0; i < CTR_BATCH; i++, y += n_out[l])
            for (size_t j = 0; j < n_out[l]; j++) {
                float sum = y[j] + b[j];

                y[j] = sum > 0 ? sum : 0;
            }
    }
}

/* Softmax of the two classes and its cross entropy for one sample: g gets the
   gradient of the mean loss, the loss is returned. */
static float classify(const float *restrict x, const float *restrict w,
                      const float *b, int64_t label, float g[CTR_CLASSES])
{
    float z0 = 0, z1 = 0, p1, p;

#pragma omp simd reduction(+ : z0, z1)
    for (int j = 0; j < CTR_LAST; j++) {
        z0 += x[j] * w[j];
        z1 += x[j] * w[CTR_LAST + j];
    }
    p1 = 1 / (1 + expf(z0 + b[0] - z1 - b[1]));
    p = label ? p1 : 1 - p1;
    g[1] = (p1 - (float)label) / CTR_BATCH;
    g[0] = -g[1];
    return -logf(p > PROBABILITY_MIN ? p : PROBABILITY_MIN);
}

/* The last layer there and back; leaves the gradient of the last hidden
   layer's sums in dy[0] and the gradient of its bias. Returns the mean loss. */
static double head(worker *w, size_t lo)
{
    const floor_ctr *f = w->f;
    const float *restrict weights = f->dense + f->w_at[CTR_LAYERS];
    const float *x = w->x[CTR_LAYERS];
    float *dw = w->grad + f->w_at[CTR_LAYERS],
          *db = w->grad + f->b_at[CTR_LAYERS];
    float *db_below = w->grad + f->b_at[CTR_LAYERS - 1], *dy = w->dy[0];
    double loss = 0;

    memset(dw, 0, CTR_CLASSES * CTR_LAST * sizeof *dw);
    memset(db, 0, CTR_CLASSES * sizeof *db);
    memset(db_below, 0, CTR_LAST * sizeof *db_below);
    for (size_t i = 0; i < CTR_BATCH; i++, x += CTR_LAST, dy += CTR_LAST) {
        float g[CTR_CLASSES];

        loss += classify(x, weights, f->dense + f->b_at[CTR_LAYERS],
                         f->data->labels[lo + i], g);
        db[0] += g[0];
        db[1] += g[1];
#pragma omp simd
        for (int j = 0; j < CTR_LAST; j++) {
            float d = g[0] * weights[j] + g[1] * weights[CTR_LAST + j];

            dw[j] += g[0] * x[j];
            dw[CTR_LAST + j] += g[1] * x[j];
            dy[j] = x[j] > 0 ? d : 0;
            db_below[j] += dy[j];
        }
    }
    return loss / CTR_BATCH;
}

/* Lets a gradient through where the activation x is positive, and sums what
   comes through over the batch: the gradient of the bias. */
static void mask_and_sum(float *dy, const float *x, float *db, size_t width)
{
    memset(db, 0, width * sizeof *db);
    for (size_t i = 0; i < CTR_BATCH; i++, x += width, dy += width) {
#pragma omp simd
        for (size_t j = 0; j < width; j++) {
            float d = x[j] > 0 ? dy[j] : 0;

            dy[j] = d;
            db[j] += d;
        }
    }
}

static void backward(worker *w)
{
    const floor_ctr *f = w->f;
    float *dy = w->dy[0], *below = w->dy[1], *t;

    for (int l = LAYERS - 2; l >= 0; l--) {
        const float *weights = f->dense + f->w_at[l];

        gemm('T', 'N', n_in[l], n_out[l], CTR_BATCH, w->x[l], n_in[l], dy,
             n_out[l], w->grad + f->w_at[l], n_out[l]);
        if (l == 0)
            break;
        gemm('N', 'T', CTR_BATCH, n_in[l], n_out[l], dy, n_out[l], weights,
             n_out[l], below, n_in[l]);
        mask_and_sum(below, w->x[l], w->grad + f->b_at[l - 1], n_in[l]);
        t = dy;
        dy = below;
        below = t;
    }
    /* Nobody wants the gradient of the dense numbers. */
    gemm('N', 'T', CTR_BATCH, IDS_WIDTH, n_out[0], dy, n_out[0],
         f->dense + f->w_at[0], n_out[0], w->dx, IDS_WIDTH);
}

static void *work(void *arg)
{
    worker *w = arg;
    floor_ctr *f = w->f;
    size_t n_batches = f->data->n / CTR_BATCH, i;

    omp_set_num_threads(1);
    w->loss = 0;
    while ((i = atomic_fetch_add(&f->next, 1)) < f->end) {
        size_t lo = i % n_batches * CTR_BATCH;

        gather(f, w->x[0], lo);
        forward(w);
        w->loss += head(w, lo);
        backward(w);
        update(w, lo);
    }
    return NULL;
}

double floor_ctr_train(floor_ctr *f, int n_threads, size_t n_batches)
{
    double loss = 0;

    f->end = f->next + n_batches;
    for (int t = 0; t < n_threads; t++) {
        worker *w = &f->workers[t];

        if (pthread_create(&w->thread, NULL, work, w)) {
            fprintf(stderr, "floor: no thread\n");
            exit(1);
        }
    }
    for (int t = 0; t < n_threads; t++) {
        pthread_join(f->workers[t].thread, NULL);
        loss += f->workers[t].loss;
    }
    f->next = f->end;
    return loss / (double)n_batches;
}

/* --- making one ---------------------------------------------------------- */

static float *floats(size_t n)
{
    return bench_alloc(n * sizeof(float));
}

static void init_worker(worker *w, floor_ctr *f)
{
    w->f = f;
    for (int l = 0; l < LAYERS; l++)
        w->x[l] = floats(CTR_BATCH * n_in[l]);
    w->dy[0] = floats(CTR_BATCH * n_out[0]);
    w->dy[1] = floats(CTR_BATCH * n_out[0]);
    w->dx = floats(CTR_BATCH * IDS_WIDTH);
    w->grad = floats(f->n_dense);
    if (f->rule == FLOOR_SGD)
        return;
    w->hash = bench_alloc(HASH_LEN * sizeof *w->hash);
    w->merged_ids = bench_alloc(BATCH_IDS * sizeof *w->merged_ids);
    w->merged = floats(BATCH_IDS * CTR_DIM);
}

static void release_worker(worker *w)
{
    for (int l = 0; l < LAYERS; l++)
        free(w->x[l]);
    free(w->dy[0]);
    free(w->dy[1]);
    free(w->dx);
    free(w->grad);
    free(w->hash);
    free(w->merged_ids);
    free(w->merged);
}

/* Gives n floats a place that starts at a cache line. */
static size_t place(floor_ctr *f, size_t n)
{
    size_t at = f->n_dense;

    f->n_dense += (n + 15) / 16 * 16;
    return at;
}

static void fill_uniform(float *x, size_t n, double range, uint64_t *state)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(range * (2 * ctr_uniform(state) - 1));
}

static void init_dense(floor_ctr *f, uint64_t *state)
{
    for (int l = 0; l < LAYERS; l++) {
        f->w_at[l] = place(f, n_in[l] * n_out[l]);
        f->b_at[l] = place(f, n_out[l]);
    }
    f->dense = floats(f->n_dense);
    for (int l = 0; l < LAYERS; l++)
        fill_uniform(f->dense + f->w_at[l], n_in[l] * n_out[l],
                     sqrt(6.0 / (double)(n_in[l] + n_out[l])), state);
}

floor_ctr *floor_ctr_new(const ctr_data *d, floor_rule rule, double lr,
                         uint64_t seed)
{
    floor_ctr *f = bench_alloc(sizeof *f);

    f->data = d;
    f->rule = rule;
    f->lr = (float)lr;
    f->stride = rule == FLOOR_ADAM ? ADAM_STRIDE : CTR_DIM;
    f->beta1_pow = BETA1;
    f->beta2_pow = BETA2;
    f->rows = floats(CTR_ROWS * f->stride);
    for (size_t i = 0; i < CTR_ROWS; i++)
        fill_uniform(row_of(f, i), CTR_DIM, CTR_ROW_RANGE, &seed);
    init_dense(f, &seed);
    if (rule == FLOOR_ADAM) {
        f->moment1 = floats(f->n_dense);
        f->moment2 = floats(f->n_dense);
    }
    for (int t = 0; t < FLOOR_THREADS_MAX; t++)
        init_worker(&f->workers[t], f);
    return f;
}

void floor_ctr_free(floor_ctr *f)
{
    if (!f)
        return;
    for (int t = 0; t < FLOOR_THREADS_MAX; t++)
        release_worker(&f->workers[t]);
    free(f->rows);
    free(f->dense);
    free(f->moment1);
    free(f->moment2);
    free(f);
}
