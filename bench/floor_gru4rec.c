/* floor_gru4rec.c - a training step as a handful of products and loops.
 *
 * Clicks of a batch lie by time: those that every session has first, then the
 * second ones, and so on, sessions by length, the longest first. So a time step
 * of the recurrent layer is a product over neighbouring rows, and the states
 * before it are the first rows of the step before. Scores of all items become
 * their gradients where they lie.
 */
#include "floor_gru4rec.h"

#include <dnnl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* oneDNN takes its threads from OpenMP. */
extern void omp_set_num_threads(int n);

enum {
    DIM = 100,
    GATES = 3 * DIM,
    BEST = 20,
    ROWS_MAX = GRU4REC_BATCH * (GRU4REC_LEN_MAX - 1)
};
#define RANGE 0.04f
#define RATE 0.01f
#define RATE_ROWS (10 * RATE)
#define EPSILON 1e-6f
#define SCORE_MIN (-64.0f)

/* A parameter with its gradient and the sum of its squares. */
typedef struct param {
    float *w, *g, *sum;
    size_t n;
} param;

enum { IN_W, IN_B, GRU_W, GRU_B, OUT_W, OUT_B, N_PARAMS };

struct floor_gru4rec {
    const int *items;
    const size_t *offsets;
    size_t n, found; /* found: clicks whose item was among the best */
    float *table, *table_sum;
    param params[N_PARAMS];
    /* the batch by time: step t is rows start[t] to start[t + 1] */
    int ids[ROWS_MAX], next[ROWS_MAX];
    size_t start[GRU4REC_LEN_MAX + 1], n_steps, n_rows;
    float *x, *gates, *reset, *states, *scores; /* reset: gate times state */
    float *dx, *dgates, *dreset, *dstates;
    int place[GRU4REC_ITEMS], merged_ids[ROWS_MAX]; /* place: 1 + index */
    float merged[ROWS_MAX][DIM];
};

/* --- products ------------------------------------------------------------- */

/* c = beta c + a b, of rows m by columns n; lda, ldb and ldc are widths. */
typedef struct product {
    char ta, tb;
    size_t m, n, k;
    const float *a, *b;
    size_t lda, ldb;
    float *c;
    size_t ldc;
    float beta;
} product;

static void multiply(const product *p)
{
    if (dnnl_sgemm(p->ta, p->tb, (dnnl_dim_t)p->m, (dnnl_dim_t)p->n,
                   (dnnl_dim_t)p->k, 1, p->a, (dnnl_dim_t)p->lda, p->b,
                   (dnnl_dim_t)p->ldb, p->beta, p->c,
                   (dnnl_dim_t)p->ldc) == dnnl_success)
        return;
    fprintf(stderr, "floor: oneDNN refused a product\n");
    exit(1);
}

static void column_sums(const float *x, size_t rows, size_t n, float *out)
{
    memset(out, 0, n * sizeof *out);
    for (size_t i = 0; i < rows; i++, x += n)
        for (size_t j = 0; j < n; j++)
            out[j] += x[j];
}

/* --- the batch by time ---------------------------------------------------- */

static size_t n_clicks(const floor_gru4rec *f, size_t session)
{
    return f->offsets[session + 1] - f->offsets[session];
}

/* Sessions lo and on, the longest first. */
static void sort_sessions(const floor_gru4rec *f, size_t lo, size_t *order)
{
    size_t n = 0;

    for (size_t len = GRU4REC_LEN_MAX; len > 1; len--)
        for (size_t i = lo; i < lo + GRU4REC_BATCH; i++)
            if (n_clicks(f, i) == len)
                order[n++] = i;
}

static void lay_out(floor_gru4rec *f, size_t lo)
{
    size_t order[GRU4REC_BATCH], at = 0, t = 0;

    sort_sessions(f, lo, order);
    for (; t + 1 < n_clicks(f, order[0]); t++) {
        f->start[t] = at;
        for (size_t i = 0; i < GRU4REC_BATCH; i++) {
            const int *items = f->items + f->offsets[order[i]];

            if (t + 1 >= n_clicks(f, order[i]))
                break;
            f->ids[at] = items[t];
            f->next[at++] = items[t + 1];
        }
    }
    f->start[t] = at;
    f->n_steps = t;
    f->n_rows = at;
}

/* --- forward -------------------------------------------------------------- */

/* A polynomial over |r| <= ln 2 / 2 times a power of two: what a loop needs to
   become vector code. */
