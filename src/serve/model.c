/* model.c - opening a model, what counts in it, statistics. */
#include "serve/model.h"

#include <string.h>

#include "base/args.h"

/* --- opening -------------------------------------------------------------- */

static fl_model *make(const char *path, const fl_model_options *o)
{
    fl_model *m = fl_alloc(sizeof(*m));

    m->options = (fl_edition_options){
        .path = fl_strdup(path),
        .targets = fl_names_copy((fl_names_list){ o->targets, o->n_targets }),
        .verify = o->verify,
        .no_optimize = o->no_optimize,
        .in_memory = o->in_memory,
        .has_rows = o->rows != NULL,
    };
    m->rows = o->rows;
    m->watch_ms = o->watch_ms;
    fl_mutex_init(&m->refreshing);
    fl_mutex_init(&m->mu);
    fl_cond_init(&m->changed);
    atomic_init(&m->generation, 1);
    return m;
}

static fl_status start(fl_model *m)
{
    FL_TRY(fl_edition_open(&m->edition, &m->options, NULL));
    m->first = fl_recipe_ref(m->edition->recipe);
    memcpy(m->seen, m->edition->id, sizeof(m->seen));
    return m->watch_ms ? fl_model_start_watcher(m) : FL_OK;
}

fl_status fl_model_open_with(fl_model **out, const char *path,
                             const fl_model_options *options)
{
    fl_precision precision;
    fl_model_options o;
    fl_model *m;
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_model_options, &o, options));
    if (!path || !*path) {
        fl_row_source_free(o.rows);
        FL_FAIL(FL_ERR_INVAL, "which model? A directory is missing");
    }
    st = fl_precision_named(o.precision, &precision);
    if (st) {
        fl_row_source_free(o.rows);
        return fl_err_ctx(st, "model %s", path);
    }
    m = make(path, &o);
    m->options.precision = precision;
    st = fl_err_ctx(start(m), "model %s", path);
    if (st) {
        fl_err why;

        fl_err_save(&why, st);
        fl_model_close(m);
        return fl_err_restore(&why);
    }
    *out = m;
    return FL_OK;
}

void fl_model_close(fl_model *m)
{
    if (!m)
        return;
    FL_ASSERT(!m->first_predictor);
    fl_model_stop_watcher(m);
    fl_edition_unref(m->edition);
    fl_recipe_unref(m->first);
    fl_row_source_free(m->rows);
    fl_cond_release(&m->changed);
    fl_mutex_release(&m->mu);
    fl_mutex_release(&m->refreshing);
    fl_names_free(m->options.targets);
    fl_free((void *)(uintptr_t)m->options.path);
    fl_free(m);
}

/* --- what is in use ------------------------------------------------------- */

fl_edition *fl_model_edition(fl_model *m, uint64_t *generation)
{
    fl_edition *e;

    fl_lock(&m->mu);
    e = fl_edition_ref(m->edition);
    *generation = atomic_load(&m->generation);
    fl_unlock(&m->mu);
    return e;
}

const fl_model_var *fl_model_inputs(const fl_model *m, size_t *n)
{
    *n = m->first->n_inputs;
    return m->first->inputs;
}

const fl_model_var *fl_model_outputs(const fl_model *m, size_t *n)
{
    *n = m->first->n_outputs;
    return m->first->outputs;
}

fl_status fl_model_stats_get(fl_model *m, fl_model_stats *out)
{
    fl_model_stats s = { 0 };
    fl_model_counts sum;

    fl_lock(&m->mu);
    sum = m->gone;
    for (const fl_predictor *p = m->first_predictor; p; p = p->next)
        fl_predictor_counts(p, &sum);
    s.versions = m->n_versions;
    s.refused = m->n_refused;
    memcpy(s.version, m->edition->id, sizeof(m->edition->id));
    fl_unlock(&m->mu);
    s.runs = sum.runs;
    s.records = sum.records;
    s.rows = sum.rows;
    s.missing_rows = sum.missing_rows;
    return FL_ARGS_FILL(fl_model_stats, out, &s);
}
