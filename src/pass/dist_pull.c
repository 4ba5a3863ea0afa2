/* dist_pull.c - parameters that live in a table of ids are pulled and pushed.
 *
 *     lookup_table (W=emb, Ids=a) {is_distributed}      a, b: the ids
 *     lookup_table (W=emb, Ids=b) {is_distributed}
 *     ... their gradients and the sum of these ...
 *     adam (Param=emb, Grad=emb@GRAD, LearningRate=lr)
 *
 * becomes
 *
 *     pull_sparse (Ids=[a,b]) -> (Rows=emb@ROWS, Index=[..], Keys=emb@KEYS)
 *     lookup_table (W=emb@ROWS, Ids=a@INDEX@emb)
 *     lookup_table (W=emb@ROWS, Ids=b@INDEX@emb)
 *     ... their gradients, dense, and the sum of these ...
 *     push_sparse (Keys=emb@KEYS, Grad=emb@ROWS@GRAD, LearningRate=lr,
 *                  Index=[..]) {update="optimizer=adam beta1=0.9 .."}
 *
 * The rows are updated where the table is, by the rule and settings of the
 * operator; in a program that is distributed, dist_server takes them to the
 * servers. Clipping in between stays and acts on the gradient of the rows.
 *
 * reader.h lists what may stand in the place of lookup_table; what nce reads of
 * a table is looked up first (dist_nce.c).
 *
 * One pull serves all lookups of a table whose ids are there at the first one.
 * Ids that are computed later get a pull, and a push, of their own; so do
 * lookups without a gradient, whose rows must not be updated. Without any
 * gradient (prediction) nothing is pushed and no rows are made.
 *
 * The pass is required: such a program runs in no other way. What it cannot
 * translate is an error that names the operator. */
#include "ir/attr.h"
#include "pass/dist_pull.h"

/* --- new names and variables ---------------------------------------------- */

/* "emb@ROWS" for the first pull, "emb@ROWS@1" for the second. */
static const char *name_of(fl_pull_table *t, const char *stem, const char *what,
                           size_t pull)
{
    if (!pull)
        return fl_arena_printf(&t->tmp, "%s@%s", stem, what);
    return fl_arena_printf(&t->tmp, "%s@%s@%zu", stem, what, pull);
}

static fl_status check_free(const fl_pull_table *t, const char *name)
{
    if (fl_block_find_var(t->block, name))
        FL_FAIL(FL_ERR_INVAL,
                "variable %s has the name that table parameter %s needs", name,
                t->w->name);
    return FL_OK;
}

/* An attribute that the operator may have. */
static void set_attr(const fl_op_node *n, const char *name, fl_attr value)
{
    int i = fl_op_find_attr(n->def, name);

    if (i >= 0)
        n->attrs[i] = value;
}

static void set_in(fl_op_node *n, const char *slot, int at, fl_var *v)
{
    fl_node_put_arg(n, &n->in[fl_op_find_in(n->def, slot)], at, v);
}

/* --- pulling -------------------------------------------------------------- */

static bool has_ids(const fl_op_builder *b, const fl_var *ids)
{
    for (size_t i = 0; i < b->in.len; i++)
        if (!strcmp(b->in.data[i].var, ids->name))
            return true;
    return false;
}

static fl_status add_ids(fl_pull_table *t, size_t pull, const fl_var *ids,
                         fl_op_builder *b)
{
    const char *what = fl_arena_printf(&t->tmp, "INDEX@%s", t->w->name);
    const char *index = name_of(t, ids->name, what, pull);

    if (has_ids(b, ids))
        return FL_OK;
    FL_TRY(check_free(t, index));
    fl_op_builder_in(b, "Ids", ids);
    fl_op_builder_out_name(b, "Index", index);
    return FL_OK;
}

