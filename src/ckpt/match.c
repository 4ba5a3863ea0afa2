/* match.c - names of a program against names of a model. */
#include "ckpt/match.h"

#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "ckpt/dense.h"
#include "flotilla/words.h"
#include "optim/rule.h"
#include "table/table.h"

/* What is said of all problems together ends here; the log has the rest. */
#define PROBLEMS_TEXT_MAX 800

typedef struct matching {
    const fl_match_set *program, *model;
    const fl_match_options *options;
    fl_arena arena;
    fl_map wants, haves; /* names to 1 + places */
    fl_map renamed;      /* new names to old ones */
    bool *is_used;       /* by item of the model */
    FL_VEC(char *) problems;
    fl_match_pairs *out;
} matching;

static void *place(size_t i)
{
    return (void *)(uintptr_t)(i + 1);
}

/* NULL: there is none. */
static const fl_match_item *find(const fl_map *map, const fl_match_set *in,
                                 const char *name)
{
    uintptr_t at = (uintptr_t)fl_map_find(map, name);

    return at ? &in->items[at - 1] : NULL;
}

static bool has_name(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

/* --- saying --------------------------------------------------------------- */

static const char *item_text(const fl_match_item *i, fl_arena *arena)
{
    char shape[FL_SHAPE_TEXT_MAX];

    if (i->is_table)
        return fl_arena_printf(arena, "a table of rows of %lld",
                               (long long)i->shape.dim[1]);
    return fl_arena_printf(arena, "%s%s", fl_st_type_text(i->type),
                           fl_shape_text(&i->shape, shape));
}

/* ", the nearest is fc_0.w_0", or nothing. */
static const char *nearest_text(matching *m, const char *name,
                                const fl_match_set *in)
{
    const char **names = fl_alloc(in->n * sizeof(*names) + 1);
    const char *nearest;

    for (size_t i = 0; i < in->n; i++)
        names[i] = in->items[i].name;
    nearest = fl_nearest_name(name, names, in->n);
    fl_free(names);
    return nearest ? fl_arena_printf(&m->arena, " (the nearest is %s)", nearest)
                   : "";
}

static void add_problem(matching *m, char *text)
{
    fl_vec_push(&m->problems, text);
}

static fl_status say_problems(matching *m)
{
    fl_str all = { 0 };
    size_t n = 0;

    if (!m->problems.len)
        return FL_OK;
    for (size_t i = 0; i < m->problems.len; i++)
        FL_WARN("ckpt", "%s", m->problems.data[i]);
    for (; n < m->problems.len && all.len < PROBLEMS_TEXT_MAX; n++)
        fl_str_addf(&all, "%s%s", n ? "; " : "", m->problems.data[n]);
    if (n < m->problems.len)
        fl_str_addf(&all, "; and %zu more, which the log has",
                    m->problems.len - n);
    (void)fl_err_set(FL_ERR_INVAL, "%s does not fit %s: %s", m->model->owner,
                     m->program->owner, all.data);
    fl_str_release(&all);
    return FL_ERR_INVAL;
}

/* --- state of optimizers -------------------------------------------------- */

/* Does `text`, which has len characters, end in _suffix? Where that begins. */
static size_t cut_suffix(const char *text, size_t len, const char *suffix)
{
    size_t n = strlen(suffix);

    if (len < n + 2 || text[len - n - 1] != '_' ||
        memcmp(text + len - n, suffix, n) != 0)
        return 0;
    return len - n - 1;
}

size_t fl_match_state_of(const char *name)
{
    size_t len = strlen(name);

    while (len && name[len - 1] >= '0' && name[len - 1] <= '9')
        len--;
    if (len < 2 || name[len - 1] != '_' || !name[len])
        return 0;
    for (size_t r = 0; r < fl_rule_count(); r++)
        for (size_t i = 0; fl_rule_state_at(fl_rule_at(r), i); i++) {
            const char *s = fl_rule_state_at(fl_rule_at(r), i)->suffix;
            size_t at = cut_suffix(name, len - 1, s);

            if (at)
                return at;
        }
    return 0;
}

bool fl_match_adds_up(const char *name)
{
    size_t len = fl_match_state_of(name);

    for (size_t r = 0; len && r < fl_rule_count(); r++) {
        const fl_rule *rule = fl_rule_at(r);

        for (int i = 0; i < fl_rule_n_states(rule); i++) {
            size_t n = strlen(rule->states[i].suffix);

            if (!strncmp(name + len + 1, rule->states[i].suffix, n) &&
                name[len + 1 + n] == '_')
                return true;
        }
    }
    return false;
}

/* State that is left to begin anew. */
static bool is_fresh(const matching *m, const char *name)
{
    return m->options->is_fresh_state && fl_match_state_of(name);
}

/* --- names ---------------------------------------------------------------- */

/* The name under which the model has what is called `name` here. State follows
   its parameter. */
static const char *saved_name(matching *m, const char *name)
{
    size_t len = fl_match_state_of(name);
    const char *old = fl_map_find(&m->renamed, name);
    char *param;

    if (old || !len)
        return old ? old : name;
    param = fl_arena_printf(&m->arena, "%.*s", (int)len, name);
    old = fl_map_find(&m->renamed, param);
    return old ? fl_arena_printf(&m->arena, "%s%s", old, name + len) : name;
}

/* Has this name of the model become another one? */
static bool is_renamed(const matching *m, const char *old)
{
    for (size_t i = 0; i < m->options->n_renames; i++) {
        const char *r = m->options->renames[i];

        if (!strncmp(r, old, strlen(old)) && r[strlen(old)] == '=')
            return true;
    }
    return false;
}

static fl_status read_rename(matching *m, const char *text)
{
    const char *sign = strchr(text, '=');
    const char *old, *new_name;

    if (!sign || sign == text || !sign[1])
        FL_FAIL(FL_ERR_INVAL, "'%s' is no renaming: write old=new", text);
    old = fl_arena_printf(&m->arena, "%.*s", (int)(sign - text), text);
    new_name = fl_arena_strdup(&m->arena, sign + 1);
    if (!find(&m->haves, m->model, old))
        FL_FAIL(FL_ERR_NOTFOUND, "renaming %s: %s has no %s%s", text,
                m->model->owner, old, nearest_text(m, old, m->model));
    if (!find(&m->wants, m->program, new_name))
        FL_FAIL(FL_ERR_NOTFOUND, "renaming %s: %s has no %s%s", text,
                m->program->owner, new_name,
                nearest_text(m, new_name, m->program));
    if (fl_map_find(&m->renamed, new_name))
        FL_FAIL(FL_ERR_INVAL, "renaming %s: there are two for %s", text,
                new_name);
    fl_map_put(&m->renamed, new_name, (void *)(uintptr_t)old);
    return FL_OK;
}

/* Names that the caller gave are the program's. */
static fl_status check_names(matching *m, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!find(&m->wants, m->program, names[i]))
            FL_FAIL(FL_ERR_NOTFOUND, "%s has no variable %s%s to load",
                    m->program->owner, names[i],
                    nearest_text(m, names[i], m->program));
    return FL_OK;
}

