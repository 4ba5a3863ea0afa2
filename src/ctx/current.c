/* current.c - what is current in a context: the pair of programs that layers
 * write to, the scope of runs, the counters of names. Each is a stack of
 * guards over what the context has of its own. */
#include "ctx/ctx.h"

/* --- programs ------------------------------------------------------------ */

fl_ctx *fl_ctx_of(const fl_var *v)
{
    return v->block->program->ctx;
}

fl_program_pair fl_ctx_pair(const fl_ctx *c)
{
    if (c->pairs.len)
        return c->pairs.data[c->pairs.len - 1];
    return (fl_program_pair){ c->main, c->startup };
}

/* The fleet's pair stands for the context's own, and guards above both. */
static fl_program_pair default_pair(const fl_ctx *c)
{
    if (!c->pairs.len && c->fleet_main)
        return (fl_program_pair){ c->fleet_main, c->fleet_startup };
    return fl_ctx_pair(c);
}

fl_program *fl_default_main_program(fl_ctx *c)
{
    return default_pair(c).main;
}

fl_program *fl_default_startup_program(fl_ctx *c)
{
    return default_pair(c).startup;
}

static void note_pair(fl_ctx *c, fl_program_pair pair)
{
    for (size_t i = 0; i < c->known_pairs.len; i++)
        if (c->known_pairs.data[i].startup == pair.startup) {
            c->known_pairs.data[i] = pair;
            return;
        }
    fl_vec_push(&c->known_pairs, pair);
}

fl_status fl_program_push(fl_ctx *c, fl_program *main, fl_program *startup)
{
    fl_program_pair pair = { main, startup ? startup : fl_ctx_pair(c).startup };

    if (!main)
        FL_FAIL(FL_ERR_INVAL, "a guard needs a main program");
    if (main->ctx != c || pair.startup->ctx != c)
        FL_FAIL(FL_ERR_INVAL, "the programs of a guard are of another context");
    fl_vec_push(&c->pairs, pair);
    note_pair(c, pair);
    return FL_OK;
}

void fl_program_pop(fl_ctx *c)
{
    if (c->pairs.len)
        c->pairs.len--;
}

fl_status fl_ctx_startup(const fl_ctx *c, const fl_block *main, fl_block **out)
{
    if (main->program != fl_ctx_pair(c).main)
        FL_FAIL(FL_ERR_INVAL,
                "first values go to the startup program of the current pair, "
                "but the layer's input is in another main program; push its "
                "pair first (fl_program_push)");
    *out = fl_program_main(fl_ctx_pair(c).startup);
    return FL_OK;
}

/* --- names --------------------------------------------------------------- */

const char *fl_ctx_name(fl_ctx *c, fl_program *p, const char *key)
{
    if (c->names.len)
        return fl_names_next(&c->names.data[c->names.len - 1], key, &p->arena);
    return fl_program_name(p, key);
}

const char *fl_unique_name(fl_ctx *c, const char *key)
{
    return fl_ctx_name(c, fl_ctx_pair(c).main, key);
}

void fl_names_push(fl_ctx *c, const char *prefix)
{
    fl_names n = { .prefix = prefix ? fl_strdup(prefix) : NULL };

    fl_vec_push(&c->names, n);
}

void fl_names_pop(fl_ctx *c)
{
    if (c->names.len)
        fl_names_release(&c->names.data[--c->names.len]);
}

/* --- scopes -------------------------------------------------------------- */

fl_scope *fl_current_scope(fl_ctx *c)
{
    return c->scopes.len ? c->scopes.data[c->scopes.len - 1] : &c->scope;
}

void fl_scope_push(fl_ctx *c, fl_scope *s)
{
    fl_vec_push(&c->scopes, s);
}

void fl_scope_pop(fl_ctx *c)
{
    if (c->scopes.len)
        c->scopes.len--;
}
