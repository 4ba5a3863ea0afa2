/* store_changes.c - rows that others have changed, and the logs that know.
 *
 * A push is noted behind its last row, and a reader looks into the log before
 * it reads the rows: a row may be given once too often, and never once too
 * seldom. The same holds when a log begins while somebody pushes: who does not
 * see the new log yet has changed its rows before they are looked through.
 */
#include <inttypes.h>
#include <string.h>

#include "ps/store_inside.h"

#define KEYS_AT_FIRST 4096
#define HEAD_BYTES 16 /* of a reply: cursor and number of rows */

/* --- writing ---------------------------------------------------------------
 */

void fl_store_note_push(const fl_store_ctx *c, const fl_rows_item *it)
{
    fl_changes *log = atomic_load(&c->world->changes[it->table]);
    fl_table_stats stats;

    if (!log)
        return;
    fl_table_stats_get(c->world->tables.data[it->table].table, &stats);
    fl_changes_note(log, c->rank, it->keys, (size_t)it->n, stats.rows);
}

/* The log of a table; it begins now if there is none. */
static fl_changes *log_of(const fl_world *w, uint32_t table)
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

/* --- every row of a table --------------------------------------------------
 */

typedef struct key_list {
    uint64_t *keys;
    size_t n, bytes;
    bool is_short_of_memory;
} key_list;

static bool grow(key_list *l)
{
    size_t bytes = l->bytes ? 2 * l->bytes : KEYS_AT_FIRST * sizeof(*l->keys);
    uint64_t *keys = fl_try_alloc(bytes);

    if (!keys)
        return false;
    if (l->n)
        memcpy(keys, l->keys, l->n * sizeof(*keys));
    fl_data_free(l->keys, l->bytes);
    l->keys = keys;
    l->bytes = bytes;
    return true;
}

static bool add_key(void *arg, const fl_row_view *v)
{
    key_list *l = arg;

    if (l->n == l->bytes / sizeof(*l->keys) && !grow(l)) {
        l->is_short_of_memory = true;
        return false;
    }
    l->keys[l->n++] = v->key;
    return true;
}

static fl_status list_all(fl_table *t, key_list *l)
{
    for (uint32_t shard = 0; shard < FL_TABLE_SHARDS; shard++) {
        FL_TRY(fl_table_scan(t, shard, 0, add_key, l));
        if (l->is_short_of_memory)
            FL_FAIL(FL_ERR_NOMEM, "table %s: no memory for a list of its keys",
                    fl_table_name(t));
    }
    return FL_OK;
}

/* --- reading ---------------------------------------------------------------
 */

static fl_status read_changed(const fl_store_ctx *c, uint32_t *table,
                              uint64_t *cursor)
{
    fl_unpack u = { .at = c->payload };
    uint32_t zero;

    u.end = c->len ? u.at + c->len : u.at;
    *table = fl_unpack_u32(&u);
    zero = fl_unpack_u32(&u);
    *cursor = fl_unpack_u64(&u);
    if (u.bad || u.at != u.end || zero)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (changed) of %" PRIu64 " bytes does not parse",
                c->len);
    if (*table >= c->world->tables.len)
        FL_FAIL(FL_ERR_NOTFOUND,
                "a request (changed) is for table %" PRIu32
                ", which was not declared",
                *table);
    return FL_OK;
}

static fl_status give_rows(fl_store_ctx *c, fl_table *t, const key_list *l,
                           uint64_t next)
{
    size_t row_bytes = sizeof(uint64_t) + fl_table_dim(t) * sizeof(float);
    uint64_t head[2] = { next, l->n };
    size_t bytes;
    char *room;
    void *out;

    _Static_assert(sizeof(head) == HEAD_BYTES, "a head is two numbers");
    if (fl_mul_overflow(l->n, row_bytes, &bytes) ||
        bytes > SIZE_MAX - HEAD_BYTES)
        FL_FAIL(FL_ERR_NOMEM, "table %s: no memory for %zu changed rows",
                fl_table_name(t), l->n);
    FL_TRY(fl_store_room(c, HEAD_BYTES + bytes, &out));
    room = out;
    memcpy(room, head, HEAD_BYTES);
    if (!l->n)
        return FL_OK;
    room += HEAD_BYTES;
    memcpy(room, l->keys, l->n * sizeof(*l->keys));
    room += l->n * sizeof(*l->keys);
    return fl_table_pull(t, l->keys, l->n, FL_PULL_ONLY, (float *)room);
}

fl_status fl_store_changed(fl_store_ctx *c)
{
    key_list l = { 0 };
    uint64_t cursor, next;
    uint32_t table;
    fl_table *t;
    bool is_all;
    fl_status st;

    FL_TRY(read_changed(c, &table, &cursor));
    t = c->world->tables.data[table].table;
    st = fl_changes_since(log_of(c->world, table), c->rank, cursor, &l.keys,
                          &l.n, &l.bytes, &is_all, &next);
    if (st)
        return fl_err_ctx(st, "table %s", fl_table_name(t));
    if (is_all)
        st = list_all(t, &l);
    if (!st)
        st = give_rows(c, t, &l, next);
    c->rows = fl_alloc(sizeof(*c->rows));
    c->rows[0] = (fl_rows_item){ .table = table, .n = l.n };
    c->n_rows = 1;
    fl_data_free(l.keys, l.bytes);
    return st;
}
