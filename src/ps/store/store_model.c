/* store_model.c - a saved model that a server begins with. */
#include "ps/store/store_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/log.h"
#include "ckpt/dense.h"
#include "ckpt/load_plan.h"
#include "ckpt/state_rows.h"
#include "ckpt/table_file.h"
#include "table/inside.h"
#include "table/restore.h"

#define BLOCK_SUFFIX ".block"

struct fl_store_model {
    fl_model_version *version;        /* the newest, first in the chain */
    FL_VEC(fl_model_version *) chain; /* and what each of them is based on */
    fl_st_file *dense;
    uint32_t first, last; /* shards of this server */
    bool has_plan;
    fl_load_plan plan;
};

static uint32_t first_shard(int rank, int n_servers)
{
    uint32_t n = (uint32_t)n_servers;

    return ((uint32_t)rank * FL_SHARDS + n - 1) / n;
}

static fl_status open_chain(fl_store_model *m, const char *path)
{
    fl_model_version *v = NULL;

    FL_TRY(fl_version_open(&v, path));
    m->version = v;
    fl_vec_push(&m->chain, v);
    while (v->manifest.kind == FL_MANIFEST_DELTA) {
        FL_TRY(fl_version_open_base(&v, v));
        fl_vec_push(&m->chain, v);
    }
    if (v->manifest.kind != FL_MANIFEST_FULL)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "model %s is of kind %s; servers begin with a full one, or "
                "with deltas of one",
                v->path, fl_manifest_kind_text(v->manifest.kind));
    return FL_OK;
}

static fl_status open_files(fl_store_model *m, const char *path)
{
    FL_TRY(open_chain(m, path));
    return fl_version_map(m->version, FL_DENSE_FILE, &m->dense);
}

static fl_status read_plan(fl_store_model *m, const char *plan)
{
    if (!plan)
        return FL_OK;
    FL_TRY(fl_load_plan_parse(&m->plan, plan, strlen(plan)));
    m->has_plan = true;
    return FL_OK;
}

fl_status fl_store_model_open(fl_store_model **out, const fl_model_share *share)
{
    fl_store_model *m = fl_alloc(sizeof(*m));
    fl_status st;

    m->first = first_shard(share->rank, share->n_servers);
    m->last = first_shard(share->rank + 1, share->n_servers) - 1;
    st = open_files(m, share->path);
    if (!st)
        st = read_plan(m, share->plan);
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
    if (m->has_plan)
        fl_load_plan_release(&m->plan);
    fl_st_close(m->dense);
    for (size_t i = 0; i < m->chain.len; i++)
        fl_version_close(m->chain.data[i]);
    fl_vec_release(&m->chain);
    fl_free(m);
}

uint64_t fl_store_model_step(const fl_store_model *m)
{
    return m->has_plan && !m->plan.is_all ? 0 : m->version->manifest.step;
}

/* --- names ---------------------------------------------------------------- */

/* What a variable of the program is in the model; false: it is not to be
   loaded. */
static bool find_item(const fl_store_model *m, const char *name,
                      fl_load_item *out)
{
    const fl_load_item *item;

    *out = (fl_load_item){ .name = name, .saved = name };
    if (!m->has_plan)
        return true;
    item = fl_load_plan_find(&m->plan, name);
    if (item)
        *out = *item;
    return item != NULL;
}

bool fl_store_model_wants(const fl_store_model *m, const char *name)
{
    fl_load_item item;

    return find_item(m, name, &item);
}

const fl_model_version *fl_store_model_version(const fl_store_model *m)
{
    return m->version;
}

/* --- dense variables ------------------------------------------------------ */

/* One that is to be filled, and where from. */
typedef struct wanted {
    const char *name;
    fl_tensor to;
    uint64_t from_row; /* of the whole, when it is a block */
    const fl_st_tensor *from;
    bool is_left, is_block, is_resized;
} wanted;

typedef struct filling {
    const fl_store_model *model;
    FL_VEC(wanted) list;
    fl_str wrong; /* all that does not fit */
} filling;

/* The name of which it is a block, freed with fl_free; NULL: it is none. */
static char *whole_name(const char *name)
{
    const char *suffix = strstr(name, BLOCK_SUFFIX), *next;
    char *whole;

    if (!suffix)
        return NULL;
    while ((next = strstr(suffix + 1, BLOCK_SUFFIX)))
        suffix = next;
    whole = fl_strdup(name);
    whole[suffix - name] = '\0';
    return whole;
}

static bool knows(const fl_store_model *m, const char *name)
{
    return m->has_plan ? fl_load_plan_find(&m->plan, name) != NULL
                       : fl_st_find(m->dense, name) != NULL;
}