static fl_status read_options(matching *m)
{
    const fl_match_options *o = m->options;

    FL_TRY(check_names(m, o->names, o->n_names));
    FL_TRY(check_names(m, o->resizes, o->n_resizes));
    for (size_t i = 0; i < o->n_renames; i++)
        FL_TRY(read_rename(m, o->renames[i]));
    return FL_OK;
}

/* --- matching ------------------------------------------------------------- */

static bool same_shape(const fl_match_item *want, const fl_match_item *have)
{
    if (want->is_table)
        return want->shape.dim[1] == have->shape.dim[1];
    return fl_shape_matches(&want->shape, &have->shape);
}

static bool can_resize(matching *m, const fl_match_item *want,
                       const fl_match_item *have)
{
    const char *name = want->name;
    size_t len = fl_match_state_of(name);
    char *param;

    if (want->shape.rank != have->shape.rank)
        return false;
    if (has_name(m->options->resizes, m->options->n_resizes, name))
        return true;
    if (!len)
        return false;
    param = fl_arena_printf(&m->arena, "%.*s", (int)len, name);
    return has_name(m->options->resizes, m->options->n_resizes, param);
}

static void match_item(matching *m, size_t i, const fl_match_item *have)
{
    const fl_match_item *want = &m->program->items[i];
    fl_match_pair pair = { .want = i,
                           .have = (size_t)(have - m->model->items) };
    const char *is = item_text(want, &m->arena);
    const char *was = item_text(have, &m->arena);

    m->is_used[pair.have] = true;
    pair.is_resized = !same_shape(want, have);
    if (want->is_table != have->is_table || want->type != have->type ||
        (pair.is_resized && !can_resize(m, want, have))) {
        add_problem(m,
                    fl_arena_printf(&m->arena, "%s is %s, but was saved as %s",
                                    want->name, is, was));
        return;
    }
    if (pair.is_resized)
        FL_INFO("ckpt", "loading %s: %s becomes %s", want->name, was, is);
    if (strcmp(want->name, have->name) != 0)
        FL_INFO("ckpt", "loading %s from what was saved as %s", want->name,
                have->name);
    fl_vec_push(m->out, pair);
}

