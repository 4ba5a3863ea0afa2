/* opt_find.c - rows of a frozen table are pooled where they lie.
 *
 *     pull_sparse (Ids) -> (Rows, Index, Keys)
 *     fused_embedding_pool_concat (W=Rows, Ids=Index, X)
 *
 * becomes fused_find_pool_concat (Ids, X), when nothing else reads what was
 * pulled: no row is copied, and no id is looked for among those before it. */
#include "ir/attr.h"
#include "pass/match.h"
#include "pass/pass.h"

typedef struct pair {
    fl_op_node *pull, *pool;
} pair;

static bool owns(const void *what, const fl_node_group *all)
{
    const pair *p = what;
    fl_args index = fl_match_outs(p->pull, "Index");

    for (int i = 0; i < index.n; i++)
        if (!fl_node_group_owns(all, index.vars[i]))
            return false;
    return fl_node_group_owns(all, fl_match_out(p->pull, "Rows")) &&
           fl_node_group_owns(all, fl_match_out(p->pull, "Keys"));
}

/* The list of ids that an index was made from; NULL: another made it. */
static const fl_var *ids_of(const fl_op_node *pull, const fl_var *index)
{
    fl_args all = fl_match_outs(pull, "Index");

    for (int i = 0; i < all.n; i++)
        if (all.vars[i] == index)
            return fl_match_ins(pull, "Ids").vars[i];
    return NULL;
}

static bool fits(const pair *p)
{
    fl_args index = fl_match_ins(p->pool, "Ids");

    for (int i = 0; i < index.n; i++)
        if (!ids_of(p->pull, index.vars[i]))
            return false;
    /* A padding of the pool is a place among the rows and no id. */
    return fl_match_attr(p->pool, "padding_idx")->i < 0;
}

static fl_status insert(const void *what, fl_op_node *place, fl_op_node **out)
{
    static const char *const of_pool[] = { "order", "pooltype", "v2" };
    static const char *const of_pull[] = { "table", "dim", "padding_idx" };
    const pair *p = what;
    fl_args index = fl_match_ins(p->pool, "Ids");
    fl_op_builder op = { .type = "fused_find_pool_concat" };

    for (int i = 0; i < index.n; i++)
        fl_op_builder_in(&op, "Ids", ids_of(p->pull, index.vars[i]));
    fl_op_builder_ins(&op, "X", fl_match_ins(p->pool, "X"));
    fl_op_builder_out(&op, "Out", fl_match_out(p->pool, "Out"));
    for (size_t i = 0; i < FL_LEN(of_pool); i++)
        fl_op_builder_attr(&op, of_pool[i], fl_match_attr(p->pool, of_pool[i]));
    for (size_t i = 0; i < FL_LEN(of_pull); i++)
        fl_op_builder_attr(&op, of_pull[i], fl_match_attr(p->pull, of_pull[i]));
    return fl_op_builder_insert(&op, place, out);
}

static fl_status fuse(fl_op_node *n, bool *fused)
{
    pair p = { .pool = n };

    if (!fl_match_op(n, "fused_embedding_pool_concat"))
        return FL_OK;
    p.pull = fl_match_writer(fl_match_in(n, "W"));
    if (!fl_match_op(p.pull, "pull_sparse") || !fits(&p))
        return FL_OK;
    return fl_fuse(
        &(fl_fusion){ .forward = (fl_op_node *const[]){ p.pull, p.pool },
                      .n_forward = 2,
                      .what = &p,
                      .owns = owns,
                      .insert = insert },
        fused);
}

static fl_status find_run(fl_program *p, bool *changed)
{
    return fl_match_sweep(p, fuse, changed);
}

const fl_pass fl_pass_opt_find = {
    .name = "opt_find",
    .doc = "pool rows of a frozen table where they lie",
    .only_frozen = true,
    .run = find_run,
};
