/* dist_pull_read.c - what the program does with a table: who looks up, what
 * becomes of the gradients, and which lookups share a pull. */
#include <inttypes.h>

#include "pass/dist_pull.h"

/* --- who uses it ---------------------------------------------------------- */

/* How n, or the gradient of n, reads the table; NULL when it does not. */
static const fl_row_reader *table_reader(const fl_op_node *n, const fl_var *w)
{
    const fl_attr *says = fl_match_attr(n, "is_distributed");

    return says && !says->b ? NULL : fl_row_reader_of(n, w);
}

static bool is_update(const fl_op_node *n, const fl_var *w)
{
    return !n->is_grad && fl_match_in(n, "Param") == w &&
           fl_match_out(n, "ParamOut") == w;
}

static fl_status refuse_user(const fl_pull_table *t, const fl_op_node *n)
{
    char text[FL_NODE_TEXT_MAX];

    if (fl_match_op(n, "weight_decay"))
        FL_FAIL(FL_ERR_INVAL,
                "%s: parameter %s is in a table, whose decay is a setting of "
                "the table (regularization=...)",
                fl_node_text(n, text), t->w->name);
    FL_FAIL(FL_ERR_INVAL,
            "%s: parameter %s is in a table; only lookup_table and "
            "lookup_table_v2 with is_distributed=true, skip_gram and nce in "
            "block 0, and one optimizer, can use it",
            fl_node_text(n, text), t->w->name);
}

static fl_status note_user(fl_pull_table *t, fl_op_node *n)
{
    fl_pull_use u = { .lookup = n, .how = table_reader(n, t->w) };

    if (n->block != t->block)
        return refuse_user(t, n);
    if (u.how && !n->is_grad) {
        u.grad = fl_match_grad(n);
        u.old_grad = fl_match_out(u.grad, u.how->grad);
        t->n_grads += u.grad != NULL;
        fl_vec_push(&t->uses, u);
    } else if (is_update(n, t->w) && !t->update) {
        t->update = n;
    } else if (!u.how) {
        return refuse_user(t, n);
    }
    return FL_OK;
}

static bool has_grad(const fl_pull_table *t, const fl_op_node *n)
{
    for (size_t i = 0; i < t->uses.len; i++)
        if (t->uses.data[i].grad == n)
            return true;
    return false;
}

static fl_status check_grads(const fl_pull_table *t)
{
    char text[FL_NODE_TEXT_MAX];

    for (const fl_use *u = t->w->first_use; u; u = u->next)
        if (u->node->is_grad && fl_node_uses_var(u->node, t->w) &&
            !has_grad(t, u->node))
            FL_FAIL(FL_ERR_INVAL,
                    "%s: it is the gradient of no lookup of table parameter %s",
                    fl_node_text(u->node, text), t->w->name);
    return FL_OK;
}

static fl_status note_users(const fl_map *tables, fl_op_node *n,
                            const fl_args *args, int n_slots)
{
    for (int s = 0; s < n_slots; s++)
        for (int i = 0; i < args[s].n; i++) {
            const fl_var *v = args[s].vars[i];
            fl_pull_table *t = v ? fl_map_find(tables, v->name) : NULL;

            if (!t || t->w != v || t->seen == n ||
                (!fl_node_uses_var(n, v) && !fl_node_writes_var(n, v)))
                continue;
            t->seen = n;
            FL_TRY(note_user(t, n));
        }
    return FL_OK;
}

fl_status fl_pull_find_users(const fl_program *p, const fl_map *tables)
{
    for (size_t i = 0; i < p->blocks.len; i++)
        for (fl_op_node *n = p->blocks.data[i]->first; n; n = n->next) {
            FL_TRY(note_users(tables, n, n->in, fl_node_n_in(n)));
            FL_TRY(note_users(tables, n, n->out, fl_node_n_out(n)));
        }
    return FL_OK;
}

/* --- what the lookups say ------------------------------------------------- */

static int64_t padding_of(const fl_op_node *lookup)
{
    const fl_attr *padding = fl_match_attr(lookup, "padding_idx");

    return padding ? padding->i : -1;
}

