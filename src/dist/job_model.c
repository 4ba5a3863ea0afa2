/* job_model.c - a job as the user's program sees it. */
#include "dist/job_model.h"

#include <stdlib.h>
#include <string.h>

#include "ir/attr.h"
#include "pass/match.h"
#include "ps/msg/calls.h"
#include "ps/trainer_part.h"

#define BLOCK_SUFFIX ".block"

/* --- which variables there are -------------------------------------------- */

static bool has_persistent(const fl_program *p, const char *name)
{
    const fl_var *v = fl_block_find_var(fl_program_main(p), name);

    return v && (v->flags & (FL_VAR_PERSIST | FL_VAR_PARAM));
}

/* Some server has it, or the first block of it. */
static bool is_served(const fl_dist *d, const char *name, fl_arena *tmp)
{
    const char *block = fl_arena_printf(tmp, "%s" BLOCK_SUFFIX "0", name);

    for (size_t i = 0; i < d->servers.len; i++)
        if (has_persistent(d->servers.data[i].main, name) ||
            has_persistent(d->servers.data[i].main, block))
            return true;
    return false;
}

/* A parameter that an update of this variable is for; NULL: there is none. */
static const fl_var *updated_with(const fl_op_node *n, const fl_var *v)
{
    const fl_var *param = fl_match_in(n, "Param");
    fl_update u;

    return param && fl_node_update(n, &u) && fl_node_uses_var(n, v) &&
                   v != fl_match_in(n, "LearningRate")
               ? param
               : NULL;
}

/* The state of an array that became a table is in the rows of that. */
static bool is_state_of_table(const fl_dist *d, const fl_program *main,
                              const fl_var *v)
{
    for (const fl_op_node *n = fl_program_main(main)->first; n; n = n->next) {
        const fl_var *param = updated_with(n, v);

        if (param && fl_dist_find_table(d, param->name) >= 0)
            return true;
    }
    return false;
}

static bool is_alike(const fl_dist *d, const fl_program *main, const fl_var *v)
{
    if (!d->config.updates_alike)
        return false;
    for (const fl_op_node *n = fl_program_main(main)->first; n; n = n->next)
        if (updated_with(n, v))
            return true;
    return false;
}

static bool is_dense(const fl_dist *d, const fl_program *main, const fl_var *v)
{
    return (v->flags & (FL_VAR_PERSIST | FL_VAR_PARAM)) &&
           !(v->flags & FL_VAR_TABLE) && fl_dist_find_table(d, v->name) < 0 &&
           !is_state_of_table(d, main, v);
}

static void list_vars(fl_job_model *m, const fl_dist *d, const fl_program *main)
{
    const fl_var *v = fl_program_main(main)->first_var;

    for (; v; v = v->next) {
        fl_job_var var = { .name = fl_arena_strdup(&m->arena, v->name),
                           .meta = v->meta };

        if (!is_dense(d, main, v))
            continue;
        var.is_served = is_served(d, v->name, &m->arena);
        var.is_alike = is_alike(d, main, v);
        fl_vec_push(&m->vars, var);
    }
}

fl_job_model *fl_job_model_new(const fl_dist *d, const fl_program *main,
                               const fl_program *startup)
{
    fl_job_model *m = fl_alloc(sizeof(*m));

    fl_arena_init(&m->arena, 4 << 10);
    m->mode = fl_arena_strdup(&m->arena, d->config.mode);
    if (!main)
        return m;
    m->main = main;
    m->program = fl_program_print(main);
    m->startup = fl_program_print(startup);
    m->seed = startup->seed;
    m->main_version = main->version;
    m->startup_version = startup->version;
    list_vars(m, d, main);
    return m;
}

void fl_job_model_free(fl_job_model *m)
{
    if (!m)
        return;
    fl_free(m->program);
    fl_free(m->startup);
    fl_vec_release(&m->vars);
    fl_arena_release(&m->arena);
    fl_free(m);
}

/* --- what a trainer brings ------------------------------------------------ */

