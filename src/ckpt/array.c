/* array.c - rows of a table as an array, and scalars of its rule. */
#include "ckpt/array.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "ckpt/state_rows.h"
#include "optim/rule.h"
#include "table/table.h"

#define KEY "key" /* the column of a table's file */
#define VALUE "value"

/* --- names ---------------------------------------------------------------- */

/* "NAME_SUFFIX_0" */
static bool is_state(const char *variable, const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);

    return !strncmp(variable, name, n) && variable[n] == '_' &&
           !strncmp(variable + n + 1, suffix, m) &&
           !strcmp(variable + n + 1 + m, "_0");
}

static bool find_field(const fl_manifest_table *t, const char *variable,
                       fl_array_source *out)
{
    for (size_t i = 0; i < t->n_fields; i++)
        if (is_state(variable, t->name, t->fields[i].name)) {
            *out = (fl_array_source){ .table = t, .field = t->fields[i].name };
            return true;
        }
    return false;
}

static bool find_scalar(const fl_manifest_table *t, const char *variable,
                        fl_array_source *out)
{
    fl_table_config config;
    const fl_rule *rule;

    if (fl_table_config_parse(&config, t->name, t->settings, t->seed))
        return false;
    rule = fl_rule_find(config.rule ? config.rule : "sgd");
    for (size_t i = 0; i < t->n_scalars && (int)i < fl_rule_n_scalars(rule);
         i++)
        if (is_state(variable, t->name, rule->scalars[i].suffix)) {
            *out = (fl_array_source){ .table = t, .scalar = t->scalars[i] };
            return true;
        }
    return false;
}

/* Where trainers update rows themselves, the servers' table has values alone. */
static bool find_of_trainers(const fl_manifest *m, const fl_manifest_table *t,
                             const char *variable, fl_array_source *out)
{
    for (size_t r = 0; r < fl_rule_count(); r++) {
        const fl_rule *rule = fl_rule_at(r);

        for (int i = 0; i < fl_rule_n_states(rule); i++) {
            const char *field = rule->states[i].suffix;

            if (!is_state(variable, t->name, field) ||
                !fl_state_rows_has_field(m, t->name, field))
                continue;
            *out = (fl_array_source){ .table = t,
                                      .field = field,
                                      .is_of_trainers = true };
            return true;
        }
    }
    return false;
}

bool fl_array_find(const fl_manifest *m, const char *variable,
                   fl_array_source *out)
{
    for (size_t i = 0; i < m->tables.len; i++) {
        const fl_manifest_table *t = &m->tables.data[i];

        if (!strcmp(variable, t->name)) {
            *out = (fl_array_source){ .table = t, .field = VALUE };
            return true;
        }
        if (find_field(t, variable, out) || find_scalar(t, variable, out) ||
            find_of_trainers(m, t, variable, out))
            return true;
    }
    return false;
}

/* --- in place of a table -------------------------------------------------- */

static const fl_match_item *find_item(const fl_match_set *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->items[i].name, name))
            return &s->items[i];
    return NULL;
}

fl_match_set fl_array_set(const fl_manifest *m, const fl_match_set *program,
                          const fl_match_set *saved, fl_arena *arena)
{
    fl_match_item *items =
        fl_arena_alloc(arena, (saved->n + program->n) * sizeof(*items) + 1);
    fl_array_source from;
    size_t n = 0;

    for (size_t i = 0; i < saved->n; i++) {
        const fl_match_item *want = find_item(program, saved->items[i].name);

        if (!saved->items[i].is_table || !want || want->is_table)
            items[n++] = saved->items[i];
    }
    for (size_t i = 0; i < program->n; i++) {
        const fl_match_item *want = &program->items[i];
        const fl_match_item *have = find_item(saved, want->name);

        if (!want->is_table && (!have || have->is_table) &&
            fl_array_find(m, want->name, &from))
            items[n++] = *want;
    }
    return (fl_match_set){ saved->owner, items, n };
}

/* --- values --------------------------------------------------------------- */

/* A column of a file, checked. */
typedef struct column {
    const uint64_t *keys;
    const float *rows;
    uint64_t n;
    size_t dim;
} column;