static inline float fast_exp(float x)
{
    const float round = 0x1.8p23f;
    float shifted = x * 0x1.715476p0f + round, k = shifted - round;
    float r = x - k * 0x1.62e43p-1f, p = 1.3981999507e-3f;
    union {
        float f;
        unsigned bits;
    } scale = { .f = shifted };

    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1;
    scale.bits = (scale.bits + 127) << 23;
    return p * scale.f;
}

static inline float cut(float x)
{
    return x > 60 ? 60 : x < -60 ? -60 : x;
}

static inline float sigmoid(float x)
{
    return 1 / (1 + fast_exp(-cut(x)));
}

static void gather(floor_gru4rec *f)
{
    const float *bias_in = f->params[IN_B].w, *bias = f->params[GRU_B].w;

    for (size_t i = 0; i < f->n_rows; i++)
        memcpy(f->x + i * DIM, f->table + (size_t)f->ids[i] * DIM,
               DIM * sizeof *f->x);
    multiply(&(product){ 'N', 'N', f->n_rows, GATES, DIM, f->x,
                         f->params[IN_W].w, DIM, GATES, f->gates, GATES, 0 });
    for (size_t i = 0; i < f->n_rows; i++)
        for (size_t j = 0; j < GATES; j++)
            f->gates[i * GATES + j] += bias_in[j] + bias[j];
}

/* Update and reset gates from the states before, which may be none. */
static void open_gates(floor_gru4rec *f, size_t lo, size_t n, const float *h)
{
    float *g = f->gates + lo * GATES, *reset = f->reset + lo * DIM;

    if (h)
        multiply(&(product){ 'N', 'N', n, 2 * DIM, DIM, h, f->params[GRU_W].w,
                             DIM, 2 * DIM, g, GATES, 1 });
    for (size_t i = 0; i < n; i++, g += GATES, reset += DIM) {
        for (size_t j = 0; j < 2 * DIM; j++)
            g[j] = sigmoid(g[j]);
        for (size_t j = 0; j < DIM; j++)
            reset[j] = h ? g[DIM + j] * h[i * DIM + j] : 0;
    }
}

static void step_on(floor_gru4rec *f, size_t t)
{
    size_t lo = f->start[t], n = f->start[t + 1] - lo;
    const float *h = t ? f->states + f->start[t - 1] * DIM : NULL;
    float *g = f->gates + lo * GATES, *to = f->states + lo * DIM;

    open_gates(f, lo, n, h);
    if (h)
        multiply(&(product){ 'N', 'N', n, DIM, DIM, f->reset + lo * DIM,
                             f->params[GRU_W].w + 2 * DIM * DIM, DIM, DIM,
                             g + 2 * DIM, GATES, 1 });
    for (size_t i = 0; i < n; i++, g += GATES)
        for (size_t j = 0; j < DIM; j++) {
            float u = g[j], c = 2 * sigmoid(2 * g[2 * DIM + j]) - 1;

            g[2 * DIM + j] = c;
            to[i * DIM + j] = u * c + (h ? (1 - u) * h[i * DIM + j] : 0);
        }
}

/* --- the loss ------------------------------------------------------------- */

static bool is_among_best(const float *x, size_t y)
{
    int above = 0;

    for (size_t j = 0; j < GRU4REC_ITEMS && above <= BEST; j++)
        above += x[j] > x[y];
    return above < BEST;
}

/* Adds the biases; returns the largest score. */
static float add_bias(float *x, const float *bias)
{
    float top = -INFINITY;

#pragma omp simd reduction(max : top)
    for (size_t j = 0; j < GRU4REC_ITEMS; j++) {
        x[j] += bias[j];
        top = x[j] > top ? x[j] : top;
    }
    return top;
}

/* Scores of a row become the gradient of its loss over `n` rows. */
static double row_loss(float *x, float top, size_t y, size_t n)
{
    float sum = 0, score = x[y] - top, share;

#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < GRU4REC_ITEMS; j++) {
        float z = x[j] - top;

        x[j] = fast_exp(z < SCORE_MIN ? SCORE_MIN : z);
        sum += x[j];
    }
    share = 1 / (sum * (float)n);
    for (size_t j = 0; j < GRU4REC_ITEMS; j++)
        x[j] *= share;
    x[y] -= 1 / (float)n;
    return log((double)sum) - (double)score;
}

static double judge(floor_gru4rec *f)
{
    double loss = 0;

    multiply(&(product){ 'N', 'N', f->n_rows, GRU4REC_ITEMS, DIM, f->states,
                         f->params[OUT_W].w, DIM, GRU4REC_ITEMS, f->scores,
                         GRU4REC_ITEMS, 0 });
    for (size_t i = 0; i < f->n_rows; i++) {
        float *x = f->scores + i * GRU4REC_ITEMS;
        size_t y = (size_t)f->next[i];
        float top = add_bias(x, f->params[OUT_B].w);

        f->found += is_among_best(x, y);
        loss += row_loss(x, top, y, f->n_rows);
    }
    return loss / (double)f->n_rows;
}

