/* opt_pull.c - tables that are asked for the same ids are asked together.
 *
 *     pull_sparse (Ids) -> (Rows=a, Index=i, Keys=k) {table=wide}
 *     pull_sparse (Ids) -> (Rows=b, Index=j, Keys=l) {table=deep}
 *
 * becomes pull_sparse (Ids) -> (Rows=[a,b], Index=i, Keys=k) {table=wide,
 * tables_too=[deep]}, and whoever read j and l reads i and k: what is wide and deep
 * numbers its ids once. */
#include "ir/attr.h"
#include "pass/match.h"
#include "pass/pass.h"

typedef struct tables {
    FL_VEC(const char *) names;
    FL_VEC(int64_t) dims;
} tables;

/* --- which ---------------------------------------------------------------- */

static bool has_same(const fl_op_node *a, const fl_op_node *b, const char *attr)
{
    return fl_attr_equal(fl_match_attr(a, attr), fl_match_attr(b, attr));
}

static bool same_ids(const fl_op_node *a, const fl_op_node *b)
{
    fl_args x = fl_match_ins(a, "Ids"), y = fl_match_ins(b, "Ids");

    for (int i = 0; x.n == y.n && i < x.n; i++)
        if (x.vars[i] != y.vars[i])
            return false;
    return x.n == y.n;
}

/* Another can stand for it wherever it is read. */
static bool can_go(const fl_var *v)
{
    return !v->flags && !fl_program_is_fetched(v->block->program, v->name) &&
           fl_match_writer(v);
}

static bool can_share(const fl_op_node *a, const fl_op_node *b)
{
    fl_args index = fl_match_outs(b, "Index");

    for (int i = 0; i < index.n; i++)
        if (!can_go(index.vars[i]))
            return false;
    return can_go(fl_match_out(b, "Keys")) && same_ids(a, b) &&
           has_same(a, b, "create") && has_same(a, b, "padding_idx");
}

/* Most ids are asked for once, and nobody has to be looked for. */
static bool has_other(const fl_op_node *a)
{
    const fl_var *id = fl_match_ins(a, "Ids").vars[0];

    for (const fl_use *u = id->first_use; u; u = u->next)
        if (u->node != a && fl_match_op(u->node, "pull_sparse"))
            return true;
    return false;
}

/* The next pull with the ids of a; what changes a table lets none of those behind
   it come before it. */
static fl_op_node *find_next(const fl_op_node *a)
{
    if (!has_other(a))
        return NULL;
    for (fl_op_node *n = a->next; n && !(n->def->flags & FL_OP_EFFECT);
         n = n->next)
        if (fl_match_op(n, "pull_sparse") && can_share(a, n))
            return n;
    return NULL;
}

/* --- together ------------------------------------------------------------- */

static fl_op_node *reader_of(const fl_var *v)
{
    for (const fl_use *u = v->first_use; u; u = u->next)
        if (fl_node_uses_var(u->node, v))
            return u->node;
    return NULL;
}

static void read_instead(fl_var *v, fl_var *other)
{
    fl_op_node *n;

    while ((n = reader_of(v)))
        fl_node_read_instead(n, v, other);
}

static void share(const fl_op_node *a, const fl_op_node *b)
{
    fl_args index = fl_match_outs(b, "Index");

    for (int i = 0; i < index.n; i++)
        read_instead(index.vars[i], fl_match_outs(a, "Index").vars[i]);
    read_instead(fl_match_out(b, "Keys"), fl_match_out(a, "Keys"));
}

static void list_tables(tables *t, const fl_op_node *n)
{
    const fl_attr *names = fl_match_attr(n, "tables_too");
    const fl_attr *dims = fl_match_attr(n, "dims_too");

    fl_vec_push(&t->names, fl_match_attr(n, "table")->s);
    fl_vec_push(&t->dims, fl_match_attr(n, "dim")->i);
    for (size_t i = 0; i < names->n; i++) {
        fl_vec_push(&t->names, names->strings[i]);
        fl_vec_push(&t->dims, dims->ints[i]);
    }
}

static fl_status insert(const fl_op_node *a, const fl_op_node *b,
                        const tables *t, fl_op_node *place)
{
    fl_op_builder op = { .type = "pull_sparse" };

    fl_op_builder_ins(&op, "Ids", fl_match_ins(a, "Ids"));
    fl_op_builder_outs(&op, "Rows", fl_match_outs(a, "Rows"));
    fl_op_builder_outs(&op, "Rows", fl_match_outs(b, "Rows"));
    fl_op_builder_outs(&op, "Index", fl_match_outs(a, "Index"));
    fl_op_builder_out(&op, "Keys", fl_match_out(a, "Keys"));
    fl_op_builder_attr(&op, "table", fl_match_attr(a, "table"));
    fl_op_builder_attr(&op, "dim", fl_match_attr(a, "dim"));
    fl_op_builder_attr(&op, "create", fl_match_attr(a, "create"));
    fl_op_builder_attr(&op, "padding_idx", fl_match_attr(a, "padding_idx"));
    fl_op_builder_strings(&op, "tables_too", t->names.data + 1,
                          t->names.len - 1);
    fl_op_builder_ints(&op, "dims_too", t->dims.data + 1, t->dims.len - 1);
    return fl_op_builder_insert(&op, place, NULL);
}

static fl_status join(const fl_op_node *a, const fl_op_node *b,
                      fl_op_node *place)
{
    tables t = { 0 };
    fl_status st;

    list_tables(&t, a);
    list_tables(&t, b);
    share(a, b);
    st = insert(a, b, &t, place);
    fl_vec_release(&t.names);
    fl_vec_release(&t.dims);
    return st;
}

static fl_status fuse(fl_op_node *a, bool *fused)
{
    fl_op_node *b = fl_match_op(a, "pull_sparse") ? find_next(a) : NULL;
    fl_node_group both = { 0 };
    fl_status st = FL_OK;
    fl_op_node *place;

    if (!b)
        return FL_OK;
    fl_node_group_add(&both, a);
    fl_node_group_add(&both, b);
    place = fl_node_group_place(&both);
    if (place) {
        st = join(a, b, place);
        *fused = !st;
    }
    if (*fused)
        fl_node_group_remove(&both);
    fl_vec_release(&both);
    return st;
}

static fl_status pull_run(fl_program *p, bool *changed)
{
    return fl_match_sweep(p, fuse, changed);
}

const fl_pass fl_pass_opt_pull = {
    .name = "opt_pull",
    .doc = "ask tables for the same ids together",
    .run = pull_run,
};
