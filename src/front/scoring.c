/* scoring.c - a queue of requests, and threads that take what waits.
 *
 * Requests that are taken together run as one batch. When that fails, each runs
 * alone, so that the one that is at fault gets the error. A model with an output
 * that does not have a row for each record cannot be cut into answers: then, too,
 * each request is a batch.
 */
#include "front/scoring.h"

#include <string.h>

#include "base/thread.h"
#include "base/vec.h"
#include "exec/runner.h"
#include "front/joined.h"

#define MAX_BATCH 1024

typedef struct scorer {
    fl_scoring *pool;
    fl_thread *thread;
    fl_predictor *predictor;
    fl_joined joined;
    fl_tensor *outputs, *parts;
    FL_VEC(fl_feed *) feeds; /* by request of a batch */
} scorer;

struct fl_scoring {
    fl_model *model;
    const fl_model_var *inputs, *outputs;
    size_t n_inputs, n_outputs, max_batch;
    scorer *scorers;
    int n_scorers; /* that have begun */
    fl_scoring_stats stats;
    atomic_bool is_whole; /* outputs cannot be cut */

    fl_mutex mu;
    fl_cond changed;
    fl_score *first, **last; /* guarded by mu */
    size_t n_waiting;        /* guarded by mu */
    bool is_closing;         /* guarded by mu */
};

/* --- the queue ------------------------------------------------------------ */

fl_status fl_scoring_ask(fl_scoring *s, fl_score *score)
{
    fl_status st = FL_OK;

    score->next = NULL;
    score->since_ns = fl_now_ns();
    fl_lock(&s->mu);
    if (s->is_closing)
        st = fl_err_set(FL_ERR_CLOSED, "the model is no longer served");
    else if (s->n_waiting >= FL_SCORING_WAITING_MAX)
        st = fl_err_set(FL_ERR_BUSY,
                        "%zu requests wait already; ask again later",
                        s->n_waiting);
    if (!st) {
        *s->last = score;
        s->last = &score->next;
        s->n_waiting++;
        fl_cond_wake_one(&s->changed);
    }
    fl_unlock(&s->mu);
    fl_stat_add(st ? &s->stats.refused : &s->stats.requests, 1);
    if (!st)
        fl_stat_add(&s->stats.waiting, 1);
    return st;
}

/* Under mu. As many as fit into a batch, at least one; they stay linked. */
static fl_score *take_some(fl_scoring *s, size_t *n, size_t *n_records)
{
    bool is_whole = atomic_load(&s->is_whole);
    fl_score *first = s->first, *end = first;

    *n = *n_records = 0;
    while (end && (!*n || (!is_whole &&
                           *n_records + end->n_records <= s->max_batch))) {
        ++*n;
        *n_records += end->n_records;
        end = end->next;
    }
    s->first = end;
    if (!end)
        s->last = &s->first;
    s->n_waiting -= *n;
    return first;
}

/* --- answers -------------------------------------------------------------- */

/* The request is its caller's again afterwards. */
static void answer(fl_scoring *s, fl_score *score, fl_status st,
                   const fl_tensor *outputs)
{
    fl_stat_add(&s->stats.answered, fl_now_ns() - score->since_ns);
    fl_stat_sub(&s->stats.waiting, 1);
    if (st)
        fl_stat_add(&s->stats.failed, 1);
    else
        fl_stat_add(&s->stats.records, score->n_records);
    score->done(score, st, st ? NULL : outputs);
}

static fl_status run(scorer *w, const fl_feed *feeds)
{
    const fl_scoring *s = w->pool;

    fl_stat_add(&w->pool->stats.batches, 1);
    return fl_predictor_run(w->predictor, feeds, s->n_inputs, w->outputs,
                            s->n_outputs);
}

static void run_each(scorer *w, fl_score *first, size_t n)
{
    fl_score *next;

    for (fl_score *r = first; n; r = next, n--) {
        next = r->next;
        answer(w->pool, r, run(w, r->feeds), w->outputs);
    }
}

static void hand_out(scorer *w, fl_score *first, size_t n)
{
    const fl_scoring *s = w->pool;
    fl_score *next;
    size_t at = 0;

    for (fl_score *r = first; n; r = next, n--) {
        next = r->next;
        for (size_t o = 0; o < s->n_outputs; o++)
            w->parts[o] = fl_joined_part(&w->outputs[o], at, r->n_records);
        at += r->n_records;
        answer(w->pool, r, FL_OK, w->parts);
    }
}

/* False when it could not be done so; nobody was answered then. */
static bool run_joined(scorer *w, fl_score *first, size_t n, size_t n_records)
{
    fl_scoring *s = w->pool;
    fl_score *r = first;
    bool fits;

    w->feeds.len = 0;
    for (size_t i = 0; i < n; i++, r = r->next)
        fl_vec_push(&w->feeds, r->feeds);
    if (fl_joined_fill(&w->joined, w->feeds.data, n, &fits) || !fits ||
        run(w, w->joined.feeds))
        return false;
    if (!fl_joined_can_split(w->outputs, s->n_outputs, n_records)) {
        atomic_store(&s->is_whole, true);
        return false;
    }
    hand_out(w, first, n);
    return true;
}

/* --- threads -------------------------------------------------------------- */

static fl_score *wait_for_some(fl_scoring *s, size_t *n, size_t *n_records)
{
    fl_score *first = NULL;

    fl_lock(&s->mu);
    while (!s->first && !s->is_closing)
        fl_cond_wait(&s->changed, &s->mu);
    if (!s->is_closing)
        first = take_some(s, n, n_records);
    fl_unlock(&s->mu);
    return first;
}

