/* state_rows.c - the optimizer's state of rows that trainers update themselves. */
#include "ckpt/state_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "table/inside.h"
#include "table/restore.h"

#define FOLDER "trainers/"
#define FILES ".safetensors"
#define ROWS_AT_ONCE 1024

/* Statistics of a row would be lost: only rows of values and state have it. */
static bool has_state(const fl_row_layout *l)
{
    bool has = false;

    for (int i = 0; i < l->n_fields; i++) {
        if (l->fields[i].role == FL_FIELD_STATISTIC)
            return false;
        has |= l->fields[i].role == FL_FIELD_STATE;
    }
    return has;
}

static char *column_name(const char *table, const char *column)
{
    fl_str s = { 0 };

    fl_str_addf(&s, "%s@%s", table, column);
    return fl_str_take(&s);
}

/* --- taking --------------------------------------------------------------- */

typedef struct taking {
    const fl_row_layout *layout;
    uint64_t *keys;
    float *fields[FL_ROW_FIELDS_MAX];
    uint64_t n, room; /* rows */
} taking;

static fl_status take_block(void *arg, const fl_cut_block *b)
{
    taking *t = arg;

    if (b->kind != FL_CUT_FULL)
        return FL_OK;
    FL_ASSERT(t->n + b->n <= t->room);
    memcpy(t->keys + t->n, b->keys, b->n * sizeof(*t->keys));
    for (int i = 0; i < t->layout->n_fields; i++) {
        const fl_row_field *f = &t->layout->fields[i];

        for (size_t k = 0; t->fields[i] && k < b->n; k++)
            memcpy(t->fields[i] + (t->n + k) * f->len,
                   b->rows + k * b->stride + f->offset, f->len * sizeof(float));
    }
    t->n += b->n;
    return FL_OK;
}

/* Memory for a tensor of the list. */
static fl_status add_tensor(fl_state_rows *r, char *name, fl_tensor value,
                            void **out)
{
    fl_named_tensor t = { name, value };
    size_t bytes;
    fl_status st = fl_tensor_bytes(&value, &bytes);

    if (!st) {
        t.value.data = fl_try_alloc(bytes ? bytes : 1);
        if (!t.value.data)
            st = fl_err_set(FL_ERR_NOMEM,
                            "no memory for %s, the state of rows that is to be "
                            "saved",
                            name);
    }
    if (st) {
        fl_free(name);
        return st;
    }
    fl_vec_push(&r->list, t);
    fl_vec_push(&r->bytes, bytes ? bytes : 1);
    *out = t.value.data;
    return FL_OK;
}

static fl_tensor shape_of(fl_dtype dtype, uint64_t n, uint32_t len)
{
    fl_tensor t = { .size = sizeof(t), .dtype = dtype };

    t.shape = len ? fl_shape_of(2, (int64_t[]){ (int64_t)n, len })
                  : fl_shape_of(1, (int64_t[]){ (int64_t)n });
    return t;
}

static fl_status make_room(fl_state_rows *r, taking *t, const char *table)
{
    void *at;

    FL_TRY(add_tensor(r, column_name(table, "key"),
                      shape_of(FL_DTYPE_U64, t->room, 0), &at));
    t->keys = at;
    for (int i = 0; i < t->layout->n_fields; i++) {
        const fl_row_field *f = &t->layout->fields[i];

        if (f->role != FL_FIELD_STATE)
            continue;
        FL_TRY(add_tensor(r, column_name(table, f->name),
                          shape_of(FL_DTYPE_F32, t->room, f->len), &at));
        t->fields[i] = at;
    }
    return FL_OK;
}

static fl_status take_cut(fl_state_rows *r, fl_table_cut *cut)
{
    const char *table = fl_table_name(fl_table_cut_table(cut));
    taking t = { .layout = &fl_table_acc(fl_table_cut_table(cut))->layout };
    uint64_t counts[FL_CUT_KINDS];

    for (uint32_t shard = 0; shard < FL_SHARDS; shard++) {
        FL_TRY(fl_table_cut_counts(cut, shard, counts));
        t.room += counts[FL_CUT_FULL];
    }
    FL_TRY(make_room(r, &t, table));
    for (uint32_t shard = 0; shard < FL_SHARDS; shard++)
        FL_TRY(fl_table_cut_read(cut, shard, take_block, &t));
    FL_ASSERT(t.n == t.room);
    return FL_OK;
}