static void match_want(matching *m, size_t i)
{
    const fl_match_item *want = &m->program->items[i], *have;
    const char *old = saved_name(m, want->name);

    have = find(&m->haves, m->model, old);
    if (have && is_renamed(m, have->name) && !strcmp(old, want->name))
        have = NULL;
    if (want->is_passed_over ||
        (m->options->n_names &&
         !has_name(m->options->names, m->options->n_names, want->name))) {
        if (have)
            m->is_used[have - m->model->items] = true;
        return;
    }
    if (is_fresh(m, want->name)) {
        FL_INFO("ckpt", "%s begins anew", want->name);
        if (have)
            m->is_used[have - m->model->items] = true;
    } else if (have) {
        match_item(m, i, have);
    } else {
        add_problem(m,
                    fl_arena_printf(&m->arena, "%s was not saved%s", want->name,
                                    nearest_text(m, old, m->model)));
    }
}

static void check_extra(matching *m)
{
    for (size_t i = 0; i < m->model->n && !m->options->n_names; i++) {
        const char *name = m->model->items[i].name;

        if (!m->is_used[i] && !is_fresh(m, name))
            add_problem(m, fl_arena_printf(&m->arena,
                                           "%s was saved, but %s has none%s",
                                           name, m->program->owner,
                                           nearest_text(m, name, m->program)));
    }
}

static void index_names(fl_map *map, const fl_match_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        fl_map_put(map, set->items[i].name, place(i));
}

fl_status fl_match(const fl_match_set *program, const fl_match_set *model,
                   const fl_match_options *options, fl_match_pairs *out)
{
    matching m = { .program = program,
                   .model = model,
                   .options = options,
                   .is_used = fl_alloc(model->n + 1),
                   .out = out };
    fl_status st;

    fl_arena_init(&m.arena, 4096);
    index_names(&m.wants, program);
    index_names(&m.haves, model);
    st = read_options(&m);
    for (size_t i = 0; !st && i < program->n; i++)
        match_want(&m, i);
    if (!st)
        check_extra(&m);
    if (!st)
        st = say_problems(&m);
    fl_vec_release(&m.problems);
    fl_map_release(&m.wants);
    fl_map_release(&m.haves);
    fl_map_release(&m.renamed);
    fl_arena_release(&m.arena);
    fl_free(m.is_used);
    return st;
}

/* --- what a model has ----------------------------------------------------- */

/* The width of a row; 0 when the settings cannot be read. */
static int64_t table_dim(const fl_manifest_table *t)
{
    fl_table_config c;

    return fl_table_config_parse(&c, t->name, t->settings, t->seed) ? 0 : c.dim;
}

fl_match_set fl_match_saved(const fl_manifest *m, const char *owner,
                            fl_arena *arena)
{
    const fl_manifest_file *dense = fl_manifest_find_file(m, FL_DENSE_FILE);
    size_t n_dense = dense ? dense->n_tensors : 0, n = 0;
    fl_match_item *items =
        fl_arena_alloc(arena, (n_dense + m->tables.len) * sizeof(*items) + 1);

    for (; n < n_dense; n++)
        items[n] = (fl_match_item){ .name = dense->tensors[n].name,
                                    .type = dense->tensors[n].type,
                                    .shape = dense->tensors[n].shape };
    for (size_t i = 0; i < m->tables.len; i++)
        items[n++] = (fl_match_item){
            .name = m->tables.data[i].name,
            .is_table = true,
            .shape = fl_shape_of(
                2, (int64_t[]){ -1, table_dim(&m->tables.data[i]) }),
        };
    return (fl_match_set){ owner, items, n };
}

/* --- what a program has --------------------------------------------------- */

static fl_match_item item_of(const fl_var *v, bool params_only)
{
    return (fl_match_item){ .name = v->name,
                            .is_table = v->flags & FL_VAR_TABLE,
                            .is_passed_over =
                                params_only && !(v->flags & FL_VAR_PARAM),
                            .type = fl_st_type_of(v->meta.dtype),
                            .shape = v->meta.shape };
}

static size_t count_vars(const fl_program *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->blocks.len; i++)
        for (const fl_var *v = p->blocks.data[i]->first_var; v; v = v->next)
            n += (v->flags & FL_VAR_PERSIST) != 0;
    return n;
}

fl_match_set fl_match_program(const fl_program *p, bool params_only,
                              fl_arena *arena)
{
    fl_match_item *items =
        fl_arena_alloc(arena, count_vars(p) * sizeof(*items) + 1);
    size_t n = 0;

    for (size_t i = 0; i < p->blocks.len; i++)
        for (const fl_var *v = p->blocks.data[i]->first_var; v; v = v->next)
            if (v->flags & FL_VAR_PERSIST)
                items[n++] = item_of(v, params_only);
    return (fl_match_set){ "the program", items, n };
}
