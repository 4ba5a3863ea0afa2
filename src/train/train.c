/* train.c - one pass over a dataset with hogwild threads.
 *
 *     dataset -> next -> training threads -> on_batch -> counters
 *                                                 |
 *                        the watcher (watch.c): progress, fetch handler
 *
 * Where rows come from servers, a thread takes its next batches before it trains
 * on one. It is as many consumers of the dataset then, in turn, so that all these
 * batches are there.
 *
 * Between two batches all threads come to rest when a save is due, and to their
 * end when an examination is (examine.c): then they are started again. A pass
 * that a run before has made, or begun, is passed over or gone on with
 * (ctx/passes.h).
 */
#include <math.h>
#include <string.h>

#include "train/autosave.h"
#include "train/objective.h"
#include "train/pass.h"
#include "train/scales.h"
#include "base/args.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "data/dataset/dataset.h"

/* --- what is fetched ----------------------------------------------------- */

static int find_fetch(const fl_train_pass *p, const char *name)
{
    for (size_t i = 0; i < p->n_fetches; i++)
        if (strcmp(p->fetches[i], name) == 0)
            return (int)i;
    return -1;
}

static int also_fetch(fl_train_pass *p, const char *name)
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
static void choose_watched(fl_train_pass *p, fl_program *program)
{
    size_t n = p->args->n_fetches;
    int at = p->loss_at;

    if (at < 0 && !n)
        at = also_fetch(p, fl_objective_of(program));
    p->watch_lo = at >= 0 ? (size_t)at : 0;
    p->watch_hi = at >= 0 ? (size_t)at + 1 : n;
}

/* A record has a loss, also where nobody names it. */
static const char *loss_of(const fl_train_pass *p, fl_program *program)
{
    const fl_conf *conf = &p->exe->ctx->conf;

    if (p->args->loss || (!*conf->record_dir && !*conf->tensorboard_dir))
        return p->args->loss;
    return fl_objective_of(program);
}

