/* pull.c - values by key.
 *
 * Most keys of a pull have a row, so two passes only look: they change nothing,
 * and what they hold stays valid. Keys flow one by one, so that requests to
 * memory come evenly and the wait for one line is filled with work on others:
 *
 *     key -> [asked for its bucket] -> found -> [asked for its row] -> copied
 *
 * The first pass looks into home buckets alone, in lockstep and without a jump
 * that depends on what is there. The second takes the keys that were not at
 * home through queues, from bucket to bucket. Keys without a row are left over;
 * a third pass makes their rows, or gives the values that they would be born
 * with.
 */
#include <string.h>

#include "table/batch.h"

/* First pass: keys that wait for their bucket, and as many for their row. A
   share with fewer keys than that goes to the second pass at once. A bucket is
   asked for once more, a few keys before it is looked into: some are not there
   yet. For rows that gains nothing. */
#define HOMES 64
#define AGAIN 56

/* Second pass: how many keys wait in each queue. A queue is a ring, and one
   place more than AHEAD is used for a moment. */
#define AHEAD 24
#define RING 64

typedef struct pull_args {
    bool create;
    float *out;
    uint8_t *missing; /* by key; NULL: nobody asks */
} pull_args;

/* A memcpy of so few bytes would mostly be the call. The last four floats may
   be copied twice in part. */
static inline void copy_floats(float *to, const char *from, uint32_t n)
{
    const size_t four = 4 * sizeof(float);
    uint32_t i = 0;

    for (; i + 4 < n; i += 4)
        memcpy(to + i, from + i * sizeof(float), four);
    if (n >= 4)
        memcpy(to + n - 4, from + (n - 4) * sizeof(float), four);
    else
        for (; i < n; i++)
            memcpy(to + i, from + i * sizeof(float), sizeof(float));
}

/* Lines are asked for into the second level of the cache, which can have more
   requests under way than the first. */
static inline __attribute__((always_inline)) void ask_line(const void *at)
{
    __builtin_prefetch(at, 0, 2);
}

/* Asks for the lines of bytes [lo, hi) of a row. How many these are may depend
   on where the row lies, which cannot be predicted, so the line of the last
   byte is always asked for, be it another one or not. */
static inline __attribute__((always_inline)) void
ask_row(const char *row, uint32_t lo, uint32_t hi)
{
    for (uint32_t at = lo; at < hi; at += 64)
        ask_line(row + at);
    ask_line(row + hi - 1);
}

typedef struct probe {
    const fl_bucket *bucket;
    uint32_t key; /* number in the block */
} probe;

typedef struct hit {
    const char *row;
    uint32_t key;
    bool is_short;
} hit;

typedef struct lookup {
    const fl_table *t;
    const fl_partition *only; /* all keys are of this one; NULL: of several */
    const fl_split *d;
    float *out;        /* of the block */
    uint32_t from, to; /* bytes of a row that are read */
    unsigned probes_head, probes_tail, hits_head, hits_tail;
    probe probes[RING];
    hit hits[RING];
} lookup;

/* --- rows of keys that are at home ---------------------------------------- */

static inline const fl_partition *part_of(const lookup *l, uint32_t key)
{
    return l->only ? l->only : fl_table_part(l->t, l->d->hash[key]);
}

static inline const fl_bucket *home_of(const lookup *l, uint32_t key)
{
    const fl_index *x = &part_of(l, key)->index;

    return fl_index_begin(x, fl_index_place(x, l->d->hash[key]));
}

/* The pool of whole rows of a key. One partition's is read once, since nothing
   changes it meanwhile, which a compiler does not see. */
static inline __attribute__((always_inline)) const fl_pool *
pool_of(const lookup *l, uint32_t key, const fl_pool *only)
{
    return only ? only : &part_of(l, key)->pools[0];
}

/* Copies the values of keys that are in their home bucket; the others' numbers
   are put to the front of `order`; returns how many. These get the value of the
   first row for now, so that no jump depends on what was found. All rows are
   full ones, and there is one. */
