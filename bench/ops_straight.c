/* ops_straight.c - operators without a framework: loops that the compiler may
 * vectorise for this machine alone, and oneDNN's primitives where it has the
 * operator (ops_onednn.c). */
#include "ops_straight.h"

#include <dnnl.h>
#include <math.h>
#include <string.h>

#include "ops_onednn.h"

#define CUT (-64.0f) /* as softmax does */

static void product(const ops_data *d, const float *a, const float *b,
                    float *out, size_t inner, size_t n)
{
    dnnl_sgemm('N', 'N', (dnnl_dim_t)d->rows, (dnnl_dim_t)n, (dnnl_dim_t)inner,
               1, a, (dnnl_dim_t)inner, b, (dnnl_dim_t)n, 0, out,
               (dnnl_dim_t)n);
}

void straight_mul(const ops_data *d, float *out)
{
    product(d, d->x, d->w, out, d->width, d->units);
}

void straight_fc(const ops_data *d, float *out)
{
    product(d, d->x, d->w, out, d->width, d->units);
    for (size_t i = 0; i < d->rows; i++)
        for (size_t j = 0; j < d->units; j++) {
            float v = out[i * d->units + j] + d->bias[j];

            out[i * d->units + j] = v > 0 ? v : 0;
        }
}

void straight_matmul(const ops_data *d, float *out)
{
    dnnl_dim_t k = (dnnl_dim_t)d->width, n = (dnnl_dim_t)d->units;

    dnnl_sgemm('N', 'T', (dnnl_dim_t)d->rows, n, k, 1, d->x, k, d->table, k, 0,
               out, n);
}

/* --- element by element --------------------------------------------------- */

void straight_add(const ops_data *d, float *out)
{
    for (size_t i = 0; i < d->rows; i++)
        for (size_t j = 0; j < d->width; j++)
            out[i * d->width + j] = d->x[i * d->width + j] + d->b[j];
}

void straight_sub(const ops_data *d, float *out)
{
    for (size_t i = 0; i < d->rows * d->width; i++)
        out[i] = d->x[i] - d->y[i];
}

void straight_times(const ops_data *d, float *out)
{
    for (size_t i = 0; i < d->rows * d->width; i++)
        out[i] = d->x[i] * d->y[i];
}

void straight_relu_grad(const ops_data *d, float *out)
{
    for (size_t i = 0; i < d->rows * d->width; i++) {
        float g = d->y[i];

        out[i] = d->x[i] > 0 ? g : 0;
    }
}

#define ELTWISE(name, kind)                                                    \
    void straight_##name(const ops_data *d, float *out)                        \
    {                                                                          \
        onednn_eltwise(kind, d->x, out, d->rows * d->width);                   \
    }
ELTWISE(relu, dnnl_eltwise_relu)
ELTWISE(tanh, dnnl_eltwise_tanh)
ELTWISE(sigmoid, dnnl_eltwise_logistic)
ELTWISE(square, dnnl_eltwise_square)

void straight_sum(const ops_data *d, float *out)
{
    for (size_t i = 0; i < d->rows * d->width; i++)
        out[i] = d->x[i] + d->y[i] + d->p[i];
}

void straight_concat(const ops_data *d, float *out)
{
    const float *parts[] = { d->x, d->y, d->p };

    for (size_t i = 0; i < d->rows; i++)
        for (size_t k = 0; k < 3; k++)
            memcpy(out + (i * 3 + k) * d->width, parts[k] + i * d->width,
                   d->width * sizeof(float));
}

/* --- rows ----------------------------------------------------------------- */

void straight_softmax(const ops_data *d, float *out)
{
    onednn_softmax(d->x, out, d->rows, d->width);
}

static void softmax_row(const float *x, float *y, size_t n)
{
    float max = x[0], sum = 0;

    for (size_t j = 1; j < n; j++)
        max = x[j] > max ? x[j] : max;
    for (size_t j = 0; j < n; j++)
        sum += y[j] = expf(x[j] - max < CUT ? CUT : x[j] - max);
    for (size_t j = 0; j < n; j++)
        y[j] /= sum;
}