static fl_status check_padding(const fl_pull_table *t)
{
    const fl_op_node *first = t->uses.data[0].lookup;
    char a[FL_NODE_TEXT_MAX], b[FL_NODE_TEXT_MAX];

    for (size_t i = 1; i < t->uses.len; i++) {
        const fl_op_node *n = t->uses.data[i].lookup;

        if (padding_of(n) != padding_of(first))
            FL_FAIL(FL_ERR_INVAL,
                    "table parameter %s: %s has padding_idx=%" PRId64
                    ", %s has %" PRId64 "; the lookups of a table have one",
                    t->w->name, fl_node_text(first, a), padding_of(first),
                    fl_node_text(n, b), padding_of(n));
    }
    return FL_OK;
}

/* Lookups that name no variable follow the others. */
static fl_status find_named(const fl_pull_table *t, const char *attr,
                            fl_var **out)
{
    const char *name = "";

    for (size_t i = 0; i < t->uses.len; i++) {
        const fl_attr *says = fl_match_attr(t->uses.data[i].lookup, attr);
        const char *s = says ? says->s : "";

        if (*name && *s && strcmp(name, s))
            FL_FAIL(FL_ERR_INVAL,
                    "table parameter %s: %s is %s in one lookup and %s in "
                    "another; the lookups of a table have one",
                    t->w->name, attr, name, s);
        name = *s ? s : name;
    }
    if (!*name)
        return FL_OK;
    *out = fl_block_find_var(t->block, name);
    if (!*out)
        FL_FAIL(FL_ERR_NOTFOUND,
                "table parameter %s: %s names variable %s, which does not "
                "exist",
                t->w->name, attr, name);
    return FL_OK;
}

static fl_status read_lookups(fl_pull_table *t)
{
    FL_TRY(check_padding(t));
    if (!t->update)
        return FL_OK;
    FL_TRY(find_named(t, "show", &t->show));
    return find_named(t, "click", &t->click);
}

/* --- the way of the gradient ---------------------------------------------- */

static fl_status check_not_fetched(const fl_pull_table *t, const fl_var *v)
{
    if (fl_program_is_fetched(t->block->program, v->name))
        FL_FAIL(FL_ERR_INVAL,
                "%s cannot be fetched: parameter %s is in a table, and only "
                "the rows of a batch are here",
                v->name, t->w->name);
    return FL_OK;
}

/* The operator that reads v; NULL when there is none. */
static fl_status find_reader(const fl_pull_table *t, const fl_var *v,
                             fl_op_node **out)
{
    char text[FL_NODE_TEXT_MAX];

    *out = NULL;
    FL_TRY(check_not_fetched(t, v));
    for (const fl_use *u = v->first_use; u; u = u->next) {
        if (u->node == *out || !fl_node_uses_var(u->node, v))
            continue;
        if (*out)
            FL_FAIL(FL_ERR_INVAL,
                    "%s: gradient %s of table parameter %s has another reader "
                    "already",
                    fl_node_text(u->node, text), v->name, t->w->name);
        *out = u->node;
    }
    return FL_OK;
}

static fl_status refuse_reader(const fl_pull_table *t, const fl_op_node *n)
{
    char text[FL_NODE_TEXT_MAX];

    FL_FAIL(FL_ERR_INVAL,
            "%s: it works on the gradient of table parameter %s; only clipping "
            "and one optimizer can",
            fl_node_text(n, text), t->w->name);
}

/* All gradients of the lookups go into one sum. */
static fl_status find_sum(fl_pull_table *t)
{
    for (size_t i = 0; i < t->uses.len; i++) {
        const fl_var *grad = t->uses.data[i].old_grad;
        fl_op_node *n;

        if (!grad)
            continue;
        FL_TRY(find_reader(t, grad, &n));
        if (!fl_match_op(n, "sum") || (t->sum && n != t->sum) ||
            (size_t)fl_match_ins(n, "X").n != t->n_grads)
            return n ? refuse_reader(t, n)
                     : fl_err_set(FL_ERR_INVAL,
                                  "gradient %s of table parameter %s is not "
                                  "added to the others",
                                  grad->name, t->w->name);
        t->sum = n;
    }
    return FL_OK;
}

static fl_var *only_grad(const fl_pull_table *t)
{
    size_t i = 0;

    while (!t->uses.data[i].grad)
        i++;
    return t->uses.data[i].old_grad;
}

