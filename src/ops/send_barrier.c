/* send_barrier.c - everything of this batch has been handed over.
 *
 * It ends when the mode lets the thread go on. It reads nothing: X lists what
 * was pushed and sent, which a backend may use until then. */
#include "ops/rpc.h"

static fl_status barrier_infer(fl_infer *c)
{
    (void)c;
    return FL_OK;
}

static fl_status barrier_run(fl_op_ctx *c)
{
    fl_comm_call *call = fl_op_keep(c, sizeof(*call), NULL);

    if (c->resumed)
        return fl_comm_result(&call->answer);
    return fl_rpc_start(c, c->comm ? c->comm->data->barrier : NULL, call);
}

static const fl_op_case barrier_cases[] = {
    { .attrs = "{}" },
    { .in = { "f32[6,4]" } },
    { .in = { "f32[33,7];u64[7] below=9;f32[5,4] rows height=9" } },
    { .in = { "f32[0,8];i64[7,1] lod=[0,2,2,7]" } },
};

const fl_op fl_op_send_barrier = {
    .name = "send_barrier",
    .doc = "all that this batch pushes and sends (X) has been handed over; "
           "waits until the mode lets this thread go on",
    .in = { { "X", FL_OP_SLOT_LIST | FL_OP_SLOT_OPTIONAL | FL_OP_SLOT_ROWS |
                       FL_SLOT_NO_GRAD | FL_OP_SLOT_KEPT } },
    .flags = FL_OP_EFFECT | FL_OP_WAITS | FL_OP_TRAIN_ONLY,
    .infer = barrier_infer,
    .run = barrier_run,
    .cases = barrier_cases,
    .n_cases = FL_LEN(barrier_cases),
};
