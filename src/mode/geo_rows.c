/* geo_rows.c - a table of a trainer and of the servers, kept together.
 *
 * The servers' rule is sgd, so a delta is pushed as the gradient -d with the
 * rate 1: their w - 1 * -d is the same float operation as y + d here. With one
 * trainer, therefore, Y is S to the bit, and X is never changed from outside.
 */
#include "mode/geo_rows.h"

#include <string.h>

#include "base/alloc.h"
#include "kernel/vec.h"

/* Rows that are worked on at a time; they should stay in the cache. */
#define CHUNK_BYTES ((size_t)128 << 10)
#define CHUNK_ROWS_MIN 64

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* --- life ----------------------------------------------------------------- */

/* The same first values, and nothing but values: no state, no decay, no limit
   that would make a row be missing here. */
static fl_status make_old(fl_table **out, const char *name,
                          const char *settings, uint64_t seed)
{
    fl_table_config config, plain;

    FL_TRY(fl_table_config_parse(&config, name, settings, seed));
    plain = (fl_table_config){
        .name = config.name,
        .dim = config.dim,
        .height = config.height,
        .init = config.init,
        .n_partitions = config.n_partitions,
    };
    return fl_table_create(out, &plain);
}

fl_status fl_geo_table_new(fl_geo_table **out, const fl_geo_line *line,
                           fl_table *here, int number, const char *settings,
                           uint64_t seed)
{
    fl_geo_table *t = fl_alloc(sizeof(*t));
    fl_status st = make_old(&t->old, fl_table_name(here), settings, seed);

    if (st) {
        fl_free(t);
        return st;
    }
    t->here = here;
    t->number = number;
    t->dim = fl_table_dim(here);
    t->n_servers = (size_t)fl_cluster_dist(line->cluster)->config.n_servers;
    t->cursors = fl_alloc(t->n_servers * sizeof(*t->cursors));
    fl_geo_touched_init(&t->touched);
    *out = t;
    return FL_OK;
}

void fl_geo_table_free(fl_geo_table *t)
{
    if (!t)
        return;
    fl_geo_table_end(t);
    fl_geo_uniter_release(&t->uniter);
    fl_buf_release(&t->deltas);
    fl_buf_release(&t->scratch);
    fl_geo_touched_release(&t->touched);
    fl_table_destroy(t->old);
    fl_free(t->cursors);
    fl_free(t);
}

void fl_geo_table_cut(fl_geo_table *t)
{
    fl_geo_touched_give_back(&t->touched, &t->keys);
    t->keys = fl_geo_touched_cut(&t->touched);
}

void fl_geo_table_end(fl_geo_table *t)
{
    fl_geo_touched_give_back(&t->touched, &t->keys);
    t->news_err.status = FL_OK;
}

/* A cursor of 0 asks for every row that others have changed. */
void fl_geo_table_clear(fl_geo_table *t)
{
    fl_geo_table_cut(t);
    fl_geo_table_end(t);
    fl_table_clear(t->old);
    memset(t->cursors, 0, t->n_servers * sizeof(*t->cursors));
}

static fl_status no_memory(const fl_geo_table *t, size_t n)
{
    FL_FAIL(FL_ERR_NOMEM,
            "table %s: no memory to exchange %zu rows; a smaller "
            "geo_need_push_nums makes exchanges smaller",
            fl_table_name(t->here), n);
}

/* A little more than is asked for: exchanges are about equally large, and fresh
   pages cost more than the work on them. */
static size_t with_slack(size_t bytes)
{
    return bytes + bytes / 2;
}

/* For so many rows; what was there is not kept. */
static fl_status reserve(const fl_geo_table *t, fl_buf *b, size_t n_rows)
{
    size_t bytes;

    if (fl_mul_overflow(n_rows, t->dim * sizeof(float), &bytes) ||
        (bytes > b->bytes && !fl_buf_reserve(b, with_slack(bytes))))
        return no_memory(t, n_rows);
    return FL_OK;
}

static float *row_at(const fl_geo_table *t, const fl_buf *b, size_t i)
{
    return (float *)b->data + i * t->dim;
}

static size_t chunk_rows(const fl_geo_table *t)
{
    size_t n = CHUNK_BYTES / (t->dim * sizeof(float));

    return n > CHUNK_ROWS_MIN ? n : CHUNK_ROWS_MIN;
}

/* --- what was trained here ------------------------------------------------ */

typedef struct splitting {
    const fl_vec_f32_table *v;
    float *x; /* rows; they become gradients */
    uint32_t dim;
    float share; /* 1 / N */
} splitting;

/* d = (x - y) / N; y += d; x = -d */
static void split(void *arg, size_t i, float *y)
{
    const splitting *s = arg;
    float *x = s->x + i * s->dim;

    s->v->sub(x, y, x, s->dim);
    s->v->scale(x, s->share, x, 0, s->dim);
    s->v->sub(y, y, x, s->dim);
}

