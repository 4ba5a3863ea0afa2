/* record.c - what a pass adds to the record of its process.
 *
 * Lines come ten times a second at first and then ever more rarely, each after
 * another hundredth of the time so far: a curve of seconds and one of days have
 * points enough and no more.
 */
#include <math.h>

#include "train/pass.h"
#include "exec/scope.h"
#include "record/record.h"

#define LEAST_SECONDS 0.1
#define SHARE 0.01

/* What training threads have waited for other processes so far, each on
   average. */
static double peer_seconds(const fl_train_pass *p)
{
    fl_job_stats s = FL_INIT(fl_job_stats);

    if (!p->job || fl_job_get_stats(p->job, &s))
        return 0;
    return s.wait_seconds / p->n_threads;
}

/* An examination has counts of its own, and the model's step. */
static fl_record_pass numbers_of(fl_train_pass *p)
{
    fl_progress s = fl_train_progress(p);

    return (fl_record_pass){
        .phase = p->is_infer ? "test" : "train",
        .pass = p->record_pass,
        .step = fl_scope_step(p->is_inner ? p->scope->parent : p->scope),
        .samples = s.samples,
        .seconds = s.seconds,
        .input_seconds = s.wait_share * (s.seconds - p->before.seconds),
        .peer_seconds = peer_seconds(p) - p->peer_before,
        .loss = s.loss,
        .auc = s.auc,
    };
}

fl_status fl_train_record_begin(fl_train_pass *p)
{
    FL_TRY(fl_ctx_record(p->exe->ctx, &p->record));
    if (!p->record)
        return FL_OK;
    p->record_pass = fl_record_next_pass(p->record);
    p->record_seconds = p->before.seconds + LEAST_SECONDS;
    p->peer_before = peer_seconds(p);
    return FL_OK;
}

void fl_train_record_in_time(fl_train_pass *p)
{
    fl_record_pass n = numbers_of(p);

    if (n.seconds < p->record_seconds)
        return;
    p->record_seconds = n.seconds + fmax(LEAST_SECONDS, SHARE * n.seconds);
    if (n.samples)
        fl_record_add_pass(p->record, &n);
}

void fl_train_record_end(fl_train_pass *p, const fl_dataset_report *r)
{
    fl_record_pass n;

    if (!p->record)
        return;
    n = numbers_of(p);
    n.is_last = true;
    n.batches = r->batches;
    n.loss = r->loss;
    n.auc = r->auc;
    fl_record_add_pass(p->record, &n);
}