fl_status fl_state_rows_take(fl_state_rows *r, fl_table *t)
{
    fl_table_cut *cut;
    fl_status st;

    if (!has_state(&fl_table_acc(t)->layout))
        return FL_OK;
    FL_TRY(fl_table_cut_begin(&cut, t, NULL));
    st = take_cut(r, cut);
    fl_table_cut_end(cut);
    return st;
}

void fl_state_rows_release(fl_state_rows *r)
{
    for (size_t i = 0; i < r->list.len; i++) {
        fl_data_free(r->list.data[i].value.data, r->bytes.data[i]);
        fl_free((void *)(uintptr_t)r->list.data[i].name);
    }
    fl_vec_release(&r->list);
    fl_vec_release(&r->bytes);
}

/* --- files ---------------------------------------------------------------- */

/* The rank in "trainers/12.safetensors"; -1: it is another file. */
static int rank_of(const char *file)
{
    char *end;
    long rank;

    if (strncmp(file, FOLDER, strlen(FOLDER)) != 0)
        return -1;
    rank = strtol(file + strlen(FOLDER), &end, 10);
    return !strcmp(end, FILES) && rank >= 0 && rank <= INT32_MAX ? (int)rank
                                                                 : -1;
}

static bool has_tensor(const fl_manifest_file *f, const char *name)
{
    for (size_t i = 0; i < f->n_tensors; i++)
        if (!strcmp(f->tensors[i].name, name))
            return true;
    return false;
}

static bool is_meant(const fl_manifest_file *f, int trainer, const char *column)
{
    int rank = rank_of(f->name);

    return rank >= 0 && (trainer < 0 || rank == trainer) &&
           has_tensor(f, column);
}

static bool has_column(const fl_manifest *m, const char *table, int trainer,
                       const char *column)
{
    char *name = column_name(table, column);
    bool has = false;

    for (size_t i = 0; i < m->files.len; i++)
        has |= is_meant(&m->files.data[i], trainer, name);
    fl_free(name);
    return has;
}

bool fl_state_rows_has(const fl_manifest *m, const char *table, int trainer)
{
    return has_column(m, table, trainer, "key");
}

bool fl_state_rows_has_field(const fl_manifest *m, const char *table,
                             const char *field)
{
    return has_column(m, table, -1, field);
}

/* What one trainer has, mapped; at: the next row. */
typedef struct state_file {
    fl_st_file *file;
    const uint64_t *keys;
    uint64_t n, at;
    const float *fields[FL_ROW_FIELDS_MAX];
} state_file;

typedef struct state_files {
    const fl_state_from *from;
    FL_VEC(state_file) list;
    const char *names[FL_ROW_FIELDS_MAX]; /* of columns; NULL: none */
    uint32_t lens[FL_ROW_FIELDS_MAX];
    int n_fields;
} state_files;

static fl_status find_column(const fl_st_file *f, const char *name,
                             const fl_st_tensor *like, const void **out)
{
    const fl_st_tensor *t = fl_st_find(f, name);

    if (!t || t->type != like->type || t->shape.rank != like->shape.rank)
        FL_FAIL(FL_ERR_CORRUPT, "%s has no column %s as it should be",
                fl_st_path(f), name);
    for (int i = 0; i < t->shape.rank; i++)
        if (like->shape.dim[i] >= 0 && t->shape.dim[i] != like->shape.dim[i])
            FL_FAIL(FL_ERR_CORRUPT,
                    "%s: column %s has %" PRId64 " instead of %" PRId64
                    " in dimension %d",
                    fl_st_path(f), name, t->shape.dim[i], like->shape.dim[i],
                    i);
    FL_TRY(fl_st_verify(f, t, t->xxh3));
    *out = fl_st_bytes(f, t);
    return FL_OK;
}

