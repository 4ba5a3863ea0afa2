/* store_rows.c - rows of tables: pull, push, assign, and pushes of a round.
 *
 * Gradients and values are used where they lie in the payload, unless they are
 * coded; keys are copied out first. A table reads a key several times (for its partition, its bucket,
 * its row), and a hostile peer that shares the payload's memory could change it
 * in between, which would put rows where nobody finds them. The copy is small
 * beside the rows that are moved.
 *
 * What is refused is refused before anything is changed: a push or an assign
 * looks at all of its items first.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kernel/unique.h"
#include "ps/store/rounds.h"

/* A pull copies this many keys at a time, on its stack. Tables work in such
   blocks, too. */
#define KEYS_AT_ONCE 4096

static uint64_t dim_of(void *arg, uint32_t table)
{
    const fl_store_schema *w = arg;

    return table < w->tables.len ? fl_table_dim(w->tables.data[table].table)
                                 : 0;
}

static fl_status read_rows(fl_store_ctx *c, uint64_t *round)
{
    fl_items_source from = { .type = c->call->type,
                             .payload = c->call->payload,
                             .width_of = dim_of,
                             .arg = c->schema };
    fl_rows_request r;

    FL_TRY(fl_rows_unpack(&from, &r));
    c->rows = r.items;
    c->n_rows = r.n;
    *round = r.round;
    return FL_OK;
}

static fl_store_table *table_of(const fl_store_ctx *c, uint32_t item)
{
    return &c->schema->tables.data[c->rows[item].table];
}

/* `at` is the number of the first key in its item. */
static fl_status check_keys(const fl_store_table *t, const uint64_t *keys,
                            uint64_t n, uint64_t at)
{
    for (uint64_t i = 0; t->height && i < n; i++)
        if (keys[i] >= t->height)
            FL_FAIL(FL_ERR_INVAL,
                    "table %s: key %" PRIu64 " at place %" PRIu64 " is not "
                    "below its height %" PRIu64,
                    fl_table_name(t->table), keys[i], at + i, t->height);
    return FL_OK;
}

/* The keys of an item from number `at` on. */
static void read_keys(const fl_rows_item *it, uint64_t at, size_t n,
                      uint64_t *out)
{
    fl_coded_keys keys = { it->coded_keys, it->rows.n, it->key_width };

    if (it->key_width)
        fl_keys_decode(&keys, at, n, out);
    else if (n)
        memcpy(out, it->rows.keys + at, n * sizeof(*out));
}

/* --- pull ----------------------------------------------------------------- */

/* Values of an item on their way into a reply. */
typedef struct pulled {
    uint8_t *to;
    float *scratch; /* of KEYS_AT_ONCE rows, when they are coded */
} pulled;

static fl_status pull_some(const fl_store_table *t, const fl_rows_item *it,
                           const uint64_t *keys, size_t n, pulled *p)
{
    size_t n_values = n * it->rows.dim;
    float *out = p->scratch ? p->scratch : (float *)(void *)p->to;

    FL_TRY(fl_table_pull(t->table, keys, n, (fl_pull_kind)it->flags, out));
    if (p->scratch)
        fl_codec_encode(it->codec, p->scratch, n_values, p->to);
    p->to += n_values * fl_codec_width(it->codec);
    return FL_OK;
}

static fl_status pull_keys(const fl_store_table *t, const fl_rows_item *it,
                           pulled *p)
{
    uint64_t keys[KEYS_AT_ONCE];
    size_t n;

    for (uint64_t at = 0; at < it->rows.n; at += n) {
        n = it->rows.n - at < KEYS_AT_ONCE ? (size_t)(it->rows.n - at)
                                           : KEYS_AT_ONCE;
        read_keys(it, at, n, keys);
        FL_TRY(check_keys(t, keys, n, at));
        FL_TRY(pull_some(t, it, keys, n, p));
    }
    return FL_OK;
}

