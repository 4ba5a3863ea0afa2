/* rpc.h - what the operators that talk to servers share. Their calls are kept
 * with the operator, since a backend answers them later. */
#ifndef FL_OPS_RPC_H
#define FL_OPS_RPC_H

#include "ir/comm.h"
#include "ops/kit.h"

typedef fl_status (*fl_rpc_fn)(fl_comm *comm, fl_comm_call *call);

FL_MUST_CHECK
static inline fl_status fl_rpc_refuse(const fl_op_ctx *c)
{
    FL_FAIL(FL_ERR_INVAL,
            "op %s: this program was transpiled for servers, and %s%s has none "
            "behind it; run it in the context that fl_transpile was given",
            c->node->def->name, c->comm ? "the backend " : "this context",
            c->comm ? c->comm->name : "");
}

/* Makes the call; fn NULL: the backend cannot. */
FL_MUST_CHECK
static inline fl_status fl_rpc_start(const fl_op_ctx *c, fl_rpc_fn fn,
                                     fl_comm_call *call)
{
    if (!fn)
        return fl_rpc_refuse(c);
    call->worker = c->worker;
    call->samples = c->samples;
    fl_comm_begin(&call->answer, c->waker);
    return fn(c->comm, call);
}

#endif
