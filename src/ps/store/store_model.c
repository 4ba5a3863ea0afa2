/* store_model.c - a saved model that a server begins with. */
#include "ps/store/store_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/log.h"
#include "ckpt/dense.h"
#include "ckpt/table_file.h"
#include "table/inside.h"
#include "table/restore.h"

#define BLOCK_SUFFIX ".block"

struct fl_store_model {
    fl_model_version *version;
    fl_st_file *dense;
    uint32_t first, last; /* shards of this server */
};

static uint32_t first_shard(int rank, int n_servers)
{
    uint32_t n = (uint32_t)n_servers;

    return ((uint32_t)rank * FL_SHARDS + n - 1) / n;
}

static fl_status open_files(fl_store_model *m, const char *path)
{
    FL_TRY(fl_version_open(&m->version, path));
    if (m->version->manifest.kind != FL_MANIFEST_FULL)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "model %s is of kind %s; servers begin with a full one: make "
                "one of a delta with `flotilla model merge`",
                path, fl_manifest_kind_text(m->version->manifest.kind));
    return fl_version_map(m->version, FL_DENSE_FILE, &m->dense);
}

fl_status fl_store_model_open(fl_store_model **out, const char *path, int rank,
                              int n_servers)
{
    fl_store_model *m = fl_alloc(sizeof(*m));
    fl_status st;

    m->first = first_shard(rank, n_servers);
    m->last = first_shard(rank + 1, n_servers) - 1;
    st = open_files(m, path);
    if (st) {
        fl_store_model_close(m);
        return st;
    }
    *out = m;
    return FL_OK;
}

void fl_store_model_close(fl_store_model *m)
{
    if (!m)
        return;
    fl_st_close(m->dense);
    fl_version_close(m->version);
    fl_free(m);
}

uint64_t fl_store_model_step(const fl_store_model *m)
{
    return m->version->manifest.step;
}

/* --- dense variables ------------------------------------------------------ */

/* One that is to be filled, and the row of the whole that it begins with. */
typedef struct wanted {
    const char *name;
    fl_tensor to;
    uint64_t from_row;
} wanted;

typedef struct filling {
    const fl_store_model *model;
    FL_VEC(wanted) list;
    fl_str wrong; /* all that does not fit */
} filling;

/* The tensor itself, or that of which it is a block; NULL: there is none. */
static const fl_st_tensor *find_tensor(const fl_store_model *m,
                                       const char *name)
{
    const fl_st_tensor *t = fl_st_find(m->dense, name);
    const char *suffix = strstr(name, BLOCK_SUFFIX), *next;
    char *whole;

    if (t || !suffix)
        return t;
    while ((next = strstr(suffix + 1, BLOCK_SUFFIX)))
        suffix = next;
    whole = fl_strdup(name);
    whole[suffix - name] = '\0';
    t = fl_st_find(m->dense, whole);
    fl_free(whole);
    return t;
}

/* Rows of the whole from `from_row` on; all of it when the shapes are equal. */
static bool fits(const wanted *w, const fl_st_tensor *t)
{
    fl_shape rows = t->shape;

    if (fl_st_type_of(w->to.dtype) != t->type)
        return false;
    if (fl_shape_equal(&w->to.shape, &t->shape))
        return true;
    if (!rows.rank || !w->to.shape.rank ||
        (uint64_t)rows.dim[0] < w->from_row ||
        (uint64_t)rows.dim[0] - w->from_row < (uint64_t)w->to.shape.dim[0])
        return false;
    rows.dim[0] = w->to.shape.dim[0];
    return strstr(w->name, BLOCK_SUFFIX) && fl_shape_equal(&rows, &w->to.shape);
}

static void check_wanted(filling *f, const wanted *w)
{
    const fl_st_tensor *t = find_tensor(f->model, w->name);
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];

    if (t && fits(w, t))
        return;
    fl_str_addf(&f->wrong, "%s%s ", f->wrong.len ? ", " : "", w->name);
    if (!t)
        fl_str_add(&f->wrong, "(not in the model)");
    else
        fl_str_addf(&f->wrong, "(%s%s from row %" PRIu64 " on, of %s%s)",
                    fl_dtype_text(w->to.dtype), fl_shape_text(&w->to.shape, a),
                    w->from_row, fl_st_type_text(t->type),
                    fl_shape_text(&t->shape, b));
}

