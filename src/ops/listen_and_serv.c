/* listen_and_serv.c - a server at its work: until the job is over, each of the
 * optimize_blocks of the program runs when the gradient comes that it is fed,
 * and rows that are pushed are updated as the table_blocks say. */
#include "ir/comm.h"
#include "ops/rpc.h"

enum {
    ENDPOINT,
    OPTIMIZE_BLOCKS,
    TABLE_BLOCKS,
    FROM_ROWS,
    ADDS,
    WIRE_PULL,
    WIRE_PUSH
};

static fl_status check_blocks(const fl_infer *c, int attr)
{
    const fl_program *p = c->node->block->program;
    size_t n;
    const int64_t *blocks = fl_attr_ints(c->node, attr, &n);

    for (size_t i = 0; i < n; i++)
        if (blocks[i] < 1 || (c->running && (size_t)blocks[i] >= p->blocks.len))
            FL_FAIL(FL_ERR_INVAL,
                    "op listen_and_serv: %s[%zu]=%lld is no block behind the "
                    "first",
                    c->node->def->attrs[attr].name, i, (long long)blocks[i]);
    return FL_OK;
}

/* One for each of the blocks, or none at all. */
static fl_status check_rows(const fl_infer *c)
{
    size_t n, n_blocks;
    const int64_t *rows = fl_attr_ints(c->node, FROM_ROWS, &n);

    (void)fl_attr_ints(c->node, OPTIMIZE_BLOCKS, &n_blocks);
    if (n && n != n_blocks)
        FL_FAIL(FL_ERR_INVAL,
                "op listen_and_serv: %zu from_rows for %zu optimize_blocks; "
                "there is one for each, or none",
                n, n_blocks);
    for (size_t i = 0; i < n; i++)
        if (rows[i] < 0)
            FL_FAIL(FL_ERR_INVAL,
                    "op listen_and_serv: from_rows[%zu]=%lld is no row", i,
                    (long long)rows[i]);
    return FL_OK;
}

static fl_status check_wire(const fl_infer *c, int attr)
{
    const char *name = fl_attr_str(c->node, attr);

    if (strcmp(name, "f32") && strcmp(name, "bf16"))
        FL_FAIL(FL_ERR_INVAL,
                "op listen_and_serv: %s=%s is no way for values to travel; "
                "there are f32 and bf16",
                c->node->def->attrs[attr].name, name);
    return FL_OK;
}

static fl_status serve_infer(fl_infer *c)
{
    FL_TRY(check_blocks(c, OPTIMIZE_BLOCKS));
    FL_TRY(check_blocks(c, TABLE_BLOCKS));
    FL_TRY(check_wire(c, WIRE_PULL));
    FL_TRY(check_wire(c, WIRE_PUSH));
    return check_rows(c);
}

static fl_status serve_run(fl_op_ctx *c)
{
    fl_comm_service s = { .endpoint = fl_str_attr(c, ENDPOINT),
                          .program = c->node->block->program };

    if (!c->comm || !c->comm->life->serve)
        FL_FAIL(FL_ERR_INVAL,
                "op listen_and_serv: this process is not a server of a job; "
                "give fl_transpile .role = FL_ROLE_SERVER");
    s.blocks = fl_attr_ints(c->node, OPTIMIZE_BLOCKS, &s.n_blocks);
    s.table_blocks = fl_attr_ints(c->node, TABLE_BLOCKS, &s.n_table_blocks);
    s.from_rows = fl_attr_ints(c->node, FROM_ROWS, &s.n_from_rows);
    s.adds = fl_bool(c, ADDS);
    return c->comm->life->serve(c->comm, &s);
}

static const fl_op_case serve_cases[] = {
    { .attrs = "{endpoint=\"127.0.0.1:7000\"}" },
    { .attrs = "{wire_pull=bf16, wire_push=bf16}" },
    { .attrs = "{}" },
};

const fl_op fl_op_listen_and_serv = {
    .name = "listen_and_serv",
    .doc = "serves at endpoint, or where the server was started without one, "
           "until the job is over: each of optimize_blocks, blocks of this "
           "program, runs when the gradient that is its data comes, and each "
           "of table_blocks is the update of the rows of one table; where "
           "parameters are cut, from_rows has the row that each of "
           "optimize_blocks begins with; adds: the server adds up what comes, "
           "and trainers keep the state of their optimizer; wire_pull and "
           "wire_push: how values and gradients travel, f32 or bf16",
    .attrs = { { "endpoint", FL_ATTR_STRING, "" },
               { "optimize_blocks", FL_ATTR_INTS, "[]" },
               { "table_blocks", FL_ATTR_INTS, "[]" },
               { "from_rows", FL_ATTR_INTS, "[]" },
               { "adds", FL_ATTR_BOOL, "false" },
               { "wire_pull", FL_ATTR_STRING, "f32" },
               { "wire_push", FL_ATTR_STRING, "f32" } },
    .flags = FL_OP_EFFECT | FL_OP_SERVER,
    .infer = serve_infer,
    .run = serve_run,
    .cases = serve_cases,
    .n_cases = FL_LEN(serve_cases),
};
