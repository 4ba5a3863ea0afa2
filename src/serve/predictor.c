/* predictor.c - runs of a model by one thread.
 *
 * The runner and its memory stay while versions change, as long as the program
 * does not.
 */
#include "serve/model.h"

#include <string.h>

/* Operators that wait have nobody to wait for. */
#define PENDING_TIMEOUT_MS 60000

static void count(_Atomic uint64_t *at, uint64_t n)
{
    atomic_store_explicit(at,
                          atomic_load_explicit(at, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* --- making --------------------------------------------------------------- */

static void join_model(fl_predictor *p)
{
    fl_model *m = p->model;

    fl_lock(&m->mu);
    p->next = m->first_predictor;
    if (p->next)
        p->next->prev = p;
    m->first_predictor = p;
    fl_unlock(&m->mu);
}

static void leave_model(fl_predictor *p)
{
    fl_model *m = p->model;

    fl_lock(&m->mu);
    if (p->next)
        p->next->prev = p->prev;
    if (p->prev)
        p->prev->next = p->next;
    else
        m->first_predictor = p->next;
    fl_predictor_counts(p, &m->gone);
    fl_unlock(&m->mu);
}

static void make_runner(fl_predictor *p)
{
    fl_runner_free(p->runner);
    fl_recipe_unref(p->recipe);
    p->recipe = fl_recipe_ref(p->edition->recipe);
    p->runner = fl_runner_new(p->recipe->plan, &p->options, NULL, 1, 0);
    p->has_bound = false;
}

/* From now on this edition is the one that runs use. */
static void use_edition(fl_predictor *p, fl_edition *e)
{
    fl_edition *old = p->edition;

    p->edition = e;
    p->options.scope = &e->values;
    fl_frozen_use(&p->rows, &e->rules, e->files ? e->files : p->model->rows);
    if (!p->recipe || p->recipe != e->recipe)
        make_runner(p);
    fl_edition_unref(old);
}

static void take_newest(fl_predictor *p)
{
    if (p->edition && atomic_load(&p->model->generation) == p->generation)
        return;
    use_edition(p, fl_model_edition(p->model, &p->generation));
}

fl_status fl_predictor_new(fl_predictor **out, fl_model *m)
{
    fl_predictor *p = fl_alloc(sizeof(*p));

    p->model = m;
    fl_frozen_init(&p->rows);
    p->options = (fl_exec_options){ .slice_min_elements = INT64_MAX,
                                    .pending_timeout_ms = PENDING_TIMEOUT_MS,
                                    .is_frozen = true,
                                    .comm = &p->rows.port };
    take_newest(p);
    join_model(p);
    *out = p;
    return FL_OK;
}

void fl_predictor_free(fl_predictor *p)
{
    if (!p)
        return;
    leave_model(p);
    fl_runner_free(p->runner);
    fl_recipe_unref(p->recipe);
    fl_edition_unref(p->edition);
    fl_binding_release(&p->bound);
    fl_free(p);
}

void fl_predictor_counts(const fl_predictor *p, fl_model_counts *sum)
{
    sum->runs += atomic_load_explicit(&p->runs, memory_order_relaxed);
    sum->records += atomic_load_explicit(&p->records, memory_order_relaxed);
    sum->rows += atomic_load_explicit(&p->rows.rows, memory_order_relaxed);
    sum->missing_rows +=
        atomic_load_explicit(&p->rows.missing, memory_order_relaxed);
}

/* --- running -------------------------------------------------------------- */

/* Names are short: a call of strcmp costs more than to compare them. Gives the
   end of the name; NULL: the feed has another. */
static inline const char *match_name(const fl_feed *f, const char *name)
{
    const char *a = f->name;

    while (*a && *a == *name)
        a++, name++;
    return *a == *name ? name : NULL;
}

/* The feed of a name, wherever it is; NULL: there is none. */
static const fl_feed *find_feed(const fl_feed *feeds, size_t n,
                                const char *name)
{
    for (size_t k = 0; k < n; k++)
        if (match_name(&feeds[k], name))
            return &feeds[k];
    return NULL;
}

static fl_status check_unknown(const fl_recipe *r, const fl_feed *feeds,
                               size_t n)
{
    for (size_t k = 0; k < n; k++) {
        size_t i = 0;

        for (size_t j = 0; j < k; j++)
            if (!strcmp(feeds[j].name, feeds[k].name))
                FL_FAIL(FL_ERR_INVAL, "%s is fed twice", feeds[k].name);
        while (i < r->n_inputs && strcmp(r->inputs[i].name, feeds[k].name))
            i++;
        if (i == r->n_inputs)
            FL_FAIL(FL_ERR_NOTFOUND, "the model has no input %s",
                    feeds[k].name);
    }
    return FL_OK;
}

static fl_status feed_all(fl_predictor *p, const fl_feed *feeds, size_t n)
{
    const fl_recipe *r = p->recipe;
    const char *name = r->input_names;
    fl_good_offsets good = { 0 };

    for (size_t i = 0; i < r->n_inputs; i++, name++) {
        /* In its place, unless the caller has another order. */
        const char *end = i < n ? match_name(&feeds[i], name) : NULL;
        const fl_feed *f = end ? &feeds[i] : find_feed(feeds, n, name);

        if (!f)
            FL_FAIL(FL_ERR_INVAL, "input %s is not fed", name);
        name = end ? end : name + strlen(name);
        if (r->input_at[i] >= 0 &&
            !fl_runner_feed_again(p->runner, r->input_at[i], &f->value, &good))
            FL_TRY(fl_runner_feed(p->runner, r->input_at[i], &f->value));
    }
    /* Every input was found, so that only a wrong number hides a wrong feed. */
    return n == r->n_inputs ? FL_OK : check_unknown(r, feeds, n);
}

static uint64_t count_records(const fl_feed *feeds, size_t n)
{
    const fl_tensor *t = n ? &feeds[0].value : NULL;

    if (!t || (!t->n_lod && !t->shape.rank))
        return 0;
    return (uint64_t)(t->n_lod ? t->lod_len[0] - 1 : t->shape.dim[0]);
}

static fl_status check_room(const fl_recipe *r, const fl_tensor *out,
                            size_t n_out)
{
    if (n_out != r->n_outputs || !out)
        FL_FAIL(FL_ERR_INVAL,
                "the model has %zu output%s, and there is room for %zu",
                r->n_outputs, r->n_outputs == 1 ? "" : "s", out ? n_out : 0);
    return FL_OK;
}

static void show_outputs(const fl_predictor *p, fl_tensor *out)
{
    const fl_recipe *r = p->recipe;

    for (size_t i = 0; i < r->n_outputs; i++) {
        out[i] = p->runner->tensors[r->output_at[i]];
        out[i].size = sizeof(fl_tensor);
    }
}

/* With what the runner was fed. */
static fl_status run_fed(fl_predictor *p, uint64_t records, fl_tensor *out)
{
    FL_TRY(fl_runner_begin(p->runner, 0, records));
    FL_TRY(fl_runner_run(p->runner, FL_PART_ALL, NULL));
    show_outputs(p, out);
    count(&p->runs, 1);
    count(&p->records, records);
    return FL_OK;
}

fl_status fl_predictor_run(fl_predictor *p, const fl_feed *feeds,
                           size_t n_feeds, fl_tensor *out, size_t n_out)
{
    take_newest(p);
    FL_TRY(check_room(p->recipe, out, n_out));
    p->has_bound = false;
    FL_TRY(feed_all(p, feeds, n_feeds));
    return run_fed(p, count_records(feeds, n_feeds), out);
}

/* --- bound feeds ---------------------------------------------------------- */

fl_status fl_predictor_bind(fl_predictor *p, const fl_feed *feeds,
                            size_t n_feeds)
{
    const fl_recipe *r;

    take_newest(p);
    p->has_bound = false;
    FL_TRY(feed_all(p, feeds, n_feeds));
    fl_binding_release(&p->bound);
    r = p->recipe;
    for (size_t i = 0; i < r->n_inputs; i++)
        fl_binding_add(&p->bound,
                       &find_feed(feeds, n_feeds, r->inputs[i].name)->value);
    p->bound.n_records = count_records(feeds, n_feeds);
    p->has_bound = true;
    return FL_OK;
}

/* All of them, with the checks of a feed. */
static fl_status feed_bound(fl_predictor *p)
{
    const int *at = p->recipe->input_at;

    p->has_bound = false;
    for (size_t i = 0; i < p->recipe->n_inputs; i++)
        if (at[i] >= 0)
            FL_TRY(fl_runner_feed(p->runner, at[i], &p->bound.values.data[i]));
    p->has_bound = true;
    return FL_OK;
}

fl_status fl_predictor_run_bound(fl_predictor *p, fl_tensor *out, size_t n_out)
{
    take_newest(p);
    if (p->bound.values.len != p->recipe->n_inputs)
        FL_FAIL(FL_ERR_INVAL,
                "nothing is bound to the predictor; bind feeds first "
                "(fl_predictor_bind), or give them with each run "
                "(fl_predictor_run)");
    FL_TRY(check_room(p->recipe, out, n_out));
    if (!p->has_bound || !fl_binding_holds(&p->bound))
        FL_TRY(feed_bound(p));
    return run_fed(p, p->bound.n_records, out);
}
