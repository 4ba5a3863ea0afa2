/* job_programs.c - the programs of servers whose job is declared call by call.
 *
 * Servers know no optimizers, only programs. The update of a block is built as
 * fl_minimize would build it, in a context that is never run: blocks are its
 * parameters, so that their state has different names, and gradients are fed.
 * What a block has added there goes to the program of its server.
 */
#include "dist/job_programs.h"

#include "ir/builder.h"
#include "ops/ops.h"

struct fl_job_programs {
    fl_ctx scratch; /* its settings are borrowed */
    size_t n;
    fl_program **servers;
    char **texts;
};

static fl_program *new_program(fl_ctx *c)
{
    fl_program *p = fl_program_of(&fl_ops);

    p->ctx = c;
    return p;
}

fl_job_programs *fl_job_programs_new(const fl_ctx *c, size_t n_servers)
{
    fl_job_programs *p = fl_alloc(sizeof(*p));

    p->scratch.conf = c->conf;
    p->scratch.main = new_program(&p->scratch);
    p->scratch.startup = new_program(&p->scratch);
    p->n = n_servers;
    p->servers = fl_alloc(n_servers * sizeof(*p->servers));
    p->texts = fl_alloc(n_servers * sizeof(*p->texts));
    for (size_t i = 0; i < n_servers; i++) {
        p->servers[i] = fl_program_of(&fl_ops);
        p->servers[i]->seed = c->startup->seed;
    }
    return p;
}

void fl_job_programs_free(fl_job_programs *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n; i++) {
        fl_program_free(p->servers[i]);
        fl_free(p->texts[i]);
    }
    fl_free(p->servers);
    fl_free(p->texts);
    for (size_t i = 0; i < p->scratch.optimizers.len; i++)
        fl_optimizer_free(p->scratch.optimizers.data[i]);
    fl_vec_release(&p->scratch.optimizers);
    fl_program_free(p->scratch.main);
    fl_program_free(p->scratch.startup);
    fl_free(p);
}

/* --- tables --------------------------------------------------------------- */

/* Spaces of any kind separate settings; in a program a line is a line. */
static char *on_one_line(const char *settings)
{
    char *s = fl_strdup(settings);

    for (char *at = s; *at; at++)
        if (*at == '\n' || *at == '\t' || *at == '\r')
            *at = ' ';
    return s;
}

fl_status fl_job_programs_add_table(fl_job_programs *p, const char *name,
                                    const char *settings)
{
    char *line = on_one_line(settings);
    fl_status st = FL_OK;

    for (size_t i = 0; i < p->n && !st; i++) {
        fl_op_builder b = { .type = "init_table" };

        fl_op_builder_str(&b, "table", name);
        fl_op_builder_str(&b, "settings", line);
        st = fl_op_builder_put(&b, fl_program_main(p->servers[i]), NULL, NULL);
    }
    fl_free(line);
    return st;
}

/* --- blocks --------------------------------------------------------------- */

static fl_status add_vars(fl_ctx *c, const fl_job_block *block,
                          fl_param_grad *out)
{
    fl_tensor meta = { .dtype = FL_DTYPE_F32,
                       .shape = { .rank = 1, .dim = { (int64_t)block->n } } };
    fl_block *b = fl_program_main(c->main);

    FL_TRY(fl_block_add_var(b, block->name, &meta, FL_VAR_PARAM, &out->param));
    out->param->lr = 1;
    return fl_block_add_var(
        b, fl_arena_printf(&c->main->arena, "%s" FL_GRAD_SUFFIX, block->name),
        &meta, FL_VAR_DATA, &out->grad);
}

static fl_status build(fl_ctx *c, const fl_job_block *block)
{
    fl_optimizer *o;
    fl_param_grad pg;

    FL_TRY(fl_optimizer_new(&o, c, block->optimizer, block->settings));
    FL_TRY(add_vars(c, block, &pg));
    return fl_apply_gradients(o, &pg, 1);
}

static fl_status start_at_zero(fl_block *b, const fl_job_block *block)
{
    int64_t shape[] = { (int64_t)block->n };
    fl_op_builder op = { .type = "fill_constant" };
    fl_tensor meta = { .dtype = FL_DTYPE_F32,
                       .shape = { .rank = 1, .dim = { shape[0] } } };

    FL_TRY(fl_block_add_var(b, block->name, &meta, FL_VAR_PARAM, NULL));
    fl_op_builder_ints(&op, "shape", shape, 1);
    fl_op_builder_out_name(&op, "Out", block->name);
    return fl_op_builder_put(&op, b, NULL, NULL);
}

/* The operator behind `last`, or the first one. */
static const fl_op_node *behind(const fl_block *b, const fl_op_node *last)
{
    return last ? last->next : b->first;
}

static fl_status move(fl_job_programs *p, int server,
                      const fl_op_node *first_values, const fl_op_node *update)
{
    fl_block *main = fl_program_main(p->servers[server]);

    FL_TRY(fl_block_copy(main, first_values));
    return fl_block_copy(fl_program_add_block(p->servers[server], main),
                         update);
}

fl_status fl_job_programs_add_block(fl_job_programs *p, int server,
                                    const fl_job_block *block, uint32_t *number)
{
    fl_block *main = fl_program_main(p->scratch.main);
    fl_block *startup = fl_program_main(p->scratch.startup);
    const fl_op_node *last = main->last, *last_startup = startup->last;

    FL_TRY(build(&p->scratch, block));
    *number = (uint32_t)(p->servers[server]->blocks.len - 1);
    FL_TRY(start_at_zero(fl_program_main(p->servers[server]), block));
    return move(p, server, behind(startup, last_startup), behind(main, last));
}

/* --- serving -------------------------------------------------------------- */

static fl_status serve(fl_program *p)
{
    size_t n = p->blocks.len - 1;
    fl_op_builder b = { .type = "listen_and_serv", .role = FL_OP_ROLE_RPC };
    int64_t *blocks = fl_arena_alloc(&b.tmp, (n + 1) * sizeof(*blocks));

    for (size_t i = 0; i < n; i++)
        blocks[i] = (int64_t)i + 1;
    fl_op_builder_ints(&b, "optimize_blocks", blocks, n);
    return fl_op_builder_put(&b, fl_program_main(p), NULL, NULL);
}

fl_status fl_job_programs_print(fl_job_programs *p, const char *const **texts)
{
    for (size_t i = 0; i < p->n; i++) {
        FL_TRY(serve(p->servers[i]));
        p->texts[i] = fl_program_print(p->servers[i]);
    }
    *texts = (const char *const *)p->texts;
    return FL_OK;
}
