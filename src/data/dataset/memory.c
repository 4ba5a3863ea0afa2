/* memory.c - records kept in memory.
 *
 *     order    [ p0 | p1 | p2 | ... ]         a pointer per record
 *                |     \____        \
 *     blocks   [ record | record | ... ]      BLOCK_WORDS words each
 *
 * Blocks never move, so an address is the reference of a record, and a part of
 * the order is what fl_columns_gather takes as it is. A record that is larger
 * than a block has one to itself.
 *
 * An adding thread gets its place and writes the order under the mutex, and
 * copies its records without it. Where rows are from is kept beside the order
 * until it is settled.
 */
#include "data/dataset/memory.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/rng.h"
#include "base/thread.h"
#include "base/vec.h"

#define BLOCK_WORDS ((size_t)1 << 20)
#define FIRST_RECORDS 4096

/* Below this many records, inserting is faster than dealing into buckets. */
#define SMALL_SORT 32
#define RADIX_BITS 8
#define BUCKETS (1 << RADIX_BITS)
#define TOP_SHIFT (64 - RADIX_BITS)

typedef struct block {
    uint32_t *words;
    size_t cap;
} block;

/* A part of the order, from `lo` on, and where its records are from. */
typedef struct stretch {
    fl_row_run from;
    uint64_t lo;
} stretch;

/* The records and their order. */
typedef struct store {
    FL_VEC(block) blocks;
    size_t used;      /* words of the last block */
    size_t all_words; /* of all blocks */
    const uint32_t **order;
    uint64_t len, cap;
} store;

struct fl_memory {
    const fl_schema *schema;
    fl_mutex mu; /* guards the two while records are added */
    store kept;
    FL_VEC(stretch) parts; /* of the order, until it is settled */
};

static void release_store(store *s)
{
    for (size_t i = 0; i < s->blocks.len; i++)
        fl_data_free(s->blocks.data[i].words,
                     s->blocks.data[i].cap * sizeof(uint32_t));
    fl_vec_release(&s->blocks);
    fl_data_free(s->order, s->cap * sizeof(*s->order));
}

fl_memory *fl_memory_new(const fl_schema *s)
{
    fl_memory *m = fl_alloc(sizeof(*m));

    m->schema = s;
    fl_mutex_init(&m->mu);
    return m;
}

void fl_memory_free(fl_memory *m)
{
    if (!m)
        return;
    release_store(&m->kept);
    fl_vec_release(&m->parts);
    fl_mutex_release(&m->mu);
    fl_free(m);
}

uint64_t fl_memory_len(const fl_memory *m)
{
    return m->kept.len;
}

uint64_t fl_memory_bytes(const fl_memory *m)
{
    const store *s = &m->kept;

    return sizeof(*m) + s->all_words * sizeof(uint32_t) +
           s->blocks.cap * sizeof(block) + s->cap * sizeof(*s->order);
}

/* --- adding -------------------------------------------------------------- */

static fl_status reserve_order(store *s, uint64_t n)
{
    uint64_t cap = s->cap ? s->cap * 2 : FIRST_RECORDS;
    const uint32_t **order;
    size_t bytes;

    if (n <= s->cap - s->len)
        return FL_OK;
    if (cap - s->len < n)
        cap = s->len + n;
    order = fl_mul_overflow(cap, sizeof(*order), &bytes) ? NULL
                                                         : fl_try_alloc(bytes);
    if (!order)
        FL_FAIL(FL_ERR_NOMEM, "no memory for the order of %llu records",
                (unsigned long long)cap);
    if (s->len)
        memcpy(order, s->order, s->len * sizeof(*order));
    fl_data_free(s->order, s->cap * sizeof(*order));
    s->order = order;
    s->cap = cap;
    return FL_OK;
}

static size_t room(const store *s)
{
    return s->blocks.len ? s->blocks.data[s->blocks.len - 1].cap - s->used : 0;
}

static fl_status add_block(store *s, size_t n_words)
{
    block b = { .cap = n_words > BLOCK_WORDS ? n_words : BLOCK_WORDS };

    b.words = fl_try_alloc(b.cap * sizeof(*b.words));
    if (!b.words)
        FL_FAIL(FL_ERR_NOMEM,
                "no memory for more than the %llu records that are loaded; "
                "load fewer files, or use a QueueDataset",
                (unsigned long long)s->len);
    fl_vec_push(&s->blocks, b);
    s->used = 0;
    s->all_words += b.cap;
    return FL_OK;
}

