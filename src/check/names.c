/* names.c - whether both models take the same, give the same and read the
 * same. */
#include "check/check.h"

#include <string.h>

#include "base/alloc.h"

/* --- inputs and outputs --------------------------------------------------- */

static const fl_model_var *find_var(const fl_model_var *all, size_t n,
                                    const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(all[i].name, name))
            return &all[i];
    return NULL;
}

/* "f32[-1,4] with 1 level" */
static const char *type_text(const fl_model_var *v, fl_str *out)
{
    char shape[FL_SHAPE_TEXT_MAX];

    out->len = 0;
    fl_str_addf(out, "%s%s", fl_dtype_text(v->dtype),
                fl_shape_text(&v->shape, shape));
    if (v->n_lod)
        fl_str_addf(out, " with %d level%s of offsets", v->n_lod,
                    v->n_lod > 1 ? "s" : "");
    return fl_str_text(out);
}

static void compare_type(fl_finding *f, const char *what,
                         const fl_model_var *right, const fl_model_var *online)
{
    fl_str a = { 0 }, b = { 0 };

    if (right->dtype != online->dtype || right->n_lod != online->n_lod ||
        !fl_shape_equal(&right->shape, &online->shape))
        fl_finding_add(f, "%s %s: %s was trained, %s is online", what,
                       right->name, type_text(right, &a),
                       type_text(online, &b));
    fl_str_release(&a);
    fl_str_release(&b);
}

/* The two lists of one kind. */
typedef struct ends {
    const char *what;
    const fl_model_var *right, *online;
    size_t n_right, n_online;
} ends;

static void compare_sets(fl_finding *f, const ends *e)
{
    for (size_t i = 0; i < e->n_right; i++) {
        const fl_model_var *v =
            find_var(e->online, e->n_online, e->right[i].name);

        f->compared++;
        if (v)
            compare_type(f, e->what, &e->right[i], v);
        else
            fl_finding_add(f,
                           "%s %s: the trained program takes it, the one that "
                           "is online does not",
                           e->what, e->right[i].name);
    }
    for (size_t i = 0; i < e->n_online; i++)
        if (!find_var(e->right, e->n_right, e->online[i].name))
            fl_finding_add(f,
                           "%s %s: the program that is online takes it, the "
                           "trained one does not",
                           e->what, e->online[i].name);
}

/* Data that names no slots is read in this order. */
static void compare_order(fl_finding *f, const ends *e)
{
    for (size_t i = 0; i < e->n_right && i < e->n_online; i++)
        if (strcmp(e->right[i].name, e->online[i].name)) {
            fl_finding_add(f,
                           "%s %zu is %s in the trained model and %s online: "
                           "data that names no slots is read otherwise",
                           e->what, i, e->right[i].name, e->online[i].name);
            return;
        }
}

/* --- variables and tables ------------------------------------------------- */

static const fl_var *find_param(const fl_var *const *all, size_t n,
                                const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(all[i]->name, name))
            return all[i];
    return NULL;
}

static fl_model_var described(const fl_var *v)
{
    return (fl_model_var){ .name = v->name,
                           .dtype = v->meta.dtype,
                           .n_lod = v->meta.n_lod,
                           .shape = v->meta.shape };
}

static void compare_params(const fl_consistency *c, fl_finding *f)
{
    size_t n_right, n_online;
    const fl_var **right = fl_recipe_reads(c->trained->recipe->plan, &n_right);
    const fl_var **online = fl_recipe_reads(c->plain->recipe->plan, &n_online);

    for (size_t i = 0; i < n_right; i++) {
        const fl_var *v = find_param(online, n_online, right[i]->name);
        fl_model_var a = described(right[i]), b;

        f->compared++;
        if (!v) {
            fl_finding_add(f, "variable %s: it is not used online", a.name);
            continue;
        }
        b = described(v);
        compare_type(f, "variable", &a, &b);
    }
    for (size_t i = 0; i < n_online; i++)
        if (!find_param(right, n_right, online[i]->name))
            fl_finding_add(f,
                           "variable %s: the trained program does not use it",
                           online[i]->name);
    fl_free(right);
    fl_free(online);
}

/* Tables of the trained model that are not online are no part of the model for
   prediction, unless a program reads them: its variables tell. */
static void compare_tables(const fl_consistency *c, fl_finding *f)
{
    const fl_rules *online = &c->online->rules;

    for (size_t i = 0; i < online->len; i++) {
        const fl_table *t = online->data[i];
        const fl_table *right =
            fl_rules_find(&c->trained->rules, fl_table_name(t));

        f->compared++;
        if (!right)
            fl_finding_add(f, "table %s: the trained model has none",
                           fl_table_name(t));
        else if (fl_table_dim(right) != fl_table_dim(t))
            fl_finding_add(f,
                           "table %s: rows of %u numbers were trained, of %u "
                           "are online",
                           fl_table_name(t), fl_table_dim(right),
                           fl_table_dim(t));
    }
}

void fl_check_names(fl_consistency *c)
{
    const fl_recipe *right = c->trained->recipe, *online = c->online->recipe;
    fl_finding *f = &c->findings[FL_CHECK_NAMES];
    ends in = { .what = "slot",
                .right = right->inputs,
                .n_right = right->n_inputs,
                .online = online->inputs,
                .n_online = online->n_inputs };
    ends out = { .what = "output",
                 .right = right->outputs,
                 .n_right = right->n_outputs,
                 .online = online->outputs,
                 .n_online = online->n_outputs };

    compare_sets(f, &in);
    compare_sets(f, &out);
    if (!c->has_training_program && in.n_right == in.n_online)
        compare_order(f, &in);
    compare_params(c, f);
    compare_tables(c, f);
}
