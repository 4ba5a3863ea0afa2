/* listen_and_serv.c - the whole program of a server: it serves at an address
 * until the job is over. The blocks of the program say for a reader how each
 * dense block is updated; the server itself does it by its declaration. */
#include "ir/comm.h"
#include "ops/rpc.h"

enum { ENDPOINT, OPTIMIZE_BLOCKS, DISTRIBUTED_MODE };

static fl_status serve_infer(fl_infer *c)
{
    const fl_program *p = c->node->block->program;
    size_t n;
    const int64_t *blocks = fl_attr_ints(c->node, OPTIMIZE_BLOCKS, &n);

    if (!*fl_str_attr(c, ENDPOINT))
        FL_FAIL(FL_ERR_INVAL, "op listen_and_serv: endpoint is not given");
    for (size_t i = 0; i < n; i++)
        if (blocks[i] < 1 || (c->running && (size_t)blocks[i] >= p->blocks.len))
            FL_FAIL(FL_ERR_INVAL,
                    "op listen_and_serv: optimize_blocks[%zu]=%lld is no block "
                    "behind the first",
                    i, (long long)blocks[i]);
    return FL_OK;
}

static fl_status serve_run(fl_op_ctx *c)
{
    if (!c->comm || !c->comm->life->serve)
        return fl_rpc_refuse(c);
    return c->comm->life->serve(c->comm, fl_str_attr(c, ENDPOINT));
}

static const fl_op_case serve_cases[] = {
    { .attrs = "{endpoint=\"127.0.0.1:7000\"}" },
    { .attrs = "{endpoint=\"127.0.0.1:7000\", distributed_mode=geo}" },
};

const fl_op fl_op_listen_and_serv = {
    .name = "listen_and_serv",
    .doc = "serves at endpoint until the job is over; optimize_blocks are the "
           "blocks of this program that update its dense blocks, "
           "distributed_mode is how the trainers of the job train",
    .attrs = { { "endpoint", FL_ATTR_STRING, "" },
               { "optimize_blocks", FL_ATTR_INTS, "[]" },
               { "distributed_mode", FL_ATTR_STRING, "" } },
    .flags = FL_OP_EFFECT,
    .infer = serve_infer,
    .run = serve_run,
    .cases = serve_cases,
    .n_cases = FL_LEN(serve_cases),
};