static fl_status list_ids(fl_pull_table *t, size_t pull, fl_op_builder *b)
{
    for (size_t i = 0; i < t->uses.len; i++) {
        const fl_pull_use *u = &t->uses.data[i];
        const fl_var *ids;

        if (u->pull != pull)
            continue;
        for (int k = 0; (ids = fl_row_reader_ids(u->how, u->lookup, k)); k++)
            FL_TRY(add_ids(t, pull, ids, b));
    }
    return FL_OK;
}

static fl_status build_pull(fl_pull_table *t, size_t pull, fl_op_builder *b)
{
    const fl_op_node *lookup = t->pulls.data[pull].place;
    const char *rows = name_of(t, t->w->name, "ROWS", pull);
    const char *keys = name_of(t, t->w->name, "KEYS", pull);

    FL_TRY(check_free(t, rows));
    FL_TRY(check_free(t, keys));
    FL_TRY(list_ids(t, pull, b));
    fl_op_builder_out_name(b, "Rows", rows);
    fl_op_builder_out_name(b, "Keys", keys);
    fl_op_builder_str(b, "table", t->w->name);
    fl_op_builder_int(b, "dim", t->w->meta.shape.dim[1]);
    fl_op_builder_bool(b, "create", t->n_grads > 0);
    fl_op_builder_attr(b, "padding_idx", fl_match_attr(lookup, "padding_idx"));
    return FL_OK;
}

static fl_status insert_pull(fl_pull_table *t, size_t pull)
{
    fl_op_builder b = { .type = "pull_sparse" };
    fl_status st = build_pull(t, pull, &b);

    if (!st)
        return fl_op_builder_insert(&b, t->pulls.data[pull].place,
                                    &t->pulls.data[pull].node);
    fl_op_builder_release(&b);
    return st;
}

static fl_var *index_of(const fl_op_node *pull, const fl_var *ids)
{
    fl_args all = fl_match_ins(pull, "Ids");
    int i = 0;

    while (all.vars[i] != ids)
        i++;
    return fl_match_outs(pull, "Index").vars[i];
}

/* A lookup, or the gradient of one, in the rows of its pull. */
static void redirect(const fl_row_reader *how, fl_op_node *n,
                     const fl_op_node *pull)
{
    fl_attr no = { .type = FL_ATTR_BOOL, .b = false };
    fl_attr none = { .type = FL_ATTR_INT, .i = -1 };
    fl_attr nothing = { .type = FL_ATTR_STRING, .s = "" };
    const fl_var *ids;

    set_in(n, how->w, 0, fl_match_out(pull, "Rows"));
    for (int i = 0; (ids = fl_row_reader_ids(how, n, i)); i++)
        set_in(n, how->ids[i], 0, index_of(pull, ids));
    set_attr(n, how->sparse, no);
    set_attr(n, "is_distributed", no);
    set_attr(n, "padding_idx", none);
    set_attr(n, "show", nothing);
    set_attr(n, "click", nothing);
}

static fl_status insert_pulls(fl_pull_table *t)
{
    for (size_t i = 0; i < t->pulls.len; i++)
        FL_TRY(insert_pull(t, i));
    for (size_t i = 0; i < t->uses.len; i++) {
        const fl_pull_use *u = &t->uses.data[i];
        const fl_op_node *node = t->pulls.data[u->pull].node;

        redirect(u->how, u->lookup, node);
        if (u->grad)
            redirect(u->how, u->grad, node);
    }
    return FL_OK;
}

/* --- gradients ------------------------------------------------------------ */

/* Gives the gradient of a lookup a variable like the rows. */
static fl_status give_grad(const fl_pull_table *t, const fl_pull_use *u,
                           const char *name, fl_var **out)
{
    const fl_var *rows = fl_match_in(u->grad, u->how->w);

    FL_TRY(fl_block_add_var(t->block, name, &rows->meta, 0, out));
    fl_node_put_arg(u->grad,
                    &u->grad->out[fl_op_find_in(u->grad->def, u->how->w)], 0,
                    *out);
    return FL_OK;
}

static const fl_pull_use *use_of(const fl_pull_table *t, const fl_var *old_grad)
{
    size_t i = 0;

    while (t->uses.data[i].old_grad != old_grad)
        i++;
    return &t->uses.data[i];
}

