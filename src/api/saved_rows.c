/* saved_rows.c - rows of a table in the files of a version, one by one and by
 * key.
 *
 * The columns are found by their names in the manifest, so that a row can be
 * looked at without knowing the table's accessor. Keys are in the order of the
 * hash: one is found by halving. */
#include "flotilla/saved.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/saved.h"
#include "base/args.h"
#include "base/hash.h"

#define COLUMN_NAME_MAX 128

#define N_KINDS FL_SAVED_KINDS

const fl_saved_kind fl_saved_kinds[FL_SAVED_KINDS] = {
    { "full", "" },
    { "short", "short." },
    { "candidate", "candidate." },
    { "removed", "removed." },
};

/* Fields of a candidate; those of rows are in the manifest. */
static const char *const candidate_fields[] = { "show", "click" };

/* --- columns -------------------------------------------------------------- */

static const fl_st_tensor *find_column(const fl_saved_part *p, size_t kind,
                                       const char *name)
{
    char full[COLUMN_NAME_MAX];

    if (snprintf(full, sizeof(full), "%s%s", fl_saved_kinds[kind].prefix,
                 name) >= (int)sizeof(full))
        return NULL;
    return fl_st_find(p->file, full);
}

static fl_status bad_column(const fl_saved_part *p, const fl_st_tensor *t)
{
    FL_FAIL(FL_ERR_CORRUPT,
            "%s: tensor %s is not of the type and shape of a column",
            fl_st_path(p->file), t->name);
}

static bool is_column(const fl_st_tensor *t, fl_st_type type, int rank,
                      uint64_t n)
{
    return t->type == type && t->shape.rank == rank &&
           (uint64_t)t->shape.dim[0] == n;
}

static fl_status add_field(fl_saved_part *p, size_t kind, const char *name)
{
    fl_saved_group *g = &p->groups[kind];
    const fl_st_tensor *t = find_column(p, kind, name);

    if (!t)
        return FL_OK; /* short rows, and models for serving, have fewer */
    if (!is_column(t, FL_ST_F32, 2, g->n) || g->n_fields == FL_SAVED_FIELDS_MAX)
        return bad_column(p, t);
    g->fields[g->n_fields++] =
        (fl_saved_field){ .name = name,
                          .values = fl_st_bytes(p->file, t),
                          .len = (uint32_t)t->shape.dim[1] };
    return FL_OK;
}

static fl_status add_fields(fl_saved_part *p, size_t kind,
                            const fl_manifest_table *t)
{
    if (!strcmp(fl_saved_kinds[kind].name, "candidate")) {
        for (size_t i = 0; i < FL_LEN(candidate_fields); i++)
            FL_TRY(add_field(p, kind, candidate_fields[i]));
        return FL_OK;
    }
    for (size_t i = 0; i < t->n_fields; i++)
        FL_TRY(add_field(p, kind, t->fields[i].name));
    return FL_OK;
}

static fl_status read_group(fl_saved_part *p, size_t kind,
                            const fl_manifest_table *t)
{
    const fl_st_tensor *keys = find_column(p, kind, "key");
    const fl_st_tensor *epochs = find_column(p, kind, "epoch");
    fl_saved_group *g = &p->groups[kind];

    if (!keys)
        return FL_OK;
    g->n = keys->shape.rank == 1 ? (uint64_t)keys->shape.dim[0] : 0;
    if (!is_column(keys, FL_ST_U64, 1, g->n))
        return bad_column(p, keys);
    g->keys = fl_st_bytes(p->file, keys);
    if (epochs && !is_column(epochs, FL_ST_U32, 1, g->n))
        return bad_column(p, epochs);
    if (epochs)
        g->epochs = fl_st_bytes(p->file, epochs);
    return add_fields(p, kind, t);
}

/* --- files ---------------------------------------------------------------- */

