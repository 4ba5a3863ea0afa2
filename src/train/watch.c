/* watch.c - what is told of a pass: printed values, progress, fetch handler.
 *
 * Training threads share nothing with the watcher but a few counters; thread 0
 * alone prints, and copies what it fetched when the watcher has asked for it.
 */
#include <math.h>
#include <string.h>

#include "train/pass.h"
#include "base/log.h"
#include "data/dataset/dataset.h"

#define WATCH_MS 100
#define REPORT_NS UINT64_C(1000000000)
#define PRINT_PERIOD 100
#define PROGRESS_SECONDS 1.0
#define HANDLER_SECONDS 60.0

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

void fl_train_stop_clock(fl_train_pass *p)
{
    fl_lock(&p->clock_mu);
    p->stopped_ns = fl_now_ns();
    fl_unlock(&p->clock_mu);
}

void fl_train_start_clock(fl_train_pass *p)
{
    fl_lock(&p->clock_mu);
    p->rest_ns += fl_now_ns() - p->stopped_ns;
    p->stopped_ns = 0;
    fl_unlock(&p->clock_mu);
}

static double seconds_of(fl_train_pass *p)
{
    uint64_t now_ns, rest_ns;

    fl_lock(&p->clock_mu);
    now_ns = p->stopped_ns ? p->stopped_ns : fl_now_ns();
    rest_ns = p->rest_ns;
    fl_unlock(&p->clock_mu);
    return 1e-9 * (double)(now_ns - p->began_ns - rest_ns);
}

fl_progress fl_train_progress(fl_train_pass *p)
{
    double seconds = seconds_of(p);
    fl_progress s =
        FL_INIT(fl_progress, .total = p->total, .samples = p->before.samples);

    for (int i = 0; i < p->n_threads; i++)
        s.samples += atomic_load(&p->tallies[i].samples);
    s.seconds = p->before.seconds + seconds;
    s.has_loss = p->loss_at >= 0 && s.samples;
    s.loss = atomic_load(&p->loss);
    s.auc = atomic_load(&p->auc);
    s.wait_share = fl_dataset_waited(p->data) / (seconds * p->n_threads + 1e-9);
    if (p->job) {
        s.worker = fl_job_rank(p->job);
        s.n_workers = p->job->dist->config.n_trainers;
        s.job_samples_per_second = fl_job_rate(p->job);
    }
    return s;
}

void fl_train_tell(fl_train_pass *p, const fl_progress *s)
{
    if (!p->args->on_progress)
        return;
    fl_lock(&p->progress_mu);
    p->args->on_progress(p->args->progress_arg, s);
    fl_unlock(&p->progress_mu);
}

/* To the progress, or to the log when nobody is told. */
void fl_train_tell_text(fl_train_pass *p, const char *text)
{
    fl_progress s = fl_train_progress(p);

    s.text = text;
    if (p->args->on_progress)
        fl_train_tell(p, &s);
    else
        FL_INFO("train", "%s", text);
}

static void print_fetched(fl_train_pass *p, uint64_t batch,
                          const fl_tensor *fetched)
{
    const fl_dataset_run_args *a = p->args;
    fl_str s = { 0 };

    fl_str_addf(&s, "batch %llu:", (unsigned long long)batch);
    for (size_t i = 0; i < a->n_fetches; i++) {
        fl_str_addf(&s, "%s %s", i ? "," : "",
                    a->fetch_info ? a->fetch_info[i] : a->fetches[i]);
        add_value(&s, &fetched[i]);
    }
    fl_train_tell_text(p, fl_str_text(&s));
    fl_str_release(&s);
}

static bool is_time_to_print(const fl_train_pass *p, uint64_t batch)
{
    int period = p->args->print_period ? p->args->print_period : PRINT_PERIOD;

    return p->args->n_fetches && period > 0 && batch % (uint64_t)period == 0;
}

