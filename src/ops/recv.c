/* recv.c - fresh values of dense parameters from the servers.
 *
 * The parameters exist before the operator: their declarations say what it
 * gives, so that in a startup program it can make room for them. */
#include "ops/rpc.h"

enum { OUT };

typedef struct recv_state {
    fl_comm_call call;
    fl_param_values *values;
} recv_state;

static void release_state(void *p)
{
    fl_free(((recv_state *)p)->values);
}

static fl_status recv_infer(fl_infer *c)
{
    const fl_args *out = &c->node->out[OUT];

    for (int i = 0; i < fl_infer_n_out(c, OUT); i++) {
        const fl_var *v = i < out->n ? out->vars[i] : NULL;
        char text[FL_SHAPE_TEXT_MAX];

        if (!v)
            FL_FAIL(FL_ERR_INVAL,
                    "op recv: Out[%d] is a variable that does not exist; "
                    "declare the parameter first",
                    i);
        if (v->meta.dtype != FL_DTYPE_F32 || v->meta.kind != FL_KIND_DENSE ||
            v->meta.n_lod || fl_shape_numel(&v->meta.shape) < 0)
            FL_FAIL(FL_ERR_INVAL,
                    "op recv: Out[%d] (%s: %s%s) must be dense f32 of a known "
                    "shape; servers hold nothing else",
                    i, v->name, fl_dtype_text(v->meta.dtype),
                    fl_shape_text(&v->meta.shape, text));
        fl_tensor_like(fl_infer_out_at(c, OUT, i), &v->meta);
    }
    return FL_OK;
}

static void fill_call(const fl_op_ctx *c, recv_state *s)
{
    size_t n = (size_t)fl_n_out(c, OUT);

    if (!s->values)
        s->values = fl_alloc(n * sizeof(*s->values));
    for (size_t i = 0; i < n; i++) {
        const fl_tensor *t = fl_out_at(c, OUT, (int)i);

        s->values[i] = (fl_param_values){ c->node->out[OUT].vars[i]->name,
                                          t->data, (size_t)fl_tensor_numel(t) };
    }
    s->call.values = s->values;
    s->call.n = n;
}

static fl_status recv_run(fl_op_ctx *c)
{
    recv_state *s = fl_op_keep(c, sizeof(*s), release_state);

    if (c->resumed)
        return fl_comm_result(&s->call.answer);
    fill_call(c, s);
    return fl_rpc_start(c, c->comm ? c->comm->data->recv : NULL, &s->call);
}

/* Without inputs, the texts declare what comes out. */
static const fl_op_case recv_cases[] = {
    { .in = { "f32[6,4]" } },
    { .in = { "f32[33,7];f32[1];f32[5]" } },
    { .in = { "f32[0,8]" } },
};

const fl_op fl_op_recv = {
    .name = "recv",
    .doc = "Out = the values that the servers have for these parameters",
    .out = { { "Out", FL_OP_SLOT_LIST } },
    .flags = FL_OP_EFFECT | FL_OP_WAITS,
    .infer = recv_infer,
    .run = recv_run,
    .cases = recv_cases,
    .n_cases = FL_LEN(recv_cases),
};
