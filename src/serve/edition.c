/* edition.c - a version of a model, from its files to what runs use.
 *
 * A delta is opened with all that it stands on, down to a whole version or to the
 * edition in use. Dense values are whole in every version; what is computed is
 * said by the whole one.
 */
#include "serve/edition.h"

#include <string.h>

#include "base/alloc.h"
#include "ckpt/folder.h"
#include "serve/mapped.h"

#define DENSE "dense.safetensors"
#define PROGRAM "program.txt"

_Static_assert(FL_EDITION_ID_MAX >= FL_VERSION_ID_MAX, "an id fits");

typedef FL_VEC(fl_model_version *) versions; /* the newest first */

static void close_all(versions *all)
{
    for (size_t i = 0; i < all->len; i++)
        fl_version_close(all->data[i]);
    fl_vec_release(all);
}

/* --- the chain ------------------------------------------------------------ */

/* A version has a smaller number than what stands on it, so a chain ends. */
static fl_status open_base(fl_model_version **out, const fl_model_version *v)
{
    const char *base = v->manifest.base;

    if (!base || !fl_version_is_id(base) ||
        fl_version_number(base) >= fl_version_number(v->id))
        FL_FAIL(FL_ERR_CORRUPT,
                "%s is a delta to '%s', which cannot be an older version",
                v->path, base ? base : "");
    return fl_err_ctx(fl_version_open_id(out, v->dir, base),
                      "%s is a delta to %s", v->path, base);
}

static bool stands_on(const fl_model_version *v, const fl_edition *before)
{
    return before && v->manifest.base && !strcmp(v->manifest.base, before->id);
}

/* Down to a whole version, or to a delta to what is in use. */
static fl_status open_chain(versions *all, const char *path,
                            const fl_edition *before)
{
    fl_model_version *v;

    FL_TRY(fl_version_open(&v, path));
    fl_vec_push(all, v);
    while (v->manifest.kind == FL_MANIFEST_DELTA && !stands_on(v, before)) {
        FL_TRY(open_base(&v, v));
        fl_vec_push(all, v);
    }
    return FL_OK;
}

static fl_status verify_chain(const versions *all)
{
    for (size_t i = 0; i < all->len; i++)
        FL_TRY(fl_version_verify(all->data[i]));
    return FL_OK;
}

/* --- what is computed ----------------------------------------------------- */

static fl_status check_targets(const fl_model_version *v, fl_names_list targets)
{
    bool has_own = v->manifest.kind == FL_MANIFEST_INFERENCE;

    if (has_own && targets.n)
        FL_FAIL(FL_ERR_INVAL,
                "%s was saved for prediction and has targets of its own; name "
                "none",
                v->path);
    if (!has_own && !targets.n)
        FL_FAIL(FL_ERR_INVAL,
                "%s was saved to train on, not for prediction; name the "
                "targets, or save it with fl_save_inference_model",
                v->path);
    return FL_OK;
}

/* Passes that were left out when it was saved; "*": all that can be. */
static fl_pass_options passes_of(const fl_manifest *m,
                                 const fl_edition_options *o)
{
    bool has_none = m->passes && !strcmp(m->passes, "*");

    return (fl_pass_options){ .optimize = !o->no_optimize && !has_none,
                              .is_frozen = !o->has_rows,
                              .precision = o->precision,
                              .skip = has_none ? NULL : m->passes };
}

static const char **list_tables(const fl_manifest *m)
{
    const char **names = fl_alloc((m->tables.len + 1) * sizeof(*names));

    for (size_t i = 0; i < m->tables.len; i++)
        names[i] = m->tables.data[i].name;
    return names;
}

static fl_status find_recipe(fl_edition *e, const fl_model_version *v,
                             const fl_edition_options *o,
                             const fl_edition *before)
{
    const fl_manifest *m = &v->manifest;
    fl_recipe_spec spec = {
        .feeds = { m->feeds, m->n_feeds },
        .targets = { m->targets, m->n_targets },
        .is_training = m->kind != FL_MANIFEST_INFERENCE,
        .passes = passes_of(m, o),
    };
    char *text;
    size_t len;
    fl_status st = FL_OK;

    FL_TRY(check_targets(v, o->targets));
    if (spec.is_training)
        spec.targets = o->targets;
    FL_TRY(fl_version_read(v, PROGRAM, &text, &len));
    spec.text = text;
    spec.tables = (fl_names_list){ list_tables(m), m->tables.len };
    if (before && fl_recipe_fits(before->recipe, &spec))
        e->recipe = fl_recipe_ref(before->recipe);
    else
        st = fl_err_ctx(fl_recipe_new(&e->recipe, &spec), "%s/%s", v->path,
                        PROGRAM);
    fl_free((void *)(uintptr_t)spec.tables.names);
    fl_free(text);
    return st;
}

/* --- dense values --------------------------------------------------------- */

static fl_status check_like(const fl_st_tensor *t, const fl_var *v)
{
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];

    if (t->type != fl_st_type_of(v->meta.dtype) ||
        !fl_shape_matches(&t->shape, &v->meta.shape))
        FL_FAIL(FL_ERR_CORRUPT,
                "variable %s is %s%s in the file, but the program wants %s%s",
                v->name, fl_st_type_text(t->type), fl_shape_text(&t->shape, a),
                fl_dtype_text(v->meta.dtype), fl_shape_text(&v->meta.shape, b));
    return FL_OK;
}