/* --- backward ------------------------------------------------------------- */

static void output_back(floor_gru4rec *f)
{
    multiply(&(product){ 'T', 'N', DIM, GRU4REC_ITEMS, f->n_rows, f->states,
                         f->scores, DIM, GRU4REC_ITEMS, f->params[OUT_W].g,
                         GRU4REC_ITEMS, 0 });
    column_sums(f->scores, f->n_rows, GRU4REC_ITEMS, f->params[OUT_B].g);
    multiply(&(product){ 'N', 'T', f->n_rows, DIM, GRU4REC_ITEMS, f->scores,
                         f->params[OUT_W].w, GRU4REC_ITEMS, GRU4REC_ITEMS,
                         f->dstates, DIM, 0 });
}

/* Gradients of the candidates' and the update gates' sums. */
static void state_back(floor_gru4rec *f, size_t lo, size_t n, const float *h)
{
    for (size_t i = 0; i < n; i++) {
        const float *g = f->gates + (lo + i) * GATES;
        const float *d = f->dstates + (lo + i) * DIM;
        float *dg = f->dgates + (lo + i) * GATES;

        for (size_t j = 0; j < DIM; j++) {
            float u = g[j], c = g[2 * DIM + j];
            float before = h ? h[i * DIM + j] : 0;

            dg[j] = d[j] * (c - before) * u * (1 - u);
            dg[DIM + j] = 0;
            dg[2 * DIM + j] = d[j] * u * (1 - c * c);
        }
    }
}

/* Of the reset gates, and what goes to the states before without a product. */
static void reset_back(floor_gru4rec *f, size_t lo, size_t n, const float *h,
                       float *dh)
{
    for (size_t i = 0; i < n; i++) {
        const float *g = f->gates + (lo + i) * GATES;
        const float *d = f->dstates + (lo + i) * DIM;
        const float *dreset = f->dreset + i * DIM;
        float *dg = f->dgates + (lo + i) * GATES;

        for (size_t j = 0; j < DIM; j++) {
            float r = g[DIM + j];

            dg[DIM + j] = dreset[j] * h[i * DIM + j] * r * (1 - r);
            dh[i * DIM + j] += d[j] * (1 - g[j]) + dreset[j] * r;
        }
    }
}

static void step_back(floor_gru4rec *f, size_t t)
{
    size_t lo = f->start[t], n = f->start[t + 1] - lo;
    size_t before = t ? f->start[t - 1] * DIM : 0;
    const float *h = t ? f->states + before : NULL, *w = f->params[GRU_W].w;
    float *dg = f->dgates + lo * GATES, *dw = f->params[GRU_W].g;

    state_back(f, lo, n, h);
    if (!h)
        return;
    multiply(&(product){ 'N', 'T', n, DIM, DIM, dg + 2 * DIM, w + 2 * DIM * DIM,
                         GATES, DIM, f->dreset, DIM, 0 });
    reset_back(f, lo, n, h, f->dstates + before);
    multiply(&(product){ 'N', 'T', n, DIM, 2 * DIM, dg, w, GATES, 2 * DIM,
                         f->dstates + before, DIM, 1 });
    multiply(&(product){ 'T', 'N', DIM, 2 * DIM, n, h, dg, DIM, GATES, dw,
                         2 * DIM, 1 });
    multiply(&(product){ 'T', 'N', DIM, DIM, n, f->reset + lo * DIM,
                         dg + 2 * DIM, DIM, GATES, dw + 2 * DIM * DIM, DIM,
                         1 });
}

static void backward(floor_gru4rec *f)
{
    output_back(f);
    memset(f->params[GRU_W].g, 0, f->params[GRU_W].n * sizeof(float));
    for (size_t t = f->n_steps; t-- > 0;)
        step_back(f, t);
    column_sums(f->dgates, f->n_rows, GATES, f->params[GRU_B].g);
    memcpy(f->params[IN_B].g, f->params[GRU_B].g, GATES * sizeof(float));
    multiply(&(product){ 'T', 'N', DIM, GATES, f->n_rows, f->x, f->dgates, DIM,
                         GATES, f->params[IN_W].g, GATES, 0 });
    multiply(&(product){ 'N', 'T', f->n_rows, DIM, GATES, f->dgates,
                         f->params[IN_W].w, GATES, GATES, f->dx, DIM, 0 });
}

/* --- updates -------------------------------------------------------------- */

