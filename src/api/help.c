/* help.c - the operators in words. */
#include "ctx/ctx.h"
#include "ir/attr.h"
#include "ops/ops.h"

static void print_slots(const char *title, const fl_op_slot *slots, int n,
                        fl_str *out)
{
    if (!n)
        return;
    fl_str_addf(out, "  %s", title);
    for (int i = 0; i < n; i++)
        fl_str_addf(out, "%s %s%s%s%s", i ? "," : "", slots[i].name,
                    slots[i].flags & FL_SLOT_LIST ? "*" : "",
                    slots[i].flags & FL_SLOT_OPTIONAL ? "?" : "",
                    slots[i].flags & FL_SLOT_BYPRODUCT ? "~" : "");
    fl_str_add(out, "\n");
}

static void print_op(const fl_op *op, fl_str *out)
{
    fl_str_addf(out, "op %s\n  doc  %s\n", op->name, op->doc);
    print_slots("in  ", op->in, fl_op_n_in(op), out);
    print_slots("out ", op->out, fl_op_n_out(op), out);
    for (int i = 0; i < fl_op_n_attrs(op); i++)
        fl_str_addf(out, "  attr %s : %s = %s\n", op->attrs[i].name,
                    fl_attr_type_text(op->attrs[i].type),
                    *op->attrs[i].value ? op->attrs[i].value : "\"\"");
    fl_str_addf(out, "  gradient %s\n", op->back ? "yes" : "no");
}

char *fl_operator_help(const char *name)
{
    fl_str out = { 0 };

    for (size_t i = 0; i < fl_ops_count(); i++)
        if (!name || !strcmp(fl_ops_at(i)->name, name))
            print_op(fl_ops_at(i), &out);
    if (!out.data) {
        const char *near = fl_ops.nearest(name);

        (void)fl_err_set(FL_ERR_NOTFOUND, "no operator is called %s%s%s%s",
                         name, near ? "; did you mean " : "", near ? near : "",
                         near ? "?" : "");
        return NULL;
    }
    return fl_str_take(&out);
}
