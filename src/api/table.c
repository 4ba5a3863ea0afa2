/* table.c - tables of the public API: those of the context's backend. What is
 * done to a table itself stands in table/. */
#include "flotilla/table.h"

#include "ctx/ctx.h"
#include "mode/mode.h"
#include "mode/mode_local.h"

/* In a job rows are on its servers, or dealt over its workers. */
static fl_status check_local(const fl_ctx *c, const char *name)
{
    if (fl_mode_is_of_jobs(c->mode))
        FL_FAIL(FL_ERR_INVAL,
                "table %s: this context has been transpiled for a job, whose "
                "tables are on its servers; look at rows with "
                "fl_job_pull",
                name);
    return FL_OK;
}

fl_status fl_table_new(fl_table **out, fl_ctx *c, const char *name,
                       const char *settings)
{
    FL_TRY(check_local(c, name));
    return fl_mode_local_make(c->comm, name, settings,
                              fl_ctx_pair(c).startup->seed, out);
}

fl_status fl_ctx_table(fl_ctx *c, const char *name, fl_table **out)
{
    FL_TRY(check_local(c, name));
    return fl_mode_local_find(c->comm, name, out);
}
