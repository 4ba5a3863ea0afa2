/* mapped.c - rows from mapped files, and what deltas have changed.
 *
 * The files of the whole version are the base, which all editions on top of it
 * share. Rows are found in the files, or, where that was asked for, in a hash
 * into which they were copied. Of deltas, values are copied into one overlay for each table: the next
 * delta makes a new one from it, so a key is looked up twice at the most, however
 * long the chain.
 */
#include "serve/mapped.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "ckpt/table_map.h"
#include "serve/overlay.h"

/* Keys that are looked for together. */
#define GROUP 64

/* The tables of one whole version. */
typedef struct base_rows {
    atomic_int refs;
    fl_table_map **maps;
    fl_overlay **copies; /* by map; NULL: its rows are in the files alone */
    size_t n;
} base_rows;

typedef struct mapped {
    fl_row_source port;
    base_rows *base;       /* a reference */
    fl_overlay **overlays; /* by table of the base, references; NULL: none */
} mapped;

static const char *name_of(const base_rows *b, size_t i)
{
    return fl_table_map_config(b->maps[i])->name;
}

/* n when there is no such table. */
static size_t find_table(const base_rows *b, const char *name)
{
    size_t i = 0;

    while (i < b->n && strcmp(name_of(b, i), name))
        i++;
    return i;
}

/* --- the base ------------------------------------------------------------- */

static void base_unref(base_rows *b)
{
    if (!b || atomic_fetch_sub(&b->refs, 1) > 1)
        return;
    for (size_t i = 0; i < b->n; i++) {
        fl_table_map_close(b->maps[i]);
        fl_overlay_unref(b->copies[i]);
    }
    fl_free(b->maps);
    fl_free(b->copies);
    fl_free(b);
}

static fl_status base_open(base_rows **out, const fl_model_version *v)
{
    base_rows *b = fl_alloc(sizeof(*b));
    size_t n = v->manifest.tables.len;
    fl_status st = FL_OK;

    atomic_init(&b->refs, 1);
    b->maps = fl_alloc((n + 1) * sizeof(fl_table_map *));
    b->copies = fl_alloc((n + 1) * sizeof(fl_overlay *));
    for (; b->n < n && !st; b->n += !st)
        st = fl_table_map_open(&b->maps[b->n], v,
                               v->manifest.tables.data[b->n].name);
    if (st) {
        fl_err why;

        fl_err_save(&why, st);
        base_unref(b);
        return fl_err_restore(&why);
    }
    *out = b;
    return FL_OK;
}

/* --- deltas --------------------------------------------------------------- */

/* Rows of a delta on their way into an overlay. */
typedef struct change {
    const fl_table_map *map;
    fl_overlay *to;
} change;

static void count_one(void *arg, uint64_t key, uint64_t row)
{
    (void)key, (void)row;
    ++*(size_t *)arg;
}

static void take_one(void *arg, uint64_t key, uint64_t row)
{
    change *c = arg;

    if (row == FL_MAP_GONE)
        fl_overlay_drop(c->to, key);
    else
        fl_table_map_value(c->map, row, fl_overlay_put(c->to, key));
}

static void each_row(const fl_table_map *m, fl_map_fn fn, void *arg)
{
    for (uint32_t shard = 0; shard < FL_TABLE_SHARDS; shard++)
        fl_table_map_each(m, shard, fn, arg);
}

/* The overlay gives way to one with the rows of the delta. */
static fl_status apply_rows(fl_overlay **overlay, const fl_table_map *delta)
{
    change c = { .map = delta };
    size_t n = 0;

    each_row(delta, count_one, &n);
    if (!n)
        return FL_OK;
    FL_TRY(fl_overlay_new(&c.to, *overlay, fl_table_map_config(delta)->dim, n));
    each_row(delta, take_one, &c);
    fl_overlay_unref(*overlay);
    *overlay = c.to;
    return FL_OK;
}

/* Copies all rows of the base. */
static fl_status copy_rows(base_rows *b)
{
    for (size_t i = 0; i < b->n; i++)
        FL_TRY(apply_rows(&b->copies[i], b->maps[i]));
    return FL_OK;
}

