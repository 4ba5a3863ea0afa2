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

static bool is_asked(const fl_var *v, fl_io_which which)
{
    return which == FL_IO_ALL || (v->flags & FL_VAR_PARAM);
}

static fl_match_item item_of(const fl_var *v, fl_io_which which)
{
    return (fl_match_item){ .name = v->name,
                            .is_table = v->flags & FL_VAR_TABLE,
                            .is_passed_over = !is_asked(v, which),
                            .type = fl_st_type_of(v->meta.dtype),
                            .shape = v->meta.shape };
}

static size_t count_vars(const fl_program *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->blocks.len; i++)
        for (const fl_var *v = p->blocks.data[i]->first_var; v; v = v->next)
            n += (v->flags & FL_VAR_PERSIST) != 0;
    return n;
}

fl_match_set fl_io_variables(const fl_io_call *call, fl_io_which which,
                             fl_arena *arena)
{
    const fl_program *p = call->program;
    size_t n = count_vars(p);
    fl_match_item *items = fl_arena_alloc(arena, n * sizeof(*items) + 1);

    n = 0;
    for (size_t i = 0; i < p->blocks.len; i++)
        for (const fl_var *v = p->blocks.data[i]->first_var; v; v = v->next)
            if (v->flags & FL_VAR_PERSIST)
                items[n++] = item_of(v, which);
    return (fl_match_set){ "the program", items, n };
}