void straight_softmax_loss(const ops_data *d, float *out)
{
    float *softmax = d->room;

    for (size_t i = 0; i < d->rows; i++) {
        float *y = softmax + i * d->width;

        softmax_row(d->x + i * d->width, y, d->width);
        out[i] = -logf(y[d->labels[i]]);
    }
}

void straight_cross_entropy(const ops_data *d, float *out)
{
    for (size_t i = 0; i < d->rows; i++)
        out[i] = -logf(d->p[i * d->width + (size_t)d->labels[i]]);
}

void straight_sigmoid_loss(const ops_data *d, float *out)
{
    for (size_t i = 0; i < d->rows * d->width; i++) {
        float x = d->x[i];

        out[i] = (x > 0 ? x : 0) - x * d->targets[i] + log1pf(expf(-fabsf(x)));
    }
}

void straight_reduce_sum(const ops_data *d, float *out)
{
    size_t n = d->width;

    for (size_t i = 0; i < d->rows; i++) {
        const float *x = d->x + i * n;
        float sum = 0;

#pragma omp simd reduction(+ : sum)
        for (size_t j = 0; j < n; j++)
            sum += x[j];
        out[i] = sum;
    }
}

/* In double, as ours: a million floats do not add up in a float. */
void straight_mean(const ops_data *d, float *out)
{
    size_t n = d->rows * d->width;
    const float *x = d->x;
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    *out = (float)(sum / (double)n);
}

void straight_cos_sim(const ops_data *d, float *out)
{
    size_t n = d->width;

    for (size_t i = 0; i < d->rows; i++) {
        const float *x = d->x + i * n, *y = d->y + i * n;
        float xx = 0, yy = 0, xy = 0;

#pragma omp simd reduction(+ : xx, yy, xy)
        for (size_t j = 0; j < n; j++) {
            xx += x[j] * x[j];
            yy += y[j] * y[j];
            xy += x[j] * y[j];
        }
        out[i] = xy / (sqrtf(xx) * sqrtf(yy));
    }
}

void straight_lookup(const ops_data *d, float *out)
{
    for (size_t i = 0; i < d->rows; i++)
        memcpy(out + i * d->width, d->table + (size_t)d->ids[i] * d->width,
               d->width * sizeof(float));
}

/* --- sequences ------------------------------------------------------------ */

void straight_pool_sum(const ops_data *d, float *out)
{
    memset(out, 0, d->n_seq * d->width * sizeof(float));
    for (size_t s = 0; s < d->n_seq; s++)
        for (int64_t i = d->offsets[s]; i < d->offsets[s + 1]; i++)
            for (size_t j = 0; j < d->width; j++)
                out[s * d->width + j] += d->x[(size_t)i * d->width + j];
}

/* With the row that each maximum came from, as the gradient needs it. */
void straight_pool_max(const ops_data *d, float *out)
{
    int32_t *index = d->room;

    for (size_t s = 0; s < d->n_seq; s++) {
        float *to = out + s * d->width;
        int32_t *at = index + s * d->width;

        for (size_t j = 0; j < d->width; j++) {
            to[j] = -INFINITY;
            at[j] = -1;
        }
        for (int64_t i = d->offsets[s]; i < d->offsets[s + 1]; i++)
            for (size_t j = 0; j < d->width; j++) {
                float v = d->x[(size_t)i * d->width + j];

                at[j] = v > to[j] ? (int32_t)i : at[j];
                to[j] = v > to[j] ? v : to[j];
            }
    }
}

void ops_fill_windows(const ops_data *d, float *windows)
{
    size_t n = d->width;

    for (size_t s = 0; s < d->n_seq; s++)
        for (int64_t i = d->offsets[s]; i < d->offsets[s + 1]; i++)
            for (int64_t k = 0; k < OPS_CONTEXT; k++) {
                int64_t from = i + k - 1;
                float *to = windows + ((size_t)i * OPS_CONTEXT + (size_t)k) * n;

                if (from < d->offsets[s] || from >= d->offsets[s + 1])
                    memset(to, 0, n * sizeof(float));
                else
                    memcpy(to, d->x + (size_t)from * n, n * sizeof(float));
            }
}