static fl_status apply_table(mapped *m, const fl_model_version *v,
                             const char *name)
{
    size_t i = find_table(m->base, name);
    fl_table_map *delta;
    fl_status st;

    if (i == m->base->n)
        FL_FAIL(FL_ERR_CORRUPT,
                "%s changes the table %s, which its base does not have",
                v->path, name);
    FL_TRY(fl_table_map_open(&delta, v, name));
    if (fl_table_map_config(delta)->dim !=
        fl_table_map_config(m->base->maps[i])->dim)
        st = fl_err_set(FL_ERR_CORRUPT,
                        "%s: rows of the table %s are of another width than "
                        "in its base",
                        v->path, name);
    else
        st = apply_rows(&m->overlays[i], delta);
    fl_table_map_close(delta);
    return st;
}

static fl_status apply_delta(mapped *m, const fl_model_version *v)
{
    for (size_t i = 0; i < v->manifest.tables.len; i++)
        FL_TRY(apply_table(m, v, v->manifest.tables.data[i].name));
    return FL_OK;
}

/* --- reading -------------------------------------------------------------- */

/* Four numbers at a time: a call of memcpy costs more than a short row. */
static inline void copy_row(float *to, const float *from, uint32_t n)
{
    uint32_t i = 0;

    for (; i + 4 <= n; i += 4)
        memcpy(to + i, from + i, 4 * sizeof(*to));
    for (; i < n; i++)
        to[i] = from[i];
}

static const float *find_missing(fl_source_read *r, size_t i)
{
    fl_source_missing(r, i);
    return r->out + i * r->dim;
}

/* What the newer rows do not know is in the copies or in the files. */
static const float *find_older(const mapped *m, size_t table, fl_source_read *r,
                               size_t i)
{
    const fl_overlay *copies = m->base->copies[table];
    const float *row;
    size_t n_none = copies
                        ? fl_overlay_find(copies, &r->keys[i], 1, &row)
                        : fl_table_map_look(m->base->maps[table], &r->keys[i],
                                            1, r->out + i * r->dim, &row);

    return n_none ? find_missing(r, i) : row;
}

/* Keys [lo, lo + n) in what is in memory. */
static void find_in_memory(const mapped *m, size_t table, fl_source_read *r,
                           size_t lo, size_t n, const float **rows)
{
    const fl_overlay *newer = m->overlays[table];

    if (!fl_overlay_find(newer ? newer : m->base->copies[table], r->keys + lo,
                         n, rows))
        return;
    for (size_t i = 0; i < n; i++)
        if (!rows[i] && newer)
            rows[i] = find_older(m, table, r, lo + i);
        else if (!rows[i] || rows[i] == &fl_overlay_gone)
            rows[i] = find_missing(r, lo + i);
}

static void find_group(const mapped *m, size_t table, fl_source_read *r,
                       size_t lo, size_t n, const float **rows)
{
    if (m->overlays[table] || m->base->copies[table])
        find_in_memory(m, table, r, lo, n, rows);
    else if (r->missing)
        for (size_t i = 0; i < n; i++)
            rows[i] = find_older(m, table, r, lo + i);
    else
        r->n_missing += fl_table_map_look(m->base->maps[table], r->keys + lo, n,
                                          r->out + lo * r->dim, rows);
}

/* Keys that are looked for next in what is in memory. */
static void ask(const mapped *m, size_t table, const uint64_t *keys, size_t n)
{
    const fl_overlay *newer = m->overlays[table];
    const fl_overlay *first = newer ? newer : m->base->copies[table];

    if (first)
        fl_overlay_ask(first, keys, n);
}

static fl_status table_for(const mapped *m, const fl_source_read *r,
                           size_t *out)
{
    *out = find_table(m->base, r->table);
    if (*out == m->base->n)
        FL_FAIL(FL_ERR_NOTFOUND, "the files of the model have none");
    return FL_OK;
}

static size_t group_len(const fl_source_read *r, size_t lo)
{
    return r->n - lo < GROUP ? r->n - lo : GROUP;
}

static fl_status mapped_find(fl_row_source *s, fl_source_read *r,
                             const float **rows)
{
    const mapped *m = (const mapped *)s;
    size_t table;

    FL_TRY(table_for(m, r, &table));
    if (!r->is_asked)
        ask(m, table, r->keys, r->n);
    find_group(m, table, r, 0, r->n, rows);
    ask(m, table, r->next, r->n_next);
    return FL_OK;
}

