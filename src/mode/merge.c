/* merge.c - gradients of several batches made into one. */
#include "mode/merge.h"

#include <string.h>

#include "base/alloc.h"
#include "kernel/rows.h"
#include "kernel/vec.h"

/* --- memory --------------------------------------------------------------- */

static fl_status no_memory(size_t n)
{
    FL_FAIL(FL_ERR_NOMEM, "no memory to merge gradients of %zu rows", n);
}

/* A block that is at least as large; its contents are not kept. */
static fl_status reserve(fl_merger_block *b, size_t n, size_t size)
{
    size_t bytes = n * size;
    void *data;

    if (bytes <= b->bytes)
        return FL_OK;
    data = fl_try_alloc(bytes);
    if (!data)
        return no_memory(n);
    fl_data_free(b->data, b->bytes);
    *b = (fl_merger_block){ data, bytes };
    return FL_OK;
}

void fl_merger_release(fl_merger *m)
{
    fl_unique_release(&m->unique);
    fl_data_free(m->ids.data, m->ids.bytes);
    fl_data_free(m->numbers.data, m->numbers.bytes);
    fl_data_free(m->rows.data, m->rows.bytes);
    *m = (fl_merger){ 0 };
}

/* --- rows ----------------------------------------------------------------- */

typedef struct wants {
    bool shows, clicks, counts;
} wants;

/* A key that two pieces have was seen twice, whether they say so or not. */
static wants find_wants(const fl_piece *p, size_t n)
{
    wants w = { .shows = n > 1, .counts = n > 1 };

    for (size_t i = 0; i < n; i++) {
        w.shows |= p[i].shows != NULL;
        w.clicks |= p[i].clicks != NULL;
        w.counts |= p[i].counts != NULL;
    }
    return w;
}

static void add_counts(const fl_piece *p, const uint32_t *index, uint32_t *to)
{
    for (size_t i = 0; i < p->n; i++)
        to[index[i]] += p->counts ? p->counts[i] : 1;
}

static void add_numbers(const fl_piece *p, const uint32_t *index,
                        const float *from, float missing, float *to)
{
    for (size_t i = 0; i < p->n; i++)
        to[index[i]] += from ? from[i] : missing;
}

static void add_rows(const fl_piece *p, const uint32_t *index, size_t dim,
                     float *to)
{
    float scale = (float)p->scale;

    if (p->scale == 1) {
        fl_rows_f32()->merge(to, index, p->n, dim, p->rows);
        return;
    }
    for (size_t i = 0; i < p->n; i++) {
        float *row = to + index[i] * dim;
        const float *g = p->rows + i * dim;

        for (size_t k = 0; k < dim; k++)
            row[k] += scale * g[k];
    }
}

/* What is worked on: ids of all pieces and their places among the different
   ones, and per different id what is added up. */
typedef struct sums {
    uint64_t *all, *keys;
    uint32_t *index, *counts;
    float *rows, *shows, *clicks;
    size_t n_all, n_keys;
} sums;

static fl_status unite_keys(fl_merger *m, const fl_piece *pieces, size_t n,
                            sums *s)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++)
        s->n_all += pieces[i].n;
    FL_TRY(reserve(&m->ids, s->n_all + 1,
                   2 * sizeof(*s->all) + sizeof(*s->index)));
    s->all = m->ids.data;
    s->keys = s->all + s->n_all;
    s->index = (uint32_t *)(s->keys + s->n_all);
    for (size_t i = 0; i < n; at += pieces[i++].n)
        if (pieces[i].n)
            memcpy(s->all + at, pieces[i].keys, pieces[i].n * sizeof(*s->all));
    return fl_unique_run(&m->unique, s->all, s->n_all, s->keys, s->index,
                         &s->n_keys);
}

static fl_status clear_sums(fl_merger *m, size_t dim, sums *s)
{
    size_t n = s->n_keys;

    FL_TRY(reserve(&m->rows, n * dim + 1, sizeof(*s->rows)));
    FL_TRY(reserve(&m->numbers, n + 1,
                   sizeof(*s->counts) + 2 * sizeof(*s->shows)));
    s->rows = m->rows.data;
    s->shows = m->numbers.data;
    s->clicks = s->shows + n;
    s->counts = (uint32_t *)(s->clicks + n);
    memset(s->rows, 0, n * dim * sizeof(*s->rows));
    memset(s->shows, 0, 3 * n * sizeof(*s->shows));
    return FL_OK;
}

static fl_table_push_args as_it_is(const fl_piece *p)
{
    return (fl_table_push_args){ .keys = p->keys,
                                 .grads = p->rows,
                                 .shows = p->shows,
                                 .clicks = p->clicks,
                                 .counts = p->counts,
                                 .n = p->n,
                                 .merged = true };
}

static void add_piece(const fl_piece *p, const uint32_t *index, wants w,
                      size_t dim, const sums *s)
{
    add_rows(p, index, dim, s->rows);
    if (w.counts)
        add_counts(p, index, s->counts);
    if (w.shows)
        add_numbers(p, index, p->shows, 1, s->shows);
    if (w.clicks)
        add_numbers(p, index, p->clicks, 0, s->clicks);
}

fl_status fl_merge_rows(fl_merger *m, const fl_piece *pieces, size_t n_pieces,
                        uint32_t dim, fl_table_push_args *out)
{
    wants w = find_wants(pieces, n_pieces);
    sums s = { 0 };
    size_t at = 0;

    if (n_pieces == 1 && pieces[0].scale == 1) {
        *out = as_it_is(&pieces[0]);
        return FL_OK;
    }
    FL_TRY(unite_keys(m, pieces, n_pieces, &s));
    FL_TRY(clear_sums(m, dim, &s));
    for (size_t i = 0; i < n_pieces; at += pieces[i++].n)
        add_piece(&pieces[i], s.index + at, w, dim, &s);
    *out = (fl_table_push_args){
        .keys = s.keys,
        .grads = s.rows,
        .shows = w.shows ? s.shows : NULL,
        .clicks = w.clicks ? s.clicks : NULL,
        .counts = w.counts ? s.counts : NULL,
        .n = s.n_keys,
        .merged = true,
    };
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