static inline void adagrad(float *restrict w, float *restrict sum,
                           const float *restrict g, size_t n, float rate)
{
    for (size_t i = 0; i < n; i++) {
        sum[i] += g[i] * g[i];
        w[i] -= rate * g[i] / (sqrtf(sum[i]) + EPSILON);
    }
}

/* Gradients of rows, equal ids added up; returns how many are different. */
static size_t merge(floor_gru4rec *f)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n_rows; i++) {
        int *place = &f->place[f->ids[i]];
        float *to;

        if (!*place) {
            f->merged_ids[n] = f->ids[i];
            memset(f->merged[n], 0, sizeof f->merged[n]);
            *place = (int)++n;
        }
        to = f->merged[*place - 1];
        for (size_t j = 0; j < DIM; j++)
            to[j] += f->dx[i * DIM + j];
    }
    return n;
}

static void update(floor_gru4rec *f)
{
    size_t n = merge(f);

    for (int i = 0; i < N_PARAMS; i++)
        adagrad(f->params[i].w, f->params[i].sum, f->params[i].g,
                f->params[i].n, RATE);
    for (size_t i = 0; i < n; i++) {
        size_t at = (size_t)f->merged_ids[i] * DIM;

        f->place[f->merged_ids[i]] = 0;
        adagrad(f->table + at, f->table_sum + at, f->merged[i], DIM, RATE_ROWS);
    }
}

double floor_gru4rec_train(floor_gru4rec *f)
{
    double loss = 0;

    omp_set_num_threads(1);
    for (size_t lo = 0; lo < f->n; lo += GRU4REC_BATCH) {
        lay_out(f, lo);
        gather(f);
        for (size_t t = 0; t < f->n_steps; t++)
            step_on(f, t);
        loss += judge(f);
        backward(f);
        update(f);
    }
    return loss * GRU4REC_BATCH / (double)f->n;
}

/* --- making one ----------------------------------------------------------- */

static float *floats(size_t n)
{
    return bench_alloc(n * sizeof(float));
}

static void fill(float *x, size_t n, unsigned *state)
{
    for (size_t i = 0; i < n; i++) {
        *state = *state * 1664525u + 1013904223u;
        x[i] = RANGE * ((float)(*state >> 8) / 8388608.0f - 1);
    }
}

static void make_params(floor_gru4rec *f, unsigned *state)
{
    static const struct {
        size_t n;
        bool is_zero;
    } sizes[] = { [IN_W] = { DIM * GATES, false },
                  [IN_B] = { GATES, true },
                  [GRU_W] = { DIM * GATES, false },
                  [GRU_B] = { GATES, true },
                  [OUT_W] = { (size_t)DIM * GRU4REC_ITEMS, false },
                  [OUT_B] = { GRU4REC_ITEMS, true } };

    for (int i = 0; i < N_PARAMS; i++) {
        size_t n = sizes[i].n;

        f->params[i] = (param){ floats(n), floats(n), floats(n), n };
        if (!sizes[i].is_zero)
            fill(f->params[i].w, n, state);
    }
}

floor_gru4rec *floor_gru4rec_new(const int *items, const size_t *offsets,
                                 size_t n)
{
    floor_gru4rec *f = bench_alloc(sizeof *f);
    unsigned state = 1;

    f->items = items;
    f->offsets = offsets;
    f->n = n;
    f->table = floats((size_t)GRU4REC_ITEMS * DIM);
    f->table_sum = floats((size_t)GRU4REC_ITEMS * DIM);
    fill(f->table, (size_t)GRU4REC_ITEMS * DIM, &state);
    make_params(f, &state);
    f->x = floats((size_t)ROWS_MAX * DIM);
    f->gates = floats((size_t)ROWS_MAX * GATES);
    f->reset = floats((size_t)ROWS_MAX * DIM);
    f->states = floats((size_t)ROWS_MAX * DIM);
    f->scores = floats((size_t)ROWS_MAX * GRU4REC_ITEMS);
    f->dx = floats((size_t)ROWS_MAX * DIM);
    f->dgates = floats((size_t)ROWS_MAX * GATES);
    f->dreset = floats((size_t)GRU4REC_BATCH * DIM);
    f->dstates = floats((size_t)ROWS_MAX * DIM);
    return f;
}

void floor_gru4rec_free(floor_gru4rec *f)
{
    void *const all[] = { f->table,  f->table_sum, f->x,      f->gates,
                          f->reset,  f->states,    f->scores, f->dx,
                          f->dgates, f->dreset,    f->dstates };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    for (int i = 0; i < N_PARAMS; i++) {
        free(f->params[i].w);
        free(f->params[i].g);
        free(f->params[i].sum);
    }
    free(f);
}