static fl_status pull_item(const fl_store_table *t, const fl_rows_item *it,
                           void *out)
{
    size_t n = it->rows.n < KEYS_AT_ONCE ? it->rows.n : KEYS_AT_ONCE;
    size_t bytes = n * it->rows.dim * sizeof(float);
    pulled p = { .to = out };
    fl_status st;

    if (it->codec == FL_CODEC_F32)
        return pull_keys(t, it, &p);
    p.scratch = fl_try_alloc(bytes);
    if (!p.scratch)
        FL_FAIL(FL_ERR_NOMEM, "table %s: no memory to encode %zu rows",
                fl_table_name(t->table), n);
    st = pull_keys(t, it, &p);
    fl_data_free(p.scratch, bytes);
    return st;
}

static uint64_t value_bytes(const fl_rows_item *it)
{
    return fl_codec_bytes(it->codec, it->rows.n * it->rows.dim);
}

/* Keys are at most the payload's bytes, and rows have a largest width, so that
   no product and no sum can overflow. */
static uint64_t pulled_bytes(const fl_store_ctx *c)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < c->n_rows; i++)
        bytes += value_bytes(&c->rows[i]);
    return bytes;
}

fl_status fl_store_pull(fl_store_ctx *c)
{
    uint64_t round;
    void *buf;
    uint8_t *out;

    FL_TRY(read_rows(c, &round));
    FL_TRY(fl_store_reserve(c, pulled_bytes(c), &buf));
    out = buf;
    for (uint32_t i = 0; i < c->n_rows; i++) {
        if (!c->rows[i].rows.n)
            continue;
        FL_TRY(pull_item(table_of(c, i), &c->rows[i], out));
        out += value_bytes(&c->rows[i]);
    }
    return FL_OK;
}

/* --- what a push or an assign brings -------------------------------------- */

/* Copies of the keys of all items, behind one another, and then of the values
   that are coded. */
typedef struct copies {
    uint64_t *keys;
    size_t bytes;
} copies;

/* 0 when they are used where they lie. */
static size_t decoded_bytes(const fl_rows_item *it)
{
    return it->codec == FL_CODEC_F32
               ? 0
               : it->rows.n * it->rows.dim * sizeof(float);
}

/* Payloads have a largest length: no sum can overflow. */
static fl_status reserve_copies(const fl_store_ctx *c, copies *out)
{
    size_t n = 0;

    for (uint32_t i = 0; i < c->n_rows; i++) {
        n += c->rows[i].rows.n;
        out->bytes += decoded_bytes(&c->rows[i]);
    }
    out->bytes += n * sizeof(*out->keys);
    out->keys = fl_try_alloc(out->bytes);
    if (!out->keys)
        FL_FAIL(FL_ERR_NOMEM, "no memory for %zu keys of a request (%s)", n,
                fl_msg_name(c->call->type));
    return FL_OK;
}

static fl_status copy_keys(fl_store_ctx *c, uint64_t *to)
{
    for (uint32_t i = 0; i < c->n_rows; i++) {
        fl_rows_item *it = &c->rows[i];

        read_keys(it, 0, it->rows.n, to);
        it->rows.keys = to;
        to += it->rows.n;
        FL_TRY(check_keys(table_of(c, i), it->rows.keys, it->rows.n, 0));
    }
    return FL_OK;
}

static void decode_values(fl_store_ctx *c, uint8_t *to)
{
    for (uint32_t i = 0; i < c->n_rows; i++) {
        fl_rows_item *it = &c->rows[i];

        if (it->codec == FL_CODEC_F32)
            continue;
        it->rows.values = (float *)(void *)to;
        fl_codec_decode(it->codec, it->coded_values, it->rows.n * it->rows.dim,
                        (float *)(void *)to);
        to += decoded_bytes(it);
    }
}

static fl_status copy_out(fl_store_ctx *c, copies *out)
{
    uint64_t *end;

    FL_TRY(reserve_copies(c, out));
    FL_TRY(copy_keys(c, out->keys));
    end = out->keys;
    for (uint32_t i = 0; i < c->n_rows; i++)
        end += c->rows[i].rows.n;
    decode_values(c, (uint8_t *)end);
    return FL_OK;
}

static void release_copies(copies *k)
{
    if (k->keys)
        fl_data_free(k->keys, k->bytes);
}

/* --- push ----------------------------------------------------------------- */