static fl_status check_tensor(const fl_st_file *f, const char *name,
                              const fl_st_tensor **out)
{
    *out = fl_st_find(f, name);
    if (!*out)
        FL_FAIL(FL_ERR_CORRUPT, "%s has no column %s", fl_st_path(f), name);
    return fl_st_verify(f, *out, (*out)->xxh3);
}

static fl_status open_column(const fl_st_file *f, const fl_array_source *from,
                             const fl_tensor *to, column *out)
{
    const fl_st_tensor *keys, *rows;

    FL_TRY(check_tensor(f, KEY, &keys));
    FL_TRY(check_tensor(f, from->field, &rows));
    if (keys->type != FL_ST_U64 || rows->type != FL_ST_F32 ||
        keys->shape.rank != 1 || rows->shape.rank != 2 ||
        rows->shape.dim[0] != keys->shape.dim[0])
        FL_FAIL(FL_ERR_CORRUPT, "%s: columns %s and %s do not fit",
                fl_st_path(f), KEY, from->field);
    if (to->dtype != FL_DTYPE_F32 || to->shape.rank != 2 ||
        rows->shape.dim[1] != to->shape.dim[1])
        FL_FAIL(FL_ERR_INVAL,
                "table %s has rows of %" PRId64 " numbers, which is another "
                "width than that of the array",
                from->table->name, rows->shape.dim[1]);
    *out = (column){ .keys = fl_st_bytes(f, keys),
                     .rows = fl_st_bytes(f, rows),
                     .n = (uint64_t)keys->shape.dim[0],
                     .dim = (size_t)rows->shape.dim[1] };
    return FL_OK;
}

static fl_status put_rows(const column *c, const fl_array_source *from,
                          const fl_tensor *to)
{
    uint64_t height = (uint64_t)to->shape.dim[0];

    for (uint64_t i = 0; i < c->n; i++)
        if (c->keys[i] >= height)
            FL_FAIL(FL_ERR_INVAL,
                    "table %s has a row for id %" PRIu64
                    ", and the array has %" PRIu64 " rows",
                    from->table->name, c->keys[i], height);
    for (uint64_t i = 0; i < c->n; i++)
        memcpy((float *)to->data + c->keys[i] * c->dim, c->rows + i * c->dim,
               c->dim * sizeof(float));
    return FL_OK;
}

static fl_status load_file(const fl_model_version *v, const char *name,
                           const fl_array_source *from, const fl_tensor *to)
{
    fl_st_file *f;
    fl_status st;
    column c;

    FL_TRY(fl_version_map(v, name, &f));
    st = open_column(f, from, to, &c);
    if (!st)
        st = put_rows(&c, from, to);
    fl_st_close(f);
    return st;
}

static fl_status load_scalar(const fl_array_source *from, const fl_tensor *to)
{
    if (to->dtype != FL_DTYPE_F32 || fl_tensor_numel(to) != 1)
        FL_FAIL(FL_ERR_INVAL, "table %s: a scalar of its rule is one f32",
                from->table->name);
    *(float *)to->data = (float)from->scalar;
    return FL_OK;
}

static fl_status add_up(const fl_model_version *v, const fl_array_source *from,
                        const fl_tensor *to)
{
    fl_state_from trainers = { .version = v,
                               .table = from->table->name,
                               .trainer = -1,
                               .last = FL_SHARDS - 1 };

    if (to->dtype != FL_DTYPE_F32 || to->shape.rank != 2)
        FL_FAIL(FL_ERR_INVAL, "table %s: state of rows is an array of f32",
                from->table->name);
    return fl_state_rows_add_up(&trainers, from->field, to);
}

fl_status fl_array_load(const fl_model_version *v, const fl_array_source *from,
                        const fl_tensor *to)
{
    if (!from->field)
        return load_scalar(from, to);
    if (from->is_of_trainers)
        return add_up(v, from, to);
    for (size_t i = 0; i < from->table->n_files; i++)
        FL_TRY(load_file(v, from->table->files[i].file, from, to));
    return FL_OK;
}
