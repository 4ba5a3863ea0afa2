/* dist_server.c - the programs of the servers.
 *
 * The startup program of a server makes the tables and gives its dense blocks
 * their first values; its main program is listen_and_serv, a block of operators
 * per dense block, which runs when a gradient comes, and a block per table with
 * the operator that updates its rows. The former is the chain of the parameter
 * (dist_kit.h), with
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

/* What the servers are told of a table: its rule, which becomes the operator of
   a block, and the other words of its settings. */
typedef struct told {
    const fl_op_node *maker;
    const char *name, *settings;
    int64_t height, dim; /* height: -1 for any */
    fl_update update;
    fl_str words;
} told;

typedef struct told_list {
    FL_VEC(told *) tables;
    fl_map by_name;
} told_list;

/* A table that adds up has no use for the rest. */
static bool is_kept(const fl_dist *d, const char *word)
{
    static const char *const names[] = { "dim", "height", "init", "entry",
                                         "partitions" };

    for (size_t i = 0; i < FL_LEN(names); i++)
        if (!strcmp(names[i], word))
            return true;
    return !d->config.server_adds;
}

static fl_status split_words(const fl_dist *d, const fl_words *words, told *t)
{
    const char *rule = fl_words_get(words, "optimizer");
    fl_update *u = &t->update;

    u->rule = fl_rule_find(rule ? rule : "sgd");
    if (!u->rule)
        return fl_rule_refuse(rule);
    fl_rule_defaults(u->rule, u->p);
    for (size_t i = 0; i < words->list.len; i++) {
        const fl_word *w = &words->list.data[i];
        int param = fl_rule_find_param(u->rule, w->name);

        if (param >= 0)
            FL_TRY(fl_rule_set(u->rule, param, w, u->p));
        else if (strcmp(w->name, "optimizer") && is_kept(d, w->name))
            fl_words_add(&t->words, w->name, w->value);
    }
    return FL_OK;
}

static int64_t number_of(const fl_words *words, const char *name)
{
    const char *value = fl_words_get(words, name);

    return value ? strtoll(value, NULL, 10) : 0;
}

static fl_status read_settings(const fl_dist *d, told *t)
{
    fl_words words;
    fl_status st;

    FL_TRY(fl_words_read(&words, t->settings, FL_WORDS_SETTINGS));
    t->dim = number_of(&words, "dim");
    t->height = number_of(&words, "height");
    t->height = t->height > 0 ? t->height : -1;
    st = split_words(d, &words, t);
    fl_words_release(&words);
    if (!st && t->dim < 1)
        FL_FAIL(FL_ERR_INVAL, "the width is missing in '%s'; say dim=N",
                t->settings);
    return st;
}

static fl_status read_table(const fl_dist *d, const fl_op_node *maker,
                            told_list *all)
{
    told *t = fl_alloc(sizeof(*t));

    fl_vec_push(&all->tables, t);
    t->maker = maker;
    t->name = fl_match_attr(maker, "table")->s;
    t->settings = fl_match_attr(maker, "settings")->s;
    FL_TRY(fl_err_ctx(read_settings(d, t), "table %s", t->name));
    if (fl_map_find(&all->by_name, t->name))
        FL_FAIL(FL_ERR_INVAL, "the startup program makes table %s twice",
                t->name);
    fl_map_put(&all->by_name, t->name, t);
    return FL_OK;
}

/* The update leaves the trainer, unless servers only add up. */
static fl_status read_push(fl_dist *d, fl_op_node *push, const told_list *all)
{
    told *t = fl_map_find(&all->by_name, fl_match_attr(push, "table")->s);
    fl_attr *words = &push->attrs[fl_op_find_attr(push->def, "update")];
    fl_update u;

    if (!t || !*words->s)
        return FL_OK; /* somebody else makes it, or it is as it was made */
    FL_TRY(fl_err_ctx(fl_update_parse(words->s, &u), "table %s", t->name));
    if (u.rule != t->update.rule)
        FL_FAIL(FL_ERR_INVAL,
                "table %s is made with optimizer=%s, but the program updates "
                "it with %s; let init_table say optimizer=%s",
                t->name, t->update.rule->name, u.rule->name, u.rule->name);
    t->update = u;
    if (!d->config.server_adds)
        words->s = "";
    return FL_OK;
}

