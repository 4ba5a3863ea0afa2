/* job_block.c - a dense block's program, made with the optimizers of this
 * layer.
 *
 * Servers know no optimizers, only programs. The one of a block is built here
 * as fl_minimize would build it, in a context of its own that is never run: the
 * block is the only parameter, and its gradient is fed.
 */
#include "dist/job.h"
#include "ops/ops.h"

static fl_program *new_program(fl_ctx *c)
{
    fl_program *p = fl_program_of(&fl_ops);

    p->ctx = c;
    return p;
}

/* Settings are borrowed. */
static fl_ctx make_scratch(const fl_ctx *c)
{
    return (fl_ctx){ .conf = c->conf };
}

static void release_scratch(fl_ctx *c)
{
    for (size_t i = 0; i < c->optimizers.len; i++)
        fl_optimizer_free(c->optimizers.data[i]);
    fl_vec_release(&c->optimizers);
    fl_program_free(c->main);
    fl_program_free(c->startup);
}

static fl_status add_vars(fl_ctx *c, const char *name, size_t n,
                          fl_param_grad *out)
{
    fl_tensor meta = { .dtype = FL_DTYPE_F32,
                       .shape = { .rank = 1, .dim = { (int64_t)n } } };
    fl_block *b = fl_program_main(c->main);

    FL_TRY(fl_block_add_var(b, name, &meta, FL_VAR_PARAM, &out->param));
    out->param->lr = 1;
    return fl_block_add_var(
        b, fl_arena_printf(&c->main->arena, "%s" FL_GRAD_SUFFIX, name), &meta,
        FL_VAR_DATA, &out->grad);
}

static fl_status build(fl_ctx *c, const char *name, size_t n,
                       const char *optimizer, const char *settings)
{
    fl_optimizer *o;
    fl_param_grad pg;

    FL_TRY(fl_optimizer_new(&o, c, optimizer, settings));
    FL_TRY(add_vars(c, name, n, &pg));
    return fl_apply_gradients(o, &pg, 1);
}

/* Each line behind a bar. */
static void add_lines(fl_str *out, const fl_program *p)
{
    char *text = fl_program_print(p);

    for (const char *at = text; *at;) {
        int len = (int)strcspn(at, "\n");

        fl_str_addf(out, "| %.*s\n", len, at);
        at += len + (at[len] == '\n');
    }
    fl_text_free(text);
}

fl_status fl_job_block_text(const fl_ctx *c, const char *name, size_t n,
                            const char *optimizer, const char *settings,
                            fl_str *out)
{
    fl_ctx scratch = make_scratch(c);
    fl_status st;

    scratch.main = new_program(&scratch);
    scratch.startup = new_program(&scratch);
    st = build(&scratch, name, n, optimizer, settings);
    if (!st) {
        fl_str_addf(out, "program %s %zu\n", name, n);
        add_lines(out, scratch.startup);
        fl_str_add(out, "|---\n");
        add_lines(out, scratch.main);
    }
    release_scratch(&scratch);
    return st;
}