/* Gradients of one pull, in the order of the old sum, which goes. */
static fl_status build_sum(fl_pull_table *t, size_t pull, const char *name,
                           fl_op_builder *b)
{
    fl_args x = fl_match_ins(t->sum, "X");

    for (int i = 0; i < x.n; i++) {
        const fl_pull_use *u = use_of(t, x.vars[i]);
        fl_var *v;

        if (u->pull != pull)
            continue;
        FL_TRY(give_grad(
            t, u, fl_arena_printf(&t->tmp, "%s@RENAME@%zu", name, b->in.len),
            &v));
        fl_op_builder_in(b, "X", v);
    }
    FL_TRY(check_free(t, name));
    fl_op_builder_out_name(b, "Out", name);
    return FL_OK;
}

static fl_status insert_sum(fl_pull_table *t, size_t pull, const char *name)
{
    fl_op_builder b;
    fl_op_node *sum;
    fl_status st;

    fl_op_builder_init_like(&b, t->sum);
    st = build_sum(t, pull, name, &b);
    if (!st)
        st = fl_op_builder_insert(&b, t->sum, &sum);
    if (!st)
        t->pulls.data[pull].grad = fl_match_out(sum, "Out");
    fl_op_builder_release(&b);
    return st;
}

/* How many gradients a pull gets, and the use that gives the last of them. */
static size_t count_grads(const fl_pull_table *t, size_t pull,
                          const fl_pull_use **last)
{
    size_t n = 0;

    for (size_t i = 0; i < t->uses.len; i++)
        if (t->uses.data[i].pull == pull && t->uses.data[i].grad) {
            *last = &t->uses.data[i];
            n++;
        }
    return n;
}

static fl_status join_grads(fl_pull_table *t, size_t pull)
{
    const char *name = fl_arena_printf(&t->tmp, "%s" FL_GRAD_SUFFIX,
                                       name_of(t, t->w->name, "ROWS", pull));
    const fl_pull_use *u = NULL;

    if (count_grads(t, pull, &u) > 1)
        return insert_sum(t, pull, name);
    FL_ASSERT(u); /* a pull that trains has a gradient */
    return give_grad(t, u, name, &t->pulls.data[pull].grad);
}

/* Clipping goes on with rows; one pull has them all then. */
static void clip_rows(const fl_pull_table *t, fl_pull *p)
{
    for (size_t i = 0; i < t->clips.len; i++) {
        const fl_pull_clip *c = &t->clips.data[i];
        fl_var *out = fl_match_outs(c->node, "Out").vars[c->at];

        set_in(c->node, "X", c->at, p->grad);
        out->meta = p->grad->meta;
        p->grad = out;
    }
}

/* --- the update ----------------------------------------------------------- */

static fl_status read_update(const fl_pull_table *t, fl_update *out)
{
    char text[FL_NODE_TEXT_MAX];

    if (!fl_node_update(t->update, out) || out->rule->whole)
        FL_FAIL(FL_ERR_INVAL,
                "%s: parameter %s is in a table, and tables do not have this "
                "update",
                fl_node_text(t->update, text), t->w->name);
    return FL_OK;
}

static fl_status give_update(const fl_pull_table *t, fl_op_builder *b)
{
    fl_str text = { 0 };
    fl_update u;

    FL_TRY(read_update(t, &u));
    fl_update_print(&u, &text);
    fl_op_builder_str(b, "update",
                      fl_arena_strdup(&b->tmp, fl_str_text(&text)));
    fl_str_release(&text);
    return FL_OK;
}