/* The windows of all rows side by side, then one product. */
void straight_sequence_conv(const ops_data *d, float *out)
{
    ops_fill_windows(d, d->room);
    product(d, d->room, d->filter, out, OPS_CONTEXT * d->width, d->units);
}

/* Work space of gru: the alive sequences' states and what is added to their
   gates. */
typedef struct gru_room {
    float *state, *reset, *gates, *candidate;
    int64_t *alive;
} gru_room;

static gru_room gru_room_of(const ops_data *d)
{
    size_t n = d->n_seq * d->width;
    gru_room r = { .state = d->room };

    r.reset = r.state + n;
    r.gates = r.reset + n;
    r.candidate = r.gates + 2 * n;
    r.alive = (int64_t *)(r.candidate + n);
    return r;
}

size_t ops_sort_sequences(const ops_data *d, int64_t *order)
{
    size_t n = 0;
    int64_t longest = 0;

    for (size_t s = 0; s < d->n_seq; s++)
        if (d->offsets[s + 1] - d->offsets[s] > longest)
            longest = d->offsets[s + 1] - d->offsets[s];
    for (int64_t len = longest; len > 0; len--)
        for (size_t s = 0; s < d->n_seq; s++)
            if (d->offsets[s + 1] - d->offsets[s] == len)
                order[n++] = (int64_t)s;
    return n;
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static void gru_step(const ops_data *d, const gru_room *r, size_t n, int64_t t,
                     float *out)
{
    size_t w = d->width;
    dnnl_dim_t rows = (dnnl_dim_t)n, cols = (dnnl_dim_t)w;

    dnnl_sgemm('N', 'N', rows, 2 * cols, cols, 1, r->state, cols, d->recurrent,
               2 * cols, 0, r->gates, 2 * cols);
    for (size_t i = 0; i < n; i++) {
        size_t row = (size_t)(d->offsets[r->alive[i]] + t);
        const float *in = d->gates + row * 3 * w;
        float *g = r->gates + i * 2 * w;

        for (size_t j = 0; j < 2 * w; j++)
            g[j] = sigmoid(g[j] + in[j]);
        for (size_t j = 0; j < w; j++)
            r->reset[i * w + j] = g[w + j] * r->state[i * w + j];
    }
    dnnl_sgemm('N', 'N', rows, cols, cols, 1, r->reset, cols,
               d->recurrent + 2 * w * w, cols, 0, r->candidate, cols);
    for (size_t i = 0; i < n; i++) {
        size_t row = (size_t)(d->offsets[r->alive[i]] + t);
        const float *in = d->gates + row * 3 * w + 2 * w;

        for (size_t j = 0; j < w; j++) {
            float u = r->gates[i * 2 * w + j], *p = &r->state[i * w + j];
            float c = tanhf(r->candidate[i * w + j] + in[j]);

            *p = (1 - u) * *p + u * c;
            out[row * w + j] = *p;
        }
    }
}

void straight_gru(const ops_data *d, float *out)
{
    gru_room r = gru_room_of(d);
    size_t n = ops_sort_sequences(d, r.alive);

    memset(r.state, 0, d->n_seq * d->width * sizeof(float));
    for (int64_t t = 0; n > 0; t++) {
        while (n > 0 &&
               d->offsets[r.alive[n - 1] + 1] - d->offsets[r.alive[n - 1]] <= t)
            n--;
        if (n > 0)
            gru_step(d, &r, n, t, out);
    }
}

size_t ops_room_bytes(const ops_data *d)
{
    size_t windows = d->rows * OPS_CONTEXT * d->width;
    size_t states = d->n_seq * (5 * d->width + 2);
    size_t forward = (windows > states ? windows : states) * sizeof(float);
    size_t backward = ops_sequence_bytes(d);

    return forward > backward ? forward : backward;
}