/* The tensor itself, or that of which it is a block. */
static void find_source(const fl_store_model *m, wanted *w)
{
    char *whole = whole_name(w->name);
    fl_load_item item;

    w->is_block = whole && !knows(m, w->name);
    w->is_left = !find_item(m, w->is_block ? whole : w->name, &item);
    if (!w->is_left) {
        w->is_resized = item.is_resized;
        w->from = fl_st_find(m->dense, item.saved);
    }
    fl_free(whole);
}

static bool is_within(const wanted *w, const fl_shape *rows)
{
    return rows->rank && w->to.shape.rank &&
           (uint64_t)rows->dim[0] >= w->from_row &&
           (uint64_t)rows->dim[0] - w->from_row >= (uint64_t)w->to.shape.dim[0];
}

/* Rows of the whole from `from_row` on; all of it when the shapes are equal. */
static bool fits(const wanted *w)
{
    fl_shape rows = w->from->shape;

    if (fl_st_type_of(w->to.dtype) != w->from->type)
        return false;
    if (fl_shape_equal(&w->to.shape, &w->from->shape))
        return true;
    if (w->is_resized)
        return rows.rank == w->to.shape.rank;
    if (!w->is_block || !is_within(w, &rows))
        return false;
    rows.dim[0] = w->to.shape.dim[0];
    return fl_shape_equal(&rows, &w->to.shape);
}

static void check_wanted(filling *f, wanted *w)
{
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];

    find_source(f->model, w);
    if (w->is_left || (w->from && fits(w)))
        return;
    fl_str_addf(&f->wrong, "%s%s ", f->wrong.len ? ", " : "", w->name);
    if (!w->from)
        fl_str_add(&f->wrong, "(not in the model)");
    else
        fl_str_addf(&f->wrong, "(%s%s from row %" PRIu64 " on, of %s%s)",
                    fl_dtype_text(w->to.dtype), fl_shape_text(&w->to.shape, a),
                    w->from_row, fl_st_type_text(w->from->type),
                    fl_shape_text(&w->from->shape, b));
}

/* What both have of the rows from `from_row` on; the rest stays. */
static void copy_resized(const wanted *w, const char *from)
{
    fl_shape rows = w->from->shape;
    uint64_t n = rows.rank ? (uint64_t)rows.dim[0] : 0;
    uint64_t skip = w->is_block ? w->from_row : 0;

    if (w->is_block && skip >= n)
        return;
    if (skip) {
        from += skip * (w->from->bytes / n);
        rows.dim[0] -= (int64_t)skip;
    }
    fl_dense_copy(&w->to, from, &rows);
}

static fl_status load_one(const fl_store_model *m, const wanted *w)
{
    const char *from;
    size_t bytes;

    if (w->is_left)
        return FL_OK;
    from = fl_st_bytes(m->dense, w->from);
    FL_TRY(fl_st_verify(m->dense, w->from, w->from->xxh3));
    FL_TRY(fl_tensor_bytes(&w->to, &bytes));
    if (w->is_resized) {
        copy_resized(w, from);
        return FL_OK;
    }
    if (!fl_shape_equal(&w->to.shape, &w->from->shape))
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
    const char *name; /* in the model */
    const fl_acc_ctx *acc;
    bool is_resized, is_fresh_state;
    const fl_st_tensor
        *fields[FL_ROW_FIELDS_MAX]; /* value, then state, which is
                                                      NULL when it begins anew */
    uint32_t dim;                   /* of the arrays */
    double scalars[FL_RULE_SCALAR_MAX];
    int n_scalars;
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
        (a->is_resized ? t->shape.dim[1] == a->fields[0]->shape.dim[1]
                       : t->shape.dim[1] == (int64_t)dim) &&
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
        a->n_scalars = i + 1;
    }
    return FL_OK;
}

/* State is left to begin anew where servers have none. */
static fl_status find_arrays(array *a)
{
    const fl_row_layout *l = &a->acc->layout;

    a->fields[0] = fl_st_find(a->model->dense, a->name);
    FL_TRY(check_array(a, a->fields[0]));
    a->dim = (uint32_t)a->fields[0]->shape.dim[1];
    if (a->is_fresh_state)
        return FL_OK;
    for (int i = 1; i < l->n_fields; i++) {
        a->fields[i] = find_state(a, l->fields[i].name);
        FL_TRY(check_array(a, a->fields[i]));
    }
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
    const size_t dim = a->dim;

    for (int i = 0; i < a->acc->layout.n_fields; i++) {
        const float *from;

        if (!a->fields[i])
            continue;
        from = fl_st_bytes(a->model->dense, a->fields[i]);
        memcpy((float *)r->columns[i].data + r->n * dim, from + id * dim,
               dim * sizeof(float));
    }
    r->keys[r->n++] = id;
}