static void choose_fetches(fl_train_pass *p, fl_program *program)
{
    const fl_dataset_run_args *a = p->args;

    p->fetches = fl_alloc((a->n_fetches + 3) * sizeof(*p->fetches));
    for (size_t i = 0; i < a->n_fetches; i++)
        p->fetches[p->n_fetches++] = a->fetches[i];
    p->loss_at = also_fetch(p, loss_of(p, program));
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

/* The first error is that of the pass. */
static void fail_pass(fl_train_pass *p, fl_status st)
{
    fl_lock(&p->mu);
    if (!p->error.status)
        fl_err_save(&p->error, st);
    fl_unlock(&p->mu);
}

/* Says which number went wrong and when, once per pass. */
static void on_bad(fl_train_pass *p, int thread, const char *name, double value)
{
    const fl_train_tally *t = &p->tallies[thread];
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
    fail_pass(p, st);
}

/* A single float, or the loss, which may be a few. */
static bool is_watched(const fl_train_pass *p, size_t i, const fl_tensor *t)
{
    int64_t n = fl_tensor_numel(t);

    return (t->dtype == FL_DTYPE_F32 || t->dtype == FL_DTYPE_F64) &&
           (n == 1 || (n > 1 && (int)i == p->loss_at));
}

static void look_at_numbers(fl_train_pass *p, int thread,
                            const fl_tensor *fetched)
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

/* --- saves in the midst --------------------------------------------------- */

uint64_t fl_train_batches(const fl_train_pass *p)
{
    uint64_t n = p->before.batches;

    for (int i = 0; p->tallies && i < p->n_threads; i++)
        n += p->tallies[i].batches;
    return n;
}

static fl_pass_counts counts_of(fl_train_pass *p)
{
    fl_progress s = fl_train_progress(p);
    fl_pass_counts c = { .is_infer = p->is_infer,
                         .samples = s.samples,
                         .batches = fl_train_batches(p),
                         .seconds = s.seconds,
                         .loss_sum = p->loss_at >= 0 ? 0 : NAN,
                         .auc = s.auc };

    for (int i = 0; i < p->n_threads; i++)
        c.loss_sum += p->tallies[i].loss_sum;
    return c;
}

static fl_status tell_now(void *arg, fl_pass_counts *counts,
                          fl_position *position)
{
    fl_train_pass *p = arg;

    *counts = counts_of(p);
    return fl_dataset_position(p->data, position);
}

/* All threads are between two steps. A save that fails does not end what would
   have been saved. */
static void save_at_rest(void *arg)
{
    fl_train_pass *p = arg;
    fl_err kept;

    if (p->stops_at_bad && atomic_load(&p->has_bad))
        return;
    fl_err_save(&kept, FL_OK);
    fl_autosave(p->exe, p->program, p->scope);
    (void)fl_err_restore(&kept);
}

static void on_thread_end(void *arg, int thread, fl_status st)
{
    fl_train_pass *p = arg;

    (void)thread;
    if (p->gate)
        fl_gate_leave(p->gate, st != FL_OK);
}

/* --- training threads ---------------------------------------------------- */

/* The consumer of the dataset that has a batch of a thread. */
static int consumer_of(const fl_train_pass *p, int thread, uint64_t batch)
{
    return thread + (int)(batch % (uint64_t)p->at_once) * p->n_threads;
}

/* Interrupted? Data that ended by that did not end. */
static bool is_broken_off(fl_train_pass *p)
{
    if (!atomic_load(&p->is_interrupted))
        return false;
    fail_pass(p, fl_interrupted("the pass over the data"));
    return true;
}

static bool next_batch(void *arg, int thread, fl_feed *feeds)
{
    fl_train_pass *p = arg;
    fl_train_tally *t = &p->tallies[thread];
    const fl_feed *got = NULL;
    fl_status st;

    if (p->gate && t->taken % p->turns == 0)
        fl_gate_enter(p->gate);
    if (is_broken_off(p) || (p->stops_at_bad && atomic_load(&p->has_bad)) ||
        atomic_load(&p->is_ended) || fl_train_rests(p))
        return false;
    st = fl_dataset_next(p->data, consumer_of(p, thread, t->taken), &got,
                         &t->n_rows[t->taken % (uint64_t)p->at_once]);
    if (st)
        fail_pass(p, st);
    else if (!got)
        (void)is_broken_off(p);
    if (!got)
        return false;
    if (!thread && !t->taken && !p->is_infer)
        fl_scales_look(p->exe->ctx, p->program, got, p->n_feeds);
    t->feeds[t->taken % (uint64_t)p->at_once] = got;
    t->taken++;
    for (size_t i = 0; i < p->n_feeds; i++)
        feeds[i] = got[p->feed_slots[i]];
    return true;
}

/* A batch that was trained is part of what is saved from now on. */
static void note_trained(fl_train_pass *p, int thread, uint64_t batch)
{
    if (p->is_infer)
        return;
    fl_dataset_trained(p->data, consumer_of(p, thread, batch));
    if (p->gate && fl_autosave_is_due(p->exe->ctx, p->scope))
        fl_gate_ask(p->gate);
}

/* The caller looks at the batch that a thread has just made. */
static void show_batch(fl_train_pass *p, int thread, const fl_tensor *fetched)
{
    const fl_dataset_run_args *a = p->args;
    const fl_train_tally *t = &p->tallies[thread];
    uint64_t at = t->batches % (uint64_t)p->at_once;

    if (!a->on_batch || !t->n_rows[at] || atomic_load(&p->is_ended) ||
        a->on_batch(a->batch_arg, thread, t->feeds[at], t->n_rows[at], fetched))
        return;
    if (!atomic_exchange(&p->is_ended, true))
        fail_pass(p, fl_err_set(FL_ERR_CLOSED,
                                "on_batch has ended the pass over the data"));
}

static void count_batch(void *arg, int thread, const fl_tensor *fetched)
{
    fl_train_pass *p = arg;
    fl_train_tally *t = &p->tallies[thread];
    size_t n_rows = t->n_rows[t->batches % (uint64_t)p->at_once];

    show_batch(p, thread, fetched);
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
    if (thread == 0)
        fl_train_show(p, t->batches, fetched);
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

static fl_dataset_report end_pass(fl_train_pass *p)
{
    fl_progress s = fl_train_progress(p);
    fl_pass_counts c = counts_of(p);
    fl_dataset_report r = report_of(&c);

    if (!p->is_inner)
        fl_passes_end(p->exe->ctx->passes, &c);
    r.wait_seconds = s.wait_share * (s.seconds - p->before.seconds);
    fl_train_record_end(p, &r);
    s.loss = r.loss;
    s.last_seconds = p->shown_seconds;
    s.is_last = true;
    fl_train_tell(p, &s);
    return r;
}

static bool is_fed(const fl_train_pass *p, const char *name)
{
    const fl_var *v = fl_program_var(p->program, name);

    return !p->args->skip_unused || (v && (v->flags & FL_VAR_DATA));
}

static void name_feeds(fl_train_pass *p)
{
    size_t n;
    const fl_slot *slots = fl_dataset_slots(p->data, &n);

    p->feed_names = fl_alloc((n + 1) * sizeof(*p->feed_names));
    p->feed_slots = fl_alloc((n + 1) * sizeof(*p->feed_slots));
    p->n_feeds = 0;
    for (size_t i = 0; i < n; i++)
        if (is_fed(p, slots[i].name)) {
            p->feed_names[p->n_feeds] = slots[i].name;
            p->feed_slots[p->n_feeds++] = i;
        }
}

static fl_status run_threads(fl_train_pass *p, fl_executor *e,
                             fl_program *program)
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
                          .scope = p->scope,
                          .holds_batches = p->at_once };
    fl_status st = fl_run_hogwild(e, program, &h);

    return st ? st : fl_ctx_ran(e->ctx, fl_err_restore(&p->error));
}