/* Where n_words words in a row can be written. */
static fl_status reserve_words(store *s, size_t n_words, uint32_t **out)
{
    if (!s->blocks.len || n_words > room(s))
        FL_TRY(add_block(s, n_words));
    FL_ASSERT(s->blocks.data);
    *out = s->blocks.data[s->blocks.len - 1].words + s->used;
    s->used += n_words;
    return FL_OK;
}

static size_t end_of(const fl_records *r, size_t i)
{
    return i + 1 < r->n ? r->starts[i + 1] : r->len;
}

/* The first record from `from` on that does not fit into n_words. */
static size_t fitting(const fl_records *r, size_t from, size_t n_words)
{
    size_t lo = from, hi = r->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (end_of(r, mid) - r->starts[from] <= n_words)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Gives the records [lo, *hi) a place and enters them into the order. *hi is
   as far as the block goes, a new one when not even one record fits. */
static fl_status place(store *s, const fl_records *r, size_t lo, size_t *hi,
                       uint32_t **to)
{
    size_t first = r->starts[lo];

    FL_TRY(reserve_order(s, r->n - lo));
    *hi = fitting(r, lo, room(s));
    if (*hi == lo) {
        FL_TRY(add_block(s, end_of(r, lo) - first));
        *hi = fitting(r, lo, room(s));
    }
    FL_TRY(reserve_words(s, end_of(r, *hi - 1) - first, to));
    for (size_t i = lo; i < *hi; i++)
        s->order[s->len++] = *to + (r->starts[i] - first);
    return FL_OK;
}

/* Notes that the records [lo, hi) of the run were the last to be placed. */
static void note_part(fl_memory *m, const fl_row_run *from, size_t lo,
                      size_t hi)
{
    stretch p = { .from = *from, .lo = m->kept.len - (hi - lo) };

    p.from.at += lo;
    p.from.n = hi - lo;
    fl_vec_push(&m->parts, p);
}

fl_status fl_memory_add_run(fl_memory *m, const fl_row_run *from,
                            fl_records *rows)
{
    for (size_t lo = 0, hi; lo < rows->n; lo = hi) {
        uint32_t *to = NULL;
        fl_status st;
        size_t first = rows->starts[lo];

        fl_lock(&m->mu);
        st = place(&m->kept, rows, lo, &hi, &to);
        if (!st && from)
            note_part(m, from, lo, hi);
        fl_unlock(&m->mu);
        if (st)
            return st;
        memcpy(to, rows->words + first,
               (end_of(rows, hi - 1) - first) * sizeof(*to));
    }
    fl_records_clear(rows);
    return FL_OK;
}

fl_status fl_memory_add(fl_memory *m, fl_records *rows)
{
    return fl_memory_add_run(m, NULL, rows);
}

/* --- settling ------------------------------------------------------------ */

static int compare_parts(const void *a, const void *b)
{
    const fl_row_run *x = &((const stretch *)a)->from,
                     *y = &((const stretch *)b)->from;

    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->block != y->block)
        return x->block < y->block ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static bool is_in_order(const fl_memory *m)
{
    for (size_t i = 1; i < m->parts.len; i++)
        if (compare_parts(&m->parts.data[i - 1], &m->parts.data[i]) > 0)
            return false;
    return true;
}

static fl_status reorder(fl_memory *m)
{
    store *s = &m->kept;
    const uint32_t **order = fl_try_alloc(s->cap * sizeof(*order));
    uint64_t n = 0;

    if (!order)
        FL_FAIL(FL_ERR_NOMEM, "no memory for the order of %llu records",
                (unsigned long long)s->len);
    qsort(m->parts.data, m->parts.len, sizeof(stretch), compare_parts);
    for (size_t i = 0; i < m->parts.len; i++) {
        const stretch *p = &m->parts.data[i];

        memcpy(order + n, s->order + p->lo, p->from.n * sizeof(*order));
        n += p->from.n;
    }
    FL_ASSERT(n == s->len);
    fl_data_free(s->order, s->cap * sizeof(*order));
    s->order = order;
    return FL_OK;
}

fl_status fl_memory_settle(fl_memory *m)
{
    fl_status st = is_in_order(m) ? FL_OK : reorder(m);

    fl_vec_release(&m->parts);
    return st;
}

/* --- sorting ------------------------------------------------------------- */

/* Sorts by a hash of the record's bytes, and by the bytes themselves where two
   hashes are equal. Keys and order are permuted together, in place: eight bytes
   per record are all that a sort takes. */
typedef struct sorting {
    const fl_schema *schema;
    uint64_t *keys;
    const uint32_t **order;
} sorting;

static uint64_t hash_words(const uint32_t *words, size_t n)
{
    uint64_t h = n, pair;

    for (size_t i = 0; i + 2 <= n; i += 2) {
        memcpy(&pair, words + i, sizeof(pair));
        h = (h ^ pair) * 0x9fb21c651e98df25u;
        h ^= h >> 32;
    }
    if (n % 2)
        h = (h ^ words[n - 1]) * 0x9fb21c651e98df25u;
    return fl_mix64(h);
}

static int compare_records(const fl_schema *s, const uint32_t *a,
                           const uint32_t *b)
{
    size_t n = fl_row_words(s, a), m = fl_row_words(s, b);

    if (n != m)
        return n < m ? -1 : 1;
    return memcmp(a, b, n * sizeof(*a));
}

static bool is_before(const sorting *s, uint64_t key, const uint32_t *record,
                      size_t i)
{
    if (key != s->keys[i])
        return key < s->keys[i];
    return compare_records(s->schema, record, s->order[i]) < 0;
}

/* Also for any number of equal hashes: those are equal records but for a
   handful, so that one comparison puts each in its place. */
static void insertion_sort(const sorting *s, size_t lo, size_t hi)
{
    for (size_t i = lo + 1; i < hi; i++) {
        uint64_t key = s->keys[i];
        const uint32_t *record = s->order[i];
        size_t j = i;

        for (; j > lo && is_before(s, key, record, j - 1); j--) {
            s->keys[j] = s->keys[j - 1];
            s->order[j] = s->order[j - 1];
        }
        s->keys[j] = key;
        s->order[j] = record;
    }
}

static size_t bucket_of(uint64_t key, int shift)
{
    return (key >> shift) & (BUCKETS - 1);
}

static void swap_records(const sorting *s, size_t i, size_t j)
{
    uint64_t key = s->keys[i];
    const uint32_t *record = s->order[i];

    s->keys[i] = s->keys[j];
    s->order[i] = s->order[j];
    s->keys[j] = key;
    s->order[j] = record;
}

/* Deals [lo, hi) into buckets by one byte of the keys; ends[b] becomes the end
   of bucket b. */
static void deal(const sorting *s, size_t lo, size_t hi, int shift,
                 size_t ends[BUCKETS])
{
    size_t next[BUCKETS];
    size_t sum = lo;

    memset(ends, 0, BUCKETS * sizeof(*ends));
    for (size_t i = lo; i < hi; i++)
        ends[bucket_of(s->keys[i], shift)]++;
    for (size_t b = 0; b < BUCKETS; b++) {
        next[b] = sum;
        sum += ends[b];
        ends[b] = sum;
    }
    for (size_t b = 0; b < BUCKETS; b++)
        while (next[b] < ends[b]) {
            size_t to = bucket_of(s->keys[next[b]], shift);

            if (to == b)
                next[b]++;
            else
                swap_records(s, next[b], next[to]++);
        }
}

static void radix_sort(const sorting *s, size_t lo, size_t hi, int shift)
{
    size_t ends[BUCKETS];

    if (hi - lo < SMALL_SORT || shift < 0) {
        insertion_sort(s, lo, hi);
        return;
    }
    deal(s, lo, hi, shift, ends);
    for (size_t b = 0; b < BUCKETS; lo = ends[b++])
        if (ends[b] - lo > 1)
            radix_sort(s, lo, ends[b], shift - RADIX_BITS);
}

fl_status fl_memory_sort(fl_memory *m)
{
    const store *kept = &m->kept;
    sorting s = { m->schema, NULL, kept->order };

    if (kept->len < 2)
        return FL_OK;
    s.keys = fl_try_alloc(kept->len * sizeof(*s.keys));
    if (!s.keys)
        FL_FAIL(FL_ERR_NOMEM, "no memory to sort %llu records",
                (unsigned long long)kept->len);
    for (uint64_t i = 0; i < kept->len; i++)
        s.keys[i] = hash_words(s.order[i], fl_row_words(m->schema, s.order[i]));
    radix_sort(&s, 0, kept->len, TOP_SHIFT);
    fl_data_free(s.keys, kept->len * sizeof(*s.keys));
    return FL_OK;
}

/* --- shuffling ----------------------------------------------------------- */

/* Uniform in [0, n): the bits above the largest multiple of n are drawn anew,
   so no value is favoured. */
static uint64_t draw_below(uint64_t stream, uint64_t i, uint64_t n)
{
    uint64_t odd = -n % n; /* 2^64 mod n */
    uint64_t bits, col = 0;

    do
        bits = fl_rng_bits(stream, i, col++);
    while (bits < odd);
    return bits % n;
}

static void shuffle_order(const uint32_t **order, uint64_t n, uint64_t seed)
{
    uint64_t stream = fl_rng_stream(seed, "shuffle");

    for (uint64_t i = n; i-- > 1;) {
        uint64_t j = draw_below(stream, i, i + 1);
        const uint32_t *record = order[i];

        order[i] = order[j];
        order[j] = record;
    }
}

void fl_memory_shuffle(fl_memory *m, uint64_t seed)
{
    shuffle_order(m->kept.order, m->kept.len, seed);
}

/* --- shuffling one slot -------------------------------------------------- */

/* Where a slot is among the slots, and where its values are in a record. */
typedef struct slot_place {
    uint32_t slot, ragged; /* its number among all and among the ragged ones */
} slot_place;

typedef struct slot_span {
    size_t lo, hi; /* words of the record, a long count included */
} slot_span;

static slot_place place_of(const fl_schema *s, uint32_t slot)
{
    slot_place p = { .slot = slot };

    for (uint32_t i = 0; i < slot; i++)
        p.ragged += s->slots[i].width == 0;
    return p;
}

static slot_span span_of(const fl_schema *s, const uint32_t *row, slot_place p)
{
    fl_schema part = *s;
    slot_span span;

    part.n_slots = p.slot;
    span.lo = fl_row_words(&part, row);
    part.n_slots = p.slot + 1;
    span.hi = fl_row_words(&part, row);
    return span;
}

/* Values of one size change places where they are. The blocks are ours: the
   order points to const words because batches only read them. */
static void swap_values(const fl_schema *s, const uint32_t *a,
                        const uint32_t *b, slot_place p)
{
    slot_span in_a = span_of(s, a, p), in_b = span_of(s, b, p);
    uint32_t *x = (uint32_t *)(uintptr_t)a + in_a.lo;
    uint32_t *y = (uint32_t *)(uintptr_t)b + in_b.lo;

    for (size_t k = 0; k < in_a.hi - in_a.lo; k++) {
        uint32_t word = x[k];

        x[k] = y[k];
        y[k] = word;
    }
}

static void shuffle_dense(const fl_memory *m, slot_place p, uint64_t seed)
{
    const store *s = &m->kept;
    uint64_t stream = fl_rng_stream(seed, "shuffle");

    for (uint64_t i = s->len; i-- > 1;)
        swap_values(m->schema, s->order[i],
                    s->order[draw_below(stream, i, i + 1)], p);
}

/* Adds `row` with the values that `donor` has in one slot. */
static fl_status add_mixed(store *to, const fl_schema *s, const uint32_t *row,
                           const uint32_t *donor, slot_place p)
{
    slot_span mine = span_of(s, row, p), other = span_of(s, donor, p);
    size_t n_other = other.hi - other.lo;
    size_t n_rest = fl_row_words(s, row) - mine.hi;
    uint32_t *at;

    FL_TRY(reserve_words(to, mine.lo + n_other + n_rest, &at));
    memcpy(at, row, mine.lo * sizeof(*at));
    ((uint8_t *)at)[p.ragged] = ((const uint8_t *)donor)[p.ragged];
    memcpy(at + mine.lo, donor + other.lo, n_other * sizeof(*at));
    memcpy(at + mine.lo + n_other, row + mine.hi, n_rest * sizeof(*at));
    to->order[to->len++] = at;
    return FL_OK;
}

static fl_status mix_all(const fl_memory *m, const uint32_t **donors,
                         slot_place p, store *to)
{
    FL_TRY(reserve_order(to, m->kept.len));
    for (uint64_t i = 0; i < m->kept.len; i++)
        FL_TRY(add_mixed(to, m->schema, m->kept.order[i], donors[i], p));
    return FL_OK;
}

/* Records change their size, so all of them are written anew; until that is
   done the old ones are there as well. */
static fl_status shuffle_ragged(fl_memory *m, slot_place p, uint64_t seed)
{
    const char *name = m->schema->slots[p.slot].name;
    size_t bytes = m->kept.len * sizeof(*m->kept.order);
    const uint32_t **donors = fl_try_alloc(bytes);
    store mixed = { 0 };
    fl_status st;

    if (!donors)
        FL_FAIL(FL_ERR_NOMEM, "no memory to shuffle slot %s", name);
    memcpy(donors, m->kept.order, bytes);
    shuffle_order(donors, m->kept.len, seed);
    st = mix_all(m, donors, p, &mixed);
    fl_data_free(donors, bytes);
    if (st) {
        release_store(&mixed);
        return fl_err_ctx(st, "shuffling slot %s", name);
    }
    release_store(&m->kept);
    m->kept = mixed;
    return FL_OK;
}

fl_status fl_memory_shuffle_slot(fl_memory *m, uint32_t slot, uint64_t seed)
{
    slot_place p = place_of(m->schema, slot);

    FL_ASSERT(slot < m->schema->n_slots);
    if (m->kept.len < 2)
        return FL_OK;
    if (m->schema->slots[slot].width == 0)
        return shuffle_ragged(m, p, seed);
    shuffle_dense(m, p, seed);
    return FL_OK;
}

/* --- draining ------------------------------------------------------------ */

/* A key is where a record is, and its tag, which is all that the order is still
   needed for:  | block: 28 bits | word of the block: 20 | tag: 16 |  */
#define TAG_BITS 16
#define BLOCK_SHIFT (20 + TAG_BITS)

_Static_assert(BLOCK_WORDS == (size_t)1 << (BLOCK_SHIFT - TAG_BITS),
               "a key has bits for every word of a block");

struct fl_drain {
    store from; /* its order is gone */
    uint64_t *keys;
    uint64_t n, next;
    size_t block; /* those before it are freed */
};

static int compare_blocks(const void *a, const void *b)
{
    const block *x = a, *y = b;

    return x->words < y->words ? -1 : x->words > y->words;
}

/* The last block that begins at or before the record. */
static size_t block_of(const store *s, const uint32_t *record)
{
    size_t lo = 0, hi = s->blocks.len;

    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;

        if (s->blocks.data[mid].words <= record)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static void make_keys(const store *s, fl_tag_of tag_of, void *arg,
                      uint64_t *keys)
{
    for (uint64_t i = 0; i < s->len; i++) {
        size_t b = block_of(s, s->order[i]);
        size_t word = (size_t)(s->order[i] - s->blocks.data[b].words);

        keys[i] = (uint64_t)b << BLOCK_SHIFT | (uint64_t)word << TAG_BITS |
                  tag_of(arg, i);
    }
}

fl_status fl_memory_drain(fl_memory *m, fl_tag_of tag_of, void *arg,
                          fl_drain **out)
{
    store *s = &m->kept;
    fl_drain *d = fl_alloc(sizeof(*d));

    d->n = s->len;
    d->keys = d->n ? fl_try_alloc(d->n * sizeof(*d->keys)) : NULL;
    if (d->n && !d->keys) {
        fl_free(d);
        FL_FAIL(FL_ERR_NOMEM, "no memory to deal out %llu records",
                (unsigned long long)s->len);
    }
    if (s->blocks.len)
        qsort(s->blocks.data, s->blocks.len, sizeof(block), compare_blocks);
    make_keys(s, tag_of, arg, d->keys);
    radix_sort(&(sorting){ m->schema, d->keys, s->order }, 0, d->n, TOP_SHIFT);
    fl_data_free(s->order, s->cap * sizeof(*s->order));
    d->from = *s;
    d->from.order = NULL;
    d->from.cap = 0;
    *s = (store){ 0 };
    *out = d;
    return FL_OK;
}

static void free_block(block *b)
{
    fl_data_free(b->words, b->cap * sizeof(*b->words));
    *b = (block){ 0 };
}

const uint32_t *fl_drain_next(fl_drain *d, uint16_t *tag)
{
    uint64_t key;
    size_t b;

    if (d->next == d->n)
        return NULL;
    key = d->keys[d->next++];
    b = (size_t)(key >> BLOCK_SHIFT);
    while (d->block < b)
        free_block(&d->from.blocks.data[d->block++]);
    *tag = (uint16_t)key;
    return d->from.blocks.data[b].words + (key >> TAG_BITS & (BLOCK_WORDS - 1));
}

void fl_drain_free(fl_drain *d)
{
    if (!d)
        return;
    release_store(&d->from);
    fl_data_free(d->keys, d->n * sizeof(*d->keys));
    fl_free(d);
}

/* --- batches ------------------------------------------------------------- */

fl_status fl_memory_batch(const fl_memory *m, uint64_t lo, uint64_t hi,
                          fl_columns *out)
{
    FL_ASSERT(lo <= hi && hi <= m->kept.len);
    return fl_columns_gather(out, m->kept.order + lo, hi - lo);
}
