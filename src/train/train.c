/* train.c - one pass over a dataset with hogwild threads.
 *
 *     dataset -> next -> training threads -> on_batch -> counters
 *                                                 |
 *                        the watcher: progress, fetch handler
 *
 * Training threads share nothing with the watcher but a few counters; thread 0
 * alone prints, and copies what it fetched when the watcher has asked for it.
 *
 * Where rows come from servers, a thread takes its next batch before it trains
 * on one. It is two consumers of the dataset then, in turn, so that both
 * batches are there.
 *
 * Between two batches all threads come to rest when a save is due. A pass that
 * a run before has made, or begun, is passed over or gone on with
 * (ctx/passes.h).
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "ctx/passes.h"
#include "train/autosave.h"
#include "train/objective.h"
#include "train/progress.h"
#include "dist/job.h"
#include "base/args.h"
#include "base/gate.h"
#include "base/log.h"
#include "base/thread.h"
#include "data/dataset/dataset.h"
#include "flotilla/data.h"

#define WATCH_MS 100
#define REPORT_NS UINT64_C(1000000000)
#define PRINT_PERIOD 100
#define PROGRESS_SECONDS 1.0
#define HANDLER_SECONDS 60.0
#define BATCHES_MAX 2 /* that a thread has at once */

/* What one training thread counts. */
typedef struct tally {
    _Atomic uint64_t samples;
    uint64_t taken, batches;    /* batches that came, and that are done */
    double loss_sum;            /* over samples */
    double last_finite;         /* of what is watched; NaN: none yet */
    size_t n_rows[BATCHES_MAX]; /* of the batches at hand, in turn */
    char apart[64];             /* threads do not share a line */
} tally;

typedef struct pass {
    fl_dataset_run_args given;
    const fl_dataset_run_args *args; /* the same */
    fl_executor *exe;
    fl_program *program;
    fl_scope *scope;
    fl_dataset *data;
    bool is_infer;
    fl_gate *gate;           /* NULL: nothing is saved in the midst */
    uint64_t turns;          /* batches that make one step */
    fl_pass_counts before;   /* what a run before has counted of it */
    const fl_position *from; /* where that stopped; NULL: it begins anew */
    const char **fetches;    /* the caller's, then loss and AUC */
    size_t n_fetches;
    int loss_at, auc_at; /* -1: not fetched */
    /* The fetches that must stay finite: watch_lo, ... below watch_hi. */
    size_t watch_lo, watch_hi;
    bool stops_at_bad;   /* the setting finite_loss */
    atomic_bool has_bad; /* something watched is not finite any more */
    const char **feed_names;
    size_t n_feeds;
    int n_threads;
    int at_once;        /* batches that a thread has, 1 or 2 */
    fl_job *job;        /* that hears how far it is; NULL: none */
    const char *phase;  /* as it is told */
    uint64_t report_ns; /* when it is told next */
    tally *tallies;
    uint64_t began_ns;
    _Atomic double loss, auc; /* of the newest batch */
    fl_err error;             /* of the data or of a number, guarded by mu */

    /* The watcher. */
    fl_thread *watcher;
    fl_mutex mu;
    fl_cond wake;
    bool is_over;         /* guarded by mu */
    fl_mutex progress_mu; /* held while on_progress runs */
    double shown_seconds; /* when it got numbers last; the watcher's */
    /* Thread 0 fills copies when they are wanted. */
    atomic_bool wants_copies;
    bool has_copies; /* guarded by mu */
    fl_tensor *copies;
    fl_str *copied; /* their bytes */
} pass;

/* --- what is fetched ----------------------------------------------------- */

static int find_fetch(const pass *p, const char *name)
{
    for (size_t i = 0; i < p->n_fetches; i++)
        if (strcmp(p->fetches[i], name) == 0)
            return (int)i;
    return -1;
}