static fl_status insert_push(const fl_pull_table *t, const fl_pull *p)
{
    const fl_var *rate = fl_match_in(t->update, "LearningRate");
    fl_op_builder b = { .type = "push_sparse" };
    fl_status st;

    fl_op_builder_in(&b, "Keys", fl_match_out(p->node, "Keys"));
    fl_op_builder_in(&b, "Grad", p->grad);
    fl_op_builder_in(&b, "LearningRate", rate);
    fl_op_builder_ins(&b, "Index", fl_match_outs(p->node, "Index"));
    fl_op_builder_in(&b, "Show", t->show);
    fl_op_builder_in(&b, "Click", t->click);
    fl_op_builder_attr(&b, "table", fl_match_attr(p->node, "table"));
    fl_op_builder_attr(&b, "padding_idx",
                       fl_match_attr(p->node, "padding_idx"));
    st = give_update(t, &b);
    if (!st)
        return fl_op_builder_insert(&b, t->update, NULL);
    fl_op_builder_release(&b);
    return st;
}

static fl_status insert_pushes(fl_pull_table *t)
{
    for (size_t i = 0; i < t->pulls.len; i++) {
        fl_pull *p = &t->pulls.data[i];

        if (!p->trains)
            continue;
        FL_TRY(join_grads(t, i));
        clip_rows(t, p);
        if (t->update)
            FL_TRY(insert_push(t, p));
    }
    return FL_OK;
}

static void remove_old(const fl_pull_table *t)
{
    fl_node_group old = { 0 };

    fl_node_group_add(&old, t->sum);
    fl_node_group_add(&old, t->update);
    fl_node_group_remove(&old);
    fl_vec_release(&old);
    for (size_t i = 0; i < t->uses.len; i++)
        fl_match_drop(t->block, t->uses.data[i].old_grad);
}

/* --- all tables ----------------------------------------------------------- */

static fl_status translate(fl_pull_table *t, bool *changed)
{
    FL_TRY(fl_pull_read(t));
    if (!t->uses.len && !t->update)
        return FL_OK;
    *changed = true;
    FL_TRY(insert_pulls(t));
    FL_TRY(insert_pushes(t));
    remove_old(t);
    return FL_OK;
}

typedef FL_VEC(fl_pull_table *) table_list;

static fl_status translate_tables(const fl_program *p, const table_list *tables,
                                  bool *changed)
{
    fl_map by_name = { 0 };
    fl_status st;

    for (size_t i = 0; i < tables->len; i++)
        fl_map_put(&by_name, tables->data[i]->w->name, tables->data[i]);
    st = fl_pull_find_users(p, &by_name);
    fl_map_release(&by_name);
    for (size_t i = 0; i < tables->len && !st; i++)
        st = translate(tables->data[i], changed);
    return st;
}

static void add_table(table_list *tables, fl_var *w)
{
    fl_pull_table *t = fl_alloc(sizeof(*t));

    *t = (fl_pull_table){ .block = w->block, .w = w };
    fl_arena_init(&t->tmp, 4 << 10);
    fl_vec_push(tables, t);
}

static void release_tables(table_list *tables)
{
    for (size_t i = 0; i < tables->len; i++) {
        fl_pull_table *t = tables->data[i];

        fl_vec_release(&t->uses);
        fl_vec_release(&t->pulls);
        fl_vec_release(&t->clips);
        fl_arena_release(&t->tmp);
        fl_free(t);
    }
    fl_vec_release(tables);
}

static fl_status pull_run(fl_program *p, bool *changed)
{
    const unsigned flags = FL_VAR_PARAM | FL_VAR_TABLE;
    table_list tables = { 0 };
    fl_status st = FL_OK;

    for (fl_var *v = fl_program_main(p)->first_var; v; v = v->next)
        if ((v->flags & flags) == flags)
            add_table(&tables, v);
    if (tables.len)
        st = fl_pull_look_up_noise(p, changed);
    if (tables.len && !st)
        st = translate_tables(p, &tables, changed);
    release_tables(&tables);
    return st;
}

static fl_status pull_spread(fl_dist *d, bool *changed)
{
    return pull_run(d->main, changed);
}

const fl_pass fl_pass_dist_pull = {
    .name = "dist_pull",
    .doc = "pull rows of tables before their lookups, push their gradients",
    .required = true,
    .run = pull_run,
    .spread = pull_spread,
};
