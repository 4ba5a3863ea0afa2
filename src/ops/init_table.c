/* init_table.c - makes a table of sparse rows, or empties the one there is.
 *
 * It stands in the startup program, where other parameters get their first
 * values: running that again begins anew. */
#include "ir/comm.h"
#include "ops/kit.h"

enum { TABLE, SETTINGS };

static fl_status init_table_infer(fl_infer *c)
{
    if (!*fl_str_attr(c, TABLE))
        FL_FAIL(FL_ERR_INVAL, "op init_table: table is not given");
    return FL_OK;
}

static fl_status init_table_run(fl_op_ctx *c)
{
    const char *table = fl_str_attr(c, TABLE);

    if (!c->comm)
        FL_FAIL(FL_ERR_INVAL,
                "table %s: init_table needs a table backend, and there is "
                "none",
                table);
    return c->comm->life->declare(c->comm, table, fl_str_attr(c, SETTINGS),
                                  c->seed);
}

static const fl_op_case init_table_cases[] = {
    { .attrs = "{table=t, settings=\"dim=4\"}" },
    { .attrs = "{table=other, settings=\"dim=2, optimizer=adagrad\"}" },
};

const fl_op fl_op_init_table = {
    .name = "init_table",
    .doc = "makes the table with these settings (those of fl_table_new), "
           "or empties it when it exists with them",
    .attrs = { { "table", FL_ATTR_STRING, "" },
               { "settings", FL_ATTR_STRING, "" } },
    .flags = FL_OP_EFFECT | FL_OP_SERVER | FL_OP_MAKES,
    .infer = init_table_infer,
    .run = init_table_run,
    .cases = init_table_cases,
    .n_cases = FL_LEN(init_table_cases),
};
