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
 * operator. In a program that is distributed they go into the settings of the
 * table, from which the servers make it. Clipping in between stays and acts on
 * the gradient of the rows.
 *
 * reader.h lists what may stand in the place of lookup_table.
 *
 * One pull serves all lookups of a table whose ids are there at the first one.
 * Ids that are computed later get a pull, and a push, of their own; so do
 * lookups without a gradient, whose rows must not be updated. Without any
 * gradient (prediction) nothing is pushed and no rows are made.
 *
 * The pass is required: such a program runs in no other way. What it cannot
 * translate is an error that names the operator. */
#include <inttypes.h>

#include "conf/words.h"
#include "ir/attr.h"
#include "pass/dist.h"
#include "pass/match.h"
#include "pass/reader.h"

typedef struct use {
    const fl_row_reader *how;
    fl_op_node *lookup, *grad; /* grad: NULL without a gradient */
    fl_var *old_grad;          /* what it gave before */
    size_t pull;
} use;

typedef struct pulled {
    fl_op_node *place; /* the first of its lookups, before which it goes */
    fl_op_node *node;
    fl_var *grad; /* of the rows, on its way to the push; NULL without */
    bool trains;
} pulled;

/* One of the operators that clip the gradient, and which of its inputs is. */
typedef struct clip {
    fl_op_node *node;
    int at;
} clip;

/* What the program does with one parameter. */
typedef struct table {
    fl_dist *d; /* NULL: the table is one of this process */
    fl_block *block;
    fl_var *w;
    fl_arena tmp;
    FL_VEC(use) uses;
    FL_VEC(pulled) pulls;
    FL_VEC(clip) clips;
    fl_op_node *sum;    /* of the gradients, when there are several */
    fl_op_node *update; /* NULL without */
    fl_var *show, *click;
    size_t n_grads; /* uses with a gradient */
} table;

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

static fl_status refuse_user(const table *t, const fl_op_node *n)
{
    char text[FL_NODE_TEXT_MAX];

    if (fl_match_op(n, "weight_decay"))
        FL_FAIL(FL_ERR_INVAL,
                "%s: parameter %s is in a table, whose decay is a setting of "
                "the table (regularization=...)",
                fl_node_text(n, text), t->w->name);
    FL_FAIL(FL_ERR_INVAL,
            "%s: parameter %s is in a table; only lookup_table and "
            "lookup_table_v2 with is_distributed=true and skip_gram in block "
            "0, and one optimizer, can use it",
            fl_node_text(n, text), t->w->name);
}