static int also_fetch(pass *p, const char *name)
{
    int at = name ? find_fetch(p, name) : -1;

    if (name && at < 0) {
        at = (int)p->n_fetches;
        p->fetches[p->n_fetches++] = name;
    }
    return at;
}

/* The loss stays finite, or the pass has failed. Who does not name it is taken
   at the fetches, or else at what the program minimizes. */
static void choose_watched(pass *p, fl_program *program)
{
    size_t n = p->args->n_fetches;
    int at = p->loss_at;

    if (at < 0 && !n)
        at = also_fetch(p, fl_objective_of(program));
    p->watch_lo = at >= 0 ? (size_t)at : 0;
    p->watch_hi = at >= 0 ? (size_t)at + 1 : n;
}

static void choose_fetches(pass *p, fl_program *program)
{
    const fl_dataset_run_args *a = p->args;

    p->fetches = fl_alloc((a->n_fetches + 3) * sizeof(*p->fetches));
    for (size_t i = 0; i < a->n_fetches; i++)
        p->fetches[p->n_fetches++] = a->fetches[i];
    p->loss_at = also_fetch(p, a->loss);
    p->auc_at = also_fetch(p, a->auc);
    choose_watched(p, program);
}

/* The mean of a small tensor of any float type; NaN when it is empty or of
   another type. */
static double mean_of(const fl_tensor *t)
{
    int64_t n = fl_tensor_numel(t);
    double sum = 0;

    if (n < 1 || (t->dtype != FL_DTYPE_F32 && t->dtype != FL_DTYPE_F64))
        return NAN;
    for (int64_t i = 0; i < n; i++)
        sum += t->dtype == FL_DTYPE_F32 ? ((const float *)t->data)[i]
                                        : ((const double *)t->data)[i];
    return sum / (double)n;
}

/* --- numbers that must stay finite ---------------------------------------- */

/* Says which number went wrong and when, once per pass. */
static void on_bad(pass *p, int thread, const char *name, double value)
{
    const tally *t = &p->tallies[thread];
    fl_status st;

    if (atomic_exchange(&p->has_bad, true))
        return;
    st = fl_err_set(FL_ERR_NUMERIC,
                    "%s is %f at batch %llu of training thread %d, after %g; "
                    "lower the learning rate, clip gradients, or look at the "
                    "data; check_nan_inf=true names the operator, "
                    "finite_loss=false trains on",
                    name, value, (unsigned long long)t->batches, thread,
                    t->last_finite);
    if (!p->stops_at_bad) {
        FL_WARN("train", "%s", fl_last_error());
        return;
    }
    fl_lock(&p->mu);
    if (!p->error.status)
        fl_err_save(&p->error, st);
    fl_unlock(&p->mu);
}

/* A single float, or the loss, which may be a few. */
static bool is_watched(const pass *p, size_t i, const fl_tensor *t)
{
    int64_t n = fl_tensor_numel(t);

    return (t->dtype == FL_DTYPE_F32 || t->dtype == FL_DTYPE_F64) &&
           (n == 1 || (n > 1 && (int)i == p->loss_at));
}

static void look_at_numbers(pass *p, int thread, const fl_tensor *fetched)
{
    for (size_t i = p->watch_lo; i < p->watch_hi; i++) {
        double value;

        if (!is_watched(p, i, &fetched[i]))
            continue;
        value = mean_of(&fetched[i]);
        if (isfinite(value))
            p->tallies[thread].last_finite = value;
        else
            on_bad(p, thread, p->fetches[i], value);
    }
}

/* --- printing ------------------------------------------------------------ */

