/* recipe.c - from the text of a program to a plan. */
#include "serve/recipe.h"

#include <string.h>

#include "base/alloc.h"
#include "ops/ops.h"

/* Stands for the batch when places are chosen. */
#define NOMINAL_BATCH 64

/* --- the program ---------------------------------------------------------- */

static fl_status prune(fl_program **p, fl_names_list targets)
{
    fl_program *pruned;
    fl_status st = fl_inference_program(&pruned, *p, targets);

    if (st)
        return st;
    fl_program_free(*p);
    *p = pruned;
    return FL_OK;
}

/* As it was saved: with the targets as fetches, checked. */
static fl_status read_program(fl_program **out, const fl_recipe_spec *spec)
{
    fl_program *p;
    fl_status st;

    FL_TRY(fl_program_parse(spec->text, &fl_ops, &p));
    st = prune(&p, spec->targets);
    if (!st)
        fl_inference_use_tables(p, spec->tables);
    if (!st && !spec->is_training)
        st = fl_inference_check_feeds(p, spec->feeds);
    if (!st)
        st = fl_program_verify(p);
    if (st) {
        fl_program_free(p);
        return st;
    }
    *out = p;
    return FL_OK;
}

/* --- inputs and outputs --------------------------------------------------- */

static fl_model_var describe(const fl_program *p, const char *name)
{
    const fl_var *v = fl_block_find_var(fl_program_main(p), name);

    return (fl_model_var){ .name = fl_strdup(name),
                           .dtype = v->meta.dtype,
                           .n_lod = v->meta.n_lod,
                           .shape = v->meta.shape };
}

static fl_model_var *describe_all(const fl_program *p, fl_names_list l)
{
    fl_model_var *v = fl_alloc((l.n + 1) * sizeof(*v));

    for (size_t i = 0; i < l.n; i++)
        v[i] = describe(p, l.names[i]);
    return v;
}

static void describe_ends(fl_recipe *r, const fl_program *p,
                          const fl_recipe_spec *spec)
{
    const char **found = NULL;
    fl_names_list feeds = spec->feeds;

    if (spec->is_training) {
        found = fl_inference_feeds(p, &feeds.n);
        feeds.names = found;
    }
    r->inputs = describe_all(p, feeds);
    r->outputs = describe_all(p, spec->targets);
    r->n_inputs = feeds.n;
    r->n_outputs = spec->targets.n;
    fl_free(found);
}

static int *find_all(const fl_plan *p, const fl_model_var *v, size_t n)
{
    int *at = fl_alloc((n + 1) * sizeof(*at));

    for (size_t i = 0; i < n; i++)
        at[i] = fl_plan_find(p, v[i].name);
    return at;
}

/* Beside each other they are one or two lines of the cache, as are not the
   inputs, which every run would have to fetch. */
static char *join_names(const fl_model_var *v, size_t n)
{
    size_t len = 0;
    char *all, *at;

    for (size_t i = 0; i < n; i++)
        len += strlen(v[i].name) + 1;
    at = all = fl_alloc(len + 1);
    for (size_t i = 0; i < n; i++, at += strlen(at) + 1)
        memcpy(at, v[i].name, strlen(v[i].name) + 1);
    return all;
}

/* --- the plan ------------------------------------------------------------- */

/* Takes the program, also on failure. */
static fl_status make_plan(fl_recipe *r, fl_program *p)
{
    fl_plan_options o = { .nominal_batch = NOMINAL_BATCH };
    fl_map fed = { 0 };
    fl_status st = fl_passes_run(p, &r->passes);

    if (st) {
        fl_program_free(p);
        return st;
    }
    for (size_t i = 0; i < r->n_inputs; i++)
        fl_map_put(&fed, r->inputs[i].name, r);
    o.fed = &fed;
    st = fl_plan_new(&r->plan, p, &o);
    fl_map_release(&fed);
    return st;
}

static void keep_spec(fl_recipe *r, const fl_recipe_spec *spec)
{
    atomic_init(&r->refs, 1);
    r->text = fl_strdup(spec->text);
    r->tables = fl_names_copy(spec->tables);
    r->passes = spec->passes;
    r->passes.dump.dir = NULL;
    if (spec->passes.skip)
        r->passes.skip = fl_strdup(spec->passes.skip);
    r->passes.precision = fl_precision_copy(&spec->passes.precision);
}

