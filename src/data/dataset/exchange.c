/* exchange.c - records that change places with those of other processes.
 *
 * Records leave the memory block by block, so that what is dealt out makes room
 * for what comes. Each goes to the end of the open pack of its destination, or,
 * when it stays, back into the memory. A pack is given away when it is about
 * PACK_BYTES large; with very many destinations already when all open ones
 * together are too much.
 *
 * Nothing in a pack is believed: it is copied once, and every size is checked
 * against what is left of the copy before it is used.
 */
#include "data/dataset/exchange.h"

#include <inttypes.h>

#include "base/hash.h"
#include "base/rng.h"
#include "data/dataset/dataset_inside.h"

#define MAGIC UINT32_C(0x31584c46) /* "FLX1" */
#define HEAD_WORDS 6

#define PACK_WORDS ((size_t)1 << 18)
#define OPEN_WORDS_MAX ((size_t)1 << 24)
#define FIRST_WORDS 1024

/* Of the records that stay, between two visits to the memory. */
#define STAY_WORDS ((size_t)1 << 16)

typedef struct head {
    uint32_t magic, from;
    uint64_t schema, n;
} head;

_Static_assert(sizeof(head) == HEAD_WORDS * sizeof(uint32_t),
               "the head has no gaps");

typedef struct open_pack {
    fl_exchange_pack pack;
    uint64_t n; /* records */
} open_pack;

struct fl_exchange {
    fl_dataset *dataset;
    const fl_schema *schema;
    uint64_t schema_hash, stream;
    fl_exchange_args a;
    fl_drain *drain;  /* NULL: all records stay */
    open_pack *packs; /* by destination */
    size_t open_words, n_given;
    fl_records rows; /* that stay or have come, on their way to the memory */
};

/* --- beginning ----------------------------------------------------------- */

fl_status fl_exchange_check(const fl_dataset *d)
{
    return fl_dataset_check_loaded(d, "global_shuffle");
}

static uint16_t draw(void *arg, uint64_t place)
{
    const fl_exchange *x = arg;

    return (uint16_t)(fl_rng_bits(x->stream, x->a.rank, place) % x->a.n);
}

static fl_exchange *make(fl_dataset *d, const fl_exchange_args *a)
{
    fl_exchange *x = fl_alloc(sizeof(*x));

    x->dataset = d;
    x->schema = &d->loaded->schema;
    x->schema_hash = fl_schema_hash(x->schema);
    x->a = *a;
    x->stream = fl_rng_stream(a->seed, "exchange");
    x->packs = fl_alloc(a->n * sizeof(*x->packs));
    for (uint32_t i = 0; i < a->n; i++)
        x->packs[i].pack.to = a->ranks[i];
    return x;
}

static void free_exchange(fl_exchange *x)
{
    for (uint32_t i = 0; i < x->a.n; i++)
        fl_exchange_pack_release(&x->packs[i].pack);
    fl_drain_free(x->drain);
    fl_records_release(&x->rows);
    fl_free(x->packs);
    fl_free(x);
}

fl_status fl_exchange_begin(fl_exchange **out, fl_dataset *d,
                            const fl_exchange_args *a)
{
    fl_exchange *x;
    fl_status st = FL_OK;

    FL_ASSERT(a->n >= 1 && a->n <= FL_EXCHANGE_MAX);
    FL_TRY(fl_exchange_check(d));
    FL_TRY(fl_dataset_make_canonical(d));
    x = make(d, a);
    if (a->n > 1)
        st = fl_memory_drain(d->loaded->memory, draw, x, &x->drain);
    if (st) {
        free_exchange(x);
        return st;
    }
    *out = x;
    return FL_OK;
}

/* --- packs --------------------------------------------------------------- */

void fl_exchange_pack_release(fl_exchange_pack *p)
{
    fl_data_free(p->words, p->cap * sizeof(*p->words));
    *p = (fl_exchange_pack){ .to = p->to };
}

