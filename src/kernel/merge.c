/* merge.c - several batches of rows made into one. */
#include "kernel/merge.h"

#include "base/alloc.h"
#include "kernel/rows.h"
#include "kernel/unite.h"
#include "kernel/vec.h"

void fl_merger_release(fl_merger *m)
{
    fl_unique_release(&m->unique);
    fl_buf_release(&m->keys);
    fl_buf_release(&m->runs);
    fl_buf_release(&m->values);
}

/* --- rows ----------------------------------------------------------------- */

/* What is worked on: the keys of all batches, for each its place among the
   different ones, and per different key what is added up. */
typedef struct sums {
    uint64_t *keys, *all;
    uint32_t *index, *counts;
    float *values, *shows, *clicks;
    size_t n_all, n_keys;
} sums;

static fl_status no_memory(size_t n)
{
    FL_FAIL(FL_ERR_NOMEM, "no memory to merge gradients of %zu rows", n);
}

/* A single batch has all keys together already. */
static const uint64_t *list_keys(const fl_rows *b, size_t n_batches,
                                 uint64_t *room)
{
    size_t at = 0;

    if (n_batches == 1)
        return b->keys;
    for (size_t i = 0; i < n_batches; at += b[i++].n)
        if (b[i].n)
            memcpy(room + at, b[i].keys, b[i].n * sizeof(*room));
    return room;
}

/* Memory for what n keys in all, and what belongs to them, become. */
static fl_status open_sums(fl_merger *m, size_t n, sums *s)
{
    size_t bytes;

    if (n > INT32_MAX ||
        fl_mul_overflow(n, 2 * sizeof(*s->keys) + 4 * sizeof(*s->index),
                        &bytes))
        return no_memory(n);
    s->keys = fl_buf_reserve(&m->keys, bytes);
    if (!s->keys)
        return no_memory(n);
    s->n_all = n;
    s->all = s->keys + n;
    s->index = (uint32_t *)(s->all + n);
    s->counts = s->index + n;
    s->shows = (float *)(s->counts + n);
    s->clicks = s->shows + n;
    return FL_OK;
}

static fl_status unite_keys(fl_merger *m, const fl_rows *b, size_t n_batches,
                            sums *s)
{
    size_t n = 0;
    void *runs;

    for (size_t i = 0; i < n_batches; i++)
        n += b[i].n;
    FL_TRY(open_sums(m, n, s));
    runs = fl_buf_reserve(&m->runs, fl_unite_room(n));
    if (!runs)
        return no_memory(n);
    if (fl_unite_ordered(b, n_batches, runs, s->keys, s->index, &s->n_keys))
        return FL_OK;
    return fl_unique_run(&m->unique, list_keys(b, n_batches, s->all), n,
                         s->keys, s->index, &s->n_keys);
}

/* Only what some batch has is added up. But a key that comes twice was seen
   twice, whether its batches say so or not. */
static void choose_numbers(const fl_merger *m, const fl_rows *b,
                           size_t n_batches, sums *s)
{
    bool repeats = (n_batches > 1 || !b->merged) && !m->values_only;
    bool shows = repeats, clicks = false, counts = repeats;

    for (size_t i = 0; i < n_batches && !m->values_only; i++) {
        shows |= b[i].shows != NULL;
        clicks |= b[i].clicks != NULL;
        counts |= b[i].counts != NULL;
    }
    s->shows = shows ? s->shows : NULL;
    s->clicks = clicks ? s->clicks : NULL;
    s->counts = counts ? s->counts : NULL;
}

static void clear(void *numbers, size_t bytes)
{
    if (numbers)
        memset(numbers, 0, bytes);
}

static fl_status clear_sums(fl_merger *m, uint32_t dim, sums *s)
{
    size_t n = s->n_keys, bytes;

    if (fl_mul_overflow(n, dim * sizeof(*s->values), &bytes))
        return no_memory(n);
    s->values = fl_buf_zeros(&m->values, bytes);
    if (!s->values)
        return no_memory(n);
    clear(s->shows, n * sizeof(*s->shows));
    clear(s->clicks, n * sizeof(*s->clicks));
    clear(s->counts, n * sizeof(*s->counts));
    return FL_OK;
}

static void add_counts(uint32_t *to, const fl_rows *b, const uint32_t *index)
{
    for (size_t i = 0; i < b->n; i++)
        to[index[i]] += b->counts ? b->counts[i] : 1;
}

static void add_numbers(float *to, const fl_rows *b, const uint32_t *index,
                        const float *from, float missing)
{
    for (size_t i = 0; i < b->n; i++)
        to[index[i]] += from ? from[i] : missing;
}

static void add_batch(const sums *s, const fl_rows *b, const uint32_t *index,
                      uint32_t dim)
{
    fl_rows_f32()->merge(s->values, index, b->n, dim, (float)b->scale,
                         b->values);
    if (s->counts)
        add_counts(s->counts, b, index);
    if (s->shows)
        add_numbers(s->shows, b, index, b->shows, 1);
    if (s->clicks)
        add_numbers(s->clicks, b, index, b->clicks, 0);
}

fl_status fl_merge_rows(fl_merger *m, const fl_rows *batches, size_t n_batches,
                        fl_rows *out)
{
    uint32_t dim = batches->dim;
    size_t at = 0;
    sums s;

    if (n_batches == 1 && batches->merged && batches->scale == 1) {
        *out = *batches;
        return FL_OK;
    }
    FL_TRY(unite_keys(m, batches, n_batches, &s));
    choose_numbers(m, batches, n_batches, &s);
    FL_TRY(clear_sums(m, dim, &s));
    for (size_t i = 0; i < n_batches; at += batches[i++].n)
        add_batch(&s, &batches[i], s.index + at, dim);
    *out = (fl_rows){ .keys = s.keys,
                      .values = s.values,
                      .shows = s.shows,
                      .clicks = s.clicks,
                      .counts = s.counts,
                      .n = s.n_keys,
                      .lr = batches->lr,
                      .merged = true,
                      .dim = dim,
                      .scale = 1 };
    return FL_OK;
}

/* --- dense ---------------------------------------------------------------- */

void fl_merge_dense(float *to, const float *const *from, const double *scale,
                    size_t n_from, size_t n)
{
    const fl_vec_f32_table *v = fl_vec_f32();

    if (!n_from) {
        memset(to, 0, n * sizeof(*to));
        return;
    }
    if (scale[0] == 1 && to != from[0])
        memcpy(to, from[0], n * sizeof(*to));
    else if (scale[0] != 1)
        v->scale(to, (float)scale[0], from[0], 0, n);
    for (size_t i = 1; i < n_from; i++)
        v->axpy(to, (float)scale[i], from[i], n);
}
