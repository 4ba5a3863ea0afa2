/* store_changes.c - rows that others have changed, and the logs that know.
 *
 * A push is noted behind its last row, and a reader looks into the log before
 * it reads the rows: a row may be given once too often, and never once too
 * seldom. The same holds when a log begins while somebody pushes: who does not
 * see the new log yet has changed its rows before they are looked through.
 *
 * Rows that do not fit into one reply come in pages, in the order of the hashes
 * of their keys: a page has all those of a range of hashes, and the place of
 * the next one is the hash behind the range. Nothing is kept of it here, and a
 * page can be asked for again. Hashes are even: a range that has too many is
 * halved until it fits.
 */
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "ps/store/store_inside.h"

#define KEYS_AT_FIRST 4096

/* --- writing -------------------------------------------------------------- */

void fl_store_note_push(const fl_store_ctx *c, const fl_rows_item *it)
{
    fl_changes *log = atomic_load(&c->schema->changes[it->table]);
    fl_table_stats stats;

    if (!log)
        return;
    fl_table_count(c->schema->tables.data[it->table].table, &stats);
    fl_changes_note(log, c->call->rank, it->rows.keys, it->rows.n, stats.rows);
}

/* The log of a table; it begins now if there is none. */
static fl_changes *log_of(const fl_store_schema *w, uint32_t table)
{
    fl_changes *log = atomic_load(&w->changes[table]), *fresh;

    if (log)
        return log;
    fresh = fl_changes_new();
    if (atomic_compare_exchange_strong(&w->changes[table], &log, fresh))
        return fresh;
    fl_changes_free(fresh);
    return log;
}

/* --- pages ---------------------------------------------------------------- */

typedef struct page {
    uint64_t from, to; /* hashes, both included */
    uint64_t *keys;
    size_t n, bytes, most;
    bool is_full, is_short_of_memory;
} page;

static bool grow(page *p)
{
    size_t bytes = p->bytes ? 2 * p->bytes : KEYS_AT_FIRST * sizeof(*p->keys);
    uint64_t *keys = fl_try_alloc(bytes);

    if (!keys)
        return false;
    if (p->n)
        memcpy(keys, p->keys, p->n * sizeof(*keys));
    fl_data_free(p->keys, p->bytes);
    p->keys = keys;
    p->bytes = bytes;
    return true;
}

/* False when there is no sense in going on. */
static bool add_key(page *p, uint64_t key)
{
    uint64_t hash = fl_hash_key(key);

    if (hash < p->from || hash > p->to)
        return true;
    p->is_full = p->n == p->most;
    if (p->is_full)
        return false;
    if (p->n == p->bytes / sizeof(*p->keys) && !grow(p)) {
        p->is_short_of_memory = true;
        return false;
    }
    p->keys[p->n++] = key;
    return true;
}

static bool add_row(void *arg, const fl_row_view *v)
{
    return add_key(arg, v->key);
}

/* The keys of the range, from the table or from the log. */
static fl_status collect(page *p, fl_table *t, const fl_changed *changed)
{
    uint64_t width = UINT64_MAX / FL_TABLE_SHARDS + 1;
    uint64_t last = p->to / width;
    bool on = true;

    p->n = 0;
    p->is_full = false;
    if (!changed->is_all)
        for (size_t i = 0; i < changed->n && on; i++)
            on = add_key(p, changed->keys[i]);
    else
        for (uint64_t shard = p->from / width;
             shard <= last && !p->is_full && !p->is_short_of_memory; shard++)
            FL_TRY(fl_table_scan(t, (uint32_t)shard, 0, add_row, p));
    if (p->is_short_of_memory)
        FL_FAIL(FL_ERR_NOMEM, "no memory for a list of changed keys");
    return FL_OK;
}

static fl_status fill(page *p, fl_table *t, fl_changed *changed)
{
    p->to = UINT64_MAX;
    /* Nearly always: what the log gives is the page. */
    if (!changed->is_all && !p->from && changed->n <= p->most) {
        p->keys = changed->keys;
        p->n = changed->n;
        p->bytes = changed->bytes;
        changed->keys = NULL;
        return FL_OK;
    }
    FL_TRY(collect(p, t, changed));
    while (p->is_full) {
        p->to = p->from + (p->to - p->from) / 2;
        FL_TRY(collect(p, t, changed));
    }
    return FL_OK;
}

/* --- reading -------------------------------------------------------------- */

/* Rows that a reply has room for; one that is too large by itself is refused
   by who sends it. */
static size_t most_rows(const fl_store_ctx *c, const fl_table *t)
{
    uint64_t head = fl_changed_bytes(0, 0);
    uint64_t row = fl_changed_bytes(1, fl_table_dim(t)) - head;
    uint64_t room = c->store->page_bytes;
    uint64_t n = room > head ? (room - head) / row : 0;

    return n ? (size_t)n : 1;
}

static fl_status give_rows(fl_store_ctx *c, fl_table *t, const page *p,
                           uint64_t next)
{
    fl_changed_head head = { next, p->to == UINT64_MAX ? 0 : p->to + 1, p->n };
    uint64_t *keys;
    void *out;

    FL_TRY(fl_store_reserve(c, fl_changed_bytes(p->n, fl_table_dim(t)), &out));
    keys = fl_changed_pack_head(out, &head);
    if (!p->n)
        return FL_OK;
    memcpy(keys, p->keys, p->n * sizeof(*keys));
    return fl_table_pull(t, p->keys, p->n, FL_PULL_ONLY,
                         (float *)(keys + p->n));
}

/* The request for a first page says what the reader has seen. */
static void note_seen(const fl_store_ctx *c, fl_store_table *t, fl_changes *log,
                      uint64_t cursor)
{
    (void)fl_store_commit(c->call, &t->log);
    fl_changes_seen(log, c->call->rank, cursor);
}

fl_status fl_store_changed(fl_store_ctx *c)
{
    const fl_changed_request *q = c->request;
    fl_changed changed;
    page p = { 0 };
    fl_store_table *t;
    fl_changes *log;
    fl_status st;

    FL_TRY(fl_store_find_table(c, q->table, &t));
    log = log_of(c->schema, q->table);
    st = fl_changes_since(log, c->call->rank, q->cursor, &changed);
    if (st)
        return fl_err_ctx(st, "table %s", fl_table_name(t->table));
    if (!q->place)
        note_seen(c, t, log, changed.is_all ? changed.next : q->cursor);
    p.from = q->place;
    p.most = most_rows(c, t->table);
    st = fl_err_ctx(fill(&p, t->table, &changed), "table %s",
                    fl_table_name(t->table));
    if (!st)
        st = give_rows(c, t->table, &p, changed.next);
    c->rows = fl_alloc(sizeof(*c->rows));
    c->rows[0] = (fl_rows_item){ .table = q->table, .rows.n = p.n };
    c->n_rows = 1;
    fl_data_free(p.keys, p.bytes);
    fl_data_free(changed.keys, changed.bytes);
    return st;
}