static fl_status check_rate(const fl_store_table *t, double lr)
{
    if (!isfinite(lr) || lr < 0)
        FL_FAIL(FL_ERR_INVAL,
                "table %s: the learning rate %g of a push is no number from 0 "
                "on",
                fl_table_name(t->table), lr);
    return FL_OK;
}

/* The first key that stands in the list a second time, as index says it. */
static fl_status say_twice(const fl_store_table *t, const fl_rows_item *it,
                           const uint32_t *index)
{
    uint32_t seen = 0;
    uint64_t i = 0;

    for (; i < it->rows.n && index[i] == seen; i++)
        seen++;
    FL_FAIL(FL_ERR_INVAL,
            "table %s: key %" PRIu64 " occurs twice in a push that says it is "
            "merged",
            fl_table_name(t->table), it->rows.keys[i]);
}

/* Where rows grow, a second push to a row that has just grown would write to
   memory that was given back; so what the sender says is not taken for granted.
   Elsewhere equal keys are pushed one after the other. */
static fl_status check_merged(const fl_store_table *t, const fl_rows_item *it)
{
    fl_unique u = { 0 };
    uint64_t *keys;
    uint32_t *index;
    size_t bytes, n;
    fl_status st;

    if (!t->short_bytes || !it->rows.merged || it->rows.n < 2)
        return FL_OK;
    bytes = it->rows.n * (sizeof(*keys) + sizeof(*index));
    keys = fl_try_alloc(bytes);
    if (!keys)
        FL_FAIL(FL_ERR_NOMEM, "table %s: no memory to check %zu keys",
                fl_table_name(t->table), it->rows.n);
    index = (uint32_t *)(keys + it->rows.n);
    st = fl_unique_run(&u, it->rows.keys, it->rows.n, keys, index, &n);
    if (!st && n < it->rows.n)
        st = say_twice(t, it, index);
    fl_unique_release(&u);
    fl_data_free(keys, bytes);
    return st;
}

static fl_status push_copied(const fl_store_ctx *c)
{
    for (uint32_t i = 0; i < c->n_rows; i++)
        FL_TRY(check_merged(table_of(c, i), &c->rows[i]));
    for (uint32_t i = 0; i < c->n_rows; i++) {
        (void)fl_store_commit(c->call, &table_of(c, i)->log);
        FL_TRY(fl_table_push(table_of(c, i)->table, &c->rows[i].rows));
        fl_store_note_push(c, &c->rows[i]);
    }
    return FL_OK;
}

static fl_status check_rates(const fl_store_ctx *c)
{
    for (uint32_t i = 0; i < c->n_rows; i++)
        FL_TRY(check_rate(table_of(c, i), c->rows[i].rows.lr));
    return FL_OK;
}

fl_status fl_store_push(fl_store_ctx *c)
{
    copies k = { 0 };
    uint64_t round;
    fl_status st;

    FL_TRY(read_rows(c, &round));
    FL_TRY(check_rates(c));
    st = copy_out(c, &k);
    if (!st)
        st = push_copied(c);
    release_copies(&k);
    return st;
}

/* Keys are added up when the round is applied, whatever the sender says of
   them. */
fl_status fl_store_round_push(fl_store_ctx *c)
{
    copies k = { 0 };
    uint64_t round;
    fl_status st;

    FL_TRY(read_rows(c, &round));
    FL_TRY(check_rates(c));
    st = copy_out(c, &k);
    if (!st)
        st = fl_rounds_keep_rows(c, round);
    release_copies(&k);
    return st;
}

/* --- assign --------------------------------------------------------------- */

fl_status fl_store_assign(fl_store_ctx *c)
{
    copies k = { 0 };
    uint64_t round;
    fl_status st;

    FL_TRY(read_rows(c, &round));
    st = copy_out(c, &k);
    for (uint32_t i = 0; !st && i < c->n_rows; i++) {
        fl_store_table *t = table_of(c, i);

        (void)fl_store_commit(c->call, &t->log);
        st = fl_table_assign(t->table, c->rows[i].rows.keys, c->rows[i].rows.n,
                             c->rows[i].rows.values);
    }
    release_copies(&k);
    return st;
}
