/* opt_embedding.c - the lookups of one table, their pooling and the concat
 * behind them become one operator.
 *
 *     lookup_table -> sequence_pool -> +
 *     lookup_table (one id per row) -> +-> concat
 *     anything else ------------------> +
 *
 * becomes fused_embedding_pool_concat; the last kind enters it as it is. If
 * several tables meet in one concat, the one with most lookups is taken.
 *
 * The gradients of the group become one as well. Each lookup gives a gradient
 * of the table and a sum adds them up; the new operator gives one for all, so
 * the sum goes, or shrinks when lookups elsewhere take part in it. */
#include "ir/attr.h"
#include "pass/match.h"
#include "pass/pass.h"

/* Fewer lookups are no gain. */
#define LOOKUPS_MIN 2

/* One input of the concat. */
typedef struct piece {
    bool is_lookup; /* may be fused; what follows is filled then */
    bool chosen;
    fl_op_node *lookup, *pool;           /* pool: NULL with one id per row */
    fl_op_node *lookup_grad, *pool_grad; /* NULL without gradient */
    fl_op_node *sum; /* of the table's gradients; NULL without */
} piece;

typedef struct bundle {
    fl_op_node *concat, *concat_grad; /* concat_grad: NULL without gradient */
    fl_args x, grads; /* of the concat; grads is empty or as long as x */
    piece *pieces;
    const piece *lead; /* the first one chosen */
    const char *pooltype;
    fl_node_group forward, backward, all;
    bool drops_sum;
} bundle;

/* --- reading one input ---------------------------------------------------- */

/* What is in a table of ids is not here to be fused. */
static bool is_table_op(const fl_op_node *n)
{
    return (fl_match_op(n, "lookup_table") ||
            fl_match_op(n, "lookup_table_v2")) &&
           !fl_match_attr(n, "is_distributed")->b;
}

/* Pads are zeros then, as in a lookup without ids. */
static bool is_pool(const fl_op_node *n)
{
    const char *type;

    if (!fl_match_op(n, "sequence_pool") ||
        fl_match_attr(n, "pad_value")->f != 0)
        return false;
    type = fl_match_attr(n, "pooltype")->s;
    return !strcmp(type, "SUM") || !strcmp(type, "AVERAGE") ||
           !strcmp(type, "SQRT");
}

/* One level of sequences to pool, or one id per row. */
static bool ids_fit(const piece *c)
{
    const fl_var *ids = fl_match_in(c->lookup, "Ids");
    const fl_var *rows = fl_match_out(c->lookup, "Out");

    return ids->meta.n_lod == (c->pool ? 1 : 0) && rows->meta.shape.rank == 2;
}

static bool match_forward(piece *c, const fl_var *v)
{
    fl_op_node *n = fl_match_writer(v);

    if (is_pool(n)) {
        c->pool = n;
        n = fl_match_writer(fl_match_in(n, "X"));
    }
    c->lookup = n;
    return is_table_op(n) && ids_fit(c);
}

static fl_op_node *find_sum(const fl_var *grad)
{
    for (const fl_use *u = grad ? grad->first_use : NULL; u; u = u->next)
        if (fl_match_op(u->node, "sum") && !u->node->block->index &&
            fl_args_count(fl_match_ins(u->node, "X"), grad) == 1)
            return u->node;
    return NULL;
}

/* Follows the gradient from the concat down to the table: all of the way or
   none of it. */
static bool match_backward(piece *c, const fl_var *grad)
{
    const fl_op_node *top;

    c->lookup_grad = fl_match_grad(c->lookup);
    c->pool_grad = fl_match_grad(c->pool);
    if (!grad)
        return !c->lookup_grad && !c->pool_grad;
    top = c->pool ? c->pool_grad : c->lookup_grad;
    if (!top || !c->lookup_grad || fl_match_in(top, "Out@GRAD") != grad)
        return false;
    if (c->pool && fl_match_out(c->pool_grad, "X@GRAD") !=
                       fl_match_in(c->lookup_grad, "Out@GRAD"))
        return false;
    c->sum = find_sum(fl_match_out(c->lookup_grad, "W@GRAD"));
    return c->sum != NULL;
}

static bool owns_inner(const bundle *b, const piece *c, const fl_var *grad)
{
    fl_node_group g = { 0 };
    bool ok;

    fl_node_group_add(&g, c->lookup);
    fl_node_group_add(&g, c->pool);
    fl_node_group_add(&g, b->concat);
    fl_node_group_add(&g, b->concat_grad);
    fl_node_group_add(&g, c->pool_grad);
    fl_node_group_add(&g, c->lookup_grad);
    fl_node_group_add(&g, c->sum);
    ok = fl_node_group_owns(&g, fl_match_out(c->lookup, "Out")) &&
         fl_node_group_owns(&g, fl_match_out(c->pool, "Out")) &&
         fl_node_group_owns(&g, fl_match_out(c->pool, "MaxIndex")) &&
         fl_node_group_owns(&g, grad) &&
         fl_node_group_owns(&g, fl_match_out(c->pool_grad, "X@GRAD")) &&
         fl_node_group_owns(&g, fl_match_out(c->lookup_grad, "W@GRAD"));
    fl_vec_release(&g);
    return ok;
}