static void add_value(fl_str *s, const fl_tensor *t)
{
    enum { MOST = 8 };
    int64_t n = fl_tensor_numel(t);

    for (int64_t i = 0; i < n && i < MOST; i++)
        if (t->dtype == FL_DTYPE_F32)
            fl_str_addf(s, " %g", (double)((const float *)t->data)[i]);
        else if (t->dtype == FL_DTYPE_F64)
            fl_str_addf(s, " %g", ((const double *)t->data)[i]);
        else if (t->dtype == FL_DTYPE_I64)
            fl_str_addf(s, " %lld", (long long)((const int64_t *)t->data)[i]);
        else
            fl_str_addf(s, " ?");
    if (n > MOST)
        fl_str_addf(s, " ... (%lld values)", (long long)n);
}

static fl_progress progress_of(pass *p)
{
    double seconds = 1e-9 * (double)(fl_now_ns() - p->began_ns);
    fl_progress s = FL_INIT(fl_progress, .total = p->args->total_records,
                            .samples = p->before.samples);

    for (int i = 0; i < p->n_threads; i++)
        s.samples += atomic_load(&p->tallies[i].samples);
    s.seconds = p->before.seconds + seconds;
    s.has_loss = p->loss_at >= 0 && s.samples;
    s.loss = atomic_load(&p->loss);
    s.auc = atomic_load(&p->auc);
    s.wait_share = fl_dataset_waited(p->data) / (seconds * p->n_threads + 1e-9);
    return s;
}

static void tell(pass *p, const fl_progress *s)
{
    if (!p->args->on_progress)
        return;
    fl_lock(&p->progress_mu);
    p->args->on_progress(p->args->progress_arg, s);
    fl_unlock(&p->progress_mu);
}

/* To the progress, or to the log when nobody is told. */
static void tell_text(pass *p, const char *text)
{
    fl_progress s = progress_of(p);

    s.text = text;
    if (p->args->on_progress)
        tell(p, &s);
    else
        FL_INFO("train", "%s", text);
}

static void print_fetched(pass *p, uint64_t batch, const fl_tensor *fetched)
{
    const fl_dataset_run_args *a = p->args;
    fl_str s = { 0 };

    fl_str_addf(&s, "batch %llu:", (unsigned long long)batch);
    for (size_t i = 0; i < a->n_fetches; i++) {
        fl_str_addf(&s, "%s %s", i ? "," : "",
                    a->fetch_info ? a->fetch_info[i] : a->fetches[i]);
        add_value(&s, &fetched[i]);
    }
    tell_text(p, fl_str_text(&s));
    fl_str_release(&s);
}

static bool is_time_to_print(const pass *p, uint64_t batch)
{
    int period = p->args->print_period ? p->args->print_period : PRINT_PERIOD;

    return p->args->n_fetches && period > 0 && batch % (uint64_t)period == 0;
}

/* --- the watcher --------------------------------------------------------- */

/* Thread 0 copies; the watcher hands the copies to the caller. */
static void copy_fetched(pass *p, const fl_tensor *fetched)
{
    fl_lock(&p->mu);
    for (size_t i = 0; i < p->args->n_fetches; i++) {
        size_t bytes = (size_t)fl_tensor_numel(&fetched[i]) *
                       fl_dtype_bytes(fetched[i].dtype);
        fl_str *to = &p->copied[i];

        while (to->cap < bytes + 1)
            to->data = fl_vec_grow(to->data, &to->cap, 1);
        if (bytes)
            memcpy(to->data, fetched[i].data, bytes);
        p->copies[i] = fetched[i];
        p->copies[i].data = to->data;
    }
    p->has_copies = true;
    atomic_store(&p->wants_copies, false);
    fl_unlock(&p->mu);
}

/* Ragged values point to offsets that are not copied. */
static fl_status check_handled(const pass *p, fl_program *program)
{
    const fl_dataset_run_args *a = p->args;

    for (size_t i = 0; a->fetch_handler && i < a->n_fetches; i++) {
        const fl_var *v = fl_program_var(program, a->fetches[i]);

        if (v && v->meta.n_lod > 0)
            FL_FAIL(FL_ERR_INVAL,
                    "%s has sequences: a fetch handler gets dense values only",
                    a->fetches[i]);
    }
    return FL_OK;
}

