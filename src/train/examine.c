/* examine.c - examinations in the midst of a pass that trains.
 *
 *     threads train | all are at their end | threads train | ...
 *                     meet, infer, tell
 *
 * Training comes to its end as it does when there is no more data, in every
 * mode: nothing is under way, and what was handed over is settled. Then the
 * program for test runs over the other data, in a scope over that of training
 * where the metrics count from zero. So what training has counted stays as it is,
 * for itself and for a save that is made meanwhile.
 *
 * In a job all workers meet before each examination and bring whether they have
 * data left; one that has none examines with the others until nobody has.
 */
#include <string.h>

#include "train/pass.h"
#include "ir/comm.h"
#include "flotilla/experimental/mode.h"

#define NAME "test" /* of the gathers */

/* --- what is examined ------------------------------------------------------ */

static fl_status check_tests(const fl_train_pass *p)
{
    const fl_dataset_run_args *a = p->args;

    if (p->is_infer && (a->test || a->test_every))
        FL_FAIL(FL_ERR_INVAL,
                "a pass that infers trains nothing that could be examined in "
                "its midst; leave test and test_every out");
    if (!a->test != !a->test_every)
        FL_FAIL(FL_ERR_INVAL, "examining in the midst of training needs both, "
                              "data (test) and how often (test_every)");
    if (a->test && a->test == p->data)
        FL_FAIL(FL_ERR_INVAL,
                "test is the dataset that is trained on, which is in the midst "
                "of a pass; open a second one");
    return FL_OK;
}

/* A variable that the operator counts in begins at zero in the scope. */
static fl_status count_from_zero(fl_scope *s, const fl_var *v)
{
    fl_tensor t;
    size_t bytes;

    FL_TRY(fl_scope_get(s, v->name, &t));
    FL_TRY(fl_tensor_bytes(&t, &bytes));
    FL_TRY(fl_scope_reserve(s, v->name, &t, &t));
    memset(t.data, 0, bytes);
    return FL_OK;
}

static fl_status clear_slot(fl_scope *s, const fl_op_node *n, int slot)
{
    if (!n->is_grad && (n->def->in[slot].flags & FL_OP_SLOT_COUNT))
        for (int i = 0; i < n->in[slot].n; i++)
            FL_TRY(count_from_zero(s, n->in[slot].vars[i]));
    return FL_OK;
}

static fl_status clear_counts(fl_scope *s, const fl_program *program)
{
    for (size_t b = 0; b < program->blocks.len; b++)
        for (const fl_op_node *n = program->blocks.data[b]->first; n;
             n = n->next)
            for (int slot = 0; slot < fl_node_n_in(n); slot++)
                FL_TRY(clear_slot(s, n, slot));
    return FL_OK;
}

fl_status fl_train_begin_tests(fl_train_pass *p)
{
    FL_TRY(check_tests(p));
    if (!p->args->test)
        return FL_OK;
    FL_TRY(fl_program_for_test(&p->test_program, p->program));
    if (p->job)
        atomic_store(&p->job->meets, true);
    return fl_scope_new(&p->test_scope, p->scope);
}

void fl_train_end_tests(fl_train_pass *p)
{
    if (p->job)
        atomic_store(&p->job->meets, false);
    if (p->test_program)
        fl_executor_drop_program(p->exe, p->test_program->id);
    fl_program_free(p->test_program);
    fl_scope_free(p->test_scope);
}

/* --- when ------------------------------------------------------------------ */

void fl_train_plan_test(fl_train_pass *p)
{
    uint64_t every = p->args->test_every;

    if (!p->test_program)
        return;
    atomic_store(&p->is_test_due, false);
    atomic_store(&p->n_until_test,
                 (int64_t)(every - fl_train_batches(p) % every));
}

bool fl_train_rests(fl_train_pass *p)
{
    if (!p->test_program || atomic_fetch_sub(&p->n_until_test, 1) > 0)
        return false;
    atomic_store(&p->is_test_due, true);
    return true;
}