static const fl_var *grad_at(const bundle *b, int i)
{
    return i < b->grads.n ? b->grads.vars[i] : NULL;
}

static void read_piece(const bundle *b, int i)
{
    const fl_var *grad = grad_at(b, i);
    piece *c = &b->pieces[i];

    c->is_lookup = fl_args_count(b->x, b->x.vars[i]) == 1 &&
                   match_forward(c, b->x.vars[i]) && match_backward(c, grad) &&
                   owns_inner(b, c, grad);
}

/* --- choosing ------------------------------------------------------------- */

static const char *pooltype_of(const piece *c)
{
    return c->pool ? fl_match_attr(c->pool, "pooltype")->s : NULL;
}

/* With one id per row every pooling is the same. */
static bool belongs(const piece *c, const piece *lead, const char *pooltype)
{
    return c->is_lookup && c->lookup->def == lead->lookup->def &&
           fl_match_in(c->lookup, "W") == fl_match_in(lead->lookup, "W") &&
           fl_match_same_attrs(c->lookup, lead->lookup) &&
           c->sum == lead->sum &&
           (!c->pool || !strcmp(pooltype_of(c), pooltype));
}

static int count_alike(const bundle *b, const piece *lead, const char *pooltype)
{
    int n = 0;

    for (int i = 0; i < b->x.n; i++)
        n += belongs(&b->pieces[i], lead, pooltype);
    return n;
}

static bool choose(bundle *b)
{
    int best = LOOKUPS_MIN - 1;

    for (int i = 0; i < b->x.n; i++) {
        const piece *c = &b->pieces[i];
        const char *type;
        int n;

        if (!c->is_lookup)
            continue;
        type = c->pool ? pooltype_of(c) : "SUM";
        n = count_alike(b, c, type);
        if (n > best) {
            best = n;
            b->lead = c;
            b->pooltype = type;
        }
    }
    for (int i = 0; b->lead && i < b->x.n; i++)
        b->pieces[i].chosen = belongs(&b->pieces[i], b->lead, b->pooltype);
    return b->lead != NULL;
}

/* What is not fused goes through the new operator row by row. */
static bool others_fit(const bundle *b)
{
    for (int i = 0; i < b->x.n; i++)
        if (!b->pieces[i].chosen &&
            (b->x.vars[i]->meta.shape.rank != 2 || b->x.vars[i]->meta.n_lod))
            return false;
    return true;
}

/* --- replacing ------------------------------------------------------------ */

static void collect(bundle *b)
{
    int n_chosen = 0;

    for (int i = 0; i < b->x.n; i++) {
        const piece *c = &b->pieces[i];

        if (!c->chosen)
            continue;
        n_chosen++;
        fl_node_group_add(&b->forward, c->lookup);
        fl_node_group_add(&b->forward, c->pool);
        fl_node_group_add(&b->backward, c->pool_grad);
        fl_node_group_add(&b->backward, c->lookup_grad);
    }
    fl_node_group_add(&b->forward, b->concat);
    fl_node_group_add(&b->backward, b->concat_grad);
    b->drops_sum =
        b->lead->sum && fl_match_ins(b->lead->sum, "X").n == n_chosen;
    if (b->drops_sum)
        fl_node_group_add(&b->backward, b->lead->sum);
    for (size_t i = 0; i < b->forward.len; i++)
        fl_node_group_add(&b->all, b->forward.data[i]);
    for (size_t i = 0; i < b->backward.len; i++)
        fl_node_group_add(&b->all, b->backward.data[i]);
}

static void list_inputs(const bundle *b, fl_op_builder *op)
{
    int64_t *order = fl_arena_alloc(&op->tmp, sizeof(*order) * (size_t)b->x.n);
    int64_t n_ids = 0, n_x = 0;

    for (int i = 0; i < b->x.n; i++) {
        const piece *c = &b->pieces[i];

        order[i] = c->chosen ? n_ids++ : -1 - n_x++;
        if (c->chosen)
            fl_op_builder_in(op, "Ids", fl_match_in(c->lookup, "Ids"));
        else
            fl_op_builder_in(op, "X", b->x.vars[i]);
    }
    fl_op_builder_ints(op, "order", order, (size_t)b->x.n);
}

static fl_status insert_fused(const bundle *b, fl_op_node *place,
                              fl_op_node **out)
{
    const fl_op_node *lookup = b->lead->lookup;
    fl_op_builder op = { .type = "fused_embedding_pool_concat" };

    fl_op_builder_in(&op, "W", fl_match_in(lookup, "W"));
    list_inputs(b, &op);
    fl_op_builder_out(&op, "Out", fl_match_out(b->concat, "Out"));
    fl_op_builder_str(&op, "pooltype", b->pooltype);
    fl_op_builder_attr(&op, "padding_idx",
                       fl_match_attr(lookup, "padding_idx"));
    fl_op_builder_attr(&op, "is_sparse", fl_match_attr(lookup, "is_sparse"));
    fl_op_builder_bool(&op, "v2", fl_match_op(lookup, "lookup_table_v2"));
    return fl_op_builder_insert(&op, place, out);
}

