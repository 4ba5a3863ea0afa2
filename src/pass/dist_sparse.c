/* dist_sparse.c - lookups with is_sparse become lookups of tables.
 *
 * The rows of such a parameter are spread over the servers by their ids, like
 * those of one that said is_distributed. In the main program
 *
 *     lookup_table (W=emb, ..) {is_sparse}        and its gradient
 *     weight_decay (Param=emb, Grad=g) -> (Out=d)
 *     scale (X=rate) -> (Out=r)
 *     adam (Param=emb, Grad=d, LearningRate=r, Moment1=..)
 *
 * becomes what layers and optimizers write for a table,
 *
 *     lookup_table (W=emb, ..) {is_sparse, is_distributed}
 *     adam (Param=emb, Grad=g, LearningRate=rate)
 *
 * and in the startup program the operator that makes the array becomes an
 * init_table with the rest as settings. First values are the same: a number is
 * a matter of seed, name, row and column, in an array and in a table.
 *
 * What nce with is_sparse reads of its weights is looked up first
 * (dist_nce.c).
 *
 * Only parameters that are trained are changed; an array that nobody updates
 * stays with every trainer. One whose update moves every row in each step
 * (lazy_mode=false, a decay that is written out), or whose gradient is calculated
 * with as a whole (a norm that is written out), stays an array of the servers,
 * and its gradient is dense: rows of a table are updated when they have a
 * gradient.
 */
#include <inttypes.h>

#include "base/log.h"
#include "ir/attr.h"
#include "optim/rule.h"
#include "pass/dist_kit.h"
#include "pass/reader.h"

typedef struct array {
    fl_dist *d;
    fl_block *block;
    fl_var *w;
    fl_op_node *lookup; /* one of its lookups, for messages */
    fl_op_node *update;
    fl_update what; /* rule and settings of the update */
    fl_node_group decays;
    fl_var *grad;      /* without decay */
    fl_var *rate;      /* without the parameter's own factor */
    fl_op_node *scale; /* what multiplies by the factor, or NULL */
    fl_op_node *maker; /* in the startup program */
    fl_map rows;       /* by name: variables that are rows of its gradient */
} array;

/* --- who uses it ---------------------------------------------------------- */

/* A lookup, or its gradient, that asks for a table. */
static bool is_sparse_lookup(const fl_op_node *n, const fl_var *w)
{
    const fl_row_reader *how = fl_row_reader_of(n, w);
    const fl_attr *has_table = fl_match_attr(n, "is_distributed");

    return how && fl_match_attr(n, how->sparse)->b &&
           !(has_table ? has_table->b : (w->flags & FL_VAR_TABLE) != 0);
}

static fl_op_node *find_lookup(const array *a)
{
    fl_op_node *n = a->block->first;

    while (n && !is_sparse_lookup(n, a->w))
        n = n->next;
    return n;
}

static bool may_use(const array *a, const fl_op_node *n)
{
    return (n->block == a->block && is_sparse_lookup(n, a->w)) ||
           n == a->update || fl_node_group_has(&a->decays, n);
}

static fl_status check_users(const array *a, const fl_program *p)
{
    const fl_var *w = fl_block_find_var(fl_program_main(p), a->w->name);
    char x[FL_NODE_TEXT_MAX], y[FL_NODE_TEXT_MAX];

    for (size_t i = 0; w && i < p->blocks.len; i++)
        for (fl_op_node *n = p->blocks.data[i]->first; n; n = n->next)
            if ((fl_node_uses_var(n, w) || fl_node_writes_var(n, w)) &&
                !may_use(a, n) && n != a->maker)
                FL_FAIL(FL_ERR_INVAL,
                        "parameter %s: %s has is_sparse, so that its rows are "
                        "spread over the servers, but %s needs all of it; take "
                        "is_sparse away, or the other use",
                        w->name, fl_node_text(a->lookup, x),
                        fl_node_text(n, y));
    return FL_OK;
}

/* --- the update ----------------------------------------------------------- */

/* A table's settings stay as they are, those of an operator may come with every
   step. */
