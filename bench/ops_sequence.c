/* ops_sequence.c - the gradients of sequence_conv and of gru in straight C over
 * a ragged batch, with oneDNN's products. Nothing is padded here either: gru
 * keeps what its way back needs in the order of time. */
#include <dnnl.h>
#include <math.h>
#include <string.h>

#include "ops_straight.h"

/* --- sequence_conv -------------------------------------------------------- */

static void add_windows(const ops_data *d, const float *windows, float *out)
{
    size_t w = d->width;

    memset(out, 0, d->rows * w * sizeof(float));
    for (size_t s = 0; s < d->n_seq; s++)
        for (int64_t i = d->offsets[s]; i < d->offsets[s + 1]; i++)
            for (int64_t k = 0; k < OPS_CONTEXT; k++) {
                int64_t to = i + k - 1;
                const float *from =
                    windows + ((size_t)i * OPS_CONTEXT + (size_t)k) * w;

                if (to < d->offsets[s] || to >= d->offsets[s + 1])
                    continue;
                for (size_t j = 0; j < w; j++)
                    out[(size_t)to * w + j] += from[j];
            }
}

/* With y as the gradient that comes; the gradient of Filter is made as well. */
void straight_sequence_conv_grad(const ops_data *d, float *out)
{
    dnnl_dim_t rows = (dnnl_dim_t)d->rows, n = (dnnl_dim_t)d->units;
    dnnl_dim_t k = (dnnl_dim_t)(OPS_CONTEXT * d->width);
    float *windows = d->room, *filter = windows + d->rows * (size_t)k;

    ops_fill_windows(d, windows);
    dnnl_sgemm('T', 'N', k, n, rows, 1, windows, k, d->y, n, 0, filter, n);
    dnnl_sgemm('N', 'T', rows, k, n, 1, d->y, n, d->filter, n, 0, windows, k);
    add_windows(d, windows, out);
}

/* --- gru ------------------------------------------------------------------ */

/* Rows by time, the longest sequences first; those of a time and of the time
   before are in the same order. */
typedef struct tape {
    float *gates, *hidden, *reset; /* of all rows */
    float *dz, *dh, *dreset, *dw;  /* of a time, carried, of r p, of Weight */
    float *zeros;
    int64_t *order;
} tape;

static tape tape_of(const ops_data *d)
{
    size_t w = d->width, n = d->rows * w, m = d->n_seq * w;
    tape t = { .gates = d->room };

    t.hidden = t.gates + 3 * n;
    t.reset = t.hidden + n;
    t.dz = t.reset + n;
    t.dh = t.dz + 3 * m;
    t.dreset = t.dh + m;
    t.dw = t.dreset + m;
    t.zeros = t.dw + 3 * w * w;
    t.order = (int64_t *)(void *)(t.zeros + m);
    memset(t.zeros, 0, m * sizeof(float));
    memset(t.dw, 0, 3 * w * w * sizeof(float));
    memset(t.dh, 0, m * sizeof(float));
    return t;
}

size_t ops_sequence_bytes(const ops_data *d)
{
    size_t w = d->width, rows = d->rows * w, seqs = d->n_seq * (w + 1);

    return (5 * rows + 6 * seqs + 3 * w * w + 2 * d->n_seq + 2) *
               sizeof(float) +
           3 * OPS_CONTEXT * w * d->units * sizeof(float);
}

/* The rows of one time: n of them, from `at` on; `before` are those of the time
   before. */
typedef struct moment {
    size_t n, at;
    int64_t time;
    const float *before;
} moment;

static size_t row_of(const ops_data *d, const tape *t, const moment *m,
                     size_t i)
{
    return (size_t)(d->offsets[t->order[i]] + m->time);
}

static void forth(const ops_data *d, const tape *t, const moment *m)
{
    size_t w = d->width;
    dnnl_dim_t n = (dnnl_dim_t)m->n, c = (dnnl_dim_t)w;
    float *gates = t->gates + m->at * 3 * w, *reset = t->reset + m->at * w;

    for (size_t i = 0; i < m->n; i++)
        memcpy(gates + i * 3 * w, d->gates + row_of(d, t, m, i) * 3 * w,
               3 * w * sizeof(float));
    dnnl_sgemm('N', 'N', n, 2 * c, c, 1, m->before, c, d->recurrent, 2 * c, 1,
               gates, 3 * c);
    for (size_t i = 0; i < m->n; i++) {
        float *g = gates + i * 3 * w;

        for (size_t j = 0; j < 2 * w; j++)
            g[j] = 1 / (1 + expf(-g[j]));
        for (size_t j = 0; j < w; j++)
            reset[i * w + j] = g[w + j] * m->before[i * w + j];
    }
    dnnl_sgemm('N', 'N', n, c, c, 1, reset, c, d->recurrent + 2 * w * w, c, 1,
               gates + 2 * w, 3 * c);
    for (size_t i = 0; i < m->n; i++)
        for (size_t j = 0; j < w; j++) {
            float *g = gates + i * 3 * w + j, p = m->before[i * w + j];

            g[2 * w] = tanhf(g[2 * w]);
            t->hidden[(m->at + i) * w + j] = (1 - g[0]) * p + g[0] * g[2 * w];
        }
}

