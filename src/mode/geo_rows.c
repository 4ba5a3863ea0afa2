/* geo_rows.c - a table of a trainer and of the servers, kept together.
 *
 * The servers' rule is sgd, so a delta is pushed as the gradient -d with the
 * rate 1: their w - 1 * -d is the same float operation as y + d here. With one
 * trainer, therefore, Y is S to the bit, and X is never changed from outside.
 */
#include "mode/geo_rows.h"

#include <string.h>

#include "base/alloc.h"
#include "table/known.h"

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* --- life ----------------------------------------------------------------- */

fl_geo_table *fl_geo_table_new(const fl_geo_line *line, fl_table *here,
                               int number)
{
    fl_geo_table *t = fl_alloc(sizeof(*t));

    t->here = here;
    t->number = number;
    t->dim = fl_table_dim(here);
    t->n_servers = (size_t)fl_cluster_dist(line->cluster)->config.n_servers;
    t->cursors = fl_alloc(t->n_servers * sizeof(*t->cursors));
    return t;
}

void fl_geo_table_free(fl_geo_table *t)
{
    if (!t)
        return;
    fl_buf_release(&t->keys);
    fl_buf_release(&t->deltas);
    fl_free(t->cursors);
    fl_free(t);
}

void fl_geo_table_end(fl_geo_table *t)
{
    t->n_keys = 0;
    t->news_err.status = FL_OK;
}

/* A cursor of 0 asks for every row that others have changed. */
void fl_geo_table_clear(fl_geo_table *t)
{
    fl_geo_table_end(t);
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

/* For the deltas of so many rows; what was there is not kept. */
static fl_status reserve(fl_geo_table *t, size_t n_rows)
{
    fl_buf *b = &t->deltas;
    size_t bytes;

    if (fl_mul_overflow(n_rows, t->dim * sizeof(float), &bytes) ||
        (bytes > b->bytes && !fl_buf_reserve(b, with_slack(bytes))))
        return no_memory(t, n_rows);
    return FL_OK;
}

static float *delta_at(const fl_geo_table *t, size_t i)
{
    return (float *)t->deltas.data + i * t->dim;
}

static const uint64_t *key_at(const fl_geo_table *t, size_t i)
{
    return (const uint64_t *)t->keys.data + i;
}

/* --- what was trained here ------------------------------------------------ */

/* Sent at once, while it is in this core's cache. */
static fl_status push_rows(fl_geo_table *t, const fl_geo_line *line, size_t lo,
                           size_t n, fl_latch *w)
{
    fl_client *client = fl_cluster_client(line->cluster);
    fl_job_push_item item = { t->number,
                              { .keys = key_at(t, lo),
                                .values = delta_at(t, lo),
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
    const float share = 1 / line->n_trainers;
    size_t step = rows_per_message(t, line);

    FL_TRY(fl_table_take_pushed(t->here, &t->keys, &t->n_keys));
    FL_TRY(reserve(t, t->n_keys));
    for (size_t lo = 0; lo < t->n_keys; lo += step) {
        size_t n = min_size(step, t->n_keys - lo);

        FL_TRY(
            fl_table_tell(t->here, key_at(t, lo), n, share, delta_at(t, lo)));
        FL_TRY(push_rows(t, line, lo, n, w));
    }
    return FL_OK;
}

/* --- what others have changed --------------------------------------------- */

/* In the client's loop, a page at a time: so no more than that is kept
   anywhere, and it is not copied. */
static void take_news(void *arg, const uint64_t *keys, size_t n,
                      const float *values)
{
    fl_geo_table *t = arg;
    fl_status st;

    if (!n || t->news_err.status)
        return;
    st = fl_table_learn(t->here, keys, n, values);
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