static fl_status note_user(table *t, fl_op_node *n)
{
    use u = { .lookup = n, .how = table_reader(n, t->w) };

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

static bool has_grad(const table *t, const fl_op_node *n)
{
    for (size_t i = 0; i < t->uses.len; i++)
        if (t->uses.data[i].grad == n)
            return true;
    return false;
}

static fl_status check_grads(const table *t)
{
    char text[FL_NODE_TEXT_MAX];

    for (const fl_op_node *n = t->block->first; n; n = n->next)
        if (n->is_grad && fl_node_uses_var(n, t->w) && !has_grad(t, n))
            FL_FAIL(FL_ERR_INVAL,
                    "%s: it is the gradient of no lookup of table parameter %s",
                    fl_node_text(n, text), t->w->name);
    return FL_OK;
}

static fl_status find_users(table *t)
{
    const fl_program *p = t->block->program;

    for (size_t i = 0; i < p->blocks.len; i++)
        for (fl_op_node *n = p->blocks.data[i]->first; n; n = n->next)
            if (fl_node_uses_var(n, t->w) || fl_node_writes_var(n, t->w))
                FL_TRY(note_user(t, n));
    return check_grads(t);
}

/* --- what the lookups say ------------------------------------------------- */

static int64_t padding_of(const fl_op_node *lookup)
{
    const fl_attr *padding = fl_match_attr(lookup, "padding_idx");

    return padding ? padding->i : -1;
}

static fl_status check_padding(const table *t)
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
static fl_status find_named(const table *t, const char *attr, fl_var **out)
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

static fl_status read_lookups(table *t)
{
    FL_TRY(check_padding(t));
    if (!t->update)
        return FL_OK;
    FL_TRY(find_named(t, "show", &t->show));
    return find_named(t, "click", &t->click);
}

/* --- the way of the gradient ---------------------------------------------- */

static fl_status check_not_fetched(const table *t, const fl_var *v)
{
    if (fl_program_is_fetched(t->block->program, v->name))
        FL_FAIL(FL_ERR_INVAL,
                "%s cannot be fetched: parameter %s is in a table, and only "
                "the rows of a batch are here",
                v->name, t->w->name);
    return FL_OK;
}

/* The operator that reads v; NULL when there is none. */
static fl_status find_reader(const table *t, const fl_var *v, fl_op_node **out)
{
    const fl_program *p = t->block->program;
    char text[FL_NODE_TEXT_MAX];

    *out = NULL;
    FL_TRY(check_not_fetched(t, v));
    for (size_t i = 0; i < p->blocks.len; i++)
        for (fl_op_node *n = p->blocks.data[i]->first; n; n = n->next) {
            if (!fl_node_uses_var(n, v))
                continue;
            if (*out)
                FL_FAIL(FL_ERR_INVAL,
                        "%s: gradient %s of table parameter %s has another "
                        "reader already",
                        fl_node_text(n, text), v->name, t->w->name);
            *out = n;
        }
    return FL_OK;
}

static fl_status refuse_reader(const table *t, const fl_op_node *n)
{
    char text[FL_NODE_TEXT_MAX];

    FL_FAIL(FL_ERR_INVAL,
            "%s: it works on the gradient of table parameter %s; only clipping "
            "and one optimizer can",
            fl_node_text(n, text), t->w->name);
}

/* All gradients of the lookups go into one sum. */
static fl_status find_sum(table *t)
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

static fl_var *only_grad(const table *t)
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
static fl_status pass_clip(table *t, fl_op_node *n, fl_var **v)
{
    fl_args x = fl_match_ins(n, "X");
    clip c = { .node = n };

    if (fl_args_count(x, *v) != 1 || fl_node_writes_var(n, *v))
        return refuse_reader(t, n);
    while (x.vars[c.at] != *v)
        c.at++;
    fl_vec_push(&t->clips, c);
    *v = fl_match_outs(n, "Out").vars[c.at];
    return FL_OK;
}

static fl_status follow_gradient(table *t)
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

static fl_status read_gradient(table *t)
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

static bool is_ready(const fl_var *ids, fl_op_node *place,
                     const fl_op_node *lookup)
{
    for (const fl_op_node *n = place; n != lookup; n = n->next)
        if (fl_match_writes(n, ids))
            return false;
    return true;
}

static bool all_ready(const use *u, fl_op_node *place)
{
    for (int i = 0; fl_row_reader_ids(u->how, u->lookup, i); i++)
        if (!is_ready(fl_row_reader_ids(u->how, u->lookup, i), place,
                      u->lookup))
            return false;
    return true;
}

static void choose_pull(table *t, use *u)
{
    pulled fresh = { .place = u->lookup, .trains = u->grad != NULL };

    for (u->pull = 0; u->pull < t->pulls.len; u->pull++) {
        const pulled *p = &t->pulls.data[u->pull];

        if (p->trains == fresh.trains && all_ready(u, p->place))
            return;
    }
    fl_vec_push(&t->pulls, fresh);
}

static size_t count_pushes(const table *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->pulls.len; i++)
        n += t->pulls.data[i].trains;
    return n;
}

static fl_status choose_pulls(table *t)
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

/* --- new names and variables ---------------------------------------------- */

/* "emb@ROWS" for the first pull, "emb@ROWS@1" for the second. */
static const char *name_of(table *t, const char *stem, const char *what,
                           size_t pull)
{
    if (!pull)
        return fl_arena_printf(&t->tmp, "%s@%s", stem, what);
    return fl_arena_printf(&t->tmp, "%s@%s@%zu", stem, what, pull);
}

static fl_status check_free(const table *t, const char *name)
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