static fl_msg_bytes text_of(const char *text)
{
    return text ? (fl_msg_bytes){ text, strlen(text) } : (fl_msg_bytes){ 0 };
}

static fl_status add_named(const char *name, const fl_tensor *t, fl_named *out)
{
    FL_TRY(fl_named_check(name));
    fl_msg_text(out->name, name);
    out->value = *t;
    return FL_OK;
}

/* Another trainer brings it, or a server has it. */
static bool is_left_out(const fl_dist *d, const fl_job_var *v)
{
    return v->is_served || (v->is_alike && d->config.rank);
}

/* What the trainers of a job have, with room for what is counted for the
   program: there is one number for each of its counters. */
typedef struct own_values {
    const fl_dist *d;
    const fl_job_own *own;
    int64_t *counts;
} own_values;

/* In one process the program counts its steps itself, and goes on from this. */
static bool find_count(const own_values *o, const fl_job_var *v, fl_tensor *out)
{
    if (v->meta.dtype != FL_DTYPE_I64 || fl_shape_numel(&v->meta.shape) != 1)
        return false;
    for (size_t i = 0; i < o->d->counters.len; i++) {
        const fl_dist_counter *c = &o->d->counters.data[i];

        if (strcmp(c->name, v->name))
            continue;
        o->counts[i] = c->first + (int64_t)o->own->step;
        *out = v->meta;
        out->data = &o->counts[i];
        return true;
    }
    return false;
}

static fl_status add_var(const own_values *o, const fl_job_var *v,
                         fl_trainer_part *part)
{
    fl_named named = { 0 };
    fl_tensor value;

    FL_TRY(add_named(v->name, &v->meta, &named));
    fl_vec_push(&part->wholes, named);
    if (is_left_out(o->d, v))
        return FL_OK;
    if (!find_count(o, v, &value) &&
        !fl_scope_find(o->own->scope, v->name, &value))
        return FL_OK;
    if (value.kind != FL_KIND_DENSE || value.n_lod)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s is not dense, and only dense ones are saved",
                v->name);
    named.value = value;
    fl_vec_push(&part->values, named);
    return FL_OK;
}

/* Where servers have values alone, their tables are other ones. */
static fl_status add_tables(const fl_dist *d, fl_trainer_part *part)
{
    for (size_t i = 0; i < d->tables.len && !d->config.server_adds; i++) {
        fl_part_table t = { .settings = text_of(d->tables.data[i].settings) };

        FL_TRY(fl_named_check(d->tables.data[i].name));
        fl_msg_text(t.name, d->tables.data[i].name);
        fl_vec_push(&part->tables, t);
    }
    return FL_OK;
}

static fl_status add_rows(const fl_state_rows *rows, fl_trainer_part *part)
{
    for (size_t i = 0; i < rows->list.len; i++) {
        const fl_named_tensor *t = &rows->list.data[i];
        fl_named named = { 0 };

        FL_TRY(add_named(t->name, &t->value, &named));
        fl_vec_push(&part->values, named);
    }
    return FL_OK;
}

fl_status fl_job_model_pack(const fl_job_model *m, const fl_dist *d,
                            const fl_job_own *own, fl_pack *out)
{
    fl_trainer_part part = { .seed = m->seed,
                             .main_version = m->main_version,
                             .startup_version = m->startup_version,
                             .position = text_of(own->position),
                             .program = text_of(m->program),
                             .startup = text_of(m->startup) };
    own_values o = { .d = d,
                     .own = own,
                     .counts =
                         fl_alloc((d->counters.len + 1) * sizeof(*o.counts)) };
    fl_status st = add_tables(d, &part);

    fl_msg_text(part.mode, m->mode);
    for (size_t i = 0; i < m->vars.len && !st; i++)
        st = add_var(&o, &m->vars.data[i], &part);
    if (!st)
        st = add_rows(&own->rows, &part);
    if (!st)
        fl_trainer_part_pack(out, &part);
    fl_trainer_part_release(&part);
    fl_free(o.counts);
    return st;
}
