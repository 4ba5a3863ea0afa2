/* dist_place.c - dense parameters cut into blocks, and blocks dealt to servers.
 *
 * A parameter of E numbers, with S servers and blocks of at least B numbers:
 *
 *     k     = min(S, max(1, floor(E / B)))
 *     block = ceil(E / k), rounded up to whole rows
 *     k     = ceil(E / block)
 *
 * so that nothing below 2 * B is cut. Blocks are contiguous ranges of rows. The
 * only block of a parameter has its name, others are called w.block0 and so on.
 * An update that needs the whole parameter keeps it in one block, and so does
 * anything about it that cannot be cut.
 *
 * Parameters are dealt in the order of their updates. The programs stay as they
 * are. Parameters that nobody trains, and tables, are not placed.
 */
#include "base/hash.h"
#include "pass/dist_kit.h"

static uint64_t div_up(uint64_t a, uint64_t b)
{
    FL_ASSERT(b);
    return a / b + (a % b != 0);
}

/* --- which may be cut ----------------------------------------------------- */

static bool can_cut(const fl_dist *d, const fl_dist_chain *c)
{
    if (!d->config.slice_var_up || !c->param->meta.shape.rank)
        return false;
    if (!d->config.server_adds && (c->update->def->flags & FL_OP_WHOLE))
        return false;
    for (size_t i = 0; i < c->kept.len; i++) {
        const fl_var *v = c->kept.data[i];

        if (fl_dist_chain_is_like(c, v)
                ? !fl_dist_can_cut(fl_dist_find_maker(d, v->name))
                : fl_shape_numel(&v->meta.shape) != 1)
            return false;
    }
    return true;
}

/* --- blocks --------------------------------------------------------------- */

static uint64_t block_size(const fl_dist *d, uint64_t n, uint64_t width)
{
    uint64_t least = d->config.min_block_size ? d->config.min_block_size : 1;
    uint64_t k = n / least ? n / least : 1;

    if (k > (uint64_t)d->config.n_servers)
        k = (uint64_t)d->config.n_servers;
    return div_up(div_up(n, k), width) * width;
}

/* The blocks of a parameter go to servers in a row, which are different ones:
   a parameter has no more blocks than there are servers. */
static int choose_server(const fl_dist *d, const fl_dist_param *p, size_t i)
{
    int n = d->config.n_servers;

    if (d->config.round_robin)
        return (int)(d->blocks.len % (size_t)n);
    return (int)(((size_t)fl_server_of(fl_hash_str(p->name), n) + i) %
                 (size_t)n);
}

static void add_block(fl_dist *d, const fl_dist_param *p, size_t i,
                      uint64_t from, uint64_t n, uint64_t width)
{
    fl_dist_block b = { .name = p->name,
                        .from = from,
                        .n = n,
                        .from_row = from / width,
                        .n_rows = n / width };

    if (p->n_blocks > 1)
        b.name = fl_arena_printf(&d->arena, "%s.block%zu", p->name, i);
    b.server = choose_server(d, p, i);
    fl_vec_push(&d->blocks, b);
}

static void add_param(fl_dist *d, const fl_var *w, bool cut)
{
    uint64_t n = (uint64_t)fl_shape_numel(&w->meta.shape);
    const fl_shape *s = &w->meta.shape;
    uint64_t width = s->rank > 1 ? (uint64_t)fl_shape_count(s, 1, s->rank) : 1;
    uint64_t size = cut ? block_size(d, n, width) : n;
    fl_dist_param p = { .name = fl_arena_strdup(&d->arena, w->name),
                        .shape = *s,
                        .n = n,
                        .first_block = d->blocks.len,
                        .n_blocks = (size_t)div_up(n, size) };

    for (size_t i = 0; i < p.n_blocks; i++) {
        uint64_t from = i * size;

        add_block(d, &p, i, from, n - from < size ? n - from : size, width);
    }
    fl_vec_push(&d->params, p);
}

/* --- parameters ----------------------------------------------------------- */

static fl_status check_param(const fl_dist_chain *c)
{
    const fl_var *w = c->param;
    char text[FL_NODE_TEXT_MAX], buf[FL_SHAPE_TEXT_MAX];

    if (w->meta.dtype != FL_DTYPE_F32 || w->meta.kind != FL_KIND_DENSE ||
        fl_shape_numel(&w->meta.shape) < 1)
        FL_FAIL(FL_ERR_INVAL,
                "parameter %s is %s%s; servers keep f32 values of a fixed "
                "shape",
                w->name, fl_dtype_text(w->meta.dtype),
                fl_shape_text(&w->meta.shape, buf));
    if (c->grad && c->grad->meta.kind == FL_KIND_ROWS)
        FL_FAIL(FL_ERR_INVAL,
                "%s: the gradient %s of parameter %s has rows + values, which "
                "only lookup_table and lookup_table_v2 with is_sparse may give "
                "it",
                fl_node_text(c->update, text), c->grad->name, w->name);
    return FL_OK;
}

static fl_status place_param(fl_dist *d, fl_var *w, bool *changed)
{
    fl_op_node *update = NULL;
    fl_dist_chain c;
    fl_status st;

    FL_TRY(fl_dist_find_update(d, w, &update));
    if (!update)
        return FL_OK;
    FL_TRY(fl_dist_chain_find(&c, d, w, update));
    st = check_param(&c);
    if (!st) {
        add_param(d, w, can_cut(d, &c));
        *changed = true;
    }
    fl_dist_chain_release(&c);
    return st;
}

static void list_updated(const fl_op_node *n, fl_var_list *out)
{
    const unsigned flags = FL_VAR_PARAM | FL_VAR_TABLE;
    fl_args params = fl_match_ins(n, "Param");

    for (int i = 0; i < params.n; i++)
        if ((params.vars[i]->flags & flags) == FL_VAR_PARAM)
            fl_var_list_add(out, params.vars[i]);
}

static fl_status place_spread(fl_dist *d, bool *changed)
{
    fl_var_list params = { 0 };
    fl_status st = FL_OK;

    if (d->params.len)
        return FL_OK;
    for (const fl_op_node *n = fl_program_main(d->main)->first; n; n = n->next)
        list_updated(n, &params);
    for (size_t i = 0; !st && i < params.len; i++)
        st = place_param(d, params.data[i], changed);
    fl_vec_release(&params);
    return st;
}

const fl_pass fl_pass_dist_place = {
    .name = "dist_place",
    .doc = "cut dense parameters into blocks and deal them to servers",
    .spread = place_spread,
};
