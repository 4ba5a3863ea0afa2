/* geo_dense.c - dense parameters of a trainer and of the servers, kept
 * together.
 *
 * Where S is Y nothing is written to X: with one trainer it always is, and no
 * update of a training thread is ever lost to a write that changes nothing.
 */
#include "mode/geo_dense.h"

#include <string.h>

#include "base/alloc.h"
#include "exec/scope.h"

/* --- life ----------------------------------------------------------------- */

void fl_geo_dense_init(fl_geo_dense *d, const fl_geo_line *line)
{
    const fl_dist *dist = fl_cluster_dist(line->cluster);

    *d = (fl_geo_dense){ .n = dist->params.len };
    fl_mutex_init(&d->mu);
    d->params = fl_alloc(d->n * sizeof(*d->params));
    for (size_t i = 0; i < d->n; i++)
        d->params[i].is = &dist->params.data[i];
}

static size_t bytes_of(const fl_geo_param *p)
{
    return (size_t)p->is->n * sizeof(float);
}

void fl_geo_dense_release(fl_geo_dense *d)
{
    for (size_t i = 0; i < d->n; i++) {
        fl_geo_param *p = &d->params[i];

        if (p->old)
            fl_data_free(p->old, bytes_of(p));
        if (p->room)
            fl_data_free(p->room, bytes_of(p));
    }
    fl_free(d->params);
    fl_cluster_blocks_release(&d->blocks);
    fl_mutex_release(&d->mu);
}

static fl_status find(fl_geo_dense *d, const fl_geo_line *line,
                      const fl_param_values *v, fl_geo_param **out)
{
    const fl_dist *dist = fl_cluster_dist(line->cluster);
    const fl_dist_param *is;

    FL_TRY(fl_cluster_param(line->cluster, v->param, v->n, &is));
    *out = &d->params[is - dist->params.data];
    return FL_OK;
}

/* --- messages ------------------------------------------------------------- */

static fl_status send_blocks(fl_client *c, const fl_cluster_blocks *b,
                             size_t lo, size_t n, fl_latch *w)
{
    return fl_client_send_blocks(c, FL_MSG_PUSH_DENSE, b->blocks.data + lo,
                                 (const float *const *)b->data.data + lo, n,
                                 (fl_ending){ fl_latch_done, w });
}

static fl_status pull_blocks(fl_client *c, const fl_cluster_blocks *b,
                             size_t lo, size_t n, fl_latch *w)
{
    return fl_client_pull_blocks(c, b->blocks.data + lo, b->data.data + lo, n,
                                 (fl_ending){ fl_latch_done, w });
}

typedef fl_status (*blocks_fn)(fl_client *c, const fl_cluster_blocks *b,
                               size_t lo, size_t n, fl_latch *w);

/* As many blocks in a request as fit, and one at least. */
static size_t blocks_per_message(const fl_cluster_blocks *b, size_t lo,
                                 uint64_t max_bytes)
{
    uint64_t bytes = 0;
    size_t hi = lo;

    while (hi < b->blocks.len) {
        bytes += b->blocks.data[hi].n * sizeof(float);
        if (hi > lo && bytes > max_bytes)
            break;
        hi++;
    }
    return hi - lo;
}

static fl_status begin_all(const fl_geo_dense *d, const fl_geo_line *line,
                           blocks_fn fn, fl_latch *w)
{
    fl_client *c = fl_cluster_client(line->cluster);
    const fl_cluster_blocks *b = &d->blocks;
    size_t n;

    for (size_t lo = 0; lo < b->blocks.len; lo += n) {
        fl_status st;

        n = blocks_per_message(b, lo, line->message_bytes);
        fl_latch_add(w);
        st = fn(c, b, lo, n, w);
        if (st) {
            fl_latch_done(w, FL_OK);
            return st;
        }
    }
    return FL_OK;
}

/* --- first values --------------------------------------------------------- */

static fl_status reserve(const fl_geo_param *p, float **out)
{
    if (*out)
        return FL_OK;
    *out = fl_try_alloc(bytes_of(p));
    if (!*out)
        FL_FAIL(FL_ERR_NOMEM, "parameter %s: no memory for a copy of %zu bytes",
                p->is->name, bytes_of(p));
    return FL_OK;
}