/* Until the data ends, or an examination is due. */
static fl_status train_part(fl_train_pass *p)
{
    fl_status st;

    /* In a job it is the servers that say when a save is made. */
    if (!p->is_infer && !p->job)
        p->gate = fl_gate_new(p->n_threads, save_at_rest, p);
    fl_train_plan_test(p);
    st = run_threads(p, p->exe, p->program);
    fl_gate_free(p->gate);
    p->gate = NULL;
    return st;
}

static fl_status train_parts(fl_train_pass *p)
{
    bool goes_on = true;

    while (goes_on) {
        fl_status st;

        FL_TRY(train_part(p));
        fl_train_stop_clock(p);
        st = fl_train_test(p, &goes_on);
        fl_train_start_clock(p);
        FL_TRY(st);
    }
    return FL_OK;
}

/* Threads end behind their batches; those that wait for data are woken. */
static void interrupt(void *arg)
{
    fl_train_pass *p = arg;

    atomic_store(&p->is_interrupted, true);
    fl_dataset_interrupt(p->data);
}

static fl_status train_threads(fl_train_pass *p)
{
    fl_interruptible me = { .kind = FL_INTERRUPT_SOON,
                            .stop = interrupt,
                            .arg = p };
    fl_status st = fl_train_watch(p);

    fl_interruptible_enter(&me);
    if (!p->is_infer)
        fl_passes_begin(p->exe->ctx->passes, &(fl_pass_now){ tell_now, p });
    if (!st)
        st = train_parts(p);
    fl_interruptible_leave(&me);
    fl_train_unwatch(p);
    return st;
}

/* Counts of a pass that is gone on with are there, as they were. A job may be
   saved at any moment: the pass is under way until it is counted as one that is
   over. */
static fl_status run_pass(fl_train_pass *p, fl_dataset_report *report)
{
    fl_status st;

    FL_TRY(fl_train_check_handled(p));
    if (p->is_infer && !p->is_inner)
        FL_TRY(fl_train_refresh(p));
    FL_TRY(fl_train_record_begin(p));
    if (p->from)
        FL_TRY(fl_passes_restore(p->exe->ctx->passes, p->scope));
    else
        FL_TRY(fl_objective_clear_counts(p->scope, p->program, p->args->auc));
    FL_TRY(fl_dataset_begin_at(p->data, p->n_threads * p->at_once, p->from));
    name_feeds(p);
    p->total = p->args->total_records ? p->args->total_records
                                      : fl_dataset_records(p->data);
    p->began_ns = fl_now_ns();
    st = train_threads(p);
    if (!st && !p->is_infer)
        st = fl_train_settle(p);
    if (p->job)
        fl_train_end_report(p);
    if (st && !p->is_infer)
        fl_passes_leave(p->exe->ctx->passes);
    if (!st) {
        fl_dataset_report r = end_pass(p);

        if (!atomic_load(&p->is_interrupted))
            fl_dataset_set_records(p->data, r.samples);

        if (report)
            st = FL_ARGS_FILL(fl_dataset_report, report, &r);
    }
    fl_dataset_end(p->data);
    fl_free(p->feed_names);
    fl_free(p->feed_slots);
    return st;
}