/* dz of u and c, and what stays of dh; y is the gradient that comes. */
static void back_mix(const ops_data *d, const tape *t, const moment *m)
{
    size_t w = d->width;

    for (size_t i = 0; i < m->n; i++) {
        const float *g = t->gates + (m->at + i) * 3 * w;
        const float *p = m->before + i * w;
        const float *came = d->y + row_of(d, t, m, i) * w;
        float *dz = t->dz + i * 3 * w, *dh = t->dh + i * w;

        for (size_t j = 0; j < w; j++) {
            float u = g[j], c = g[2 * w + j], h = dh[j] + came[j];

            dz[j] = h * (c - p[j]) * u * (1 - u);
            dz[2 * w + j] = h * u * (1 - c * c);
            dh[j] = h * (1 - u);
        }
    }
}

static void back_reset(const ops_data *d, const tape *t, const moment *m)
{
    size_t w = d->width;

    for (size_t i = 0; i < m->n; i++) {
        const float *g = t->gates + (m->at + i) * 3 * w + w;
        const float *p = m->before + i * w, *dr = t->dreset + i * w;
        float *dz = t->dz + i * 3 * w + w, *dh = t->dh + i * w;

        for (size_t j = 0; j < w; j++) {
            dz[j] = dr[j] * p[j] * g[j] * (1 - g[j]);
            dh[j] += dr[j] * g[j];
        }
    }
}

static void back(const ops_data *d, const tape *t, const moment *m, float *out)
{
    size_t w = d->width;
    dnnl_dim_t n = (dnnl_dim_t)m->n, c = (dnnl_dim_t)w;
    const float *wc = d->recurrent + 2 * w * w;

    back_mix(d, t, m);
    dnnl_sgemm('N', 'T', n, c, c, 1, t->dz + 2 * w, 3 * c, wc, c, 0, t->dreset,
               c);
    back_reset(d, t, m);
    dnnl_sgemm('N', 'T', n, c, 2 * c, 1, t->dz, 3 * c, d->recurrent, 2 * c, 1,
               t->dh, c);
    dnnl_sgemm('T', 'N', c, 2 * c, n, 1, m->before, c, t->dz, 3 * c, 1, t->dw,
               2 * c);
    dnnl_sgemm('T', 'N', c, c, n, 1, t->reset + m->at * w, c, t->dz + 2 * w,
               3 * c, 1, t->dw + 2 * w * w, c);
    for (size_t i = 0; i < m->n; i++)
        memcpy(out + row_of(d, t, m, i) * 3 * w, t->dz + i * 3 * w,
               3 * w * sizeof(float));
}

static size_t alive_at(const ops_data *d, const tape *t, size_t n, int64_t time)
{
    while (n > 0 &&
           d->offsets[t->order[n - 1] + 1] - d->offsets[t->order[n - 1]] <=
               time)
        n--;
    return n;
}

/* Forth and back, with the gradients of Input and of Weight. */
void straight_gru_grad(const ops_data *d, float *out)
{
    tape t = tape_of(d);
    size_t all = ops_sort_sequences(d, t.order), w = d->width;
    moment m = { .n = all, .before = t.zeros };

    for (;;) {
        size_t next = alive_at(d, &t, m.n, m.time + 1);

        forth(d, &t, &m);
        if (!next)
            break;
        m.before = t.hidden + m.at * w;
        m.at += m.n;
        m.n = next;
        m.time++;
    }
    for (;;) {
        back(d, &t, &m, out);
        if (!m.time--)
            break;
        m.n = alive_at(d, &t, all, m.time);
        m.at -= m.n;
        m.before =
            m.time ? t.hidden + (m.at - alive_at(d, &t, all, m.time - 1)) * w
                   : t.zeros;
    }
}
