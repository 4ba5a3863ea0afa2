/* table.c - tables of the public API: those of the context's backend. What is
 * done to a table itself stands in table/. */
#include "flotilla/table.h"

#include "api/ctx.h"
#include "mode/mode_local.h"

fl_status fl_ctx_make_table(fl_ctx *c, const char *name, const char *settings,
                            fl_table **out)
{
    return fl_mode_local_make(c->comm, name, settings, c->startup->seed, out);
}

fl_status fl_ctx_table(fl_ctx *c, const char *name, fl_table **out)
{
    return fl_mode_local_find(c->comm, name, out);
}