/* Where the table's gradient goes: to the end, or to the smaller sum. */
static fl_var *table_grad(const bundle *b)
{
    return b->drops_sum ? fl_match_out(b->lead->sum, "Out")
                        : fl_match_out(b->lead->lookup_grad, "W@GRAD");
}

static fl_status insert_grad(const bundle *b, const fl_op_node *fused,
                             fl_op_node *place)
{
    fl_args rest = { .n = 0 };
    fl_op_builder op;

    fl_op_builder_init_grad(&op, fused);
    rest.vars = fl_arena_alloc(&op.tmp, sizeof(fl_var *) * (size_t)b->x.n);
    for (int i = 0; i < b->grads.n; i++)
        if (!b->pieces[i].chosen)
            rest.vars[rest.n++] = b->grads.vars[i];
    fl_op_builder_in(&op, "Out@GRAD", fl_match_in(b->concat_grad, "Out@GRAD"));
    fl_op_builder_out(&op, "W@GRAD", table_grad(b));
    if (fl_args_count(rest, NULL) < rest.n)
        fl_op_builder_outs(&op, "X@GRAD", rest);
    return fl_op_builder_insert(&op, place, NULL);
}

static bool gives(const bundle *b, const fl_var *w_grad)
{
    for (int i = 0; i < b->x.n; i++)
        if (b->pieces[i].chosen &&
            fl_match_out(b->pieces[i].lookup_grad, "W@GRAD") == w_grad)
            return true;
    return false;
}

/* The gradient for all takes the place of the first in the sum. */
static fl_status shrink_sum(bundle *b)
{
    fl_args x = fl_match_ins(b->lead->sum, "X");
    bool placed = false;
    fl_op_builder op;

    fl_op_builder_init_like(&op, b->lead->sum);
    for (int i = 0; i < x.n; i++) {
        if (!gives(b, x.vars[i])) {
            fl_op_builder_in(&op, "X", x.vars[i]);
        } else if (!placed) {
            fl_op_builder_in(&op, "X", table_grad(b));
            placed = true;
        }
    }
    fl_op_builder_out(&op, "Out", fl_match_out(b->lead->sum, "Out"));
    fl_node_group_add(&b->all, b->lead->sum);
    return fl_op_builder_insert(&op, b->lead->sum, NULL);
}

/* One lookup's gradient is to hold the rows of all. */
static void forget_row_count(const bundle *b)
{
    fl_var *grad = table_grad(b);

    if (!b->drops_sum && grad && grad->meta.kind == FL_KIND_ROWS)
        grad->meta.shape.dim[0] = -1;
}

static fl_status replace(bundle *b, bool *done)
{
    fl_op_node *place = fl_node_group_place(&b->forward);
    fl_op_node *grad_place = fl_node_group_place(&b->backward);
    fl_op_node *fused;

    if (!place || (b->backward.len && !grad_place))
        return FL_OK;
    FL_TRY(insert_fused(b, place, &fused));
    if (grad_place) {
        forget_row_count(b);
        FL_TRY(insert_grad(b, fused, grad_place));
        if (b->lead->sum && !b->drops_sum)
            FL_TRY(shrink_sum(b));
    }
    fl_node_group_remove(&b->all);
    *done = true;
    return FL_OK;
}

static bool is_flat_concat(const fl_op_node *n)
{
    const fl_shape *s;

    if (!fl_match_op(n, "concat") || fl_match_in(n, "AxisTensor"))
        return false;
    s = &fl_match_out(n, "Out")->meta.shape;
    return s->rank == 2 && fl_shape_axis(s, fl_match_attr(n, "axis")->i) == 1;
}

static fl_status fuse(fl_op_node *n, bool *fused)
{
    bundle b = { .concat = n };
    fl_status st = FL_OK;

    if (!is_flat_concat(n))
        return FL_OK;
    b.concat_grad = fl_match_grad(n);
    b.x = fl_match_ins(n, "X");
    b.grads = fl_match_outs(b.concat_grad, "X@GRAD");
    b.pieces = fl_alloc(sizeof(piece) * (size_t)b.x.n);
    for (int i = 0; i < b.x.n; i++)
        read_piece(&b, i);
    if (choose(&b) && others_fit(&b)) {
        collect(&b);
        st = replace(&b, fused);
    }
    fl_vec_release(&b.forward);
    fl_vec_release(&b.backward);
    fl_vec_release(&b.all);
    fl_free(b.pieces);
    return st;
}

static fl_status embedding_run(fl_program *p, bool *changed)
{
    return fl_match_sweep(p, fuse, changed);
}

const fl_pass fl_pass_opt_embedding = {
    .name = "opt_embedding",
    .doc = "join lookups of one table, pooling and concat",
    .run = embedding_run,
};