/* Under the lock, which the handler runs without. */
static void call_handler(pass *p, uint64_t *next_ns)
{
    const fl_dataset_run_args *a = p->args;
    double period = a->period_secs > 0 ? a->period_secs : HANDLER_SECONDS;

    if (p->has_copies) {
        p->has_copies = false;
        fl_unlock(&p->mu);
        a->fetch_handler(a->fetch_arg, p->copies, a->n_fetches);
        fl_lock(&p->mu);
    }
    if (fl_now_ns() >= *next_ns) {
        *next_ns += (uint64_t)(period * 1e9);
        atomic_store(&p->wants_copies, true);
    }
}

static void tell_job(pass *p, const char *phase)
{
    fl_progress s = progress_of(p);

    fl_job_report_later(p->job, phase, p->job->n_samples + s.samples, s.loss,
                        s.auc);
}

/* About once a second; a pass that is shorter is not worth a word. */
static void report_in_time(pass *p)
{
    if (fl_now_ns() < p->report_ns)
        return;
    p->report_ns = fl_now_ns() + REPORT_NS;
    tell_job(p, p->phase);
}

/* After the watcher. */
static void end_report(pass *p)
{
    if (p->report_ns > p->began_ns + REPORT_NS)
        tell_job(p, "idle");
    p->job->n_samples += progress_of(p).samples;
}

static void tell_in_time(pass *p)
{
    fl_progress s = progress_of(p);

    if (s.seconds < p->shown_seconds + PROGRESS_SECONDS)
        return;
    s.last_seconds = p->shown_seconds;
    p->shown_seconds = s.seconds;
    tell(p, &s);
}

static void watch(void *arg)
{
    pass *p = arg;
    uint64_t next_ns = p->began_ns;

    fl_lock(&p->mu);
    while (!p->is_over) {
        fl_cond_wait_until(&p->wake, &p->mu,
                           fl_now_ns() + WATCH_MS * UINT64_C(1000000));
        if (p->args->fetch_handler)
            call_handler(p, &next_ns);
        tell_in_time(p);
        if (p->job)
            report_in_time(p);
    }
    fl_unlock(&p->mu);
}

static fl_status start_watcher(pass *p)
{
    size_t n = p->args->n_fetches;

    fl_mutex_init(&p->mu);
    fl_cond_init(&p->wake);
    p->copies = fl_alloc((n + 1) * sizeof(*p->copies));
    p->copied = fl_alloc((n + 1) * sizeof(*p->copied));
    p->report_ns = p->began_ns + REPORT_NS;
    if (!p->args->on_progress && !p->args->fetch_handler && !p->job)
        return FL_OK;
    return fl_thread_start(&p->watcher, "fl-watch", watch, p);
}

static void stop_watcher(pass *p)
{
    fl_lock(&p->mu);
    p->is_over = true;
    fl_cond_wake_all(&p->wake);
    fl_unlock(&p->mu);
    fl_thread_join(p->watcher);
    for (size_t i = 0; i < p->args->n_fetches; i++)
        fl_str_release(&p->copied[i]);
    fl_free(p->copied);
    fl_free(p->copies);
    fl_cond_release(&p->wake);
    fl_mutex_release(&p->mu);
}

/* --- saves in the midst --------------------------------------------------- */

static fl_pass_counts counts_of(pass *p)
{
    fl_progress s = progress_of(p);
    fl_pass_counts c = { .is_infer = p->is_infer,
                         .samples = s.samples,
                         .batches = p->before.batches,
                         .seconds = s.seconds,
                         .loss_sum = p->loss_at >= 0 ? 0 : NAN,
                         .auc = s.auc };

    for (int i = 0; i < p->n_threads; i++) {
        c.batches += p->tallies[i].batches;
        c.loss_sum += p->tallies[i].loss_sum;
    }
    return c;
}

