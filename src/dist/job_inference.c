/* job_inference.c - a model for prediction out of a job: the user's program with
 * the tables that the job has made of its sparse arrays, and the values that its
 * servers write. */
#include <string.h>

#include "dist/job.h"
#include "ops/ops.h"
#include "ps/recipe.h"

/* --- the program ---------------------------------------------------------- */

/* The pass that makes tables of arrays, if the mode has it, behind those that it
   needs to see that rows are decayed and clipped as rows. */
static const char *table_passes(const fl_job *j)
{
    return strstr(j->mode->passes, "dist_sparse")
               ? "canon_decay canon_clip dist_sparse"
               : "";
}

static fl_status with_tables(const fl_job *j, const fl_program *main,
                             fl_program **out)
{
    fl_program *startup;
    fl_dist *d = NULL;
    fl_status st;

    FL_TRY(fl_program_parse(j->model->startup, &fl_ops, &startup));
    st =
        fl_dist_new(&d, &j->dist->config, main, startup, table_passes(j), NULL);
    if (!st) {
        *out = d->main;
        d->main = NULL;
    }
    fl_dist_free(d);
    fl_program_free(startup);
    return st;
}

fl_status fl_job_user_program(const fl_job *j, fl_program **out)
{
    fl_program *main;
    fl_status st;

    if (!j->model || !j->model->program)
        FL_FAIL(
            FL_ERR_INVAL,
            "this job was connected by hand and has no program that a model "
            "for prediction could be made of; build one, and give it to "
            "fl_transpile or fl_fleet_minimize");
    FL_TRY(fl_program_parse(j->model->program, &fl_ops, &main));
    st = with_tables(j, main, out);
    fl_program_free(main);
    return st;
}

/* --- what the model is to have -------------------------------------------- */

static fl_status add_table(const fl_dist *d, const fl_var *v,
                           fl_trainer_part *to)
{
    int i = fl_dist_find_table(d, v->name);
    fl_part_table t = { 0 };
    const char *settings;

    if (i < 0)
        FL_FAIL(FL_ERR_INVAL, "the servers have no table %s", v->name);
    settings = d->tables.data[i].settings;
    FL_TRY(fl_named_check(v->name));
    fl_msg_text(t.name, v->name);
    t.settings = (fl_msg_bytes){ settings, strlen(settings) };
    fl_vec_push(&to->tables, t);
    return FL_OK;
}

static fl_status add_dense(const fl_var *v, fl_trainer_part *to)
{
    fl_named n = { .value = v->meta };

    FL_TRY(fl_named_check(v->name));
    fl_msg_text(n.name, v->name);
    fl_vec_push(&to->wholes, n);
    return FL_OK;
}

static fl_status list_variables(const fl_job *j, const fl_program *p,
                                fl_trainer_part *to)
{
    for (const fl_var *v = fl_program_main(p)->first_var; v; v = v->next) {
        if (!(v->flags & FL_VAR_PERSIST))
            continue;
        FL_TRY(v->flags & FL_VAR_TABLE ? add_table(j->dist, v, to)
                                       : add_dense(v, to));
    }
    return FL_OK;
}

static fl_status check_names(const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        FL_TRY(fl_named_check(names[i]));
    return FL_OK;
}

/* The words of the program are borrowed by it. */
static fl_status make_recipe(const fl_job *j, const fl_job_inference *in,
                             const char *text, fl_pack *out)
{
    fl_save_recipe r = {
        .feeds = { (const char **)(uintptr_t)in->feeds, in->n_feeds },
        .targets = { (const char **)(uintptr_t)in->targets, in->n_targets },
        .passes = in->passes,
        .model = { .seed = j->model->seed,
                   .main_version = j->model->main_version,
                   .program = { text, strlen(text) } }
    };
    fl_status st;

    fl_msg_text(r.model.mode, j->model->mode);
    FL_TRY(check_names(in->feeds, in->n_feeds));
    FL_TRY(check_names(in->targets, in->n_targets));
    st = list_variables(j, in->program, &r.model);
    if (!st)
        fl_save_recipe_pack(out, &r);
    fl_trainer_part_release(&r.model);
    return st;
}

static fl_save_kind kind_of(const fl_job_inference *in)
{
    return (in->delta ? FL_SAVE_KIND_DELTA : 0) |
           (in->by_score ? FL_SAVE_KIND_BY_SCORE : 0);
}

fl_status fl_job_save_inference(fl_job *j, const char *dir,
                                const fl_job_inference *in)
{
    char *text = fl_program_print(in->program);
    fl_pack recipe = { 0 };
    fl_status st = make_recipe(j, in, text, &recipe);
    fl_job_saving what = { .keep = in->keep,
                           .kind = kind_of(in),
                           .recipe = { recipe.data, recipe.len } };
    fl_save_reply saved;

    if (!st)
        st = fl_job_save_what(j, dir, &what, &saved);
    fl_pack_release(&recipe);
    fl_free(text);
    return st;
}