static fl_status find_field(const state_files *s, state_file *f, int i)
{
    fl_st_tensor like = { .type = FL_ST_F32,
                          .shape = fl_shape_of(
                              2, (int64_t[]){ (int64_t)f->n, s->lens[i] }) };
    char *name;
    const void *at = NULL;
    fl_status st;

    if (!s->names[i])
        return FL_OK;
    name = column_name(s->from->table, s->names[i]);
    st = find_column(f->file, name, &like, &at);
    fl_free(name);
    f->fields[i] = at;
    return st;
}

static fl_status find_columns(const state_files *s, state_file *f)
{
    fl_st_tensor like = { .type = FL_ST_U64,
                          .shape = fl_shape_of(1, (int64_t[]){ -1 }) };
    char *name = column_name(s->from->table, "key");
    const void *at = NULL;
    fl_status st = find_column(f->file, name, &like, &at);

    if (!st) {
        f->keys = at;
        f->n = (uint64_t)fl_st_find(f->file, name)->shape.dim[0];
    }
    fl_free(name);
    for (int i = 0; i < s->n_fields && !st; i++)
        st = find_field(s, f, i);
    return st;
}

static fl_status open_files(state_files *s)
{
    const fl_manifest *m = &s->from->version->manifest;
    char *key = column_name(s->from->table, "key");
    fl_status st = FL_OK;

    for (size_t i = 0; i < m->files.len && !st; i++) {
        state_file f = { 0 };

        if (!is_meant(&m->files.data[i], s->from->trainer, key))
            continue;
        st = fl_version_map(s->from->version, m->files.data[i].name, &f.file);
        if (st)
            break;
        fl_vec_push(&s->list, f);
        st = find_columns(s, &s->list.data[s->list.len - 1]);
    }
    fl_free(key);
    return st;
}

static void close_files(state_files *s)
{
    for (size_t i = 0; i < s->list.len; i++)
        fl_st_close(s->list.data[i].file);
    fl_vec_release(&s->list);
}

/* --- adding up ------------------------------------------------------------- */

static bool is_wanted(const fl_state_from *from, uint64_t key)
{
    uint32_t shard = fl_shard_of(key);

    return shard >= from->first && shard <= from->last;
}

/* The next key in the order of the hash; false at the end. */
static bool next_key(const state_files *s, uint64_t *key)
{
    bool has = false;

    for (size_t i = 0; i < s->list.len; i++) {
        state_file *f = &s->list.data[i];

        while (f->at < f->n && !is_wanted(s->from, f->keys[f->at]))
            f->at++;
        if (f->at < f->n &&
            (!has || fl_hash_key(f->keys[f->at]) < fl_hash_key(*key))) {
            *key = f->keys[f->at];
            has = true;
        }
    }
    return has;
}

/* Adds field i of that key, which some file has next, to out. */
static void add_field(const state_files *s, uint64_t key, int i, float *out)
{
    for (size_t k = 0; k < s->list.len; k++) {
        const state_file *f = &s->list.data[k];

        if (f->at < f->n && f->keys[f->at] == key && f->fields[i])
            for (uint32_t d = 0; d < s->lens[i]; d++)
                out[d] += f->fields[i][f->at * s->lens[i] + d];
    }
}

static void pass_key(const state_files *s, uint64_t key)
{
    for (size_t k = 0; k < s->list.len; k++)
        if (s->list.data[k].at < s->list.data[k].n &&
            s->list.data[k].keys[s->list.data[k].at] == key)
            s->list.data[k].at++;
}

/* --- into a table ---------------------------------------------------------- */

typedef struct batch {
    uint64_t keys[ROWS_AT_ONCE];
    size_t n;
    float *values;                     /* as a pull gives them */
    float *columns[FL_ROW_FIELDS_MAX]; /* values and state */
} batch;

