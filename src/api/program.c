/* program.c - programs and variables of the public API. */
#include "ctx/ctx.h"
#include "ops/ops.h"

fl_program *fl_default_main_program(fl_ctx *c)
{
    return c->fleet_main ? c->fleet_main : c->main;
}

fl_program *fl_default_startup_program(fl_ctx *c)
{
    return c->fleet_startup ? c->fleet_startup : c->startup;
}

void fl_program_set_seed(fl_program *p, uint64_t seed)
{
    p->seed = seed;
    p->version++;
}

fl_status fl_program_from_text(fl_ctx *c, const char *text, fl_program **out)
{
    fl_program *p;

    FL_TRY(fl_program_parse(text, &fl_ops, &p));
    p->owner = c;
    if (!p->seed)
        p->seed = (uint64_t)c->conf.seed;
    *out = p;
    return FL_OK;
}

char *fl_program_to_text(const fl_program *p)
{
    return fl_program_print(p);
}

char *fl_program_to_svg(const fl_program *p)
{
    return fl_program_svg(p);
}

fl_status fl_program_for_test(const fl_program *p, fl_program **out)
{
    return fl_program_clone(p, FL_CLONE_FOR_TEST, out);
}

fl_status fl_program_pruned(const fl_program *p, const char *const *targets,
                            size_t n_targets, fl_program **out)
{
    fl_program *q;
    fl_status st;

    FL_TRY(fl_program_clone(p, FL_CLONE_ALL, &q));
    st = fl_program_prune(q, targets, n_targets);
    if (st) {
        fl_program_free(q);
        return st;
    }
    *out = q;
    return FL_OK;
}

void fl_program_release(fl_program *p)
{
    const fl_ctx *c = p ? p->owner : NULL;

    /* The default programs go with their context. */
    if (c && (c->main == p || c->startup == p || c->fleet_main == p ||
              c->fleet_startup == p))
        return;
    fl_program_free(p);
}

fl_status fl_program_add(fl_program *p, const char *lines)
{
    return fl_program_parse_into(p, lines);
}

fl_var *fl_program_var(fl_program *p, const char *name)
{
    return fl_block_find_var(fl_program_main(p), name);
}

const char *fl_var_name(const fl_var *v)
{
    return v->name;
}

fl_dtype fl_var_dtype(const fl_var *v)
{
    return v->meta.dtype;
}

fl_shape fl_var_shape(const fl_var *v)
{
    return v->meta.shape;
}

void fl_var_stop_gradient(fl_var *v)
{
    v->flags |= FL_VAR_STOP_GRAD;
    v->block->program->version++;
}
