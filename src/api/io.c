/* io.c - who saves and loads, and for which variables. */
#include "api/io.h"

/* What a fleet trains is made from the context's own program, which is the one
   that is saved. */
static fl_program *users_program(const fl_ctx *c, fl_program *p)
{
    return !p || p == c->fleet_main ? fl_ctx_pair(c).main : p;
}

fl_status fl_io_begin(fl_io_call *out, const char *what, fl_executor *e,
                      fl_program *p, fl_scope *scope)
{
    fl_ctx *c = e->ctx;

    if (c->job)
        FL_FAIL(FL_ERR_INVAL,
                "cannot %s this of a job, whose rows are on its servers; call "
                "fl_save_persistables, and load that in one process",
                what);
    p = users_program(c, p);
    if (p->ctx != c)
        FL_FAIL(FL_ERR_INVAL,
                "cannot %s: the program is of another context than the "
                "executor; take an executor of its context",
                what);
    *out = (fl_io_call){ .what = what,
                         .ctx = c,
                         .program = p,
                         .scope = scope ? scope : fl_current_scope(c) };
    return FL_OK;
}

void fl_io_note_saved(const fl_io_call *call, const char *id)
{
    fl_free(call->ctx->saved_as);
    call->ctx->saved_as = *id ? fl_strdup(id) : NULL;
}

fl_match_set fl_io_variables(const fl_io_call *call, fl_io_which which,
                             fl_arena *arena)
{
    return fl_match_program(call->program, which == FL_IO_PARAMS, arena);
}