static fl_status reserve(fl_exchange_pack *p, size_t n_words)
{
    size_t cap = p->cap ? p->cap * 2 : FIRST_WORDS;
    uint32_t *words;

    if (n_words <= p->cap - p->len)
        return FL_OK;
    if (cap - p->len < n_words)
        cap = p->len + n_words;
    words = fl_try_alloc(cap * sizeof(*words));
    if (!words)
        FL_FAIL(FL_ERR_NOMEM, "no memory for a pack of %zu words", cap);
    if (p->len)
        memcpy(words, p->words, p->len * sizeof(*words));
    fl_data_free(p->words, p->cap * sizeof(*words));
    p->words = words;
    p->cap = cap;
    return FL_OK;
}

/* The head is written when the pack is given away. */
static fl_status add_to_pack(fl_exchange *x, open_pack *o, const uint32_t *row)
{
    size_t n_words = fl_row_words(x->schema, row);
    size_t n_head = o->pack.len ? 0 : HEAD_WORDS;

    FL_TRY(reserve(&o->pack, n_head + n_words));
    memcpy(o->pack.words + o->pack.len + n_head, row, n_words * sizeof(*row));
    o->pack.len += n_head + n_words;
    x->open_words += n_head + n_words;
    o->n++;
    return FL_OK;
}

static void give_away(fl_exchange *x, open_pack *o, fl_exchange_pack *out)
{
    head h = { MAGIC, x->a.rank, x->schema_hash, o->n };

    memcpy(o->pack.words, &h, sizeof(h));
    x->open_words -= o->pack.len;
    *out = o->pack;
    *o = (open_pack){ .pack = { .to = out->to } };
}

static open_pack *largest(const fl_exchange *x)
{
    open_pack *most = x->packs;

    for (uint32_t i = 1; i < x->a.n; i++)
        if (x->packs[i].pack.len > most->pack.len)
            most = &x->packs[i];
    return most;
}

/* --- what stays, and what came ------------------------------------------- */

static fl_status flush_rows(fl_exchange *x)
{
    return x->rows.n ? fl_memory_add(x->dataset->loaded->memory, &x->rows)
                     : FL_OK;
}

static fl_status keep(fl_exchange *x, const uint32_t *row)
{
    size_t n_words = fl_row_words(x->schema, row);
    fl_records *r = &x->rows;

    FL_TRY(fl_records_reserve(r, n_words, 1));
    memcpy(r->words + r->len, row, n_words * sizeof(*row));
    r->starts[r->n++] = r->len;
    r->len += n_words;
    return r->len < STAY_WORDS ? FL_OK : flush_rows(x);
}

/* The pack that became full, if one did. */
static fl_status deal(fl_exchange *x, const uint32_t *row, uint16_t to,
                      open_pack **full)
{
    open_pack *o = &x->packs[to];

    if (o->pack.to == x->a.rank)
        return keep(x, row);
    FL_TRY(add_to_pack(x, o, row));
    if (o->pack.len >= PACK_WORDS)
        *full = o;
    else if (x->open_words > OPEN_WORDS_MAX)
        *full = largest(x);
    return FL_OK;
}

/* Behind the last record, packs that are not full go as well. */
static open_pack *next_rest(fl_exchange *x)
{
    for (; x->n_given < x->a.n; x->n_given++)
        if (x->packs[x->n_given].pack.len)
            return &x->packs[x->n_given];
    return NULL;
}

fl_status fl_exchange_next(fl_exchange *x, fl_exchange_pack *out)
{
    open_pack *full = NULL;
    const uint32_t *row = NULL;
    uint16_t to;

    *out = (fl_exchange_pack){ 0 };
    while (x->drain && !full && (row = fl_drain_next(x->drain, &to)))
        FL_TRY(deal(x, row, to, &full));
    if (!full) {
        fl_drain_free(x->drain);
        x->drain = NULL;
        full = next_rest(x);
    }
    FL_TRY(flush_rows(x));
    if (full)
        give_away(x, full, out);
    return FL_OK;
}

/* --- adding -------------------------------------------------------------- */

/* Where the next record begins, NULL when this one does not end before `end`
   or has an id that there is none of. */