static fl_status no_table(const fl_model_version *v, const char *name)
{
    fl_str known = { 0 };
    const fl_manifest *m = &v->manifest;

    for (size_t i = 0; i < m->tables.len; i++)
        fl_str_addf(&known, "%s%s", i ? ", " : "; it has ",
                    m->tables.data[i].name);
    (void)fl_err_set(FL_ERR_NOTFOUND, "model %s has no table %s%s", v->path,
                     name, fl_str_text(&known));
    fl_str_release(&known);
    return FL_ERR_NOTFOUND;
}

static fl_status open_part(fl_saved_rows *r, const fl_model_version *v,
                           const fl_manifest_table *t,
                           const fl_manifest_shards *where)
{
    fl_saved_part p = { .first = where->first, .last = where->last };

    FL_TRY(fl_version_map(v, where->file, &p.file));
    fl_vec_push(&r->parts, p);
    for (size_t k = 0; k < N_KINDS; k++)
        FL_TRY(read_group(&r->parts.data[r->parts.len - 1], k, t));
    return FL_OK;
}

static fl_status open_parts(fl_saved_rows *r, const fl_model_version *v,
                            const char *table)
{
    const fl_manifest_table *t = fl_manifest_find_table(&v->manifest, table);

    if (!t)
        return no_table(v, table);
    for (size_t i = 0; i < t->n_files; i++)
        FL_TRY(open_part(r, v, t, &t->files[i]));
    return FL_OK;
}

fl_status fl_saved_rows_open(fl_saved_rows **out, const fl_saved *s,
                             const char *table)
{
    fl_saved_rows *r = fl_alloc(sizeof(*r));
    fl_status st = open_parts(r, s->version, table);

    if (st)
        fl_saved_rows_close(r);
    else
        *out = r;
    return st;
}

void fl_saved_rows_close(fl_saved_rows *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->parts.len; i++)
        fl_st_close(r->parts.data[i].file);
    fl_vec_release(&r->parts);
    fl_free(r);
}

/* --- rows ----------------------------------------------------------------- */

static bool give(const fl_saved_group *g, size_t kind, uint64_t i,
                 fl_saved_row *out)
{
    fl_saved_row row = { .size = sizeof(row),
                         .kind = fl_saved_kinds[kind].name,
                         .key = g->keys[i],
                         .epoch = g->epochs ? g->epochs[i] : 0,
                         .n_fields = g->n_fields };

    for (uint32_t f = 0; f < g->n_fields; f++) {
        row.fields[f] = g->fields[f];
        row.fields[f].values += i * g->fields[f].len;
    }
    return FL_ARGS_FILL(fl_saved_row, out, &row) == FL_OK;
}

bool fl_saved_rows_next(fl_saved_rows *r, fl_saved_row *out)
{
    for (; r->part < r->parts.len; r->part++, r->kind = 0)
        for (; r->kind < N_KINDS; r->kind++, r->at = 0) {
            const fl_saved_group *g = &r->parts.data[r->part].groups[r->kind];

            if (r->at < g->n)
                return give(g, r->kind, r->at++, out);
        }
    return false;
}

/* The place of a key; g->n when it is not there. */
static uint64_t place_of(const fl_saved_group *g, uint64_t key)
{
    uint64_t hash = fl_hash_key(key), lo = 0, hi = g->n;

    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (fl_hash_key(g->keys[mid]) < hash)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < g->n && g->keys[lo] == key ? lo : g->n;
}

bool fl_saved_rows_find(const fl_saved_rows *r, uint64_t key, fl_saved_row *out)
{
    uint32_t shard = fl_shard_of(key);

    for (size_t i = 0; i < r->parts.len; i++) {
        const fl_saved_part *p = &r->parts.data[i];

        if (shard < p->first || shard > p->last)
            continue;
        for (size_t k = 0; k < N_KINDS; k++) {
            uint64_t at = place_of(&p->groups[k], key);

            if (at < p->groups[k].n)
                return give(&p->groups[k], k, at, out);
        }
    }
    return false;
}
