/* known.c - what others know of a row, and what they are to learn. */
#include "table/known.h"

#include "base/alloc.h"
#include "kernel/order.h"
#include "table/batch.h"

#define FIRST_CAP 1024

/* --- what was pushed to --------------------------------------------------- */

static size_t bytes_of(const fl_hash_list *l)
{
    return l->cap * sizeof(*l->data);
}

void fl_hash_list_release(fl_hash_list *l)
{
    fl_data_free(l->data, bytes_of(l));
    *l = (fl_hash_list){ 0 };
}

static fl_status grow(const fl_table *t, fl_hash_list *l)
{
    fl_hash_list to = { .n = l->n, .cap = l->cap ? 2 * l->cap : FIRST_CAP };

    to.data = fl_try_alloc(bytes_of(&to));
    if (!to.data)
        FL_FAIL(FL_ERR_NOMEM,
                "table %s: no memory for a list of %zu rows that were pushed "
                "to; exchange them more often",
                t->name, to.cap);
    if (l->n)
        memcpy(to.data, l->data, l->n * sizeof(*l->data));
    fl_hash_list_release(l);
    *l = to;
    return FL_OK;
}

fl_status fl_known_reserve(fl_group *g)
{
    fl_hash_list *l = &g->p->pushed;

    return l->n + (size_t)g->n <= l->cap ? FL_OK : grow(g->t, l);
}

static size_t count_pushed(const fl_table *t)
{
    size_t n = 0;

    for (int i = 0; i < t->n_parts; i++)
        n += t->parts[i].pushed.n;
    return n;
}

/* With room for as many again. Under all locks. */
static fl_status move_pushed(fl_table *t, fl_buf *hashes, size_t *n)
{
    size_t all = count_pushed(t);
    uint64_t *to = fl_buf_reserve(hashes, (2 * all + 1) * sizeof(*to));

    if (!to)
        FL_FAIL(FL_ERR_NOMEM, "table %s: no memory for a list of %zu rows",
                t->name, all);
    for (int i = 0; i < t->n_parts; i++) {
        fl_hash_list *l = &t->parts[i].pushed;

        if (l->n)
            memcpy(to, l->data, l->n * sizeof(*to));
        to += l->n;
        l->n = 0;
    }
    *n = all;
    return FL_OK;
}

fl_status fl_table_take_pushed(fl_table *t, fl_buf *keys, size_t *n)
{
    uint64_t *list;
    fl_status st;

    fl_table_lock_all(t);
    st = move_pushed(t, keys, n);
    fl_table_unlock_all(t);
    FL_TRY(st);
    list = keys->data;
    fl_order_hashes(list, *n, list + *n);
    for (size_t i = 0; i < *n; i++)
        list[i] = fl_hash_origin(list[i]);
    return FL_OK;
}

/* --- values --------------------------------------------------------------- */

static fl_status find_whole(fl_group *g, void *arg)
{
    (void)arg;
    for (int k = 0; k < g->n; k++) {
        FL_TRY(fl_group_find_or_make(g, k));
        if (g->ref[k])
            fl_prefetch_row(fl_partition_row(g->p, g->ref[k]), 0,
                            g->t->acc.layout.bytes);
    }
    return FL_OK;
}

static float *value_of(const fl_group *g, void *row)
{
    return (float *)((char *)row + g->t->acc.layout.value);
}

static float *known_of(const fl_group *g, void *row)
{
    return (float *)((char *)row + g->t->acc.layout.known);
}

/* Four numbers, wherever they lie: rows are short, and their loops are not
   unrolled by themselves. */
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

typedef struct telling {
    float share;
    float *out;
} telling;

static void tell_row(float *restrict out, float *restrict known,
                     const float *restrict value, uint32_t n, float share)
{
    uint32_t i = 0;

    for (; i + 4 <= n; i += 4) {
        four d = (*(four *)(known + i) - *(const four *)(value + i)) * share;

        *(four *)(out + i) = d;
        *(four *)(known + i) -= d;
    }
    for (; i < n; i++) {
        out[i] = (known[i] - value[i]) * share;
        known[i] -= out[i];
    }
}

static fl_status tell_group(fl_group *g, void *arg)
{
    const telling *a = arg;
    const uint32_t dim = g->t->config.dim;

    for (int k = 0; k < g->n; k++) {
        float *out = a->out + fl_group_number(g, k) * dim;
        void *row;

        if (!g->ref[k]) {
            memset(out, 0, dim * sizeof(*out));
            continue;
        }
        row = fl_partition_row(g->p, g->ref[k]);
        fl_row_set_mark(row, false);
        tell_row(out, known_of(g, row), value_of(g, row), dim, a->share);
    }
    return FL_OK;
}

fl_status fl_table_tell(fl_table *t, const uint64_t *keys, size_t n,
                        float share, float *out)
{
    static const fl_sweeps sweeps = { find_whole, tell_group };
    telling a = { share, out };

    FL_ASSERT(t->acc.layout.known);
    FL_TRY(fl_batch_check(t, keys, n));
    return fl_batch_sweep(t, keys, n, &sweeps, &a);
}

static void learn_row(float *restrict value, float *restrict known,
                      const float *restrict theirs, uint32_t n)
{
    uint32_t i = 0;

    for (; i + 4 <= n; i += 4) {
        four now = *(const four *)(theirs + i);

        *(four *)(value + i) += now - *(four *)(known + i);
        *(four *)(known + i) = now;
    }
    for (; i < n; i++) {
        value[i] += theirs[i] - known[i];
        known[i] = theirs[i];
    }
}

static fl_status learn_group(fl_group *g, void *arg)
{
    const float *theirs = arg;
    const uint32_t dim = g->t->config.dim;

    for (int k = 0; k < g->n; k++) {
        void *row;

        if (!g->ref[k])
            continue;
        fl_group_touch(g, k);
        row = fl_partition_row(g->p, g->ref[k]);
        learn_row(value_of(g, row), known_of(g, row),
                  theirs + fl_group_number(g, k) * dim, dim);
    }
    return FL_OK;
}

fl_status fl_table_learn(fl_table *t, const uint64_t *keys, size_t n,
                         const float *theirs)
{
    static const fl_sweeps sweeps = { find_whole, learn_group };

    FL_ASSERT(t->acc.layout.known);
    FL_TRY(fl_batch_check(t, keys, n));
    return fl_batch_sweep(t, keys, n, &sweeps, (void *)(uintptr_t)theirs);
}
