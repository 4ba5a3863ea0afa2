/* inference.c - pruning to targets, and whether the feeds are the right ones. */
#include "serve/inference.h"

#include <string.h>

#include "ir/attr.h"
#include "pass/reader.h"

/* --- names ---------------------------------------------------------------- */

fl_names_list fl_names_copy(fl_names_list l)
{
    const char **names = fl_alloc((l.n + 1) * sizeof(*names));

    for (size_t i = 0; i < l.n; i++)
        names[i] = fl_strdup(l.names[i]);
    return (fl_names_list){ names, l.n };
}

void fl_names_free(fl_names_list l)
{
    for (size_t i = 0; i < l.n; i++)
        fl_free((void *)(uintptr_t)l.names[i]);
    fl_free((void *)(uintptr_t)l.names);
}

/* --- pruning -------------------------------------------------------------- */

/* Those that know of a test are told, and leave their state alone. */
static bool knows_test(const fl_op_node *n)
{
    return fl_op_find_attr(n->def, "is_test") >= 0;
}

static const fl_var *changed_var(const fl_op_node *n)
{
    if (knows_test(n))
        return NULL;
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++)
            if (n->out[s].vars[i] &&
                (n->out[s].vars[i]->flags & FL_VAR_PERSIST))
                return n->out[s].vars[i];
    return NULL;
}

static fl_status check_changes_nothing(const fl_program *p)
{
    char text[FL_NODE_TEXT_MAX];

    for (size_t b = 0; b < p->blocks.len; b++)
        for (const fl_op_node *n = p->blocks.data[b]->first; n; n = n->next) {
            const fl_var *v = changed_var(n);

            if (v)
                FL_FAIL(FL_ERR_INVAL,
                        "%s changes the variable %s, and a model for "
                        "prediction changes nothing; leave out the target that "
                        "needs it",
                        fl_node_text(n, text), v->name);
        }
    return FL_OK;
}

fl_status fl_inference_program(fl_program **out, const fl_program *p,
                               fl_names_list targets)
{
    fl_program *q;
    fl_status st;

    if (!targets.n)
        FL_FAIL(FL_ERR_INVAL,
                "a model for prediction needs targets: the variables that it "
                "is to compute");
    FL_TRY(fl_program_clone(p, FL_CLONE_FOR_TEST, &q));
    fl_program_drop_fed(q);
    st = fl_program_prune(q, targets.names, targets.n);
    if (!st)
        st = check_changes_nothing(q);
    if (st) {
        fl_program_free(q);
        return st;
    }
    *out = q;
    return FL_OK;
}

/* --- tables --------------------------------------------------------------- */

/* Whether all that use it take rows by ids. */
static bool is_read_by_ids(const fl_program *p, const fl_var *v)
{
    for (size_t b = 0; b < p->blocks.len; b++)
        for (const fl_op_node *n = p->blocks.data[b]->first; n; n = n->next)
            if (fl_node_uses_var(n, v) && (b || !fl_row_reader_of(n, v)))
                return false;
    return true;
}

static void use_table(const fl_program *p, fl_var *v)
{
    for (fl_op_node *n = fl_program_main(p)->first; n; n = n->next) {
        int at = fl_op_find_attr(n->def, "is_distributed");

        if (at >= 0 && fl_row_reader_of(n, v))
            n->attrs[at].b = true;
    }
    v->flags |= FL_VAR_TABLE;
}

void fl_inference_use_tables(fl_program *p, fl_names_list tables)
{
    for (size_t i = 0; i < tables.n; i++) {
        fl_var *v = fl_block_find_var(fl_program_main(p), tables.names[i]);

        if (v && !(v->flags & FL_VAR_TABLE) && is_read_by_ids(p, v))
            use_table(p, v);
    }
}

/* --- feeds ---------------------------------------------------------------- */

const char **fl_inference_feeds(const fl_program *p, size_t *n)
{
    FL_VEC(const char *) names = { 0 };

    for (const fl_var *v = fl_program_main(p)->first_var; v; v = v->next)
        if (v->flags & FL_VAR_DATA)
            fl_vec_push(&names, v->name);
    *n = names.len;
    return names.data;
}

static bool has_name(fl_names_list l, const char *name)
{
    for (size_t i = 0; i < l.n; i++)
        if (!strcmp(l.names[i], name))
            return true;
    return false;
}

/* Adds to `out` those of `all` that are not in `known`. */
static void list_others(fl_names_list all, fl_names_list known, fl_str *out)
{
    for (size_t i = 0; i < all.n; i++)
        if (!has_name(known, all.names[i]))
            fl_str_addf(out, "%s%s", out->len ? ", " : "", all.names[i]);
}

static fl_status tell_difference(const fl_str *extra, const fl_str *lacking)
{
    if (extra->len && lacking->len)
        FL_FAIL(FL_ERR_INVAL,
                "the targets do not need the feeds %s, and need %s besides",
                extra->data, lacking->data);
    if (extra->len)
        FL_FAIL(FL_ERR_INVAL,
                "the targets do not need the feeds %s; leave them out",
                extra->data);
    if (lacking->len)
        FL_FAIL(FL_ERR_INVAL,
                "the targets need %s, which is not among the "
                "feeds",
                lacking->data);
    return FL_OK;
}

static fl_status check_twice(fl_names_list feeds)
{
    for (size_t i = 0; i < feeds.n; i++)
        if (has_name((fl_names_list){ feeds.names, i }, feeds.names[i]))
            FL_FAIL(FL_ERR_INVAL, "feed %s is named twice", feeds.names[i]);
    return FL_OK;
}

fl_status fl_inference_check_feeds(const fl_program *p, fl_names_list feeds)
{
    fl_str extra = { 0 }, lacking = { 0 };
    fl_names_list needed = { 0 };
    fl_status st;

    FL_TRY(check_twice(feeds));
    needed.names = fl_inference_feeds(p, &needed.n);
    list_others(feeds, needed, &extra);
    list_others(needed, feeds, &lacking);
    st = tell_difference(&extra, &lacking);
    fl_str_release(&extra);
    fl_str_release(&lacking);
    fl_free((void *)(uintptr_t)needed.names);
    return st;
}