/* --- together -------------------------------------------------------------- */

static bool has_data(const fl_gather_piece *piece)
{
    return piece->len && *(const uint8_t *)piece->bytes;
}

static fl_status meet_workers(fl_job *j, bool mine, bool *anybody)
{
    uint8_t brings = mine;
    fl_client_gathered got;

    FL_TRY(fl_cluster_gather(j->cluster, NAME, ++j->n_tests,
                             (fl_msg_bytes){ &brings, sizeof(brings) }, &got));
    for (size_t i = 0; i < got.pieces.len; i++)
        *anybody |= has_data(&got.pieces.data[i]);
    fl_client_gathered_release(&got);
    return FL_OK;
}

fl_status fl_train_settle(const fl_train_pass *p)
{
    fl_comm *comm = p->exe->ctx->comm;

    return p->job && comm && comm->life->settle ? comm->life->settle(comm)
                                                : FL_OK;
}

/* Does this worker only look at dense parameters that servers hold? */
static bool has_views(const fl_job *j)
{
    return j && j->cluster && j->mode && !j->mode->workers_serve &&
           !j->dist->config.server_adds;
}

/* Copies of its own, which other modes have, get what is new by settling. */
fl_status fl_train_refresh(const fl_train_pass *p)
{
    FL_TRY(fl_train_settle(p));
    return has_views(p->job) ? fl_mode_recv_all(p->job) : FL_OK;
}

/* Whether a worker has an examination due, this one or another. */
static fl_status meet(fl_train_pass *p, bool mine, bool *anybody)
{
    *anybody = mine;
    FL_TRY(fl_train_settle(p));
    return p->job && p->job->cluster ? meet_workers(p->job, mine, anybody)
                                     : FL_OK;
}

/* --- an examination -------------------------------------------------------- */

static fl_status infer(fl_train_pass *p, fl_dataset_report *report)
{
    const fl_dataset_run_args *a = p->args;
    fl_train_pass inner = { .exe = p->exe,
                            .program = p->test_program,
                            .data = a->test,
                            .is_infer = true,
                            .is_inner = true };

    FL_TRY(fl_train_refresh(p));
    FL_TRY(clear_counts(p->test_scope, p->test_program));
    FL_TRY(fl_train_init(&inner,
                         FL_OPTIONS(fl_dataset_run_args,
                                    .n_threads = p->n_threads, .loss = a->loss,
                                    .auc = a->auc, .scope = p->test_scope,
                                    .skip_unused = a->skip_unused)));
    return fl_train_run(&inner, report);
}

static fl_status examine(fl_train_pass *p)
{
    const fl_dataset_run_args *a = p->args;
    fl_dataset_report report = FL_INIT(fl_dataset_report);
    fl_status st = infer(p, &report);

    if (!st && a->on_test)
        st = a->on_test(a->test_arg, &report, p->test_scope);
    return fl_err_ctx(st, "examining behind batch %llu",
                      (unsigned long long)fl_train_batches(p));
}

/* Where others need this worker for their steps they have it until they rest
   again, as it would have them at the end of its own batches. */
static fl_status help_others(const fl_train_pass *p)
{
    fl_comm *comm = p->exe->ctx->comm;

    return comm && comm->life->drain ? comm->life->drain(comm) : FL_OK;
}

/* Until nobody has data any more, or this worker goes on with its own. */
static fl_status test(fl_train_pass *p, bool mine)
{
    bool anybody;

    do {
        FL_TRY(meet(p, mine, &anybody));
        if (anybody)
            FL_TRY(examine(p));
        if (anybody && !mine)
            FL_TRY(help_others(p));
    } while (anybody && !mine);
    return FL_OK;
}

fl_status fl_train_test(fl_train_pass *p, bool *goes_on)
{
    *goes_on = false;
    if (!p->test_program)
        return FL_OK;
    *goes_on = atomic_load(&p->is_test_due);
    return test(p, *goes_on);
}