static fl_status tell_now(void *arg, fl_pass_counts *counts,
                          fl_position *position)
{
    pass *p = arg;

    *counts = counts_of(p);
    return fl_dataset_position(p->data, position);
}

/* All threads are between two steps. A save that fails does not end what would
   have been saved. */
static void save_at_rest(void *arg)
{
    pass *p = arg;
    fl_err kept;

    if (p->stops_at_bad && atomic_load(&p->has_bad))
        return;
    fl_err_save(&kept, FL_OK);
    fl_autosave(p->exe, p->program, p->scope);
    (void)fl_err_restore(&kept);
}

static void on_thread_end(void *arg, int thread, fl_status st)
{
    pass *p = arg;

    (void)thread;
    if (p->gate)
        fl_gate_leave(p->gate, st != FL_OK);
}

/* --- training threads ---------------------------------------------------- */

/* The consumer of the dataset that has a batch of a thread. */
static int consumer_of(const pass *p, int thread, uint64_t batch)
{
    return thread + (int)(batch % (uint64_t)p->at_once) * p->n_threads;
}

static bool next_batch(void *arg, int thread, fl_feed *feeds)
{
    pass *p = arg;
    tally *t = &p->tallies[thread];
    const fl_feed *got;
    fl_status st;

    if (p->gate && t->taken % p->turns == 0)
        fl_gate_enter(p->gate);
    if (p->stops_at_bad && atomic_load(&p->has_bad))
        return false;
    st = fl_dataset_next(p->data, consumer_of(p, thread, t->taken), &got,
                         &t->n_rows[t->taken % (uint64_t)p->at_once]);
    if (st) {
        fl_lock(&p->mu);
        if (!p->error.status)
            fl_err_save(&p->error, st);
        fl_unlock(&p->mu);
        return false;
    }
    if (!got)
        return false;
    t->taken++;
    memcpy(feeds, got, p->n_feeds * sizeof(*feeds));
    return true;
}

/* A batch that was trained is part of what is saved from now on. */
static void note_trained(pass *p, int thread, uint64_t batch)
{
    if (p->is_infer)
        return;
    fl_dataset_trained(p->data, consumer_of(p, thread, batch));
    if (p->gate && fl_autosave_is_due(p->exe->ctx, p->scope))
        fl_gate_ask(p->gate);
}

static void count_batch(void *arg, int thread, const fl_tensor *fetched)
{
    pass *p = arg;
    tally *t = &p->tallies[thread];
    size_t n_rows = t->n_rows[t->batches % (uint64_t)p->at_once];

    note_trained(p, thread, t->batches);
    t->batches++;
    if (n_rows)
        look_at_numbers(p, thread, fetched);
    if (p->loss_at >= 0) {
        double loss = mean_of(&fetched[p->loss_at]);

        t->loss_sum += loss * (double)n_rows;
        atomic_store(&p->loss, loss);
    }
    if (p->auc_at >= 0)
        atomic_store(&p->auc, mean_of(&fetched[p->auc_at]));
    atomic_fetch_add(&t->samples, n_rows);
    if (thread == 0 && is_time_to_print(p, t->batches))
        print_fetched(p, t->batches, fetched);
    if (thread == 0 && atomic_load(&p->wants_copies))
        copy_fetched(p, fetched);
}

/* --- one pass ------------------------------------------------------------ */

static fl_dataset_report report_of(const fl_pass_counts *c)
{
    return (fl_dataset_report){
        .samples = c->samples,
        .batches = c->batches,
        .seconds = c->seconds,
        .loss = c->samples ? c->loss_sum / (double)c->samples : NAN,
        .auc = c->auc,
    };
}

