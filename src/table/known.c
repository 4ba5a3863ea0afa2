/* known.c - what others know of a row, and what they are to learn. */
#include "table/known.h"

#include "base/alloc.h"
#include "kernel/order.h"
#include "table/there.h"

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

static float *value_of(const fl_table *t, void *row)
{
    return (float *)((char *)row + t->acc.layout.value);
}

static float *known_of(const fl_table *t, void *row)
{
    return (float *)((char *)row + t->acc.layout.known);
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

static void tell_one(const fl_table *t, void *row, size_t number, void *arg)
{
    const telling *a = arg;
    const uint32_t dim = t->config.dim;

    fl_row_set_mark(row, false);
    tell_row(a->out + number * dim, known_of(t, row), value_of(t, row), dim,
             a->share);
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

typedef struct learning {
    uint32_t epoch;
    const float *theirs;
} learning;

static void learn_one(const fl_table *t, void *row, size_t number, void *arg)
{
    const learning *a = arg;
    const uint32_t dim = t->config.dim;

    fl_row_set_epoch(row, a->epoch);
    learn_row(value_of(t, row), known_of(t, row), a->theirs + number * dim,
              dim);
}

/* --- rows that are not ---------------------------------------------------- */

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

static fl_status tell_group(fl_group *g, void *arg)
{
    const telling *a = arg;
    const uint32_t dim = g->t->config.dim;

    for (int k = 0; k < g->n; k++) {
        size_t number = fl_group_number(g, k);

        if (g->ref[k])
            tell_one(g->t, fl_partition_row(g->p, g->ref[k]), number, arg);
        else
            memset(a->out + number * dim, 0, dim * sizeof(*a->out));
    }
    return FL_OK;
}

static fl_status learn_group(fl_group *g, void *arg)
{
    for (int k = 0; k < g->n; k++) {
        if (!g->ref[k])
            continue;
        fl_group_touch(g, k);
        learn_one(g->t, fl_partition_row(g->p, g->ref[k]),
                  fl_group_number(g, k), arg);
    }
    return FL_OK;
}

/* --- both ----------------------------------------------------------------- */

static fl_status tell_stretch(const fl_stretch *all, void *arg)
{
    static const fl_sweeps sweeps = { find_whole, tell_group };
    fl_stretch s = *all;

    s.lo = fl_there_use(&s, tell_one, arg);
    return fl_sweep(&s, &sweeps, arg);
}

fl_status fl_table_tell(fl_table *t, const uint64_t *keys, size_t n,
                        float share, float *out)
{
    telling a = { share, out };

    FL_ASSERT(t->acc.layout.known);
    FL_TRY(fl_batch_check(t, keys, n));
    return fl_batch_split(t, keys, n, tell_stretch, &a);
}

/* The epoch is constant under a lock. Rows that a cut watches take the longer
   way. */
static fl_status learn_stretch(const fl_stretch *all, void *arg)
{
    static const fl_sweeps sweeps = { find_whole, learn_group };
    fl_stretch s = *all;
    learning a = { fl_table_epoch(s.t), arg };

    if (!fl_stretch_is_watched(&s))
        s.lo = fl_there_use(&s, learn_one, &a);
    return fl_sweep(&s, &sweeps, &a);
}

fl_status fl_table_learn(fl_table *t, const uint64_t *keys, size_t n,
                         const float *theirs)
{
    FL_ASSERT(t->acc.layout.known);
    FL_TRY(fl_batch_check(t, keys, n));
    return fl_batch_split(t, keys, n, learn_stretch, (void *)(uintptr_t)theirs);
}