static fl_status check_settings(const array *a)
{
    const fl_rule *rule = a->what.rule;
    char text[FL_NODE_TEXT_MAX];

    for (int i = 0; i < fl_rule_n_params(rule); i++)
        if (rule->params[i].slot &&
            fl_match_in(a->update, rule->params[i].slot))
            FL_FAIL(FL_ERR_INVAL,
                    "%s: parameter %s is spread over the servers, as its "
                    "lookups have is_sparse, and a table's %s is the same in "
                    "all steps; say it as an attribute and leave %s out",
                    fl_node_text(a->update, text), a->w->name,
                    rule->params[i].name, rule->params[i].slot);
    return FL_OK;
}

static fl_status find_rule(array *a)
{
    char text[FL_NODE_TEXT_MAX];

    if (!fl_node_update(a->update, &a->what) || a->what.rule->whole)
        FL_FAIL(FL_ERR_INVAL,
                "%s: tables do not have this update; parameter %s is one, as "
                "its lookups have is_sparse",
                fl_node_text(a->update, text), a->w->name);
    return check_settings(a);
}

/* The optimizer writes a scale of its own for a parameter with a factor. A
   table has no place for factors that are not above 0: those stay. */
static void find_rate(array *a)
{
    fl_op_node *n;

    a->rate = fl_match_in(a->update, "LearningRate");
    n = fl_match_writer(a->rate);
    if (fl_match_op(n, "scale") && n->role == FL_OP_ROLE_OPTIMIZE &&
        fl_match_attr(n, "bias")->f == 0 && fl_match_attr(n, "scale")->f > 0) {
        a->scale = n;
        a->rate = fl_match_in(n, "X");
    }
}

static fl_status check_decays(const array *a)
{
    char text[FL_NODE_TEXT_MAX];

    for (size_t i = 0; i < a->decays.len; i++) {
        const fl_op_node *n = a->decays.data[i];
        const fl_op_node *reader = i ? a->decays.data[i - 1] : a->update;
        const fl_var *out = fl_match_out(n, "Out");

        if (fl_program_is_fetched(a->d->main, out->name))
            FL_FAIL(FL_ERR_INVAL,
                    "%s cannot be fetched: the decay of parameter %s is made "
                    "on the servers, as its lookups have is_sparse",
                    out->name, a->w->name);
        for (fl_op_node *m = a->block->first; m; m = m->next)
            if (m != reader && fl_node_uses_var(m, out))
                FL_FAIL(FL_ERR_INVAL,
                        "%s reads %s, but the decay of parameter %s is made on "
                        "the servers, as its lookups have is_sparse",
                        fl_node_text(m, text), out->name, a->w->name);
    }
    return FL_OK;
}

/* --- the state ------------------------------------------------------------ */

static double first_of(const array *a, const fl_rule_state *s)
{
    return fl_rule_first(a->what.rule, s, a->what.p);
}

/* A table's state starts with the values of its rule. */
static fl_status check_state(const array *a, const fl_rule_state *s)
{
    const fl_var *v = fl_match_in(a->update, s->slot);
    const fl_op_node *maker = v ? fl_dist_find_maker(a->d, v->name) : NULL;
    char buf[FL_NUMBER_TEXT_MAX], text[FL_NODE_TEXT_MAX];

    if (fl_match_op(maker, "fill_constant") &&
        !*fl_match_attr(maker, "str_value")->s &&
        fl_match_attr(maker, "value")->f == first_of(a, s))
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL,
            "%s: parameter %s is spread over the servers, as its lookups have "
            "is_sparse, and %s of a table starts with %s; another first value "
            "is not for it",
            fl_node_text(a->update, text), a->w->name, s->slot,
            fl_number_text(first_of(a, s), buf));
}

static fl_status check_states(const array *a)
{
    const fl_rule *rule = a->what.rule;

    for (int i = 0; i < fl_rule_n_states(rule); i++)
        FL_TRY(check_state(a, &rule->states[i]));
    for (int i = 0; i < fl_rule_n_scalars(rule); i++)
        FL_TRY(check_state(a, &rule->scalars[i]));
    return FL_OK;
}

/* --- settings in words ---------------------------------------------------- */

/* What fl_table_new calls the first values that an operator makes. */
typedef struct first_words {
    const char *op, *word;
    const char *numbers[2]; /* attributes; the second may be missing */
} first_words;

static const first_words all_first_words[] = {
    { "fill_constant", "constant", { "value", NULL } },
    { "uniform_random", "uniform", { "min", "max" } },
    { "gaussian_random", "normal", { "mean", "std" } },
    { "truncated_gaussian_random", "truncated_normal", { "mean", "std" } },
};