static fl_status mapped_read(fl_row_source *s, fl_source_read *r)
{
    const mapped *m = (const mapped *)s;
    const float *rows[GROUP];
    size_t table;

    FL_TRY(table_for(m, r, &table));
    for (size_t lo = 0; lo < r->n; lo += GROUP) {
        size_t n = group_len(r, lo);

        ask(m, table, r->keys + lo, n);
        find_group(m, table, r, lo, n, rows);
        for (size_t i = 0; i < n; i++)
            if (rows[i] != r->out + (lo + i) * r->dim)
                copy_row(r->out + (lo + i) * r->dim, rows[i], r->dim);
    }
    return FL_OK;
}

/* --- keys ----------------------------------------------------------------- */

/* Keys of a shard on their way to who asked for them. */
typedef struct listing {
    const fl_overlay *newer; /* or NULL */
    uint32_t shard;
    fl_source_key_fn fn;
    void *arg;
} listing;

/* What the newer rows know is theirs to tell. */
static void list_older(void *arg, uint64_t key, uint64_t row)
{
    const listing *l = arg;
    const float *value = NULL;

    if (l->newer)
        fl_overlay_find(l->newer, &key, 1, &value);
    if (!value && row != FL_MAP_GONE)
        l->fn(l->arg, key);
}

static void list_newer(void *arg, uint64_t key)
{
    const listing *l = arg;

    if (fl_table_shard_of(key) == l->shard)
        l->fn(l->arg, key);
}

static fl_status mapped_list(fl_row_source *s, const char *table,
                             uint32_t shard, fl_source_key_fn fn, void *arg)
{
    const mapped *m = (const mapped *)s;
    size_t i = find_table(m->base, table);
    listing l = { .shard = shard, .fn = fn, .arg = arg };

    if (i == m->base->n)
        FL_FAIL(FL_ERR_NOTFOUND, "the files of the model have no table %s",
                table);
    l.newer = m->overlays[i];
    fl_table_map_each(m->base->maps[i], shard, list_older, &l);
    if (l.newer)
        fl_overlay_each(l.newer, list_newer, &l);
    return FL_OK;
}

static void mapped_free(fl_row_source *s)
{
    mapped *m = (mapped *)s;

    for (size_t i = 0; m->overlays && i < m->base->n; i++)
        fl_overlay_unref(m->overlays[i]);
    fl_free(m->overlays);
    base_unref(m->base);
    fl_free(m);
}

static const fl_row_source_ops ops = { .name = "files",
                                       .read = mapped_read,
                                       .list = mapped_list,
                                       .find = mapped_find,
                                       .free = mapped_free };

/* --- opening -------------------------------------------------------------- */

/* What `before` has, to be changed further. */
static void go_on_from(mapped *m, const mapped *before)
{
    m->base = before->base;
    atomic_fetch_add(&m->base->refs, 1);
    m->overlays = fl_alloc((m->base->n + 1) * sizeof(fl_overlay *));
    for (size_t i = 0; i < m->base->n; i++)
        m->overlays[i] = fl_overlay_ref(before->overlays[i]);
}

static fl_status open_base(mapped *m, const fl_model_version *v,
                           fl_rows_home home)
{
    FL_TRY(base_open(&m->base, v));
    m->overlays = fl_alloc((m->base->n + 1) * sizeof(fl_overlay *));
    return home == FL_ROWS_COPIED ? copy_rows(m->base) : FL_OK;
}

static fl_status fill(mapped *m, fl_chain chain, fl_rows_home home,
                      const fl_row_source *before)
{
    size_t n = chain.n;

    if (before)
        go_on_from(m, (const mapped *)before);
    else
        FL_TRY(open_base(m, chain.versions[--n], home));
    while (n > 0)
        FL_TRY(apply_delta(m, chain.versions[--n]));
    return FL_OK;
}

fl_status fl_mapped_open(fl_row_source **out, fl_chain chain, fl_rows_home home,
                         const fl_row_source *before)
{
    mapped *m = fl_alloc(sizeof(*m));
    fl_status st;
    fl_err why;

    m->port.ops = &ops;
    st = fill(m, chain, home, before);
    if (!st) {
        *out = &m->port;
        return FL_OK;
    }
    fl_err_save(&why, st);
    mapped_free(&m->port);
    return fl_err_restore(&why);
}