fl_status fl_recipe_new(fl_recipe **out, const fl_recipe_spec *spec)
{
    fl_program *p;
    fl_recipe *r;
    fl_status st;

    FL_TRY(read_program(&p, spec));
    r = fl_alloc(sizeof(*r));
    keep_spec(r, spec);
    describe_ends(r, p, spec);
    st = make_plan(r, p);
    if (st) {
        fl_recipe_unref(r);
        return st;
    }
    r->input_at = find_all(r->plan, r->inputs, r->n_inputs);
    r->output_at = find_all(r->plan, r->outputs, r->n_outputs);
    r->input_names = join_names(r->inputs, r->n_inputs);
    *out = r;
    return FL_OK;
}

/* --- references ----------------------------------------------------------- */

fl_recipe *fl_recipe_ref(fl_recipe *r)
{
    atomic_fetch_add(&r->refs, 1);
    return r;
}

static void free_vars(fl_model_var *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fl_free((void *)(uintptr_t)v[i].name);
    fl_free(v);
}

void fl_recipe_unref(fl_recipe *r)
{
    if (!r || atomic_fetch_sub(&r->refs, 1) > 1)
        return;
    fl_plan_free(r->plan);
    free_vars(r->inputs, r->n_inputs);
    free_vars(r->outputs, r->n_outputs);
    fl_free(r->input_at);
    fl_free(r->output_at);
    fl_free(r->input_names);
    fl_free((void *)(uintptr_t)r->passes.skip);
    fl_precision_release(&r->passes.precision);
    fl_names_free(r->tables);
    fl_free(r->text);
    fl_free(r);
}

/* --- comparing ------------------------------------------------------------ */

static bool same_names(const fl_model_var *v, size_t n, fl_names_list l)
{
    if (n != l.n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (strcmp(v[i].name, l.names[i]))
            return false;
    return true;
}

static bool same_lists(fl_names_list a, fl_names_list b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (strcmp(a.names[i], b.names[i]))
            return false;
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return !strcmp(a ? a : "", b ? b : "");
}

bool fl_recipe_fits(const fl_recipe *r, const fl_recipe_spec *spec)
{
    return same_text(r->text, spec->text) &&
           same_lists(r->tables, spec->tables) &&
           r->passes.optimize == spec->passes.optimize &&
           same_text(r->passes.skip, spec->passes.skip) &&
           fl_precision_equal(&r->passes.precision, &spec->passes.precision) &&
           (spec->is_training ||
            same_names(r->inputs, r->n_inputs, spec->feeds)) &&
           same_names(r->outputs, r->n_outputs, spec->targets);
}

static bool same_var(const fl_model_var *a, const fl_model_var *b)
{
    return !strcmp(a->name, b->name) && a->dtype == b->dtype &&
           a->n_lod == b->n_lod && fl_shape_equal(&a->shape, &b->shape);
}

static fl_status differs(const char *what, const fl_model_var *now,
                         const fl_model_var *before)
{
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];

    FL_FAIL(FL_ERR_INVAL,
            "its %s %s (%s%s, %d levels) was %s (%s%s, %d levels); open the "
            "model anew to use it",
            what, now->name, fl_dtype_text(now->dtype),
            fl_shape_text(&now->shape, a), now->n_lod, before->name,
            fl_dtype_text(before->dtype), fl_shape_text(&before->shape, b),
            before->n_lod);
}

static fl_status check_vars(const char *what, const fl_model_var *now,
                            const fl_model_var *before, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!same_var(&now[i], &before[i]))
            return differs(what, &now[i], &before[i]);
    return FL_OK;
}

fl_status fl_recipe_check_same(const fl_recipe *r, const fl_recipe *before)
{
    if (r->n_inputs != before->n_inputs || r->n_outputs != before->n_outputs)
        FL_FAIL(FL_ERR_INVAL,
                "it has %zu inputs and %zu outputs and not %zu and %zu; open "
                "the model anew to use it",
                r->n_inputs, r->n_outputs, before->n_inputs, before->n_outputs);
    FL_TRY(check_vars("input", r->inputs, before->inputs, r->n_inputs));
    return check_vars("output", r->outputs, before->outputs, r->n_outputs);
}

/* --- parameters ----------------------------------------------------------- */

const fl_var **fl_recipe_reads(const fl_plan *p, size_t *n)
{
    FL_VEC(const fl_var *) all = { 0 };

    for (int i = 0; i < p->n_vars; i++) {
        const fl_plan_var *v = &p->vars[i];

        if (v->home == FL_HOME_SCOPE &&
            (v->read_first || (v->fetched && !v->n_writers)))
            fl_vec_push(&all, v->var);
    }
    *n = all.len;
    return all.data;
}