static fl_status add_ids(table *t, size_t pull, const fl_var *ids,
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

static fl_status list_ids(table *t, size_t pull, fl_op_builder *b)
{
    for (size_t i = 0; i < t->uses.len; i++) {
        const use *u = &t->uses.data[i];
        const fl_var *ids;

        if (u->pull != pull)
            continue;
        for (int k = 0; (ids = fl_row_reader_ids(u->how, u->lookup, k)); k++)
            FL_TRY(add_ids(t, pull, ids, b));
    }
    return FL_OK;
}

static fl_status build_pull(table *t, size_t pull, fl_op_builder *b)
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

static fl_status insert_pull(table *t, size_t pull)
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

static fl_status insert_pulls(table *t)
{
    for (size_t i = 0; i < t->pulls.len; i++)
        FL_TRY(insert_pull(t, i));
    for (size_t i = 0; i < t->uses.len; i++) {
        const use *u = &t->uses.data[i];
        const fl_op_node *node = t->pulls.data[u->pull].node;

        redirect(u->how, u->lookup, node);
        if (u->grad)
            redirect(u->how, u->grad, node);
    }
    return FL_OK;
}

/* --- gradients ------------------------------------------------------------ */

/* Gives the gradient of a lookup a variable like the rows. */
static fl_status give_grad(const table *t, const use *u, const char *name,
                           fl_var **out)
{
    const fl_var *rows = fl_match_in(u->grad, u->how->w);

    FL_TRY(fl_block_add_var(t->block, name, &rows->meta, 0, out));
    fl_node_put_arg(u->grad,
                    &u->grad->out[fl_op_find_in(u->grad->def, u->how->w)], 0,
                    *out);
    return FL_OK;
}

static const use *use_of(const table *t, const fl_var *old_grad)
{
    size_t i = 0;

    while (t->uses.data[i].old_grad != old_grad)
        i++;
    return &t->uses.data[i];
}

/* Gradients of one pull, in the order of the old sum, which goes. */
static fl_status build_sum(table *t, size_t pull, const char *name,
                           fl_op_builder *b)
{
    fl_args x = fl_match_ins(t->sum, "X");

    for (int i = 0; i < x.n; i++) {
        const use *u = use_of(t, x.vars[i]);
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

static fl_status insert_sum(table *t, size_t pull, const char *name)
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
static size_t count_grads(const table *t, size_t pull, const use **last)
{
    size_t n = 0;

    for (size_t i = 0; i < t->uses.len; i++)
        if (t->uses.data[i].pull == pull && t->uses.data[i].grad) {
            *last = &t->uses.data[i];
            n++;
        }
    return n;
}

static fl_status join_grads(table *t, size_t pull)
{
    const char *name = fl_arena_printf(&t->tmp, "%s" FL_GRAD_SUFFIX,
                                       name_of(t, t->w->name, "ROWS", pull));
    const use *u = NULL;

    if (count_grads(t, pull, &u) > 1)
        return insert_sum(t, pull, name);
    FL_ASSERT(u); /* a pull that trains has a gradient */
    return give_grad(t, u, name, &t->pulls.data[pull].grad);
}

/* Clipping goes on with rows; one pull has them all then. */
static void clip_rows(const table *t, pulled *p)
{
    for (size_t i = 0; i < t->clips.len; i++) {
        const clip *c = &t->clips.data[i];
        fl_var *out = fl_match_outs(c->node, "Out").vars[c->at];

        set_in(c->node, "X", c->at, p->grad);
        out->meta = p->grad->meta;
        p->grad = out;
    }
}

/* --- the update ----------------------------------------------------------- */

static fl_status read_update(const table *t, fl_update *out)
{
    char text[FL_NODE_TEXT_MAX];

    if (!fl_node_update(t->update, out) || out->rule->whole)
        FL_FAIL(FL_ERR_INVAL,
                "%s: parameter %s is in a table, and tables do not have this "
                "update",
                fl_node_text(t->update, text), t->w->name);
    return FL_OK;
}

/* The words of the table with the settings of the update. */
static fl_status merge_words(const table *t, const fl_update *u,
                             fl_words *words)
{
    const char *made_for = fl_words_get(words, "optimizer");
    fl_str text = { 0 };
    fl_words own;

    if (strcmp(made_for ? made_for : "sgd", u->rule->name))
        FL_FAIL(FL_ERR_INVAL,
                "table %s is made with optimizer=%s, but the program updates "
                "it with %s; let init_table say optimizer=%s",
                t->w->name, made_for ? made_for : "sgd", u->rule->name,
                u->rule->name);
    fl_update_print(u, &text);
    FL_ASSERT(!fl_words_read(&own, fl_str_text(&text), FL_WORDS_SETTINGS));
    for (size_t i = 1; i < own.list.len; i++)
        FL_ASSERT(!fl_words_set(words, own.list.data[i].name,
                                own.list.data[i].value));
    fl_words_release(&own);
    fl_str_release(&text);
    return FL_OK;
}

/* Servers make the table from the startup program, so this is where they learn
   of the update. A table that somebody else makes has its own settings. */
static fl_status tell_servers(const table *t, const fl_update *u)
{
    fl_op_node *maker = fl_program_maker(t->d->startup, t->w->name);
    fl_words words;
    fl_status st;
    char *text;

    if (!maker)
        return FL_OK;
    FL_TRY(fl_words_read(&words, fl_match_attr(maker, "settings")->s,
                         FL_WORDS_SETTINGS));
    st = merge_words(t, u, &words);
    if (!st) {
        text = fl_words_text(&words);
        set_attr(
            maker, "settings",
            (fl_attr){ .type = FL_ATTR_STRING,
                       .s = fl_arena_strdup(&t->d->startup->arena, text) });
        t->d->startup->version++;
        fl_free(text);
    }
    fl_words_release(&words);
    return st;
}

static fl_status give_update(const table *t, fl_op_builder *b)
{
    fl_str text = { 0 };
    fl_update u;

    FL_TRY(read_update(t, &u));
    if (t->d)
        return tell_servers(t, &u);
    fl_update_print(&u, &text);
    fl_op_builder_str(b, "update",
                      fl_arena_strdup(&b->tmp, fl_str_text(&text)));
    fl_str_release(&text);
    return FL_OK;
}

static fl_status insert_push(const table *t, const pulled *p)
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

static fl_status insert_pushes(table *t)
{
    for (size_t i = 0; i < t->pulls.len; i++) {
        pulled *p = &t->pulls.data[i];

        if (!p->trains)
            continue;
        FL_TRY(join_grads(t, i));
        clip_rows(t, p);
        if (t->update)
            FL_TRY(insert_push(t, p));
    }
    return FL_OK;
}

static void remove_old(const table *t)
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

static fl_status translate(table *t, bool *changed)
{
    FL_TRY(check_not_fetched(t, t->w));
    FL_TRY(find_users(t));
    if (!t->uses.len && !t->update)
        return FL_OK;
    FL_TRY(read_gradient(t));
    FL_TRY(read_lookups(t));
    FL_TRY(choose_pulls(t));
    *changed = true;
    FL_TRY(insert_pulls(t));
    FL_TRY(insert_pushes(t));
    remove_old(t);
    return FL_OK;
}

static fl_status translate_table(fl_dist *d, fl_block *b, fl_var *w,
                                 bool *changed)
{
    table t = { .d = d, .block = b, .w = w };
    fl_status st;

    fl_arena_init(&t.tmp, 4 << 10);
    st = translate(&t, changed);
    fl_vec_release(&t.uses);
    fl_vec_release(&t.pulls);
    fl_vec_release(&t.clips);
    fl_arena_release(&t.tmp);
    return st;
}

static fl_status translate_all(fl_dist *d, fl_program *p, bool *changed)
{
    const unsigned flags = FL_VAR_PARAM | FL_VAR_TABLE;
    fl_block *b = fl_program_main(p);

    for (fl_var *v = b->first_var; v; v = v->next)
        if ((v->flags & flags) == flags)
            FL_TRY(translate_table(d, b, v, changed));
    return FL_OK;
}

static fl_status pull_run(fl_program *p, bool *changed)
{
    return translate_all(NULL, p, changed);
}

static fl_status pull_spread(fl_dist *d, bool *changed)
{
    return translate_all(d, d->main, changed);
}

const fl_pass fl_pass_dist_pull = {
    .name = "dist_pull",
    .doc = "pull rows of tables before their lookups, push their gradients",
    .required = true,
    .run = pull_run,
    .spread = pull_spread,
};