static fl_status load_one(const fl_store_model *m, const wanted *w)
{
    const fl_st_tensor *t = find_tensor(m, w->name);
    const char *from = fl_st_bytes(m->dense, t);
    size_t bytes;

    FL_TRY(fl_st_verify(m->dense, t, t->xxh3));
    FL_TRY(fl_tensor_bytes(&w->to, &bytes));
    if (!fl_shape_equal(&w->to.shape, &t->shape))
        from += (size_t)w->from_row * (bytes / (size_t)w->to.shape.dim[0]);
    if (bytes)
        memcpy(w->to.data, from, bytes);
    return FL_OK;
}

static fl_status fill(filling *f)
{
    for (size_t i = 0; i < f->list.len; i++)
        check_wanted(f, &f->list.data[i]);
    if (f->wrong.len)
        FL_FAIL(FL_ERR_INVAL, "model %s does not fit what the server has: %s",
                f->model->version->path, fl_str_text(&f->wrong));
    for (size_t i = 0; i < f->list.len; i++)
        FL_TRY(load_one(f->model, &f->list.data[i]));
    return FL_OK;
}

/* For fl_dense_each. */
typedef struct listing {
    filling *to;
    uint64_t from_row;
} listing;

static fl_status list_value(void *arg, const char *name, const fl_tensor *value)
{
    listing *l = arg;
    wanted w = { .name = name, .to = *value, .from_row = l->from_row };

    fl_vec_push(&l->to->list, w);
    return FL_OK;
}

fl_status fl_store_model_fill(const fl_store_model *m,
                              const fl_store_blocks *blocks)
{
    filling f = { .model = m };
    fl_status st = FL_OK;

    for (size_t i = 0; i < blocks->n && !st; i++) {
        listing l = { .to = &f, .from_row = blocks->from_rows[i] };

        st = fl_dense_each(blocks->dense[i], list_value, &l);
    }
    if (!st)
        st = fill(&f);
    fl_vec_release(&f.list);
    fl_str_release(&f.wrong);
    return st;
}

/* --- arrays that are tables here ------------------------------------------
 *
 * On one machine a parameter whose lookups are sparse is an array, with state of
 * its shape under names of its own; on servers it is a table, whose rows have
 * both. */

/* Rows that are handed over at a time. */
#define ROWS_AT_ONCE 1024

typedef struct array {
    const fl_store_model *model;
    fl_table *table;
    const char *name;
    const fl_acc_ctx *acc;
    const fl_st_tensor *fields[FL_ROW_FIELDS_MAX]; /* value, then state */
    double scalars[FL_RULE_SCALAR_MAX];
} array;

/* "NAME_SUFFIX_0", of state. */
static const fl_st_tensor *find_state(const array *a, const char *suffix)
{
    fl_str name = { 0 };
    const fl_st_tensor *t;

    fl_str_addf(&name, "%s_%s_0", a->name, suffix);
    t = fl_st_find(a->model->dense, fl_str_text(&name));
    fl_str_release(&name);
    return t;
}

static fl_status check_array(const array *a, const fl_st_tensor *t)
{
    uint32_t dim = a->acc->config->dim;

    if (t && t->type == FL_ST_F32 && t->shape.rank == 2 &&
        t->shape.dim[1] == (int64_t)dim &&
        (!a->acc->config->height ||
         (uint64_t)t->shape.dim[0] <= a->acc->config->height))
        return fl_st_verify(a->model->dense, t, t->xxh3);
    FL_FAIL(FL_ERR_INVAL,
            "table %s has rows of %" PRIu32
            " numbers with the state of %s, and "
            "model %s has it neither as a table nor as arrays like that",
            a->name, dim, a->acc->rule->name, a->model->version->path);
}

static fl_status find_scalars(array *a)
{
    for (int i = 0; i < fl_rule_n_scalars(a->acc->rule); i++) {
        const fl_st_tensor *t = find_state(a, a->acc->rule->scalars[i].suffix);

        if (!t || t->type != FL_ST_F32 || t->bytes != sizeof(float))
            return check_array(a, NULL);
        FL_TRY(fl_st_verify(a->model->dense, t, t->xxh3));
        a->scalars[i] = *(const float *)fl_st_bytes(a->model->dense, t);
    }
    return FL_OK;
}

/* State is left to begin anew where servers have none. */
static fl_status find_arrays(array *a)
{
    const fl_row_layout *l = &a->acc->layout;

    a->fields[0] = fl_st_find(a->model->dense, a->name);
    for (int i = 1; i < l->n_fields; i++)
        a->fields[i] = find_state(a, l->fields[i].name);
    for (int i = 0; i < l->n_fields; i++)
        FL_TRY(check_array(a, a->fields[i]));
    return find_scalars(a);
}

