/* programs.c - two programs, operator by operator. */
#include "check/check.h"

#include <string.h>

#include "base/alloc.h"
#include "ir/attr.h"

typedef FL_VEC(const fl_op_node *) nodes;

static void collect(const fl_program *p, nodes *out)
{
    for (size_t b = 0; b < p->blocks.len; b++)
        for (const fl_op_node *n = p->blocks.data[b]->first; n; n = n->next)
            fl_vec_push(out, n);
}

/* --- one operator --------------------------------------------------------- */

static const char *name_at(const fl_args *args, int i)
{
    return i < args->n && args->vars[i] ? args->vars[i]->name : "nothing";
}

/* False after telling the first variable that is another one. */
static bool same_args(fl_finding *f, size_t at, const char *slot,
                      const fl_args *right, const fl_args *online)
{
    for (int i = 0; i < right->n || i < online->n; i++) {
        const char *a = name_at(right, i), *b = name_at(online, i);

        if (!strcmp(a, b))
            continue;
        fl_finding_add(f,
                       "operator %zu: %s was %s in training and is %s online",
                       at, slot, a, b);
        return false;
    }
    return true;
}

static bool same_attrs(fl_finding *f, size_t at, const fl_op_node *right,
                       const fl_op_node *online)
{
    for (size_t i = 0; i < (size_t)fl_op_n_attrs(right->def); i++) {
        fl_str a = { 0 }, b = { 0 };

        if (fl_attr_equal(&right->attrs[i], &online->attrs[i]))
            continue;
        fl_attr_print(&right->attrs[i], &a);
        fl_attr_print(&online->attrs[i], &b);
        fl_finding_add(f,
                       "operator %zu, %s: %s was %s in training and is %s "
                       "online",
                       at, fl_node_type(right), right->def->attrs[i].name,
                       fl_str_text(&a), fl_str_text(&b));
        fl_str_release(&a);
        fl_str_release(&b);
        return false;
    }
    return true;
}

/* "Ids of lookup_table" */
static const char *slot_text(const char *slot, const fl_op_node *n, fl_str *out)
{
    out->len = 0;
    fl_str_addf(out, "%s of %s", slot, fl_node_type(n));
    return fl_str_text(out);
}

static bool same_node(fl_finding *f, size_t at, const fl_op_node *right,
                      const fl_op_node *online)
{
    fl_str slot = { 0 };
    bool same = true;

    for (int s = 0; same && s < fl_node_n_in(right); s++)
        same =
            same_args(f, at, slot_text(fl_node_in_name(right, s), right, &slot),
                      &right->in[s], &online->in[s]);
    for (int s = 0; same && s < fl_node_n_out(right); s++)
        same = same_args(f, at,
                         slot_text(fl_node_out_name(right, s), right, &slot),
                         &right->out[s], &online->out[s]);
    fl_str_release(&slot);
    return same && same_attrs(f, at, right, online);
}

/* --- all of them ---------------------------------------------------------- */

/* Up to the first difference: what follows would be told against others. */
static void compare(fl_finding *f, const nodes *right, const nodes *online)
{
    char a[FL_NODE_TEXT_MAX], b[FL_NODE_TEXT_MAX];
    size_t n = right->len < online->len ? right->len : online->len;
    size_t i = 0;

    for (; i < n && !f->first; i++) {
        const fl_op_node *x = right->data[i], *y = online->data[i];

        f->compared++;
        if (strcmp(fl_node_type(x), fl_node_type(y)))
            fl_finding_add(f, "operator %zu: %s was trained, %s is online", i,
                           fl_node_text(x, a), fl_node_text(y, b));
        else
            (void)same_node(f, i, x, y);
    }
    if (f->first || right->len == online->len)
        return;
    if (i < right->len)
        fl_finding_add(f, "operator %zu: %s was trained and is not online", i,
                       fl_node_text(right->data[i], a));
    else
        fl_finding_add(f, "operator %zu: %s is online and was not trained", i,
                       fl_node_text(online->data[i], b));
}

fl_status fl_check_programs(fl_consistency *c)
{
    fl_program *right = NULL, *online = NULL;
    nodes a = { 0 }, b = { 0 };
    fl_status st = fl_check_program(c->trained, &right);

    if (!st)
        st = fl_check_program(c->online, &online);
    if (!st) {
        collect(right, &a);
        collect(online, &b);
        compare(&c->findings[FL_CHECK_PROGRAM], &a, &b);
    }
    fl_vec_release(&a);
    fl_vec_release(&b);
    if (right)
        fl_program_free(right);
    if (online)
        fl_program_free(online);
    return st;
}