static fl_dataset_report end_pass(pass *p)
{
    fl_progress s = progress_of(p);
    fl_pass_counts c = counts_of(p);
    fl_dataset_report r = report_of(&c);

    fl_passes_end(p->exe->ctx->passes, &c);
    r.wait_seconds = s.wait_share * (s.seconds - p->before.seconds);
    s.loss = r.loss;
    s.last_seconds = p->shown_seconds;
    s.is_last = true;
    tell(p, &s);
    return r;
}

static void name_feeds(pass *p)
{
    const fl_slot *slots = fl_dataset_slots(p->data, &p->n_feeds);

    p->feed_names = fl_alloc((p->n_feeds + 1) * sizeof(*p->feed_names));
    for (size_t i = 0; i < p->n_feeds; i++)
        p->feed_names[i] = slots[i].name;
}

static fl_status run_threads(pass *p, fl_executor *e, fl_program *program)
{
    fl_hogwild_args h = { .size = sizeof(h),
                          .n_threads = p->n_threads,
                          .feed_names = p->feed_names,
                          .n_feeds = p->n_feeds,
                          .next = next_batch,
                          .fetches = p->fetches,
                          .n_fetches = p->n_fetches,
                          .on_batch = count_batch,
                          .on_end = on_thread_end,
                          .arg = p,
                          .holds_two_batches = p->at_once > 1 };
    fl_status st = fl_run_hogwild(e, program, &h);

    return st ? st : fl_ctx_ran(e->ctx, fl_err_restore(&p->error));
}

static fl_status train_threads(pass *p)
{
    fl_passes *passes = p->exe->ctx->passes;
    fl_status st = start_watcher(p);

    /* In a job it is the servers that say when a save is made. */
    if (!p->is_infer && !p->job)
        p->gate = fl_gate_new(p->n_threads, save_at_rest, p);
    if (!p->is_infer)
        fl_passes_begin(passes, &(fl_pass_now){ tell_now, p });
    if (!st)
        st = run_threads(p, p->exe, p->program);
    fl_passes_leave(passes);
    fl_gate_free(p->gate);
    stop_watcher(p);
    return st;
}

/* Counts of a pass that is gone on with are there, as they were. */
static fl_status run_pass(pass *p, fl_dataset_report *report)
{
    fl_status st;

    FL_TRY(check_handled(p, p->program));
    if (p->from)
        FL_TRY(fl_passes_restore(p->exe->ctx->passes, p->scope));
    else
        FL_TRY(fl_objective_clear_counts(p->scope, p->program, p->args->auc));
    FL_TRY(fl_dataset_begin_at(p->data, p->n_threads * p->at_once, p->from));
    name_feeds(p);
    p->began_ns = fl_now_ns();
    st = train_threads(p);
    if (p->job)
        end_report(p);
    if (!st) {
        fl_dataset_report r = end_pass(p);

        if (report)
            st = FL_ARGS_FILL(fl_dataset_report, report, &r);
    }
    fl_dataset_end(p->data);
    fl_free(p->feed_names);
    return st;
}

/* The profile of this pass, if it is asked for. */
static fl_status run_profiled(pass *p, fl_dataset_report *report)
{
    fl_ctx *c = p->exe->ctx;
    bool was_on = c->conf.profile;
    fl_status st;

    c->conf.profile = was_on || p->args->debug;
    st = run_pass(p, report);
    c->conf.profile = was_on;
    if (!st && p->args->debug) {
        char *text = fl_executor_profile(p->exe);

        tell_text(p, text);
        fl_text_free(text);
    }
    return st;
}

static fl_status check_saves(const fl_ctx *c)
{
    if (*c->conf.resume && !c->is_resumed && !c->job)
        FL_FAIL(FL_ERR_INVAL,
                "resume=%s is set, but nothing was taken from there: run the "
                "startup program first, or leave the setting out",
                c->conf.resume);
    return fl_autosave_check(c);
}