static fl_status read_tables(fl_dist *d, told_list *all)
{
    for (const fl_op_node *n = fl_program_main(d->startup)->first; n;
         n = n->next)
        if (fl_match_op(n, "init_table"))
            FL_TRY(read_table(d, n, all));
    for (fl_op_node *n = fl_program_main(d->main)->first; n; n = n->next)
        if (fl_match_op(n, "push_sparse"))
            FL_TRY(read_push(d, n, all));
    return FL_OK;
}

static fl_status make_table(const told *t, fl_program *startup)
{
    fl_op_builder op;

    fl_op_builder_init_like(&op, t->maker);
    fl_op_builder_find_attr(&op, "settings")->s = fl_str_text(&t->words);
    return fl_op_builder_put(&op, fl_program_main(startup), NULL, NULL);
}

/* A table updates the rows that have a gradient. */
static void be_lazy(const fl_program *p, fl_op_builder *op)
{
    if (fl_op_find_attr(p->ops->find(op->type), "lazy_mode") >= 0)
        fl_op_builder_bool(op, "lazy_mode", true);
}

static const char *add_fed(fl_block *b, const told *t, const char *suffix,
                           const fl_shape *shape)
{
    const char *name =
        fl_arena_printf(&b->program->arena, "%s%s", t->name, suffix);
    fl_tensor meta = { .dtype = FL_DTYPE_F32, .shape = *shape };

    return fl_block_add_var(b, name, &meta, FL_VAR_DATA, NULL) ? NULL : name;
}

/* A block with the update alone: gradients and rate come with every push. */
static fl_status add_update(const told *t, const fl_update *u, fl_program *main)
{
    static const fl_shape one = { .rank = 1, .dim = { 1 } };
    fl_block *b = fl_program_add_block(main, fl_program_main(main));
    fl_op_builder op = { .type = u->rule->name, .role = FL_OP_ROLE_OPTIMIZE };
    fl_tensor rows = { .dtype = FL_DTYPE_F32,
                       .shape = { .rank = 2, .dim = { t->height, t->dim } } };
    const char *grad, *rate;

    FL_TRY(
        fl_block_add_var(b, t->name, &rows, FL_VAR_PARAM | FL_VAR_TABLE, NULL));
    grad = add_fed(b, t, FL_GRAD_SUFFIX, &rows.shape);
    rate = add_fed(b, t, "@RATE", &one);
    if (!grad || !rate)
        return FL_ERR_INVAL;
    fl_op_builder_in_name(&op, "Param", t->name);
    fl_op_builder_in_name(&op, "Grad", grad);
    fl_op_builder_in_name(&op, "LearningRate", rate);
    fl_op_builder_out_name(&op, "ParamOut", t->name);
    fl_op_builder_update(&op, u);
    be_lazy(main, &op);
    return fl_op_builder_put(&op, b, NULL, NULL);
}

/* On every server: each has the rows of some keys. */
static fl_status make_tables(fl_dist *d, const told_list *all)
{
    for (size_t i = 0; i < all->tables.len; i++) {
        const told *t = all->tables.data[i];
        fl_dist_table mine = { .name = fl_arena_strdup(&d->arena, t->name),
                               .settings =
                                   fl_arena_strdup(&d->arena, t->settings),
                               .dim = (uint32_t)t->dim };

        fl_vec_push(&d->tables, mine);
        for (size_t k = 0; k < d->servers.len; k++)
            FL_TRY(make_table(t, d->servers.data[k].startup));
    }
    return FL_OK;
}

