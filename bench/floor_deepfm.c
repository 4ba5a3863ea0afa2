/* floor_deepfm.c - a training step as a handful of products and loops.
 *
 * Dense parameters stand in one block with gradients and moments of the same
 * layout: w0 [100][400] | b0 | w1 [400][400] | b1 | w2 | b2 | w3 [400] | b3.
 * A row of the table has its moments behind it: 11 values (first order, then
 * second), 11 first moments, 11 second ones.
 */
#include "floor_deepfm.h"

#include <dnnl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* oneDNN takes its threads from OpenMP. */
extern void omp_set_num_threads(int n);

enum {
    DIM = 10,
    VALUES = 1 + DIM,
    LAYERS = 3,
    HIDDEN = 400,
    WIDTH = DEEPFM_FIELDS * DIM,
    BATCH_IDS = DEEPFM_BATCH * DEEPFM_FIELDS
};
#define RATE 0.001f
#define BETA1 0.9f
#define BETA2 0.999f
#define EPSILON 1e-8f
#define L1 1e-4f

struct floor_deepfm {
    const int *ids, *labels;
    size_t n;
    float (*rows)[3 * VALUES];
    size_t w_at[LAYERS + 1], b_at[LAYERS + 1], n_dense;
    float *dense, *grad, *moment1, *moment2;
    float *x[LAYERS + 1], *dy, *below, *dx; /* activations and gradients */
    float g[DEEPFM_BATCH], sums[DEEPFM_BATCH][DIM], first[DEEPFM_BATCH];
    int place[DEEPFM_ROWS], merged_ids[BATCH_IDS]; /* place: 1 + index */
    float merged[BATCH_IDS][VALUES];
    float beta1_pow, beta2_pow;
};

static size_t n_in(int layer)
{
    return layer ? HIDDEN : WIDTH;
}