static bool is_plain(const fl_op_node *maker)
{
    const fl_attr *text = fl_match_attr(maker, "str_value");
    const fl_attr *of = fl_match_attr(maker, "of");
    const fl_attr *from_row = fl_match_attr(maker, "from_row");

    return !(text && *text->s) && !(of && *of->s) && !(from_row && from_row->i);
}

static const first_words *find_first_words(const fl_op_node *maker)
{
    for (size_t i = 0; i < FL_LEN(all_first_words); i++)
        if (fl_match_op(maker, all_first_words[i].op) && is_plain(maker))
            return &all_first_words[i];
    return NULL;
}

static fl_status find_maker(array *a)
{
    char text[FL_NODE_TEXT_MAX];

    a->maker = fl_dist_find_maker(a->d, a->w->name);
    if (!a->maker)
        FL_FAIL(FL_ERR_INVAL,
                "parameter %s has no first value, or more than one; let one "
                "operator of the startup program write it",
                a->w->name);
    if (!find_first_words(a->maker))
        FL_FAIL(FL_ERR_INVAL,
                "%s of the startup program: parameter %s is spread over the "
                "servers, as its lookups have is_sparse, and rows of a table "
                "start as a constant or at random",
                fl_node_text(a->maker, text), a->w->name);
    return FL_OK;
}

static void add_first_words(const array *a, fl_str *out)
{
    const first_words *f = find_first_words(a->maker);
    const fl_attr *seed = fl_match_attr(a->maker, "seed");
    char buf[FL_NUMBER_TEXT_MAX];

    fl_str_addf(out, " init=%s(%s", f->word,
                fl_number_text(fl_match_attr(a->maker, f->numbers[0])->f, buf));
    if (f->numbers[1])
        fl_str_addf(
            out, ",%s",
            fl_number_text(fl_match_attr(a->maker, f->numbers[1])->f, buf));
    if (seed && seed->i)
        fl_str_addf(out, ",seed=%" PRIu64, (uint64_t)seed->i);
    fl_str_add(out, ")");
}

static void add_rule_words(const array *a, fl_str *out)
{
    char buf[FL_NUMBER_TEXT_MAX];

    fl_update_print(&a->what, out);
    if (a->scale)
        fl_str_addf(out, " lr_scale=%s",
                    fl_number_text(fl_match_attr(a->scale, "scale")->f, buf));
}

static void add_decay_words(const array *a, fl_str *out)
{
    static const char *const kinds[] = { "l1", "l2" };
    char buf[FL_NUMBER_TEXT_MAX];

    for (size_t k = 0; k < FL_LEN(kinds); k++) {
        double sum = 0;

        for (size_t i = 0; i < a->decays.len; i++)
            sum += fl_match_attr(a->decays.data[i], kinds[k])->f;
        if (sum != 0)
            fl_str_addf(out, " regularization=%s(%s)", kinds[k],
                        fl_number_text(sum, buf));
    }
}

/* --- changing the programs ------------------------------------------------ */

static fl_status insert_table(const array *a)
{
    fl_op_builder b = { .type = "init_table" };
    fl_str words = { 0 };
    fl_status st;

    fl_str_addf(&words, "dim=%lld height=%lld",
                (long long)a->w->meta.shape.dim[1],
                (long long)a->w->meta.shape.dim[0]);
    add_first_words(a, &words);
    add_rule_words(a, &words);
    add_decay_words(a, &words);
    fl_op_builder_str(&b, "table", a->w->name);
    fl_op_builder_str(&b, "settings", fl_str_text(&words));
    st = fl_op_builder_insert(&b, a->maker, NULL);
    fl_str_release(&words);
    return st;
}

static void remove_array(const array *a)
{
    fl_block *b = fl_program_main(a->d->startup);

    fl_block_remove(b, a->maker);
    fl_block_remove_var(b, fl_block_find_var(b, a->w->name));
}

static fl_status insert_update(const array *a)
{
    fl_op_builder b;

    fl_op_builder_init_like(&b, a->update);
    fl_op_builder_in(&b, "Param", a->w);
    fl_op_builder_in(&b, "Grad", a->grad);
    fl_op_builder_in(&b, "LearningRate", a->rate);
    fl_op_builder_out(&b, "ParamOut", a->w);
    return fl_op_builder_insert(&b, a->update, NULL);
}