static fl_status hand_over(const array *a, array_rows *r)
{
    fl_restore_rows rows = { .kind = FL_CUT_FULL, .n = r->n, .keys = r->keys };

    for (int i = 0; i < a->acc->layout.n_fields; i++)
        if (a->fields[i])
            rows.columns[i] = (fl_restore_column){ r->columns[i].data, a->dim };
    r->n = 0;
    return rows.n ? fl_table_restore_rows(a->table, &rows) : FL_OK;
}

static fl_status make_columns(const array *a, array_rows *r)
{
    size_t bytes = ROWS_AT_ONCE * (size_t)a->dim * sizeof(float);

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
                             .n_scalars = a->n_scalars };

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
                              const fl_model_version *v, const char *name)
{
    const fl_manifest_table *t = fl_manifest_find_table(&v->manifest, name);

    for (size_t i = 0; t && i < t->n_files; i++)
        if (t->files[i].first <= m->last && t->files[i].last >= m->first)
            FL_TRY(fl_version_verify_file(v, t->files[i].file));
    return FL_OK;
}

static fl_table_load_options
load_of(const fl_store_model *m, const fl_load_item *item, bool values_alone)
{
    return (fl_table_load_options){
        .is_verified = true,
        .first = m->first,
        .last = m->last,
        .other_dim = item->is_resized,
        .other_state = values_alone || m->plan.is_fresh_state ||
                       !strcmp(m->version->manifest.mode, "geo"),
    };
}

static array array_of(const fl_store_model *m, const fl_table *t,
                      const fl_load_item *item)
{
    return (array){ .model = m,
                    .name = item->saved,
                    .acc = fl_table_acc(t),
                    .is_resized = item->is_resized,
                    .is_fresh_state = m->plan.is_fresh_state };
}

fl_status fl_store_model_check(const fl_store_model *m, const fl_table *t,
                               const char *name, bool values_alone)
{
    fl_table_load_options load;
    fl_load_item item;
    array a;

    if (!find_item(m, name, &item))
        return FL_OK;
    load = load_of(m, &item, values_alone);
    a = array_of(m, t, &item);
    if (!fl_manifest_find_table(&m->version->manifest, item.saved))
        return find_arrays(&a);
    for (size_t i = 0; i < m->chain.len; i++) {
        FL_TRY(fl_table_file_check(t, m->chain.data[i], item.saved, &load));
        FL_TRY(verify_table(m, m->chain.data[i], item.saved));
    }
    return FL_OK;
}

/* The plan takes all of the model, under its own names. */
static bool is_as_saved(const fl_store_model *m, const char *name)
{
    fl_load_item item;

    if (m->has_plan && (!m->plan.is_all || m->plan.is_fresh_state))
        return false;
    return find_item(m, name, &item) && !strcmp(item.saved, name) &&
           !item.is_resized;
}

bool fl_store_model_has(const fl_store_model *m, const fl_table *t,
                        const char *name)
{
    const fl_manifest_table *saved =
        fl_manifest_find_table(&m->version->manifest, name);
    const fl_row_layout *l = &fl_table_acc(t)->layout;

    if (!saved || !is_as_saved(m, name) ||
        saved->n_fields != (size_t)l->n_fields)
        return false;
    for (size_t i = 0; i < saved->n_fields; i++)
        if (strcmp(saved->fields[i].name, l->fields[i].name) != 0 ||
            saved->fields[i].len != l->fields[i].len)
            return false;
    return true;
}

/* The oldest first. */
static fl_status load_chain(const fl_store_model *m, fl_table *t,
                            const char *saved,
                            const fl_table_load_options *load)
{
    for (size_t i = m->chain.len; i-- > 0;)
        FL_TRY(fl_table_file_load(t, m->chain.data[i], saved, load));
    return FL_OK;
}

/* What trainers had for themselves. */
static fl_status add_trainers_state(const fl_store_model *m, fl_table *t,
                                    const char *saved)
{
    const fl_state_from from = { .version = m->version,
                                 .table = saved,
                                 .trainer = -1,
                                 .first = m->first,
                                 .last = m->last };

    return fl_state_rows_has(&m->version->manifest, saved, -1)
               ? fl_state_rows_load(t, &from)
               : FL_OK;
}

fl_status fl_store_model_load(const fl_store_model *m, fl_table *t,
                              const char *name, bool values_alone)
{
    fl_table_load_options load;
    fl_load_item item;
    array a;

    if (!find_item(m, name, &item))
        return FL_OK;
    load = load_of(m, &item, values_alone);
    a = array_of(m, t, &item);
    a.table = t;
    if (!fl_manifest_find_table(&m->version->manifest, item.saved))
        return load_array(&a);
    FL_TRY(load_chain(m, t, item.saved, &load));
    return values_alone || m->plan.is_fresh_state
               ? FL_OK
               : add_trainers_state(m, t, item.saved);
}
