/* table_columns.c - the columns of a table's file: their names, and those of a
 * mapped file with all numbers checked, so that nobody behind reads beyond
 * it. */
#include "ckpt/table_columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "table/row.h"

static const char *const prefixes[FL_CUT_KINDS] = { "", "short.", "candidate.",
                                                    "removed." };

/* --- names ---------------------------------------------------------------- */

static const fl_row_field candidate_fields[] = {
    { .name = "show", .offset = offsetof(fl_candidate, show), .len = 1 },
    { .name = "click", .offset = offsetof(fl_candidate, click), .len = 1 },
};

static fl_row_column *add(fl_row_columns *c, fl_cut_kind kind, const char *name)
{
    fl_row_column *to = &c->list[c->n++];
    int n = snprintf(to->name, sizeof(to->name), "%s%s", prefixes[kind], name);

    FL_ASSERT(n > 0 && (size_t)n < sizeof(to->name));
    to->field = -1;
    return to;
}

static void add_field(fl_row_columns *c, fl_cut_kind kind,
                      const fl_row_field *f, int field)
{
    fl_row_column *to = add(c, kind, f->name);

    to->type = FL_ST_F32;
    to->offset = f->offset;
    to->bytes = f->len * (uint32_t)sizeof(float);
    to->field = field;
}

static void add_fields(fl_row_columns *out, const fl_row_layout *l,
                       fl_cut_kind kind, bool values_only)
{
    for (int i = 0; i < l->n_fields; i++) {
        const fl_row_field *f = &l->fields[i];

        if (kind == FL_CUT_SHORT && f->offset >= l->short_bytes)
            return;
        if (!values_only || f->role == FL_FIELD_VALUE)
            add_field(out, kind, f, i);
    }
}

void fl_row_columns_of(fl_row_columns *out, const fl_row_layout *l,
                       fl_cut_kind kind, bool values_only)
{
    fl_row_column *c;

    *out = (fl_row_columns){ 0 };
    snprintf(out->shards, sizeof(out->shards), "%sshards", prefixes[kind]);
    c = add(out, kind, "key");
    c->type = FL_ST_U64;
    c->bytes = sizeof(uint64_t);
    c->is_key = true;
    if (kind == FL_CUT_GONE)
        return;
    if (!values_only) {
        c = add(out, kind, "epoch");
        c->type = FL_ST_U32;
        c->bytes = FL_ROW_HEADER_BYTES;
    }
    if (kind != FL_CUT_CANDIDATE)
        add_fields(out, l, kind, values_only);
    for (int i = 0; kind == FL_CUT_CANDIDATE && i < 2; i++)
        add_field(out, kind, &candidate_fields[i], i);
}

/* --- a mapped file -------------------------------------------------------- */

static fl_status no_tensor(const fl_row_file *f, const char *name)
{
    FL_FAIL(FL_ERR_CORRUPT, "%s has no tensor %s", fl_st_path(f->file), name);
}

static fl_status bad_shape(const fl_row_file *f, const fl_st_tensor *t,
                           const char *wanted)
{
    FL_FAIL(FL_ERR_CORRUPT, "%s: tensor %s is not %s", fl_st_path(f->file),
            t->name, wanted);
}

/* A tensor [n] of that type; *out stays when there is none. */
static fl_status find_vector(const fl_row_file *f, const char *name,
                             fl_st_type type, uint64_t n, const void **out)
{
    const fl_st_tensor *t = fl_st_find(f->file, name);
    char wanted[64];

    if (!t)
        return FL_OK;
    snprintf(wanted, sizeof(wanted), "%s[%" PRIu64 "]", fl_st_type_text(type),
             n);
    if (t->type != type || t->shape.rank != 1 || (uint64_t)t->shape.dim[0] != n)
        return bad_shape(f, t, wanted);
    *out = fl_st_bytes(f->file, t);
    return FL_OK;
}

