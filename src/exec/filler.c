/* filler.c - a step without a batch, where others have one.
 *
 * A worker that has no more data still takes part in the steps of the others, so
 * that its parameters stay what theirs are: schedules run, then the update, with
 * gradients of zeros that count nothing. Tables get nothing from it.
 */
#include "base/alloc.h"
#include "exec/executor.h"
#include "exec/turns.h"
#include "ir/comm.h"

/* The variable as no batch has it: zeros, or no rows. */
static fl_status make_empty(fl_runner *r, int var)
{
    const fl_var *v = r->plan->vars[var].var;
    fl_tensor *t = &r->tensors[var];
    size_t bytes;

    t->shape = v->meta.shape;
    if (t->kind == FL_KIND_ROWS)
        t->shape.dim[0] = 0;
    if (fl_shape_numel(&t->shape) < 0)
        FL_FAIL(FL_ERR_INVAL,
                "the update reads %s, whose shape is that of a batch, and this "
                "worker has no more batches; give all workers the same number "
                "of them",
                v->name);
    FL_TRY(fl_runner_place(r, var));
    FL_TRY(fl_tensor_bytes(t, &bytes));
    if (bytes)
        memset(t->data, 0, bytes);
    return FL_OK;
}

static fl_status empty_all(fl_runner *r)
{
    int *vars = fl_alloc(sizeof(*vars) * ((size_t)r->plan->n_vars + 1));
    int n = fl_plan_crossing(r->plan, vars);
    fl_status st = FL_OK;

    for (int i = 0; i < n && !st; i++)
        st = make_empty(r, vars[i]);
    fl_free(vars);
    return st;
}

/* Temporaries of schedules may lie where gradients do. */
static fl_status run_parts(fl_runner *r)
{
    FL_TRY(fl_runner_run(r, FL_PART_RATES, NULL));
    FL_TRY(empty_all(r));
    return fl_runner_run(r, FL_PART_UPDATE, NULL);
}

/* Batches of a step that has not come to its end are left out. */
static fl_status fill_step(fl_executor *e, fl_unit *u)
{
    fl_runner *r = u->runners[0];
    fl_worker_id seat = r->worker;
    fl_status st;

    r->turn = r->plan->n_turns - 1;
    r->worker = (fl_worker_id){ .n_parts = 1, .scale = 1 };
    st = fl_runner_begin(r, fl_unit_next_step(e, u, 0), 0);
    r->samples = 0;
    if (!st)
        st = run_parts(r);
    r->turn = 0;
    r->worker = seat;
    return st;
}

/* What all workers run together on a batch cannot be run without one. */
static fl_status check_plan(const fl_plan *p)
{
    char text[FL_NODE_TEXT_MAX];

    for (int i = 0; i < p->n_steps; i++)
        if ((p->steps[i].node->def->flags & FL_OP_ORDERED) &&
            p->steps[i].part != FL_PART_UPDATE)
            FL_FAIL(FL_ERR_INVAL,
                    "this worker has no more batches, and the others wait for "
                    "it in %s; give all workers the same number of batches",
                    fl_node_text(p->steps[i].node, text));
    return FL_OK;
}

static fl_status fill(void *arg)
{
    fl_executor *e = arg;
    fl_unit *u = e->trained;
    fl_status st;

    if (!u)
        FL_FAIL(FL_ERR_INVAL,
                "other workers train, and the program that this one trained is "
                "gone; stop the job before it is freed");
    FL_TRY(check_plan(u->plan));
    fl_unit_begin_batch(e, u);
    st = fill_step(e, u);
    fl_unit_end_batch(e, u);
    return st;
}

void fl_unit_offer(fl_executor *e, fl_unit *u)
{
    fl_comm *comm = e->options.comm;

    if (!u->plan->trains || !comm || !comm->life->drain)
        return;
    e->trained = u;
    e->offers = true;
    comm->filler.run = fill;
    comm->filler.arg = e;
}