static inline __attribute__((always_inline)) int
pull_homes_of(const lookup *l, uint16_t *order, int n, const fl_pool *only)
{
    const uint64_t *keys = l->d->keys;
    const uint32_t dim = l->t->config.dim, from = l->from, to = l->to;
    const fl_bucket *bucket[HOMES];
    const char *row[HOMES];
    uint32_t row_key[HOMES];
    int n_left = 0;

    for (int i = 0; i < n + 2 * HOMES; i++) {
        int at = i % HOMES;

        if (i >= 2 * HOMES)
            copy_floats(l->out + (size_t)row_key[at] * dim, row[at] + from,
                        dim);
        if (i >= HOMES && i < n + HOMES) {
            const fl_bucket *b = bucket[at];
            uint32_t key = order[i - HOMES];
            uint32_t ref = b->ref[fl_bucket_slot(b, keys[key])];

            order[n_left] = (uint16_t)key;
            n_left += ref == 0;
            row[at] = fl_pool_row(pool_of(l, key, only),
                                  fl_ref_row(ref + (ref == 0)));
            row_key[at] = key;
            ask_row(row[at], from, to);
        }
        if (i < n) {
            bucket[at] = home_of(l, order[i]);
            ask_line(bucket[at]);
            if (i >= AGAIN)
                __builtin_prefetch(bucket[(i - AGAIN) % HOMES]);
        }
    }
    return n_left;
}

static int pull_homes(const lookup *l, uint16_t *order, int n)
{
    if (l->only) {
        const fl_pool pool = l->only->pools[0];

        return pull_homes_of(l, order, n, &pool);
    }
    return pull_homes_of(l, order, n, NULL);
}

/* --- rows that are there ------------------------------------------------- */

static inline void push_probe(lookup *l, const fl_bucket *b, uint32_t key)
{
    ask_line(b);
    l->probes[l->probes_tail++ % RING] = (probe){ b, key };
}

static inline void push_hit(lookup *l, uint32_t ref, uint32_t key)
{
    const char *row = fl_partition_row(part_of(l, key), ref);

    ask_row(row, l->from, l->to);
    l->hits[l->hits_tail++ % RING] = (hit){ row, key, fl_ref_is_short(ref) };
}

/* Looks into the oldest bucket. False when the key has no row. */
static inline bool look(lookup *l, uint32_t *key)
{
    probe q = l->probes[l->probes_head++ % RING];
    uint32_t ref = q.bucket->ref[fl_bucket_slot(q.bucket, l->d->keys[q.key])];

    *key = q.key;
    if (ref)
        push_hit(l, ref, q.key);
    else if (q.bucket->ref[FL_BUCKET_SLOTS - 1])
        push_probe(l, q.bucket + 1, q.key);
    else
        return false;
    return true;
}

static inline void copy_hit(lookup *l)
{
    const hit *h = &l->hits[l->hits_head++ % RING];
    const fl_acc_ctx *acc = &l->t->acc;
    float *out = l->out + (size_t)h->key * acc->config->dim;

    if (acc->layout.value)
        copy_floats(out, h->row + acc->layout.value, acc->config->dim);
    else
        l->t->accessor->pull(acc, l->d->keys[h->key], h->row, h->is_short, out);
}

/* Copies the values of keys that have a row. The others' numbers are put to the
   front of `order`; returns how many. */
static int pull_there(lookup *l, uint16_t *order, int n)
{
    int next = 0, n_left = 0;
    uint32_t key;

    for (;;) {
        for (; next < n && l->probes_tail - l->probes_head < AHEAD; next++)
            push_probe(l, home_of(l, order[next]), order[next]);
        if (l->probes_head == l->probes_tail)
            break;
        if (!look(l, &key))
            order[n_left++] = (uint16_t)key;
        if (l->hits_tail - l->hits_head > AHEAD)
            copy_hit(l);
    }
    while (l->hits_head != l->hits_tail)
        copy_hit(l);
    return n_left;
}

/* --- rows that are not --------------------------------------------------- */