/* The profile of this pass, if it is asked for. */
static fl_status run_profiled(fl_train_pass *p, fl_dataset_report *report)
{
    fl_ctx *c = p->exe->ctx;
    bool was_on = c->conf.profile;
    fl_status st;

    c->conf.profile = was_on || p->args->debug;
    st = run_pass(p, report);
    c->conf.profile = was_on;
    if (!st && p->args->debug) {
        char *text = fl_executor_profile(p->exe);

        fl_train_tell_text(p, text);
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

static fl_status check_args(const fl_train_pass *p)
{
    if (p->n_threads < 1)
        FL_FAIL(FL_ERR_INVAL, "%d training threads: give at least one",
                p->n_threads);
    if (p->args->n_fetches && !p->args->fetches)
        FL_FAIL(FL_ERR_INVAL, "%zu fetches, but no names of them",
                p->args->n_fetches);
    return p->is_infer ? FL_OK : check_saves(p->exe->ctx);
}

fl_status fl_train_run(fl_train_pass *p, fl_dataset_report *report)
{
    fl_status st;

    choose_fetches(p, p->program);
    p->tallies = fl_alloc((size_t)p->n_threads * sizeof(*p->tallies));
    for (int i = 0; i < p->n_threads; i++)
        p->tallies[i].last_finite = NAN;
    p->tallies[0].loss_sum =
        p->from && p->loss_at >= 0 ? p->before.loss_sum : 0;
    fl_mutex_init(&p->progress_mu);
    fl_mutex_init(&p->clock_mu);
    st = run_profiled(p, report);
    fl_mutex_release(&p->clock_mu);
    fl_mutex_release(&p->progress_mu);
    fl_free(p->tallies);
    fl_free(p->fetches);
    return st;
}

/* Other workers may have some of it left, and examine. */
static fl_status pass_over(fl_train_pass *p, fl_dataset_report *report)
{
    fl_dataset_report r = report_of(&p->before);
    bool goes_on;

    FL_TRY(fl_dataset_pass_over(p->data));
    FL_TRY(fl_train_test(p, &goes_on));
    fl_passes_end(p->exe->ctx->passes, &p->before);
    FL_INFO("train", "a pass was made before samples=%llu",
            (unsigned long long)r.samples);
    r.was_made_before = true;
    return report ? FL_ARGS_FILL(fl_dataset_report, report, &r) : FL_OK;
}

/* Makes the pass, goes on with it, or finds that it was made. */
static fl_status run_or_pass_over(fl_train_pass *p, fl_dataset_report *report)
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
    return fl_train_run(p, report);
}

/* Those that are asked for together, as many that are trained meanwhile, and one
   to come. */
static int at_once(const fl_comm *c)
{
    int n = c && c->n_ahead ? 2 * c->n_ahead + 1 : 1;

    return n < FL_TRAIN_BATCHES_MAX ? n : FL_TRAIN_BATCHES_MAX;
}

fl_status fl_train_init(fl_train_pass *p, const fl_dataset_run_args *given)
{
    const fl_dataset_run_args *a = &p->given;
    fl_ctx *c = p->exe->ctx;

    FL_TRY(FL_ARGS_READ(fl_dataset_run_args, &p->given, given));
    p->args = a;
    p->scope = a->scope ? a->scope : fl_current_scope(c);
    p->stops_at_bad = c->conf.finite_loss;
    p->loss = p->auc = NAN;
    p->turns = p->program->accumulate ? p->program->accumulate : 1;
    p->at_once = at_once(c->comm);
    p->n_threads = a->n_threads ? a->n_threads : fl_dataset_threads(p->data);
    return check_args(p);
}

static fl_status run_from_dataset(fl_train_pass *p, const char *phase,
                                  fl_dataset_report *report,
                                  const fl_dataset_run_args *given)
{
    fl_status st = fl_train_init(p, given);

    p->job = p->exe->ctx->job;
    p->phase = phase;
    if (!st)
        st = fl_train_begin_tests(p);
    if (!st)
        st = run_or_pass_over(p, report);
    fl_train_end_tests(p);
    return st;
}

fl_status fl_train_from_dataset_with(fl_executor *e, fl_program *program,
                                     fl_dataset *d, fl_dataset_report *report,
                                     const fl_dataset_run_args *args)
{
    fl_train_pass p = { .exe = e, .program = program, .data = d };

    return run_from_dataset(&p, "train", report, args);
}

fl_status fl_infer_from_dataset_with(fl_executor *e, fl_program *program,
                                     fl_dataset *d, fl_dataset_report *report,
                                     const fl_dataset_run_args *args)
{
    fl_train_pass p = { .exe = e, .data = d, .is_infer = true };
    fl_status st;

    FL_TRY(fl_program_for_test(&p.program, program));
    st = run_from_dataset(&p, "infer", report, args);
    fl_executor_drop_program(e, p.program->id);
    fl_program_free(p.program);
    return st;
}