static void work(void *arg)
{
    scorer *w = arg;
    size_t n, n_records;
    fl_score *first;

    while ((first = wait_for_some(w->pool, &n, &n_records)))
        if (n < 2 || !run_joined(w, first, n, n_records))
            run_each(w, first, n);
}

static fl_status start_scorer(fl_scoring *s, scorer *w)
{
    w->pool = s;
    w->outputs = fl_alloc((s->n_outputs + 1) * sizeof(*w->outputs));
    w->parts = fl_alloc((s->n_outputs + 1) * sizeof(*w->parts));
    fl_joined_init(&w->joined, s->n_inputs);
    FL_TRY(fl_predictor_new(&w->predictor, s->model));
    return fl_thread_start(&w->thread, "fl-score", work, w);
}

static void release_scorer(scorer *w)
{
    fl_thread_join(w->thread);
    fl_predictor_free(w->predictor);
    fl_joined_release(&w->joined);
    fl_vec_release(&w->feeds);
    fl_free(w->outputs);
    fl_free(w->parts);
}

fl_status fl_scoring_new(fl_scoring **out, fl_model *m,
                         const fl_scoring_options *o)
{
    fl_scoring *s = fl_alloc(sizeof(*s));
    int n = o->n_threads ? o->n_threads : fl_cpu_count();
    fl_status st = FL_OK;

    s->model = m;
    s->inputs = fl_model_inputs(m, &s->n_inputs);
    s->outputs = fl_model_outputs(m, &s->n_outputs);
    s->max_batch = o->max_batch ? o->max_batch : MAX_BATCH;
    s->last = &s->first;
    fl_mutex_init(&s->mu);
    fl_cond_init(&s->changed);
    s->scorers = fl_alloc((size_t)n * sizeof(*s->scorers));
    while (s->n_scorers < n && !st)
        st = start_scorer(s, &s->scorers[s->n_scorers++]);
    if (st) {
        fl_err why;

        fl_err_save(&why, st);
        fl_scoring_free(s);
        return fl_err_restore(&why);
    }
    *out = s;
    return FL_OK;
}

static void close_queue(fl_scoring *s)
{
    fl_lock(&s->mu);
    s->is_closing = true;
    fl_cond_wake_all(&s->changed);
    fl_unlock(&s->mu);
}

void fl_scoring_stop(fl_scoring *s)
{
    fl_score *next;

    close_queue(s);
    for (int i = 0; i < s->n_scorers; i++)
        release_scorer(&s->scorers[i]);
    s->n_scorers = 0;
    for (fl_score *r = s->first; r; r = next) {
        next = r->next;
        answer(s, r, fl_err_set(FL_ERR_CLOSED, "the model is no longer served"),
               NULL);
    }
    s->first = NULL;
}

void fl_scoring_free(fl_scoring *s)
{
    if (!s)
        return;
    fl_scoring_stop(s);
    fl_cond_release(&s->changed);
    fl_mutex_release(&s->mu);
    fl_free(s->scorers);
    fl_free(s);
}

/* --- checking ------------------------------------------------------------- */

static const fl_feed *find_feed(const fl_feed *feeds, size_t n,
                                const char *name)
{
    const fl_feed *found = NULL;

    for (size_t i = 0; i < n && !found; i++)
        if (!strcmp(feeds[i].name, name))
            found = &feeds[i];
    return found;
}

static fl_status check_unknown(const fl_scoring *s, const fl_feed *feeds,
                               size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        if (find_feed(feeds, i, feeds[i].name))
            FL_FAIL(FL_ERR_INVAL, "%s is fed twice", feeds[i].name);
        while (k < s->n_inputs && strcmp(s->inputs[k].name, feeds[i].name))
            k++;
        if (k == s->n_inputs)
            FL_FAIL(FL_ERR_NOTFOUND, "the model has no input %s",
                    feeds[i].name);
    }
    return FL_OK;
}

static size_t records_of(const fl_tensor *t)
{
    if (t->n_lod)
        return (size_t)(t->lod_len[0] - 1);
    return t->shape.rank ? (size_t)t->shape.dim[0] : 1;
}

static fl_status check_one(const fl_model_var *v, const fl_feed *f)
{
    fl_tensor meta = { .size = sizeof(meta),
                       .dtype = v->dtype,
                       .kind = v->n_lod ? FL_KIND_RAGGED : FL_KIND_DENSE,
                       .n_lod = v->n_lod,
                       .shape = v->shape };

    if (!f)
        FL_FAIL(FL_ERR_INVAL, "input %s is not fed", v->name);
    return fl_feed_check(v->name, &meta, &f->value);
}

fl_status fl_scoring_check(const fl_scoring *s, const fl_feed *feeds, size_t n,
                           fl_score *out)
{
    FL_TRY(check_unknown(s, feeds, n));
    for (size_t i = 0; i < s->n_inputs; i++) {
        const fl_feed *f = find_feed(feeds, n, s->inputs[i].name);

        FL_TRY(check_one(&s->inputs[i], f));
        if (i && records_of(&f->value) != out->n_records)
            FL_FAIL(FL_ERR_INVAL, "input %s has %zu records, but %s has %zu",
                    f->name, records_of(&f->value), out->feeds[0].name,
                    out->n_records);
        out->n_records = records_of(&f->value);
        out->feeds[i] = *f;
    }
    return FL_OK;
}

/* --- looking -------------------------------------------------------------- */

fl_model *fl_scoring_model(const fl_scoring *s)
{
    return s->model;
}

size_t fl_scoring_n_inputs(const fl_scoring *s)
{
    return s->n_inputs;
}

const fl_model_var *fl_scoring_outputs(const fl_scoring *s, size_t *n)
{
    *n = s->n_outputs;
    return s->outputs;
}

const fl_scoring_stats *fl_scoring_stats_of(const fl_scoring *s)
{
    return &s->stats;
}
