/* dist_server.c - the programs of the servers.
 *
 * The startup program of a server makes the tables and gives its dense blocks
 * their first values; its main program is listen_and_serv, and a block of
 * operators per dense block, which runs when a gradient comes. That is the
 * chain of the parameter (dist_kit.h), with
 *
 *     the parameter             as NAME, the block's rows of it
 *     the trainers' gradient    as NAME@GRAD, fed
 *     state of the same shape   the block's rows of it; like other state, it
 *                               is called ....blockI where there are several
 *     the rest                  as it is
 *
 * First values are cut in the same way: a random number is a matter of its row,
 * so a block starts with those that the whole parameter would have. Where
 * servers only add up, the update is NAME = NAME + NAME@GRAD.
 */
#include <stdlib.h>

#include "conf/words.h"
#include "pass/dist_kit.h"

typedef struct builder {
    const fl_dist *d;
    const fl_dist_param *param;
    const fl_dist_block *block;
    const fl_dist_chain *chain;
    fl_program *main, *startup; /* of the server */
    fl_block *update;           /* of the main program */
    fl_arena tmp;
} builder;

/* --- variables of a block ------------------------------------------------- */

static bool is_cut(const builder *b, const fl_var *v)
{
    return b->param->n_blocks > 1 && fl_dist_chain_is_like(b->chain, v);
}

static const char *name_of(builder *b, const fl_var *v)
{
    size_t i = (size_t)(b->block - &b->d->blocks.data[b->param->first_block]);

    if (v == b->chain->param)
        return b->block->name;
    if (v == b->chain->grad)
        return fl_arena_printf(&b->tmp, "%s" FL_GRAD_SUFFIX, b->block->name);
    if (b->param->n_blocks > 1 && (v->flags & FL_VAR_PERSIST) &&
        (is_cut(b, v) || fl_dist_chain_writes(b->chain, v)))
        return fl_arena_printf(&b->tmp, "%s.block%zu", v->name, i);
    return v->name;
}

static fl_tensor meta_of(const builder *b, const fl_var *v)
{
    fl_tensor meta = { .dtype = v->meta.dtype, .shape = v->meta.shape };

    if (is_cut(b, v))
        meta.shape.dim[0] = (int64_t)b->block->n_rows;
    return meta;
}

/* Blocks may have the same variable, such as a rate: it is declared once. */
static fl_status add_var(builder *b, fl_program *to, const fl_var *v)
{
    fl_tensor meta = meta_of(b, v);
    unsigned flag =
        v == b->chain->param ? FL_VAR_PARAM : (unsigned)FL_VAR_PERSIST;

    if (fl_block_find_var(fl_program_main(to), name_of(b, v)))
        return FL_OK;
    return fl_block_add_var(fl_program_main(to), name_of(b, v), &meta, flag,
                            NULL);
}

static fl_status add_grad(builder *b)
{
    const char *name =
        fl_arena_printf(&b->tmp, "%s" FL_GRAD_SUFFIX, b->block->name);
    fl_tensor meta = meta_of(b, b->chain->param);

    return fl_block_add_var(b->update, name, &meta, FL_VAR_DATA, NULL);
}

/* --- operators of a block ------------------------------------------------- */

static fl_status copy_node(builder *b, const fl_op_node *n)
{
    fl_op_builder op;

    fl_op_builder_init_like(&op, n);
    for (int s = 0; s < fl_node_n_in(n); s++)
        for (int i = 0; i < n->in[s].n; i++)
            fl_op_builder_in_name(&op, n->def->in[s].name,
                                  name_of(b, n->in[s].vars[i]));
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++)
            fl_op_builder_out_name(&op, n->def->out[s].name,
                                   name_of(b, n->out[s].vars[i]));
    return fl_op_builder_put(&op, b->update, NULL, NULL);
}

static fl_status add_sum(builder *b)
{
    fl_op_builder op = { .type = "elementwise_add",
                         .role = FL_OP_ROLE_OPTIMIZE };

    fl_op_builder_in_name(&op, "X", b->block->name);
    fl_op_builder_in_name(
        &op, "Y",
        fl_arena_printf(&op.tmp, "%s" FL_GRAD_SUFFIX, b->block->name));
    fl_op_builder_out_name(&op, "Out", b->block->name);
    return fl_op_builder_put(&op, b->update, NULL, NULL);
}

static fl_status build_main(builder *b)
{
    const fl_dist_chain *c = b->chain;

    for (size_t i = 0; i < c->kept.len; i++)
        FL_TRY(add_var(b, b->main, c->kept.data[i]));
    FL_TRY(add_grad(b));
    for (size_t i = 0; i < c->nodes.len; i++)
        FL_TRY(copy_node(b, c->nodes.data[i]));
    return c->nodes.len ? FL_OK : add_sum(b);
}

