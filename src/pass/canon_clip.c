/* canon_clip.c - clipping by the global norm that is written out becomes one
 * operator.
 *
 *     square (X=g1) -> (Out=q1)           and so for every gradient
 *     reduce_sum (X=q1) -> (Out=s1) {reduce_all=true}
 *     sum (X=[s1, s2, ..]) -> (Out=s)
 *     sqrt (X=s) -> (Out=norm)
 *     fill_constant () -> (Out=max) {shape=[1], value=5}
 *     elementwise_max (X=max, Y=norm) -> (Out=m)
 *     elementwise_div (X=max, Y=m) -> (Out=f)
 *     elementwise_mul (X=g1, Y=f) -> (Out=c1)
 *
 * is clip_by_global_norm (X=[g1, g2, ..]) -> (Out=[c1, c2, ..]) {max_norm=5}.
 * Rows of a table are squared as
 * get_tensor_from_selected_rows(merge_selected_rows(g)). Every gradient of the
 * norm is clipped, and nothing else is.
 */
#include "pass/canon.h"

typedef struct clipping {
    fl_op_node *div, *max, *root, *sum, *limit;
    FL_VEC(fl_var *) grads;
    FL_VEC(fl_var *) clipped; /* in the order of grads */
    fl_node_group all;
} clipping;

static fl_op_node *writer_of(const fl_op_node *n, const char *slot)
{
    return fl_match_writer(fl_match_in(n, slot));
}

static bool is_number(const fl_op_node *n)
{
    const fl_attr *shape = n ? fl_match_attr(n, "shape") : NULL;

    return fl_match_op(n, "fill_constant") && shape && shape->n == 1 &&
           shape->ints[0] == 1;
}

static bool match_frame(clipping *m)
{
    m->max = writer_of(m->div, "Y");
    if (!fl_match_op(m->div, "elementwise_div") ||
        !fl_match_op(m->max, "elementwise_max") ||
        fl_match_in(m->max, "X") != fl_match_in(m->div, "X"))
        return false;
    m->limit = writer_of(m->div, "X");
    m->root = writer_of(m->max, "Y");
    m->sum = fl_match_op(m->root, "sqrt") ? writer_of(m->root, "X") : NULL;
    return is_number(m->limit) && fl_match_op(m->sum, "sum");
}

/* Sums over everything. */
static bool is_total(const fl_op_node *n)
{
    return fl_match_op(n, "reduce_sum") && fl_match_attr(n, "reduce_all")->b;
}

/* The gradient that is squared and added up; NULL when it is something else. */
static fl_var *match_part(clipping *m, fl_var *part)
{
    fl_op_node *total = fl_match_writer(part);
    fl_op_node *square = is_total(total) ? writer_of(total, "X") : NULL;
    fl_op_node *dense, *merge;
    fl_var *g;

    if (!fl_match_op(square, "square"))
        return NULL;
    g = fl_match_in(square, "X");
    fl_node_group_add(&m->all, total);
    fl_node_group_add(&m->all, square);
    dense = fl_match_writer(g);
    if (!fl_match_op(dense, "get_tensor_from_selected_rows"))
        return g;
    merge = writer_of(dense, "X");
    if (!fl_match_op(merge, "merge_selected_rows"))
        return g;
    fl_node_group_add(&m->all, dense);
    fl_node_group_add(&m->all, merge);
    return fl_match_in(merge, "X");
}

static bool match_parts(clipping *m)
{
    fl_args parts = fl_match_ins(m->sum, "X");

    for (int i = 0; i < parts.n; i++) {
        fl_var *g = match_part(m, parts.vars[i]);

        if (!g)
            return false;
        fl_vec_push(&m->grads, g);
    }
    return parts.n > 0;
}

static size_t grad_at(const clipping *m, const fl_var *g)
{
    size_t i = 0;

    while (i < m->grads.len && m->grads.data[i] != g)
        i++;
    return i;
}

static bool match_product(clipping *m, fl_op_node *n)
{
    size_t at = grad_at(m, fl_match_in(n, "X"));

    if (!fl_match_op(n, "elementwise_mul") || at == m->grads.len ||
        fl_match_in(n, "Y") != fl_match_out(m->div, "Out") ||
        m->clipped.data[at])
        return false;
    m->clipped.data[at] = fl_match_out(n, "Out");
    fl_node_group_add(&m->all, n);
    return true;
}

/* Every gradient is multiplied once, and nobody else reads the factor. */
static bool match_products(clipping *m)
{
    for (size_t i = 0; i < m->grads.len; i++)
        fl_vec_push(&m->clipped, NULL);
    for (const fl_use *u = fl_match_out(m->div, "Out")->first_use; u;
         u = u->next)
        if (u->node != m->div && !match_product(m, u->node))
            return false;
    for (size_t i = 0; i < m->clipped.len; i++)
        if (!m->clipped.data[i] || m->clipped.data[i] == m->grads.data[i])
            return false;
    return true;
}

/* The limit may be somebody else's as well: it stays then. */
static bool owns_inner(clipping *m)
{
    fl_op_node *const frame[] = { m->div, m->max, m->root, m->sum };
    fl_args parts = fl_match_ins(m->sum, "X");

    for (size_t i = 0; i < FL_LEN(frame); i++)
        fl_node_group_add(&m->all, frame[i]);
    for (size_t i = 0; i < FL_LEN(frame); i++)
        if (!fl_node_group_owns(&m->all, fl_match_out(frame[i], "Out")))
            return false;
    for (int i = 0; i < parts.n; i++)
        if (!fl_node_group_owns(&m->all, parts.vars[i]))
            return false;
    return true;
}

static fl_status insert(const clipping *m, fl_op_node *place)
{
    fl_op_builder b = { .type = "clip_by_global_norm" };

    fl_op_builder_ins(&b, "X", (fl_args){ m->grads.data, (int)m->grads.len });
    fl_op_builder_outs(&b, "Out",
                       (fl_args){ m->clipped.data, (int)m->clipped.len });
    fl_op_builder_attr(&b, "max_norm", fl_match_attr(m->limit, "value"));
    return fl_op_builder_insert(&b, place, NULL);
}

static void drop_limit(fl_op_node *limit)
{
    fl_node_group one = { 0 };

    if (fl_match_wanted(fl_match_out(limit, "Out")))
        return;
    fl_node_group_add(&one, limit);
    fl_node_group_remove(&one);
    fl_vec_release(&one);
}

static fl_status replace(clipping *m, bool *fused)
{
    fl_op_node *place = fl_node_group_end(&m->all);

    if (!place)
        return FL_OK;
    FL_TRY(insert(m, place));
    fl_node_group_remove(&m->all);
    drop_limit(m->limit);
    *fused = true;
    return FL_OK;
}

static fl_status fuse(fl_op_node *n, bool *fused)
{
    clipping m = { .div = n };
    fl_status st = FL_OK;

    if (match_frame(&m) && match_parts(&m) && match_products(&m) &&
        owns_inner(&m))
        st = replace(&m, fused);
    fl_vec_release(&m.grads);
    fl_vec_release(&m.clipped);
    fl_vec_release(&m.all);
    return st;
}

static fl_status clip_run(fl_program *p, bool *changed)
{
    return fl_match_sweep(p, fuse, changed);
}

static fl_status clip_spread(fl_dist *d, bool *changed)
{
    return clip_run(d->main, changed);
}

const fl_pass fl_pass_canon_clip = {
    .name = "canon_clip",
    .doc = "join clipping by the global norm that is written out",
    .required = true,
    .run = clip_run,
    .spread = clip_spread,
};