/* A tensor f32[n,len] of any len. */
static fl_status find_field(const fl_row_file *f, fl_row_group *g,
                            const fl_row_column *c)
{
    const fl_st_tensor *t = fl_st_find(f->file, c->name);

    if (!t)
        return FL_OK;
    if (t->type != FL_ST_F32 || t->shape.rank != 2 ||
        (uint64_t)t->shape.dim[0] != g->n || t->shape.dim[1] < 1 ||
        t->shape.dim[1] > FL_TABLE_DIM_MAX)
        return bad_shape(f, t, "f32[rows,len]");
    g->fields[c->field] = fl_st_bytes(f->file, t);
    g->lens[c->field] = (uint32_t)t->shape.dim[1];
    return FL_OK;
}

/* Shards begin one behind the other, from 0 to the number of rows. */
static fl_status check_shards(const fl_row_file *f, const fl_row_group *g,
                              const char *name)
{
    uint32_t n = f->last - f->first + 1;
    bool ok = g->shards[0] == 0 && g->shards[n] == g->n;

    for (uint32_t i = 0; i < n && ok; i++)
        ok = g->shards[i] <= g->shards[i + 1];
    if (!ok)
        FL_FAIL(FL_ERR_CORRUPT,
                "%s: %s does not lead from 0 to its %" PRIu64 " rows",
                fl_st_path(f->file), name, g->n);
    return FL_OK;
}

static fl_status find_shards(const fl_row_file *f, fl_row_group *g,
                             const char *name)
{
    const void *shards = NULL;

    FL_TRY(find_vector(f, name, FL_ST_U64, f->last - f->first + 2, &shards));
    if (!shards)
        return no_tensor(f, name);
    g->shards = shards;
    return check_shards(f, g, name);
}

static fl_status open_group(fl_row_file *f, const fl_row_layout *l,
                            fl_cut_kind kind)
{
    fl_row_group *g = &f->groups[kind];
    fl_row_columns columns;
    const fl_st_tensor *key;
    const void *at = NULL;

    fl_row_columns_of(&columns, l, kind, false);
    key = fl_st_find(f->file, columns.list[0].name);
    if (!key)
        return kind == FL_CUT_FULL ? no_tensor(f, columns.list[0].name) : FL_OK;
    if (key->type != FL_ST_U64 || key->shape.rank != 1)
        return bad_shape(f, key, "u64[rows]");
    g->n = (uint64_t)key->shape.dim[0];
    g->keys = fl_st_bytes(f->file, key);
    for (int i = 1; i < columns.n; i++)
        if (columns.list[i].field >= 0)
            FL_TRY(find_field(f, g, &columns.list[i]));
        else
            FL_TRY(find_vector(f, columns.list[i].name, FL_ST_U32, g->n, &at));
    g->epochs = at;
    return find_shards(f, g, columns.shards);
}

fl_status fl_row_file_open(fl_row_file *out, const fl_model_version *v,
                           const fl_manifest_shards *where,
                           const fl_row_layout *l)
{
    fl_row_file f = { .first = where->first, .last = where->last };
    fl_status st;

    if (f.first > f.last || f.last >= FL_TABLE_SHARDS)
        FL_FAIL(FL_ERR_CORRUPT, "%s: shards %u to %u are not in 0..%d",
                where->file, f.first, f.last, FL_TABLE_SHARDS - 1);
    FL_TRY(fl_version_map(v, where->file, &f.file));
    st = FL_OK;
    for (fl_cut_kind i = 0; i < FL_CUT_KINDS && !st; i++)
        st = open_group(&f, l, i);
    if (st)
        fl_st_close(f.file);
    else
        *out = f;
    return st;
}

void fl_row_file_close(fl_row_file *f)
{
    fl_st_close(f->file);
    *f = (fl_row_file){ 0 };
}

fl_status fl_version_table(const fl_model_version *v, const char *name,
                           const fl_manifest_table **out)
{
    fl_str there = { 0 };

    *out = fl_manifest_find_table(&v->manifest, name);
    if (*out)
        return FL_OK;
    for (size_t i = 0; i < v->manifest.tables.len; i++)
        fl_str_addf(&there, "%s%s", i ? ", " : "",
                    v->manifest.tables.data[i].name);
    (void)fl_err_set(FL_ERR_NOTFOUND, "%s has no table %s; its tables are: %s",
                     v->path, name, there.len ? there.data : "none");
    fl_str_release(&there);
    return FL_ERR_NOTFOUND;
}