/* Values are what a pull gives, in the order of the fields. */
static void cut_values(const fl_row_layout *l, batch *b, size_t dim)
{
    size_t at = 0;

    for (int i = 0; i < l->n_fields; i++) {
        size_t len = l->fields[i].len;

        if (l->fields[i].role != FL_FIELD_VALUE)
            continue;
        for (size_t k = 0; k < b->n; k++)
            memcpy(b->columns[i] + k * len, b->values + k * dim + at,
                   len * sizeof(float));
        at += len;
    }
}

static fl_status put_batch(fl_table *t, batch *b)
{
    const fl_row_layout *l = &fl_table_acc(t)->layout;
    fl_restore_rows rows = { .kind = FL_CUT_FULL, .n = b->n, .keys = b->keys };

    if (!b->n)
        return FL_OK;
    FL_TRY(fl_table_pull(t, b->keys, b->n, FL_PULL_ONLY, b->values));
    cut_values(l, b, fl_table_dim(t));
    for (int i = 0; i < l->n_fields; i++)
        rows.columns[i] =
            (fl_restore_column){ b->columns[i], l->fields[i].len };
    b->n = 0;
    return fl_table_restore_rows(t, &rows);
}

static fl_status put_rows(fl_table *t, const state_files *s, batch *b)
{
    uint64_t key = 0;

    while (next_key(s, &key)) {
        for (int i = 0; i < s->n_fields; i++) {
            float *row = b->columns[i] + b->n * s->lens[i];

            if (!s->names[i])
                continue;
            memset(row, 0, s->lens[i] * sizeof(float));
            add_field(s, key, i, row);
        }
        b->keys[b->n++] = key;
        pass_key(s, key);
        if (b->n == ROWS_AT_ONCE)
            FL_TRY(put_batch(t, b));
    }
    return put_batch(t, b);
}

static batch *new_batch(const fl_row_layout *l, size_t dim)
{
    batch *b = fl_alloc(sizeof(*b));

    b->values = fl_alloc(ROWS_AT_ONCE * dim * sizeof(float));
    for (int i = 0; i < l->n_fields; i++)
        b->columns[i] =
            fl_alloc(ROWS_AT_ONCE * (size_t)l->fields[i].len * sizeof(float));
    return b;
}

static void free_batch(batch *b)
{
    for (int i = 0; i < FL_ROW_FIELDS_MAX; i++)
        fl_free(b->columns[i]);
    fl_free(b->values);
    fl_free(b);
}

fl_status fl_state_rows_load(fl_table *t, const fl_state_from *from)
{
    const fl_row_layout *l = &fl_table_acc(t)->layout;
    state_files s = { .from = from, .n_fields = l->n_fields };
    fl_status st;
    batch *b;

    if (!has_state(l))
        return FL_OK;
    for (int i = 0; i < l->n_fields; i++) {
        s.lens[i] = l->fields[i].len;
        if (l->fields[i].role == FL_FIELD_STATE)
            s.names[i] = l->fields[i].name;
    }
    b = new_batch(l, fl_table_dim(t));
    st = open_files(&s);
    if (!st)
        st = put_rows(t, &s, b);
    close_files(&s);
    free_batch(b);
    return fl_err_ctx(st, "state of table %s", from->table);
}

/* --- into an array ---------------------------------------------------------- */

static fl_status put_array(const state_files *s, const fl_tensor *to)
{
    uint64_t key = 0, height = (uint64_t)to->shape.dim[0];

    while (next_key(s, &key)) {
        float *row;

        if (key >= height)
            FL_FAIL(FL_ERR_INVAL,
                    "table %s has a row for id %" PRIu64
                    ", and the array has %" PRIu64 " rows",
                    s->from->table, key, height);
        row = (float *)to->data + key * s->lens[0];
        memset(row, 0, s->lens[0] * sizeof(float));
        add_field(s, key, 0, row);
        pass_key(s, key);
    }
    return FL_OK;
}

fl_status fl_state_rows_add_up(const fl_state_from *from, const char *field,
                               const fl_tensor *to)
{
    state_files s = { .from = from,
                      .names = { field },
                      .lens = { (uint32_t)to->shape.dim[1] },
                      .n_fields = 1 };
    fl_status st = open_files(&s);

    if (!st)
        st = put_array(&s, to);
    close_files(&s);
    return st;
}