static void gemm(char ta, char tb, size_t m, size_t n, size_t k, const float *a,
                 const float *b, float *c)
{
    dnnl_dim_t lda = (dnnl_dim_t)(ta == 'N' ? k : m);
    dnnl_dim_t ldb = (dnnl_dim_t)(tb == 'N' ? n : k);

    if (dnnl_sgemm(ta, tb, (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1, a,
                   lda, b, ldb, 0, c, (dnnl_dim_t)n) == dnnl_success)
        return;
    fprintf(stderr, "floor: oneDNN refused a product\n");
    exit(1);
}

/* --- forward -------------------------------------------------------------- */

/* Rows side by side, their sum, and what the machine says of them. */
static void gather(floor_deepfm *f, const int *ids)
{
    for (int i = 0; i < DEEPFM_BATCH; i++) {
        float *x = f->x[0] + i * WIDTH, *sum = f->sums[i], squares = 0;
        float out = 0;

        memset(sum, 0, sizeof f->sums[i]);
        for (int k = 0; k < DEEPFM_FIELDS; k++, x += DIM) {
            const float *row = f->rows[ids[i * DEEPFM_FIELDS + k]];

            out += row[0];
            for (int d = 0; d < DIM; d++) {
                x[d] = row[1 + d];
                sum[d] += x[d];
                squares += x[d] * x[d];
            }
        }
        for (int d = 0; d < DIM; d++)
            out += 0.5f * sum[d] * sum[d];
        f->first[i] = out - 0.5f * squares;
    }
}

static void forward(floor_deepfm *f)
{
    for (int l = 0; l < LAYERS; l++) {
        const float *b = f->dense + f->b_at[l];
        float *y = f->x[l + 1];

        gemm('N', 'N', DEEPFM_BATCH, HIDDEN, n_in(l), f->x[l],
             f->dense + f->w_at[l], y);
        for (int i = 0; i < DEEPFM_BATCH; i++, y += HIDDEN)
            for (int j = 0; j < HIDDEN; j++)
                y[j] = y[j] + b[j] > 0 ? y[j] + b[j] : 0;
    }
}

/* The last layer there and back: leaves the gradients of the logits in g, and
   of the last sums in dy. Returns the mean loss. */
static double head(floor_deepfm *f, const int *labels)
{
    const float *w = f->dense + f->w_at[LAYERS], *x = f->x[LAYERS];
    float *dw = f->grad + f->w_at[LAYERS], *db = f->grad + f->b_at[LAYERS];
    float *dy = f->dy;
    double loss = 0;

    memset(dw, 0, HIDDEN * sizeof *dw);
    *db = 0;
    for (int i = 0; i < DEEPFM_BATCH; i++, x += HIDDEN, dy += HIDDEN) {
        float z = f->first[i] + f->dense[f->b_at[LAYERS]], g;

#pragma omp simd reduction(+ : z)
        for (int j = 0; j < HIDDEN; j++)
            z += x[j] * w[j];
        loss += fmaxf(z, 0) - z * (float)labels[i] + log1pf(expf(-fabsf(z)));
        g = f->g[i] = (1 / (1 + expf(-z)) - (float)labels[i]) / DEEPFM_BATCH;
        *db += g;
        for (int j = 0; j < HIDDEN; j++) {
            dw[j] += g * x[j];
            dy[j] = x[j] > 0 ? g * w[j] : 0;
        }
    }
    return loss / DEEPFM_BATCH;
}

/* --- backward ------------------------------------------------------------- */

static void sum_bias(const float *dy, float *db)
{
    memset(db, 0, HIDDEN * sizeof *db);
    for (int i = 0; i < DEEPFM_BATCH; i++, dy += HIDDEN)
        for (int j = 0; j < HIDDEN; j++)
            db[j] += dy[j];
}

static void backward(floor_deepfm *f)
{
    for (int l = LAYERS - 1; l >= 0; l--) {
        float *to = l ? f->below : f->dx, *t;

        sum_bias(f->dy, f->grad + f->b_at[l]);
        gemm('T', 'N', n_in(l), HIDDEN, DEEPFM_BATCH, f->x[l], f->dy,
             f->grad + f->w_at[l]);
        gemm('N', 'T', DEEPFM_BATCH, n_in(l), HIDDEN, f->dy,
             f->dense + f->w_at[l], to);
        if (!l)
            return;
        for (size_t i = 0; i < (size_t)DEEPFM_BATCH * HIDDEN; i++)
            to[i] = f->x[l][i] > 0 ? to[i] : 0;
        t = f->dy;
        f->dy = to;
        f->below = t;
    }
}

/* Gradients of rows, equal ids added up; returns how many are different. */
static int merge(floor_deepfm *f, const int *ids)
{
    int n = 0;

    for (int at = 0; at < BATCH_IDS; at++) {
        int i = at / DEEPFM_FIELDS, *place = &f->place[ids[at]];
        const float *x = f->x[0] + at * DIM, *dx = f->dx + at * DIM;
        float *to;

        if (!*place) {
            f->merged_ids[n] = ids[at];
            memset(f->merged[n], 0, sizeof f->merged[n]);
            *place = ++n;
        }
        to = f->merged[*place - 1];
        to[0] += f->g[i];
        for (int d = 0; d < DIM; d++)
            to[1 + d] += dx[d] + f->g[i] * (f->sums[i][d] - x[d]);
    }
    return n;
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

static void update(floor_deepfm *f, const int *ids)
{
    float rate = RATE * sqrtf(1 - f->beta2_pow) / (1 - f->beta1_pow);
    int n = merge(f, ids);

    adam(f->dense, f->moment1, f->moment2, f->grad, f->n_dense, rate);
    for (int i = 0; i < n; i++) {
        float *row = f->rows[f->merged_ids[i]];

        f->place[f->merged_ids[i]] = 0;
        f->merged[i][0] += row[0] > 0 ? L1 : row[0] < 0 ? -L1 : 0;
        adam(row, row + VALUES, row + 2 * VALUES, f->merged[i], VALUES, rate);
    }
    f->beta1_pow *= BETA1;
    f->beta2_pow *= BETA2;
}

double floor_deepfm_train(floor_deepfm *f)
{
    double loss = 0;

    omp_set_num_threads(1);
    for (size_t lo = 0; lo < f->n; lo += DEEPFM_BATCH) {
        const int *ids = f->ids + lo * DEEPFM_FIELDS;

        gather(f, ids);
        forward(f);
        loss += head(f, f->labels + lo);
        backward(f);
        update(f, ids);
    }
    return loss * DEEPFM_BATCH / (double)f->n;
}

/* --- making one ----------------------------------------------------------- */

static float *floats(size_t n)
{
    return bench_alloc(n * sizeof(float));
}

static void fill(float *x, size_t n, float range, unsigned *state)
{
    for (size_t i = 0; i < n; i++) {
        *state = *state * 1664525u + 1013904223u;
        x[i] = range * ((float)(*state >> 8) / 8388608.0f - 1);
    }
}

static void make_dense(floor_deepfm *f, unsigned *state)
{
    for (int l = 0; l <= LAYERS; l++) {
        f->w_at[l] = f->n_dense;
        f->n_dense += n_in(l) * (l < LAYERS ? HIDDEN : 1);
        f->b_at[l] = f->n_dense;
        f->n_dense += l < LAYERS ? HIDDEN : 1;
    }
    f->dense = floats(f->n_dense);
    f->grad = floats(f->n_dense);
    f->moment1 = floats(f->n_dense);
    f->moment2 = floats(f->n_dense);
    for (int l = 0; l <= LAYERS; l++)
        fill(f->dense + f->w_at[l], f->b_at[l] - f->w_at[l],
             sqrtf(3 / (float)n_in(l)), state);
}

floor_deepfm *floor_deepfm_new(const int *ids, const int *labels, size_t n)
{
    floor_deepfm *f = bench_alloc(sizeof *f);
    unsigned state = 1;

    f->ids = ids;
    f->labels = labels;
    f->n = n;
    f->beta1_pow = BETA1;
    f->beta2_pow = BETA2;
    f->rows = bench_alloc(DEEPFM_ROWS * sizeof *f->rows);
    for (int i = 0; i < DEEPFM_ROWS; i++)
        fill(f->rows[i] + 1, DIM, 0.05f, &state);
    make_dense(f, &state);
    for (int l = 0; l <= LAYERS; l++)
        f->x[l] = floats(DEEPFM_BATCH * n_in(l));
    f->dy = floats((size_t)DEEPFM_BATCH * HIDDEN);
    f->below = floats((size_t)DEEPFM_BATCH * HIDDEN);
    f->dx = floats((size_t)DEEPFM_BATCH * WIDTH);
    return f;
}

void floor_deepfm_free(floor_deepfm *f)
{
    for (int l = 0; l <= LAYERS; l++)
        free(f->x[l]);
    free(f->rows);
    free(f->dense);
    free(f->grad);
    free(f->moment1);
    free(f->moment2);
    free(f->dy);
    free(f->below);
    free(f->dx);
    free(f);
}