static void remove_update(const array *a)
{
    fl_node_group old = { 0 };
    fl_var_list state = { 0 };
    const fl_var *scaled = fl_match_out(a->scale, "Out");

    for (int s = 0; s < fl_node_n_in(a->update); s++)
        for (int i = 0; i < a->update->in[s].n; i++)
            fl_var_list_add(&state, a->update->in[s].vars[i]);
    fl_node_group_add(&old, a->update);
    for (size_t i = 0; i < a->decays.len; i++)
        fl_node_group_add(&old, a->decays.data[i]);
    fl_node_group_remove(&old);
    old.len = 0;
    if (scaled && !fl_match_wanted(scaled)) {
        fl_node_group_add(&old, a->scale);
        fl_node_group_remove(&old);
    }
    for (size_t i = 0; i < state.len; i++)
        fl_dist_forget(a->d, state.data[i]);
    fl_vec_release(&old);
    fl_vec_release(&state);
}

static void mark_lookups(const array *a)
{
    for (fl_op_node *n = a->block->first; n; n = n->next)
        if (is_sparse_lookup(n, a->w) &&
            fl_op_find_attr(n->def, "is_distributed") >= 0)
            n->attrs[fl_op_find_attr(n->def, "is_distributed")].b = true;
    a->w->flags |= FL_VAR_TABLE;
    a->d->main->version++;
}

/* --- what stays an array --------------------------------------------------- */

static bool moves_every_row(const array *a)
{
    const fl_attr *lazy = fl_match_attr(a->update, "lazy_mode");

    return lazy && !lazy->b;
}

/* Decay that is written out reads all of the parameter, and moves all of it. */
static bool decays_every_row(const array *a)
{
    for (const fl_op_node *n = a->block->first; n; n = n->next)
        if (n->role == FL_OP_ROLE_OPTIMIZE && n != a->update &&
            !fl_match_op(n, "weight_decay") && fl_node_uses_var(n, a->w))
            return true;
    return false;
}

/* What a table's gradient may go through on its way to the update. */
static bool takes_rows(const array *a, const fl_op_node *n)
{
    static const char *const ops[] = { "sum", "clip", "clip_by_norm",
                                       "clip_by_global_norm", "weight_decay" };

    for (size_t i = 0; i < FL_LEN(ops); i++)
        if (fl_match_op(n, ops[i]))
            return true;
    return n == a->update;
}

/* Whether v, which n writes, is rows of w's gradient. A lookup may have
   gradients of other parameters, too, and what clips by the norm of all gives
   each gradient in the place where it took it. */
static bool is_rows_of(const array *a, const fl_op_node *n, const fl_var *v)
{
    const fl_row_reader *how = fl_row_reader_of(n, a->w);

    if (!v || v->meta.kind != FL_KIND_ROWS)
        return false;
    if (fl_match_op(n, "clip_by_global_norm"))
        for (int k = 0; k < n->out[0].n; k++)
            if (n->out[0].vars[k] == v)
                return fl_map_find(&a->rows, n->in[0].vars[k]->name);
    return !how || v == fl_match_out(n, how->grad);
}

static void add_readers(fl_node_group *g, const fl_op_node *n, const fl_var *v)
{
    for (fl_op_node *m = n->next; m; m = m->next)
        if (fl_node_uses_var(m, v) && !fl_node_group_has(g, m))
            fl_node_group_add(g, m);
}

/* Of the rows that n writes. */
static void add_readers_of(array *a, fl_node_group *g, const fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int k = 0; k < n->out[s].n; k++) {
            fl_var *v = n->out[s].vars[k];

            if (!is_rows_of(a, n, v))
                continue;
            fl_map_put(&a->rows, v->name, v);
            add_readers(g, n, v);
        }
}

/* The operators that see rows of w's gradient, from the lookups to the
   update. */
static void find_row_users(array *a, fl_node_group *g)
{
    for (fl_op_node *n = a->block->first; n; n = n->next)
        if (is_sparse_lookup(n, a->w))
            fl_node_group_add(g, n);
    for (size_t i = 0; i < g->len; i++)
        add_readers_of(a, g, g->data[i]);
}