/* --- first values --------------------------------------------------------- */

/* A first value that needs nothing but its operator. */
static fl_status check_maker(const builder *b, const fl_var *v,
                             const fl_op_node *maker)
{
    char text[FL_NODE_TEXT_MAX];
    int n_outs = 0;

    if (!maker)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s, which the servers keep for parameter %s, has no "
                "first value, or more than one; let one operator of the "
                "startup program write it",
                v->name, b->param->name);
    for (int s = 0; s < fl_node_n_out(maker); s++)
        n_outs += maker->out[s].n;
    for (int s = 0; s < fl_node_n_in(maker); s++)
        n_outs += maker->in[s].n;
    if (n_outs != 1 || (maker->def->flags & (FL_OP_EFFECT | FL_OP_WAITS)))
        FL_FAIL(FL_ERR_INVAL,
                "%s of the startup program cannot run on a server, where "
                "variable %s of parameter %s gets its first value; use an "
                "operator without inputs",
                fl_node_text(maker, text), v->name, b->param->name);
    return FL_OK;
}

/* The rows of the block alone. */
static void cut_maker(const builder *b, const fl_op_node *maker,
                      fl_op_builder *op)
{
    fl_attr *shape = fl_op_builder_find_attr(op, "shape");
    fl_attr *of = fl_op_builder_find_attr(op, "of");
    fl_attr *from_row = fl_op_builder_find_attr(op, "from_row");
    int64_t *dims = fl_arena_alloc(&op->tmp, sizeof(*dims) * (shape->n + 1));

    memcpy(dims, shape->ints, sizeof(*dims) * shape->n);
    dims[0] = (int64_t)b->block->n_rows;
    shape->ints = dims;
    if (!from_row)
        return;
    if (!*of->s)
        of->s = maker->out[0].vars[0]->name;
    from_row->i += (int64_t)b->block->from_row;
}

static fl_status make_first(builder *b, const fl_var *v)
{
    const fl_op_node *maker = fl_dist_find_maker(b->d, v->name);
    fl_op_builder op;

    FL_TRY(check_maker(b, v, maker));
    if (fl_block_find_var(fl_program_main(b->startup), name_of(b, v)))
        return FL_OK; /* of another block, too */
    FL_TRY(add_var(b, b->startup, v));
    fl_op_builder_init_like(&op, maker);
    fl_op_builder_out_name(&op, maker->def->out[0].name, name_of(b, v));
    if (is_cut(b, v))
        cut_maker(b, maker, &op);
    return fl_op_builder_put(&op, fl_program_main(b->startup), NULL, NULL);
}

static fl_status build_startup(builder *b)
{
    for (size_t i = 0; i < b->chain->kept.len; i++)
        FL_TRY(make_first(b, b->chain->kept.data[i]));
    return FL_OK;
}

/* --- blocks --------------------------------------------------------------- */

static fl_status declare_block(fl_dist *d, const fl_dist_param *p,
                               fl_dist_block *block, const fl_dist_chain *chain)
{
    fl_dist_server *s = &d->servers.data[block->server];
    builder b = { .d = d,
                  .param = p,
                  .block = block,
                  .chain = chain,
                  .main = s->main,
                  .startup = s->startup };
    fl_status st;

    block->number = (uint32_t)(s->main->blocks.len - 1);
    b.update = fl_program_add_block(s->main, fl_program_main(s->main));
    fl_arena_init(&b.tmp, 4 << 10);
    st = build_main(&b);
    if (!st)
        st = build_startup(&b);
    fl_arena_release(&b.tmp);
    return fl_err_ctx(st, "block %s", block->name);
}

static fl_status declare_param(fl_dist *d, const fl_dist_param *p)
{
    fl_var *w = fl_block_find_var(fl_program_main(d->main), p->name);
    fl_op_node *update = NULL;
    fl_status st = FL_OK;
    fl_dist_chain c;

    FL_TRY(fl_dist_find_update(d, w, &update));
    FL_ASSERT(update); /* it would not have been placed */
    FL_TRY(fl_dist_chain_find(&c, d, w, update));
    for (size_t i = 0; i < p->n_blocks && !st; i++)
        st = declare_block(d, p, &d->blocks.data[p->first_block + i], &c);
    fl_dist_chain_release(&c);
    return st;
}

/* --- tables --------------------------------------------------------------- */