static const uint32_t *read_row(const fl_schema *s, const uint32_t *row,
                                const uint32_t *end)
{
    const uint8_t *counts = (const uint8_t *)row;
    const uint32_t *at = row;

    if ((size_t)(end - at) < s->count_words)
        return NULL;
    at += s->count_words;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const fl_slot *slot = &s->slots[i];
        uint32_t words = fl_slot_bytes(slot) / 4;
        uint64_t n = slot->width ? slot->width : *counts++;

        if (!slot->width && n == FL_ROW_LONG) {
            if (at == end || *at < FL_ROW_LONG)
                return NULL;
            n = *at++;
        }
        if ((uint64_t)(end - at) / words < n)
            return NULL;
        for (uint64_t k = 0; slot->height && k < n; k++) {
            uint64_t id;

            memcpy(&id, at + 2 * k, sizeof(id));
            if (id >= slot->height)
                return NULL;
        }
        at += n * words;
    }
    return at;
}

static fl_status check_head(const fl_exchange *x, const head *h)
{
    if (h->magic != MAGIC)
        FL_FAIL(FL_ERR_CORRUPT, "what another trainer sent is no records");
    if (h->schema != x->schema_hash)
        FL_FAIL(FL_ERR_CORRUPT,
                "trainer %" PRIu32 " sent records with other slots than those "
                "of this one: give both datasets the same ones",
                h->from);
    return FL_OK;
}

/* Finds the records in the words that were copied. */
static fl_status find_rows(fl_exchange *x, const head *h)
{
    fl_records *r = &x->rows;
    const uint32_t *at = r->words, *end = r->words + r->len;

    for (uint64_t i = 0; at && i < h->n; i++) {
        r->starts[r->n++] = (size_t)(at - r->words);
        at = read_row(x->schema, at, end);
    }
    if (at == end)
        return FL_OK;
    fl_records_clear(r);
    FL_FAIL(FL_ERR_CORRUPT,
            "trainer %" PRIu32 " sent %" PRIu64 " records that do not end "
            "where their bytes do",
            h->from, h->n);
}

fl_status fl_exchange_add(fl_exchange *x, const void *bytes, uint64_t len)
{
    fl_records *r = &x->rows;
    head h = { 0 };
    size_t n_words;

    FL_ASSERT(!r->n);
    if (len >= sizeof(h))
        memcpy(&h, bytes, sizeof(h));
    FL_TRY(check_head(x, &h));
    /* A record has a word at least, so that its number is bounded by them. */
    n_words = (size_t)((len - sizeof(h)) / sizeof(uint32_t));
    if (len % sizeof(uint32_t) || h.n > n_words)
        FL_FAIL(FL_ERR_CORRUPT,
                "trainer %" PRIu32 " sent %" PRIu64 " records in %" PRIu64
                " bytes",
                h.from, h.n, len);
    FL_TRY(fl_records_reserve(r, n_words, (size_t)h.n));
    if (n_words)
        memcpy(r->words, (const uint8_t *)bytes + sizeof(h),
               n_words * sizeof(uint32_t));
    r->len = n_words;
    FL_TRY(find_rows(x, &h));
    return flush_rows(x);
}

/* --- the end ------------------------------------------------------------- */

/* What came is in the order of its coming: it is sorted before the shuffle. */
fl_status fl_exchange_end(fl_exchange *x)
{
    fl_dataset *d = x->dataset;
    bool has_moved = x->a.n > 1;
    uint64_t seed = fl_mix64(x->a.seed) + x->a.rank;

    FL_ASSERT(!x->drain && !x->open_words);
    free_exchange(x);
    if (has_moved)
        d->is_canonical = false;
    FL_TRY(fl_dataset_make_canonical(d));
    fl_dataset_shuffle_loaded(d, seed);
    return FL_OK;
}

void fl_exchange_drop(fl_exchange *x)
{
    fl_dataset *d;

    if (!x)
        return;
    d = x->dataset;
    free_exchange(x);
    fl_dataset_release_memory(d);
}