/* Why all of the parameter has to travel; NULL: rows of it do. */
static const char *needs_all(const array *a, const fl_node_group *users)
{
    if (moves_every_row(a))
        return "has lazy_mode=false, which moves every row in each step";
    if (decays_every_row(a))
        return "comes with a decay that moves every row in each step";
    for (size_t i = 0; i < users->len; i++)
        if (!is_sparse_lookup(users->data[i], a->w) &&
            !takes_rows(a, users->data[i]))
            return "takes a gradient that is calculated with as a whole";
    return NULL;
}

/* Rows that are merged, or taken as an array, are one already. */
static fl_status be_copy(fl_op_node *n)
{
    fl_op_builder b = { .type = "assign", .role = n->role };
    fl_op_node *next = n->next;

    fl_op_builder_in(&b, "X", fl_match_in(n, "X"));
    fl_op_builder_out(&b, "Out", fl_match_out(n, "Out"));
    fl_block_remove(n->block, n);
    return fl_op_builder_insert(&b, next, NULL);
}

static fl_status be_dense(const array *a, fl_op_node *n)
{
    const fl_row_reader *how = fl_row_reader_of(n, a->w);

    if (how)
        n->attrs[fl_op_find_attr(n->def, how->sparse)].b = false;
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int k = 0; k < n->out[s].n; k++) {
            fl_var *v = n->out[s].vars[k];

            if (v && fl_map_find(&a->rows, v->name))
                v->meta = a->w->meta;
        }
    if (fl_match_op(n, "merge_selected_rows") ||
        fl_match_op(n, "get_tensor_from_selected_rows"))
        return be_copy(n);
    return FL_OK;
}

static fl_status stay_array(const array *a, const fl_node_group *users,
                            const char *why)
{
    char text[FL_NODE_TEXT_MAX];

    for (size_t i = 0; i < users->len; i++)
        FL_TRY(be_dense(a, users->data[i]));
    a->d->main->version++;
    FL_WARN("dist",
            "%s %s: all of parameter %s travels, not the rows of a "
            "batch",
            fl_node_text(a->update, text), why, a->w->name);
    return FL_OK;
}

/* --- all parameters ------------------------------------------------------- */

static fl_status read_array(array *a)
{
    FL_TRY(fl_dist_find_decays(a->w, a->update, &a->decays, &a->grad));
    FL_TRY(find_maker(a));
    FL_TRY(check_users(a, a->d->main));
    FL_TRY(check_users(a, a->d->startup));
    FL_TRY(find_rule(a));
    FL_TRY(check_states(a));
    FL_TRY(check_decays(a));
    find_rate(a);
    return FL_OK;
}

static fl_status make_table(array *a)
{
    FL_TRY(read_array(a));
    FL_TRY(insert_table(a));
    mark_lookups(a);
    FL_TRY(insert_update(a));
    remove_array(a);
    remove_update(a);
    return FL_OK;
}

static fl_status change_param(fl_dist *d, fl_var *w, bool *changed)
{
    array a = { .d = d, .block = fl_program_main(d->main), .w = w };
    fl_node_group users = { 0 };
    const char *why;
    fl_status st;

    a.lookup = find_lookup(&a);
    if (!a.lookup || w->meta.dtype != FL_DTYPE_F32 || w->meta.shape.rank != 2)
        return FL_OK;
    FL_TRY(fl_dist_find_update(d, w, &a.update));
    if (!a.update)
        return FL_OK;
    find_row_users(&a, &users);
    why = needs_all(&a, &users);
    st = why ? stay_array(&a, &users, why) : make_table(&a);
    *changed |= !st;
    fl_vec_release(&users);
    fl_vec_release(&a.decays);
    fl_map_release(&a.rows);
    return st;
}

static fl_status sparse_spread(fl_dist *d, bool *changed)
{
    const unsigned flags = FL_VAR_PARAM | FL_VAR_TABLE;
    fl_var *v;

    FL_TRY(fl_dist_look_up_noise(d, changed));
    v = fl_program_main(d->main)->first_var;
    for (; v; v = v->next)
        if ((v->flags & flags) == FL_VAR_PARAM)
            FL_TRY(change_param(d, v, changed));
    return FL_OK;
}

const fl_pass fl_pass_dist_sparse = {
    .name = "dist_sparse",
    .doc = "make parameters with sparse lookups tables of ids",
    .spread = sparse_spread,
};