/* --- the watcher --------------------------------------------------------- */

/* Thread 0 copies; the watcher hands the copies to the caller. */
static void copy_fetched(fl_train_pass *p, const fl_tensor *fetched)
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

void fl_train_show(fl_train_pass *p, uint64_t batch, const fl_tensor *fetched)
{
    if (is_time_to_print(p, batch))
        print_fetched(p, batch, fetched);
    if (atomic_load(&p->wants_copies))
        copy_fetched(p, fetched);
}

/* Ragged values point to offsets that are not copied. */
fl_status fl_train_check_handled(const fl_train_pass *p)
{
    const fl_dataset_run_args *a = p->args;

    for (size_t i = 0; a->fetch_handler && i < a->n_fetches; i++) {
        const fl_var *v = fl_program_var(p->program, a->fetches[i]);

        if (v && v->meta.n_lod > 0)
            FL_FAIL(FL_ERR_INVAL,
                    "%s has sequences: a fetch handler gets dense values only",
                    a->fetches[i]);
    }
    return FL_OK;
}

/* Under the lock, which the handler runs without. */
static void call_handler(fl_train_pass *p, uint64_t *next_ns)
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

/* Until there is a loss, the one of the pass before stands. */
static void tell_job(fl_train_pass *p, const char *phase)
{
    fl_progress s = fl_train_progress(p);
    const fl_job *j = p->job;

    fl_job_report_later(p->job, phase,
                        &(fl_report_request){
                            .samples = j->n_samples + s.samples,
                            .loss = isnan(s.loss) ? j->loss : s.loss,
                            .auc = isnan(s.auc) ? j->auc : s.auc,
                            .expected = s.total ? j->n_samples + s.total : 0,
                        });
}

/* At once, as the pass may be short, and then about once a second. */
static void report_in_time(fl_train_pass *p)
{
    if (fl_now_ns() < p->report_ns)
        return;
    p->report_ns = fl_now_ns() + REPORT_NS;
    tell_job(p, p->phase);
}

/* After the watcher. */
void fl_train_end_report(fl_train_pass *p)
{
    fl_progress s = fl_train_progress(p);

    tell_job(p, "idle");
    p->job->n_samples += s.samples;
    p->job->loss = s.loss;
    p->job->auc = s.auc;
}

static void tell_in_time(fl_train_pass *p)
{
    fl_progress s = fl_train_progress(p);

    if (s.seconds < p->shown_seconds + PROGRESS_SECONDS)
        return;
    s.last_seconds = p->shown_seconds;
    p->shown_seconds = s.seconds;
    fl_train_tell(p, &s);
}

static void watch(void *arg)
{
    fl_train_pass *p = arg;
    uint64_t next_ns = p->began_ns;

    if (p->job)
        report_in_time(p);
    fl_lock(&p->mu);
    while (!p->is_over) {
        fl_cond_wait_until(&p->wake, &p->mu,
                           fl_now_ns() + WATCH_MS * UINT64_C(1000000));
        if (p->args->fetch_handler)
            call_handler(p, &next_ns);
        tell_in_time(p);
        if (p->job)
            report_in_time(p);
        if (p->record)
            fl_train_record_in_time(p);
    }
    fl_unlock(&p->mu);
}

fl_status fl_train_watch(fl_train_pass *p)
{
    size_t n = p->args->n_fetches;

    fl_mutex_init(&p->mu);
    fl_cond_init(&p->wake);
    p->copies = fl_alloc((n + 1) * sizeof(*p->copies));
    p->copied = fl_alloc((n + 1) * sizeof(*p->copied));
    p->report_ns = p->began_ns;
    if (!p->args->on_progress && !p->args->fetch_handler && !p->job &&
        !p->record)
        return FL_OK;
    return fl_thread_start(&p->watcher, "fl-watch", watch, p);
}

void fl_train_unwatch(fl_train_pass *p)
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