/* What a table that adds up keeps of its settings. Pushed with a rate of -1, a
   difference is added by sgd. */
static const char *adding_settings(fl_dist *d, const fl_words *settings)
{
    static const char *const names[] = { "dim", "height", "init", "entry",
                                         "partitions" };
    const char *kept;
    fl_str s = { 0 };

    for (size_t i = 0; i < FL_LEN(names); i++) {
        const char *value = fl_words_get(settings, names[i]);

        if (value)
            fl_words_add(&s, names[i], value);
    }
    fl_words_add(&s, "optimizer", "sgd");
    kept = fl_arena_strdup(&d->arena, fl_str_text(&s));
    fl_str_release(&s);
    return kept;
}

/* Its width and what the servers are told of its settings. */
static fl_status read_settings(fl_dist *d, const char *settings,
                               fl_dist_table *out)
{
    const char *dim;
    fl_words words;

    FL_TRY(fl_words_read(&words, settings, FL_WORDS_SETTINGS));
    dim = fl_words_get(&words, "dim");
    out->dim = dim ? (uint32_t)strtoul(dim, NULL, 10) : 0;
    out->settings = d->config.server_adds
                        ? adding_settings(d, &words)
                        : fl_arena_strdup(&d->arena, settings);
    fl_words_release(&words);
    if (!out->dim)
        FL_FAIL(FL_ERR_INVAL, "the width is missing in '%s'; say dim=N",
                settings);
    return FL_OK;
}

/* On every server: each has the rows of some keys. */
static fl_status make_table(fl_dist *d, const fl_op_node *maker,
                            const fl_dist_table *t)
{
    for (size_t i = 0; i < d->servers.len; i++) {
        fl_op_builder op;

        fl_op_builder_init_like(&op, maker);
        fl_op_builder_find_attr(&op, "settings")->s = t->settings;
        FL_TRY(fl_op_builder_put(
            &op, fl_program_main(d->servers.data[i].startup), NULL, NULL));
    }
    return FL_OK;
}

static fl_status declare_table(fl_dist *d, const fl_op_node *maker)
{
    const char *name = fl_match_attr(maker, "table")->s;
    const char *settings = fl_match_attr(maker, "settings")->s;
    fl_dist_table t = { 0 };

    FL_TRY(fl_err_ctx(read_settings(d, settings, &t), "table %s", name));
    if (fl_dist_find_table(d, name) >= 0)
        FL_FAIL(FL_ERR_INVAL, "the startup program makes table %s twice", name);
    t.name = fl_arena_strdup(&d->arena, name);
    fl_vec_push(&d->tables, t);
    return make_table(d, maker, &t);
}

/* --- all ------------------------------------------------------------------ */

static void add_servers(fl_dist *d)
{
    for (int i = 0; i < d->config.n_servers; i++) {
        fl_dist_server s = { .startup = fl_program_of(d->main->ops),
                             .main = fl_program_of(d->main->ops) };

        s.startup->seed = d->startup->seed;
        s.main->seed = d->main->seed;
        fl_vec_push(&d->servers, s);
    }
}

static fl_status serve(fl_dist *d, int server)
{
    fl_dist_server *s = &d->servers.data[server];
    size_t n = s->main->blocks.len - 1;
    int64_t *numbers = fl_arena_alloc(&d->arena, sizeof(*numbers) * (n + 1));
    fl_op_builder op = { .type = "listen_and_serv", .role = FL_OP_ROLE_RPC };

    for (size_t i = 0; i < n; i++)
        numbers[i] = (int64_t)i + 1;
    fl_op_builder_str(&op, "endpoint", d->config.servers[server]);
    fl_op_builder_ints(&op, "optimize_blocks", numbers, n);
    FL_TRY(fl_op_builder_put(&op, fl_program_main(s->main), NULL, NULL));
    return fl_dist_print_server(d, server, &s->declared);
}

static fl_status server_spread(fl_dist *d, bool *changed)
{
    if (d->servers.len)
        return FL_OK;
    add_servers(d);
    for (const fl_op_node *n = fl_program_main(d->startup)->first; n;
         n = n->next)
        if (fl_match_op(n, "init_table"))
            FL_TRY(declare_table(d, n));
    for (size_t i = 0; i < d->params.len; i++)
        FL_TRY(declare_param(d, &d->params.data[i]));
    for (int i = 0; i < d->config.n_servers; i++)
        FL_TRY(serve(d, i));
    *changed = d->tables.len || d->params.len;
    return FL_OK;
}

const fl_pass fl_pass_dist_server = {
    .name = "dist_server",
    .doc = "make the programs that servers run",
    .spread = server_spread,
};