static bool has_shard(const fl_store_model *m, uint64_t key)
{
    uint32_t shard = fl_shard_of(key);

    return shard >= m->first && shard <= m->last;
}

typedef struct array_rows {
    uint64_t keys[ROWS_AT_ONCE];
    size_t n;
    fl_buf columns[FL_ROW_FIELDS_MAX];
} array_rows;

static void add_row(const array *a, array_rows *r, uint64_t id)
{
    const size_t dim = a->acc->config->dim;

    for (int i = 0; i < a->acc->layout.n_fields; i++) {
        const float *from = fl_st_bytes(a->model->dense, a->fields[i]);

        memcpy((float *)r->columns[i].data + r->n * dim, from + id * dim,
               dim * sizeof(float));
    }
    r->keys[r->n++] = id;
}

static fl_status hand_over(const array *a, array_rows *r)
{
    fl_restore_rows rows = { .kind = FL_CUT_FULL, .n = r->n, .keys = r->keys };

    for (int i = 0; i < a->acc->layout.n_fields; i++)
        rows.columns[i] =
            (fl_restore_column){ r->columns[i].data, a->acc->config->dim };
    r->n = 0;
    return rows.n ? fl_table_restore_rows(a->table, &rows) : FL_OK;
}

static fl_status make_columns(const array *a, array_rows *r)
{
    size_t bytes = ROWS_AT_ONCE * a->acc->config->dim * sizeof(float);

    for (int i = 0; i < a->acc->layout.n_fields; i++)
        if (!fl_buf_reserve(&r->columns[i], bytes))
            FL_FAIL(FL_ERR_NOMEM, "no memory to load table %s", a->name);
    return FL_OK;
}

static fl_status restore_array(const array *a, array_rows *r)
{
    uint64_t n = (uint64_t)a->fields[0]->shape.dim[0];
    uint64_t share = a->model->last - a->model->first + 1;
    fl_cut_moment moment = { .epoch = 1,
                             .scalars = a->scalars,
                             .n_scalars = fl_rule_n_scalars(a->acc->rule) };

    FL_TRY(make_columns(a, r));
    FL_TRY(fl_table_reserve(a->table, a->model->first, a->model->last,
                            n * share / FL_SHARDS));
    for (uint64_t id = 0; id < n; id++) {
        if (!has_shard(a->model, id))
            continue;
        add_row(a, r, id);
        if (r->n == ROWS_AT_ONCE)
            FL_TRY(hand_over(a, r));
    }
    FL_TRY(hand_over(a, r));
    return fl_table_restore_moment(a->table, &moment);
}

static fl_status load_array(array *a)
{
    array_rows *r = fl_alloc(sizeof(*r));
    fl_status st = find_arrays(a);

    if (!st)
        st = restore_array(a, r);
    for (size_t i = 0; i < FL_ROW_FIELDS_MAX; i++)
        fl_buf_release(&r->columns[i]);
    fl_free(r);
    return st;
}

/* --- tables --------------------------------------------------------------- */

static fl_status verify_table(const fl_store_model *m,
                              const fl_manifest_table *t)
{
    for (size_t i = 0; i < t->n_files; i++)
        if (t->files[i].first <= m->last && t->files[i].last >= m->first)
            FL_TRY(fl_version_verify_file(m->version, t->files[i].file));
    return FL_OK;
}

static fl_table_load_options load_of(const fl_store_model *m, bool values_alone)
{
    return (fl_table_load_options){
        .is_verified = true,
        .first = m->first,
        .last = m->last,
        .other_state =
            values_alone || !strcmp(m->version->manifest.mode, "geo"),
    };
}

static array array_of(const fl_store_model *m, const fl_table *t,
                      const char *name)
{
    return (array){ .model = m, .name = name, .acc = fl_table_acc(t) };
}

fl_status fl_store_model_check(const fl_store_model *m, const fl_table *t,
                               const char *name, bool values_alone)
{
    const fl_manifest_table *saved =
        fl_manifest_find_table(&m->version->manifest, name);
    fl_table_load_options load = load_of(m, values_alone);
    array a = array_of(m, t, name);

    if (!saved)
        return find_arrays(&a);
    FL_TRY(fl_table_file_check(t, m->version, name, &load));
    return verify_table(m, saved);
}

fl_status fl_store_model_load(const fl_store_model *m, fl_table *t,
                              const char *name, bool values_alone)
{
    fl_table_load_options load = load_of(m, values_alone);
    array a = array_of(m, t, name);

    a.table = t;
    return fl_manifest_find_table(&m->version->manifest, name)
               ? fl_table_file_load(t, m->version, name, &load)
               : load_array(&a);
}