static fl_status take_value(fl_scope *s, const fl_st_file *f,
                            const fl_manifest_file *sums, const fl_var *v)
{
    const fl_st_tensor *t = fl_st_find(f, v->name);
    fl_tensor value;

    if (!t)
        FL_FAIL(FL_ERR_NOTFOUND, "the file has no variable %s", v->name);
    FL_TRY(check_like(t, v));
    for (size_t i = 0; i < sums->n_tensors; i++)
        if (!strcmp(sums->tensors[i].name, v->name))
            FL_TRY(fl_st_verify(f, t, sums->tensors[i].xxh3));
    value = fl_tensor_of(v->meta.dtype, fl_st_bytes(f, t), t->shape.rank,
                         t->shape.dim);
    return fl_scope_set(s, v->name, &value);
}

static fl_status take_values(fl_scope *s, const fl_model_version *v,
                             const fl_var *const *params, size_t n)
{
    const fl_manifest_file *sums = fl_manifest_find_file(&v->manifest, DENSE);
    fl_status st = FL_OK;
    fl_st_file *f;

    if (!n)
        return FL_OK;
    if (!sums)
        FL_FAIL(FL_ERR_NOTFOUND, "it has no file %s, and the program reads %s",
                DENSE, params[0]->name);
    FL_TRY(fl_version_map(v, DENSE, &f));
    for (size_t i = 0; i < n && !st; i++)
        st = take_value(s, f, sums, params[i]);
    fl_st_close(f);
    return st;
}

fl_status fl_edition_load_values(fl_scope *to, const fl_model_version *v,
                                 const fl_plan *plan)
{
    size_t n;
    const fl_var **vars = fl_recipe_reads(plan, &n);
    fl_status st =
        fl_err_ctx(take_values(to, v, vars, n), "%s/%s", v->path, DENSE);

    fl_free(vars);
    return st;
}

/* --- rows ----------------------------------------------------------------- */

static fl_status open_rows(fl_edition *e, const versions *all,
                           const fl_edition_options *o,
                           const fl_edition *before)
{
    const fl_manifest *m = &all->data[0]->manifest;
    fl_chain chain = { all->data, all->len };
    bool goes_on = all->data[all->len - 1]->manifest.kind == FL_MANIFEST_DELTA;

    for (size_t i = 0; i < m->tables.len; i++) {
        const fl_manifest_table *t = &m->tables.data[i];

        FL_TRY(fl_rules_add(&e->rules, t->name, t->settings, t->seed));
    }
    if (o->has_rows)
        return FL_OK;
    return fl_mapped_open(&e->files, chain,
                          o->in_memory ? FL_ROWS_COPIED : FL_ROWS_MAPPED,
                          goes_on ? before->files : NULL);
}

/* --- opening -------------------------------------------------------------- */

static fl_status fill(fl_edition *e, const versions *all,
                      const fl_edition_options *o, const fl_edition *before)
{
    const fl_model_version *oldest = all->data[all->len - 1];

    memcpy(e->id, all->data[0]->id, FL_VERSION_ID_MAX);
    if (before || o->verify)
        FL_TRY(verify_chain(all));
    if (oldest->manifest.kind == FL_MANIFEST_DELTA) {
        FL_ASSERT(before); /* the chain ends there */
        e->recipe = fl_recipe_ref(before->recipe);
    } else {
        FL_TRY(find_recipe(e, oldest, o, before));
    }
    FL_TRY(fl_edition_load_values(&e->values, all->data[0], e->recipe->plan));
    fl_scope_join(&e->values);
    return open_rows(e, all, o, before);
}

fl_status fl_edition_open(fl_edition **out, const fl_edition_options *o,
                          fl_edition *before)
{
    fl_edition *e = fl_alloc(sizeof(*e));
    versions all = { 0 };
    fl_status st;
    fl_err why;

    atomic_init(&e->refs, 1);
    fl_scope_init(&e->values);
    st = open_chain(&all, o->path, before);
    if (!st)
        st = fill(e, &all, o, before);
    fl_err_save(&why, st);
    close_all(&all);
    if (st) {
        fl_edition_unref(e);
        return fl_err_restore(&why);
    }
    *out = e;
    return FL_OK;
}

/* A folder of one version has no CURRENT and stays what it is. */
fl_status fl_edition_newest(const char *path, char id[FL_EDITION_ID_MAX])
{
    fl_model_version *v;

    if (fl_folder_has(path, FL_VERSION_CURRENT))
        return fl_folder_current(path, id);
    FL_TRY(fl_version_open(&v, path));
    memcpy(id, v->id, FL_VERSION_ID_MAX);
    fl_version_close(v);
    return FL_OK;
}

fl_edition *fl_edition_ref(fl_edition *e)
{
    atomic_fetch_add(&e->refs, 1);
    return e;
}

void fl_edition_unref(fl_edition *e)
{
    if (!e || atomic_fetch_sub(&e->refs, 1) > 1)
        return;
    fl_row_source_free(e->files);
    fl_rules_release(&e->rules);
    fl_recipe_unref(e->recipe);
    fl_scope_release(&e->values);
    fl_free(e);
}