static bool is_clip(const fl_op_node *n)
{
    return fl_match_op(n, "clip") || fl_match_op(n, "clip_by_norm") ||
           fl_match_op(n, "clip_by_global_norm");
}

/* Passes one clipping: v becomes what it gives for v. */
static fl_status pass_clip(fl_pull_table *t, fl_op_node *n, fl_var **v)
{
    fl_args x = fl_match_ins(n, "X");
    fl_pull_clip c = { .node = n };

    if (fl_args_count(x, *v) != 1 || fl_node_writes_var(n, *v))
        return refuse_reader(t, n);
    while (x.vars[c.at] != *v)
        c.at++;
    fl_vec_push(&t->clips, c);
    *v = fl_match_outs(n, "Out").vars[c.at];
    return FL_OK;
}

static fl_status follow_gradient(fl_pull_table *t)
{
    fl_op_node *n = NULL;
    fl_var *v;

    if (t->n_grads > 1)
        FL_TRY(find_sum(t));
    v = t->sum ? fl_match_out(t->sum, "Out") : only_grad(t);
    FL_TRY(find_reader(t, v, &n));
    while (n && is_clip(n)) {
        FL_TRY(pass_clip(t, n, &v));
        FL_TRY(find_reader(t, v, &n));
    }
    if (n && (n != t->update || fl_match_in(n, "Grad") != v))
        return refuse_reader(t, n);
    if (!n)
        t->update = NULL;
    return FL_OK;
}

static fl_status read_gradient(fl_pull_table *t)
{
    fl_op_node *update = t->update;
    char text[FL_NODE_TEXT_MAX];

    if (t->n_grads)
        FL_TRY(follow_gradient(t));
    if (update && (!t->n_grads || !t->update))
        FL_FAIL(FL_ERR_INVAL,
                "%s: its gradient is not that of the lookups of table "
                "parameter %s",
                fl_node_text(update, text), t->w->name);
    return FL_OK;
}

/* --- which lookups share a pull ------------------------------------------- */

static bool is_written(const fl_var *v)
{
    for (const fl_use *u = v->first_use; u; u = u->next)
        if (fl_match_writes(u->node, v))
            return true;
    return false;
}

/* Ids that are fed are there from the start. */
static bool is_ready(const fl_var *ids, fl_op_node *place,
                     const fl_op_node *lookup)
{
    if (!is_written(ids))
        return true;
    for (const fl_op_node *n = place; n != lookup; n = n->next)
        if (fl_match_writes(n, ids))
            return false;
    return true;
}

static bool all_ready(const fl_pull_use *u, fl_op_node *place)
{
    for (int i = 0; fl_row_reader_ids(u->how, u->lookup, i); i++)
        if (!is_ready(fl_row_reader_ids(u->how, u->lookup, i), place,
                      u->lookup))
            return false;
    return true;
}

static void choose_pull(fl_pull_table *t, fl_pull_use *u)
{
    fl_pull fresh = { .place = u->lookup, .trains = u->grad != NULL };

    for (u->pull = 0; u->pull < t->pulls.len; u->pull++) {
        const fl_pull *p = &t->pulls.data[u->pull];

        if (p->trains == fresh.trains && all_ready(u, p->place))
            return;
    }
    fl_vec_push(&t->pulls, fresh);
}

static size_t count_pushes(const fl_pull_table *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->pulls.len; i++)
        n += t->pulls.data[i].trains;
    return n;
}

static fl_status choose_pulls(fl_pull_table *t)
{
    char text[FL_NODE_TEXT_MAX];

    for (size_t i = 0; i < t->uses.len; i++)
        choose_pull(t, &t->uses.data[i]);
    if (t->clips.len && count_pushes(t) > 1)
        FL_FAIL(FL_ERR_INVAL,
                "%s: the gradient of table parameter %s comes in %zu parts, "
                "since ids are computed between its lookups; it cannot be "
                "clipped as a whole",
                fl_node_text(t->clips.data[0].node, text), t->w->name,
                count_pushes(t));
    return FL_OK;
}

fl_status fl_pull_read(fl_pull_table *t)
{
    FL_TRY(check_not_fetched(t, t->w));
    FL_TRY(check_grads(t));
    if (!t->uses.len && !t->update)
        return FL_OK;
    FL_TRY(read_gradient(t));
    FL_TRY(read_lookups(t));
    return choose_pulls(t);
}