static fl_status make_rows(fl_group *g, void *arg)
{
    (void)arg;
    for (int k = 0; k < g->n; k++) {
        const uint32_t *slot = fl_group_slot(g, k);

        g->ref[k] = slot ? *slot : 0;
        if (!slot)
            FL_TRY(fl_partition_create(g->t, g->p, fl_group_key(g, k),
                                       fl_group_hash(g, k), &g->ref[k]));
    }
    return FL_OK;
}

static fl_status give_no_rows(fl_group *g, void *arg)
{
    (void)arg;
    memset(g->ref, 0, sizeof(g->ref));
    return FL_OK;
}

static fl_status copy_new(fl_group *g, void *arg)
{
    const pull_args *a = arg;
    const fl_acc_ctx *acc = &g->t->acc;

    for (int k = 0; k < g->n; k++) {
        uint32_t ref = g->ref[k];

        if (a->missing && !ref)
            a->missing[fl_group_number(g, k)] = 1;
        g->t->accessor->pull(acc, fl_group_key(g, k),
                             ref ? fl_partition_row(g->p, ref) : NULL,
                             ref && fl_ref_is_short(ref),
                             a->out + fl_group_number(g, k) * acc->config->dim);
    }
    return FL_OK;
}

/* --- both ---------------------------------------------------------------- */

static bool is_empty(const fl_table *t, int part)
{
    return !t->parts[part].index.len;
}

/* Those that have keys have rows, too, or there is only one. */
static fl_status pull_filled(const fl_stretch *s, void *arg)
{
    static const fl_sweeps creating = { make_rows, copy_new };
    static const fl_sweeps only = { give_no_rows, copy_new };
    const pull_args *a = arg;
    const fl_table *t = s->t;
    const fl_row_layout *layout = &t->acc.layout;
    int n_left = s->hi - s->lo;
    bool is_one = fl_stretch_is_one(s);
    lookup l = { .t = t, .d = s->d };

    l.only = is_one ? &t->parts[s->from] : NULL;
    l.out = a->out + s->d->at * t->config.dim;
    l.from = layout->value;
    l.to = layout->value
               ? layout->value + t->config.dim * (uint32_t)sizeof(float)
               : layout->bytes;
    if (!is_one || !is_empty(t, s->from)) {
        if (layout->value && !layout->short_bytes && n_left >= HOMES)
            n_left = pull_homes(&l, s->d->order + s->lo, n_left);
        if (n_left)
            n_left = pull_there(&l, s->d->order + s->lo, n_left);
    }
    return fl_sweep(
        &(fl_stretch){ s->t, s->d, s->from, s->to, s->lo, s->lo + n_left },
        a->create ? &creating : &only, arg);
}

static bool are_filled(const fl_stretch *s)
{
    for (int p = s->from; p < s->to; p++)
        if (fl_split_has(s->d, p) && is_empty(s->t, p))
            return false;
    return true;
}

static fl_status pull_stretch(const fl_stretch *s, void *arg)
{
    const uint16_t *first = s->d->first;

    if (are_filled(s))
        return pull_filled(s, arg);
    for (int p = s->from; p < s->to; p++)
        if (fl_split_has(s->d, p))
            FL_TRY(pull_filled(
                &(fl_stretch){ s->t, s->d, p, p + 1, first[p], first[p + 1] },
                arg));
    return FL_OK;
}

fl_status fl_table_pull(fl_table *t, const uint64_t *keys, size_t n,
                        fl_pull_kind kind, float *out)
{
    pull_args a = { .out = out };

    a.create = kind == FL_PULL_CREATE && t->config.entry.kind == FL_ENTRY_NONE;
    FL_TRY(fl_batch_check(t, keys, n));
    return fl_batch_split(t, keys, n, pull_stretch, &a);
}

fl_status fl_table_peek(fl_table *t, const uint64_t *keys, size_t n, float *out,
                        uint8_t *missing)
{
    pull_args a = { .out = out, .missing = missing };

    memset(missing, 0, n);
    FL_TRY(fl_batch_check(t, keys, n));
    return fl_batch_split(t, keys, n, pull_stretch, &a);
}