/* Of the keys [lo, hi). */
static fl_status take_deltas(fl_geo_table *t, size_t lo, size_t hi,
                             float n_trainers)
{
    size_t step = chunk_rows(t);

    for (; lo < hi; lo += step) {
        const uint64_t *keys = t->keys.data + lo;
        splitting s = { fl_vec_f32(), row_at(t, &t->deltas, lo), t->dim,
                        1 / n_trainers };
        size_t n = min_size(step, hi - lo);

        FL_TRY(fl_table_pull(t->here, keys, n, FL_PULL_ONLY, s.x));
        FL_TRY(fl_table_change(t->old, keys, n, split, &s));
    }
    return FL_OK;
}

/* Sent at once, while it is in this core's cache. */
static fl_status push_rows(fl_geo_table *t, const fl_geo_line *line, size_t lo,
                           size_t n, fl_latch *w)
{
    fl_client *client = fl_cluster_client(line->cluster);
    fl_job_push_item item = { t->number,
                              { .keys = t->keys.data + lo,
                                .values = row_at(t, &t->deltas, lo),
                                .n = n,
                                .lr = 1,
                                .merged = true } };
    fl_status st;

    fl_latch_add(w);
    st = fl_client_push(client, &item, &t->dim, 1,
                        (fl_ending){ fl_latch_done, w });
    if (st)
        fl_latch_done(w, FL_OK);
    else
        fl_poller_flush(fl_client_poller(client));
    return st;
}

static size_t rows_per_message(const fl_geo_table *t, const fl_geo_line *line)
{
    size_t row = sizeof(uint64_t) + t->dim * sizeof(float);
    size_t n = (size_t)line->message_bytes / row;

    return n ? n : 1;
}

fl_status fl_geo_table_begin_push(fl_geo_table *t, const fl_geo_line *line,
                                  fl_latch *w)
{
    size_t step = rows_per_message(t, line), n;

    FL_TRY(fl_geo_keys_unite(&t->keys, &t->uniter));
    n = t->keys.n;
    if (!n)
        return FL_OK;
    FL_TRY(reserve(t, &t->deltas, n));
    for (size_t lo = 0; lo < n; lo += step) {
        size_t hi = min_size(lo + step, n);

        FL_TRY(take_deltas(t, lo, hi, line->n_trainers));
        FL_TRY(push_rows(t, line, lo, hi - lo, w));
    }
    return FL_OK;
}

/* --- what others have changed --------------------------------------------- */

typedef struct renewing {
    const fl_vec_f32_table *v;
    const float *s; /* rows */
    float *change;  /* of each */
    uint32_t dim;
} renewing;

static void renew(void *arg, size_t i, float *y)
{
    const renewing *r = arg;
    const float *s = r->s + i * r->dim;

    r->v->sub(r->change + i * r->dim, s, y, r->dim);
    memcpy(y, s, r->dim * sizeof(*y));
}

static fl_status take_rows(fl_geo_table *t, const uint64_t *keys, size_t n,
                           const float *s)
{
    renewing r = { fl_vec_f32(), s, t->scratch.data, t->dim };

    FL_TRY(fl_table_change(t->old, keys, n, renew, &r));
    return fl_table_add(t->here, keys, n, r.change);
}

static fl_status take_all(fl_geo_table *t, const uint64_t *keys, size_t n,
                          const float *s)
{
    size_t step = chunk_rows(t);

    FL_TRY(reserve(t, &t->scratch, step));
    for (size_t lo = 0; lo < n; lo += step)
        FL_TRY(
            take_rows(t, keys + lo, min_size(step, n - lo), s + lo * t->dim));
    return FL_OK;
}

/* In the client's loop, a page at a time: so no more than that is kept
   anywhere, and it is not copied. */
static void take_news(void *arg, const uint64_t *keys, size_t n,
                      const float *values)
{
    fl_geo_table *t = arg;
    fl_status st;

    if (!n || t->news_err.status)
        return;
    st = take_all(t, keys, n, values);
    if (st)
        fl_err_save(&t->news_err, st);
}

/* Whoever waits may use the table from here on. */
static void end_pull(void *arg, fl_status st)
{
    const fl_geo_table *t = arg;

    if (!st && t->news_err.status)
        st = fl_err_restore(&t->news_err);
    fl_latch_done(t->latch, st);
}

fl_status fl_geo_table_begin_pull(fl_geo_table *t, const fl_geo_line *line,
                                  fl_latch *w)
{
    fl_status st;

    t->latch = w;
    fl_latch_add(w);
    st =
        fl_client_changed(fl_cluster_client(line->cluster),
                          &(fl_client_changes){ t->number, t->dim, t->cursors },
                          take_news, (fl_ending){ end_pull, t });
    if (st)
        fl_latch_done(w, FL_OK);
    return st;
}
