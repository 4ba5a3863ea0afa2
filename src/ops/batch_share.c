/* batch_share.c - what the batch of this worker counts in the step.
 *
 * How much that is says the mode: by the samples of all workers, which it asks
 * them for while the batch computes. A worker alone counts 1. */
#include "ir/comm.h"
#include "ops/kit.h"

enum { OUT };

static fl_status share_infer(fl_infer *c)
{
    fl_infer_dense(c, OUT, FL_DTYPE_F64, 1, (int64_t[]){ 1 });
    return FL_OK;
}

static fl_status share_run(fl_op_ctx *c)
{
    fl_comm_share *r = fl_op_keep(c, sizeof(*r), NULL);
    double *out = fl_out(c, OUT);
    fl_status st;

    if (!c->comm || !c->comm->data->share) {
        *out = 1;
        return FL_OK;
    }
    if (!c->resumed) {
        r->samples = c->samples;
        r->worker = c->worker;
        fl_comm_begin(&r->answer, c->waker);
    }
    st = c->resumed ? fl_comm_result(&r->answer)
                    : c->comm->data->share(c->comm, r);
    if (!st)
        *out = r->share;
    return st;
}

static const fl_op_case share_cases[] = { { .attrs = "{}" } };

const fl_op fl_op_batch_share = {
    .name = "batch_share",
    .doc =
        "Out = what this worker's gradients count in the sum over all "
        "workers, by the samples of their batches or as gradient_weight says",
    .out = { { "Out", 0 } },
    .flags = FL_OP_EFFECT | FL_OP_WAITS | FL_OP_ORDERED | FL_OP_TRAIN_ONLY,
    .infer = share_infer,
    .run = share_run,
    .cases = share_cases,
    .n_cases = FL_LEN(share_cases),
};