static fl_status prepare(fl_geo_dense *d, const fl_geo_line *line,
                         const fl_param_values *values, size_t n)
{
    fl_geo_param *p;

    fl_cluster_blocks_clear(&d->blocks);
    for (size_t i = 0; i < n; i++) {
        FL_TRY(find(d, line, &values[i], &p));
        FL_TRY(reserve(p, &p->room));
        fl_cluster_blocks_add(&d->blocks, line->cluster, p->is, p->room);
    }
    return FL_OK;
}

static fl_status pull_first(const fl_geo_dense *d, const fl_geo_line *line)
{
    fl_latch w;
    fl_status st;

    fl_latch_init(&w, fl_client_poller(fl_cluster_client(line->cluster)));
    st = fl_geo_settle(&w, begin_all(d, line, pull_blocks, &w));
    fl_latch_release(&w);
    return st;
}

fl_status fl_geo_dense_start(fl_geo_dense *d, const fl_geo_line *line,
                             const fl_param_values *values, size_t n)
{
    fl_geo_param *p;

    FL_TRY(prepare(d, line, values, n));
    FL_TRY(pull_first(d, line));
    for (size_t i = 0; i < n; i++) {
        FL_TRY(find(d, line, &values[i], &p));
        FL_TRY(reserve(p, &p->old));
        memcpy(p->old, p->room, bytes_of(p));
        memcpy(values[i].data, p->room, bytes_of(p));
    }
    return FL_OK;
}

fl_status fl_geo_dense_hand_over(fl_geo_dense *d, const fl_geo_line *line,
                                 const fl_param_values *values, size_t n)
{
    fl_geo_param *p;

    for (size_t i = 0; i < n; i++) {
        FL_TRY(find(d, line, &values[i], &p));
        fl_lock(&d->mu);
        p->live = values[i].data;
        fl_unlock(&d->mu);
    }
    return FL_OK;
}

/* --- exchanges ------------------------------------------------------------ */

/* A trainer without a batch has handed nothing over, and is to learn from the
   others all the same. */
static float *find_live(const fl_geo_param *p, const fl_geo_line *line)
{
    fl_tensor t;

    if (!p->old ||
        !fl_scope_find(fl_cluster_scope(line->cluster), p->is->name, &t) ||
        t.dtype != FL_DTYPE_F32 ||
        (uint64_t)fl_shape_numel(&t.shape) != p->is->n)
        return NULL;
    return t.data;
}

void fl_geo_dense_cut(fl_geo_dense *d, const fl_geo_line *line)
{
    fl_lock(&d->mu);
    for (size_t i = 0; i < d->n; i++) {
        fl_geo_param *p = &d->params[i];

        p->here = p->live ? p->live : find_live(p, line);
    }
    fl_unlock(&d->mu);
}

FL_RACY
static void take_delta(float *restrict d, float *restrict y,
                       const float *restrict x, size_t n, float n_trainers)
{
    for (size_t i = 0; i < n; i++) {
        d[i] = (x[i] - y[i]) / n_trainers;
        y[i] += d[i];
    }
}

FL_RACY
static void add_news(float *restrict x, float *restrict y,
                     const float *restrict s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s[i] != y[i])
            x[i] += s[i] - y[i];
        y[i] = s[i];
    }
}

fl_status fl_geo_dense_begin_push(fl_geo_dense *d, const fl_geo_line *line,
                                  fl_latch *w)
{
    fl_cluster_blocks_clear(&d->blocks);
    for (size_t i = 0; i < d->n; i++) {
        fl_geo_param *p = &d->params[i];

        if (!p->here)
            continue;
        if (!p->old)
            FL_FAIL(FL_ERR_INVAL,
                    "parameter %s has no first values from the servers; run "
                    "the startup program of the trainer first",
                    p->is->name);
        take_delta(p->room, p->old, p->here, (size_t)p->is->n,
                   line->n_trainers);
        fl_cluster_blocks_add(&d->blocks, line->cluster, p->is, p->room);
    }
    return begin_all(d, line, send_blocks, w);
}

/* The blocks of the push, once they have arrived. */
fl_status fl_geo_dense_begin_pull(fl_geo_dense *d, const fl_geo_line *line,
                                  fl_latch *w)
{
    return begin_all(d, line, pull_blocks, w);
}

void fl_geo_dense_take_news(fl_geo_dense *d)
{
    for (size_t i = 0; i < d->n; i++) {
        fl_geo_param *p = &d->params[i];

        if (p->here)
            add_news(p->here, p->old, p->room, (size_t)p->is->n);
    }
}
