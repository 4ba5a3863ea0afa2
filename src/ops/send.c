/* send.c - hands the gradient of a dense parameter over to the servers.
 *
 * What becomes of it is the backend's to say. Nothing is copied here: X lives
 * until the send_barrier that lists it. */
#include "ops/rpc.h"

enum { PARAM, X };

typedef struct send_state {
    fl_comm_call call;
    fl_param_values value;
} send_state;

static fl_status send_infer(fl_infer *c)
{
    const fl_tensor *param = fl_infer_in(c, PARAM), *x = fl_infer_in(c, X);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    if (param->dtype != FL_DTYPE_F32 || x->dtype != FL_DTYPE_F32 ||
        param->n_lod || x->n_lod)
        FL_FAIL(FL_ERR_INVAL,
                "op send: %s and %s must be dense f32; servers hold nothing "
                "else",
                fl_infer_text(c, PARAM, a), fl_infer_text(c, X, b));
    if (!fl_shape_matches(&param->shape, &x->shape))
        FL_FAIL(FL_ERR_INVAL, "op send: %s and %s have different shapes",
                fl_infer_text(c, PARAM, a), fl_infer_text(c, X, b));
    return FL_OK;
}

static fl_status send_run(fl_op_ctx *c)
{
    send_state *s = fl_op_keep(c, sizeof(*s), NULL);
    const fl_tensor *x = fl_in_t(c, X);

    if (c->resumed)
        return fl_comm_result(&s->call.answer);
    s->value = (fl_param_values){ c->node->in[PARAM].vars[0]->name, x->data,
                                  (size_t)fl_tensor_numel(x) };
    s->call.values = &s->value;
    s->call.n = 1;
    return fl_rpc_start(c, c->comm ? c->comm->data->send : NULL, &s->call);
}

static const fl_op_case send_cases[] = {
    { .in = { "f32[33]", "f32[33]" } },
    { .in = { "f32[33,7]", "f32[33,7]" } },
    { .in = { "f32[0,8]", "f32[0,8]" } },
};

const fl_op fl_op_send = {
    .name = "send",
    .doc = "hands X, the gradient of Param, over to the servers",
    .in = { { "Param", FL_SLOT_NO_GRAD }, { "X", FL_SLOT_NO_GRAD } },
    .flags = FL_OP_EFFECT | FL_OP_WAITS | FL_OP_TRAIN_ONLY,
    .infer = send_infer,
    .run = send_run,
    .cases = send_cases,
    .n_cases = FL_LEN(send_cases),
};
