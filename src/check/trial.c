/* trial.c - a program that is run to see what it computes. */
#include "check/trial.h"

#include <string.h>

#define NOMINAL_BATCH 64
#define PENDING_TIMEOUT_MS 60000

/* --- making --------------------------------------------------------------- */

static void fetch_all(fl_program *p)
{
    for (const fl_op_node *n = fl_program_main(p)->first; n; n = n->next)
        for (int s = 0; s < fl_node_n_out(n); s++)
            for (int i = 0; i < n->out[s].n; i++) {
                const fl_var *v = n->out[s].vars[i];

                if (v && !(v->flags & FL_VAR_PERSIST) &&
                    !fl_program_is_fetched(p, v->name))
                    fl_program_fetch(p, v->name);
            }
}

static fl_status make_plan(fl_trial *t, fl_program *p)
{
    fl_plan_options o = { .nominal_batch = NOMINAL_BATCH };
    fl_map fed = { 0 };
    fl_status st;

    for (const fl_var *v = fl_program_main(p)->first_var; v; v = v->next)
        if (v->flags & FL_VAR_DATA)
            fl_map_put(&fed, v->name, t);
    o.fed = &fed;
    st = fl_plan_new(&t->plan, p, &o);
    fl_map_release(&fed);
    return st;
}

fl_status fl_trial_init(fl_trial *t, fl_program *p,
                        const fl_pass_options *passes,
                        const fl_trial_home *home, fl_trial_view view)
{
    fl_status st = fl_passes_run(p, passes);

    if (st) {
        fl_program_free(p);
        return st;
    }
    if (view == FL_VIEW_ALL)
        fetch_all(p);
    FL_TRY(make_plan(t, p));
    fl_frozen_init(&t->rows);
    fl_frozen_use(&t->rows, home->rules, home->rows);
    t->options = (fl_exec_options){ .slice_min_elements = INT64_MAX,
                                    .pending_timeout_ms = PENDING_TIMEOUT_MS,
                                    .is_frozen = true,
                                    .scope = home->scope,
                                    .comm = &t->rows.port };
    t->runner = fl_runner_new(t->plan, &t->options, NULL, 1, 0);
    return FL_OK;
}

void fl_trial_release(fl_trial *t)
{
    if (t->runner)
        fl_runner_free(t->runner);
    if (t->plan)
        fl_plan_free(t->plan);
    *t = (fl_trial){ 0 };
}

/* --- running -------------------------------------------------------------- */

/* Rows of 12 numbers may be rows of 3 x 4. */
static fl_tensor fit(const fl_tensor *value, const fl_tensor *meta,
                     size_t n_records)
{
    fl_tensor t = *value;
    fl_shape shape = meta->shape;

    if (meta->n_lod || t.kind != FL_KIND_DENSE || !shape.rank)
        return t;
    shape.dim[0] = (int64_t)n_records;
    if (fl_shape_numel(&shape) == fl_tensor_numel(&t))
        t.shape = shape;
    return t;
}

static const fl_feed *find_slot(const fl_trial_batch *b, const char *name)
{
    for (size_t i = 0; i < b->n_slots; i++)
        if (!strcmp(b->slots[i].name, name))
            return &b->slots[i];
    return NULL;
}

static fl_status feed_all(fl_trial *t, const fl_trial_batch *b)
{
    for (int i = 0; i < t->plan->n_vars; i++) {
        const fl_plan_var *v = &t->plan->vars[i];
        const fl_feed *slot;
        fl_tensor value;

        if (v->home != FL_HOME_FEED)
            continue;
        slot = find_slot(b, v->var->name);
        if (!slot)
            FL_FAIL(FL_ERR_NOTFOUND,
                    "the program takes %s, which is no slot of the data",
                    v->var->name);
        value = fit(&slot->value, &v->var->meta, b->n_records);
        FL_TRY(fl_runner_feed(t->runner, i, &value));
    }
    return FL_OK;
}

fl_status fl_trial_run(fl_trial *t, const fl_trial_batch *b)
{
    FL_TRY(feed_all(t, b));
    FL_TRY(fl_runner_begin(t->runner, 0, b->n_records));
    return fl_runner_run(t->runner, FL_PART_ALL, NULL);
}

const fl_tensor *fl_trial_find(const fl_trial *t, const char *name)
{
    int at = fl_plan_find(t->plan, name);

    return at < 0 ? NULL : &t->runner->tensors[at];
}