static fl_status check_args(const pass *p)
{
    if (p->n_threads < 1)
        FL_FAIL(FL_ERR_INVAL, "%d training threads: give at least one",
                p->n_threads);
    if (p->args->n_fetches && !p->args->fetches)
        FL_FAIL(FL_ERR_INVAL, "%zu fetches, but no names of them",
                p->args->n_fetches);
    return p->is_infer ? FL_OK : check_saves(p->exe->ctx);
}

static fl_status run_with_tallies(pass *p, fl_dataset_report *report)
{
    fl_status st;

    choose_fetches(p, p->program);
    p->tallies = fl_alloc((size_t)p->n_threads * sizeof(*p->tallies));
    for (int i = 0; i < p->n_threads; i++)
        p->tallies[i].last_finite = NAN;
    p->tallies[0].loss_sum =
        p->from && p->loss_at >= 0 ? p->before.loss_sum : 0;
    fl_mutex_init(&p->progress_mu);
    st = run_profiled(p, report);
    fl_mutex_release(&p->progress_mu);
    fl_free(p->tallies);
    fl_free(p->fetches);
    return st;
}

static fl_status pass_over(const pass *p, fl_dataset_report *report)
{
    fl_dataset_report r = report_of(&p->before);

    FL_TRY(fl_dataset_pass_over(p->data));
    fl_passes_end(p->exe->ctx->passes, &p->before);
    FL_INFO("train", "a pass was made before samples=%llu",
            (unsigned long long)r.samples);
    r.was_made_before = true;
    return report ? FL_ARGS_FILL(fl_dataset_report, report, &r) : FL_OK;
}

/* Makes the pass, goes on with it, or finds that it was made. */
static fl_status run_or_pass_over(pass *p, fl_dataset_report *report)
{
    fl_pass_start start;

    FL_TRY(fl_passes_next(p->exe->ctx->passes, p->is_infer, &start, &p->before,
                          &p->from));
    if (start == FL_PASS_IS_OVER)
        return pass_over(p, report);
    if (start == FL_PASS_GOES_ON) {
        p->auc = p->before.auc;
        p->shown_seconds = p->before.seconds;
        FL_INFO("train", "a pass goes on behind samples=%llu",
                (unsigned long long)p->before.samples);
    }
    return run_with_tallies(p, report);
}

static fl_status run_from_dataset(pass *p, const char *phase,
                                  fl_dataset_report *report,
                                  const fl_dataset_run_args *given)
{
    const fl_dataset_run_args *a = &p->given;
    fl_ctx *c = p->exe->ctx;

    FL_TRY(FL_ARGS_READ(fl_dataset_run_args, &p->given, given));
    p->args = a;
    p->scope = a->scope ? a->scope : fl_current_scope(c);
    p->job = c->job;
    p->phase = phase;
    p->stops_at_bad = c->conf.finite_loss;
    p->loss = p->auc = NAN;
    p->turns = p->program->accumulate ? p->program->accumulate : 1;
    p->at_once = c->comm && c->comm->can_prefetch ? BATCHES_MAX : 1;
    p->n_threads = a->n_threads ? a->n_threads : fl_dataset_threads(p->data);
    FL_TRY(check_args(p));
    return run_or_pass_over(p, report);
}

fl_status fl_train_from_dataset_with(fl_executor *e, fl_program *program,
                                     fl_dataset *d, fl_dataset_report *report,
                                     const fl_dataset_run_args *args)
{
    pass p = { .exe = e, .program = program, .data = d };

    return run_from_dataset(&p, "train", report, args);
}

fl_status fl_infer_from_dataset_with(fl_executor *e, fl_program *program,
                                     fl_dataset *d, fl_dataset_report *report,
                                     const fl_dataset_run_args *args)
{
    pass p = { .exe = e, .data = d, .is_infer = true };
    fl_status st;

    FL_TRY(fl_program_for_test(&p.program, program));
    st = run_from_dataset(&p, "infer", report, args);
    fl_executor_drop_program(e, p.program);
    fl_program_free(p.program);
    return st;
}