/* Pushed with a rate of -1, a difference is added by sgd. */
static fl_status add_updates(fl_dist *d, const told_list *all)
{
    fl_update sum = { .rule = fl_rule_find("sgd") };

    for (size_t i = 0; i < all->tables.len; i++) {
        const told *t = all->tables.data[i];

        for (size_t k = 0; k < d->servers.len; k++)
            FL_TRY(add_update(t, d->config.server_adds ? &sum : &t->update,
                              d->servers.data[k].main));
    }
    return FL_OK;
}

static void release_tables(told_list *all)
{
    for (size_t i = 0; i < all->tables.len; i++) {
        fl_str_release(&all->tables.data[i]->words);
        fl_free(all->tables.data[i]);
    }
    fl_vec_release(&all->tables);
    fl_map_release(&all->by_name);
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

/* Where the blocks of a server begin in their parameters, in their order; false:
   all of them are whole. */
static bool list_from_rows(const fl_dist *d, int server, int64_t *rows)
{
    bool is_cut = false;

    for (size_t i = 0; i < d->params.len; i++)
        for (size_t k = 0; k < d->params.data[i].n_blocks; k++) {
            const fl_dist_block *b =
                &d->blocks.data[d->params.data[i].first_block + k];

            if (b->server != server)
                continue;
            rows[b->number] = (int64_t)b->from_row;
            is_cut |= d->params.data[i].n_blocks > 1;
        }
    return is_cut;
}

/* All members compare the program, so that they agree on how values travel. */
static void say_wire(fl_op_builder *op, const char *attr, const char *name)
{
    if (strcmp(name, "f32"))
        fl_op_builder_str(op, attr, name);
}

static fl_status serve(fl_dist *d, int server)
{
    fl_dist_server *s = &d->servers.data[server];
    size_t n = s->main->blocks.len - 1, n_dense = n - d->tables.len;
    int64_t *numbers = fl_arena_alloc(&d->arena, sizeof(*numbers) * (n + 1));
    int64_t *rows = fl_arena_alloc(&d->arena, sizeof(*rows) * (n + 1));
    fl_op_builder op = { .type = "listen_and_serv", .role = FL_OP_ROLE_RPC };

    for (size_t i = 0; i < n; i++)
        numbers[i] = (int64_t)i + 1;
    fl_op_builder_str(&op, "endpoint", d->config.servers[server]);
    fl_op_builder_ints(&op, "optimize_blocks", numbers, n_dense);
    fl_op_builder_ints(&op, "table_blocks", numbers + n_dense, d->tables.len);
    if (list_from_rows(d, server, rows))
        fl_op_builder_ints(&op, "from_rows", rows, n_dense);
    if (d->config.server_adds)
        fl_op_builder_bool(&op, "adds", true);
    say_wire(&op, "wire_pull", d->config.wire_pull);
    say_wire(&op, "wire_push", d->config.wire_push);
    FL_TRY(fl_op_builder_put(&op, fl_program_main(s->main), NULL, NULL));
    return fl_dist_print_server(d, server, &s->declared);
}

/* Blocks of dense parameters have the numbers from 1 on, those of tables the
   ones behind them. */
static fl_status fill_servers(fl_dist *d, told_list *all)
{
    FL_TRY(read_tables(d, all));
    FL_TRY(make_tables(d, all));
    for (size_t i = 0; i < d->params.len; i++)
        FL_TRY(declare_param(d, &d->params.data[i]));
    FL_TRY(add_updates(d, all));
    for (int i = 0; i < d->config.n_servers; i++)
        FL_TRY(serve(d, i));
    return FL_OK;
}

static fl_status server_spread(fl_dist *d, bool *changed)
{
    told_list tables = { 0 };
    fl_status st;

    if (d->servers.len)
        return FL_OK;
    add_servers(d);
    st = fill_servers(d, &tables);
    release_tables(&tables);
    *changed = d->tables.len || d->params.len;
    return st;
}

const fl_pass fl_pass_dist_server = {
    .name = "dist_server",
    .doc = "make the programs that servers run",
    .spread = server_spread,
};
