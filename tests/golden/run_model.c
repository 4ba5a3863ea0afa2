/* run_model.c - models of the compared system: its folders beside the case are
 * imported, the variables compared with those of the case, and the inference
 * model run through the executor on the batch that the case has. */
#include "compare.h"
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flotilla/saved.h"

#define TOLERANCE_PREDICT 1e-5

typedef struct model_case {
    golden_case *c;
    const char *folder; /* of the case, with a slash */
    char out[64];       /* where imported models go */
    const char **names; /* variables in the order of one file */
    size_t n_names;
} model_case;

/* A list of texts in the metadata. */
static bool read_list(model_case *m, const char *key, const char ***out,
                      size_t *n)
{
    const char *source = st_meta_find(&m->c->file, key);
    cJSON *json = source ? cJSON_Parse(source) : NULL;
    const cJSON *item;

    *out = NULL;
    *n = 0;
    cJSON_ArrayForEach(item, json)
    {
        if (cJSON_IsString(item))
            POOL_PUSH(&m->c->pool, *out, *n,
                      pool_strdup(&m->c->pool, item->valuestring));
    }
    cJSON_Delete(json);
    if (!*n)
        case_fail(m->c, "the metadata has no list '%s'", key);
    return *n > 0;
}

/* Imports a folder of the case and opens what came out; NULL after telling. */
static fl_saved *import(model_case *m, fl_ctx *ctx, const char *name,
                        const fl_import_args *args)
{
    const char *from = pool_printf(&m->c->pool, "%s%s", m->folder, name);
    const char *to = pool_printf(&m->c->pool, "%s/%s", m->out, name);
    fl_saved *s = NULL;

    if (fl_import_paddle(ctx, from, to, args) || fl_saved_open(&s, ctx, to) ||
        fl_saved_verify(s))
        case_fail(m->c, "%s: %s", from, fl_last_error());
    return s;
}

/* --- variables ------------------------------------------------------------ */

static void compare_vars(model_case *m, const char *from, const fl_saved *s)
{
    for (size_t i = 0;; i++) {
        const st_tensor *want;
        const char *name;
        fl_tensor got;

        if (fl_saved_tensor(s, i, &name, &got))
            return;
        want = st_find(&m->c->file, "var.%s", name);
        if (want)
            compare_tensor(m->c, pool_printf(&m->c->pool, "%s/%s", from, name),
                           &got, want, 0);
        else
            case_fail(m->c, "%s: the case has no tensor var.%s", from, name);
    }
}

static void run_persistables(model_case *m, fl_ctx *ctx, const char *name,
                             const fl_import_args *args)
{
    fl_saved_view v = FL_INIT(fl_saved_view);
    fl_saved *s = import(m, ctx, name, args);

    if (!s)
        return;
    if (fl_saved_look(s, &v) || v.n_tensors != m->n_names)
        case_fail(m->c, "%s: %zu variables instead of %zu", name, v.n_tensors,
                  m->n_names);
    compare_vars(m, name, s);
    fl_saved_close(s);
}

/* --- prediction ----------------------------------------------------------- */

/* A batch that is one of several of its kind has one dimension more. */
static fl_tensor batch_view(const st_tensor *t)
{
    if (t->rank == 3 && t->dims[0] == 1)
        return fl_tensor_of(t->dtype, t->data, 2, t->dims + 1);
    return st_view(t);
}

static bool add_feed(model_case *m, session *s, const char *name)
{
    const st_tensor *values = st_find(&m->c->file, "in.%s", name);
    const st_tensor *lod = st_find(&m->c->file, "in.%s.lod0", name);
    fl_tensor t;

    if (!values) {
        case_fail(m->c, "the case has no tensor in.%s", name);
        return false;
    }
    t = batch_view(values);
    if (lod)
        t = fl_tensor_ragged(t.dtype, t.data, t.shape.rank, t.shape.dim,
                             lod->data, lod->numel - 1);
    POOL_PUSH(&m->c->pool, s->feeds, s->n_feeds, ((fl_feed){ name, t }));
    return true;
}

static bool prepare(model_case *m, session *s, const fl_saved *saved)
{
    char *source = fl_saved_text(saved, "program.txt");
    const char *name;
    fl_tensor t;
    bool good = source && !fl_program_from_text(&s->program, s->ctx, source);

    if (!good)
        case_fail(m->c, "%s", fl_last_error());
    fl_text_free(source);
    for (size_t i = 0; good && !fl_saved_tensor(saved, i, &name, &t); i++)
        good = session_set(s, name, &t);
    for (size_t i = 0; good && (name = fl_saved_feed(saved, i)); i++)
        good = add_feed(m, s, name);
    return good;
}

static void predict(model_case *m, session *s, const fl_saved *saved)
{
    const st_tensor *want = st_find(&m->c->file, "out.predict");

    if (!want || !fl_saved_target(saved, 0) || fl_saved_target(saved, 1)) {
        case_fail(m->c, "there is no out.predict, or not one target");
        return;
    }
    if (!prepare(m, s, saved))
        return;
    session_fetch(s, fl_saved_target(saved, 0));
    if (session_run(s))
        compare_tensor(m->c, want->name, &s->fetched[0], want,
                       TOLERANCE_PREDICT);
}

static void run_inference(model_case *m, const char *name)
{
    fl_saved *saved;
    session s;

    if (!session_open(&s, m->c))
        return;
    saved = import(m, s.ctx, name, NULL);
    if (saved) {
        compare_vars(m, name, saved);
        predict(m, &s, saved);
        fl_saved_close(saved);
    }
    session_close(&s);
}

/* --- the case ------------------------------------------------------------- */

static void remove_out(const model_case *m)
{
    const char *command = pool_printf(&m->c->pool, "rm -r '%s'", m->out);

    if (system(command))
        case_fail(m->c, "cannot remove %s", m->out);
}

static void run_folders(model_case *m)
{
    fl_import_args one_file = FL_INIT(fl_import_args, .params = "params",
                                      .names = m->names, .n_names = m->n_names);
    fl_ctx *ctx = NULL;

    if (fl_ctx_new(&ctx)) {
        case_fail(m->c, "%s", fl_last_error());
        return;
    }
    run_persistables(m, ctx, "persistables", NULL);
    run_persistables(m, ctx, "persistables_one_file", &one_file);
    fl_ctx_free(ctx);
    run_inference(m, "inference");
    run_inference(m, "inference_one_file");
}

void run_model(golden_case *c)
{
    model_case m = { .c = c, .out = "/tmp/flotilla_golden_XXXXXX" };
    const char *slash = strrchr(c->path, '/');

    m.folder =
        slash ? pool_strndup(&c->pool, c->path, (size_t)(slash - c->path) + 1)
              : "";
    fl_log_set(NULL, NULL, FL_LOG_WARN);
    if (!read_list(&m, "order_in_one_file", &m.names, &m.n_names))
        return;
    if (!mkdtemp(m.out)) {
        case_fail(c, "there is no folder for imported models");
        return;
    }
    run_folders(&m);
    remove_out(&m);
}
