/* operator.c - operators of the public API: in blocks, and as descriptions. */
#include "flotilla/operator.h"

#include "base/args.h"
#include "ctx/ctx.h"
#include "ir/attr.h"
#include "ops/ops.h"

/* --- appending ----------------------------------------------------------- */

static size_t count_args(const fl_arg *a)
{
    size_t n = 0;

    while (a && a[n].slot)
        n++;
    return n;
}

static size_t count_attrs(const fl_named_attr *a)
{
    size_t n = 0;

    while (a && a[n].name)
        n++;
    return n;
}

static fl_status check_args(const fl_arg *a, const char *type)
{
    for (; a && a->slot; a++)
        if (!a->var)
            FL_FAIL(FL_ERR_INVAL, "op %s: slot %s has no variable", type,
                    a->slot);
    return FL_OK;
}

static fl_status check_before(const fl_block *b, const fl_op_node *before,
                              const char *type)
{
    if (before && before->block != b)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: the operator before which it is to stand is in another "
                "block",
                type);
    return FL_OK;
}

fl_status fl_append_op_with(fl_op_node **out, fl_block *b, const char *type,
                            const fl_op_args *args)
{
    fl_op_args a;
    fl_op_spec spec;

    FL_TRY(FL_ARGS_READ(fl_op_args, &a, args));
    FL_TRY(check_args(a.inputs, type));
    FL_TRY(check_args(a.outputs, type));
    FL_TRY(check_before(b, a.before, type));
    spec = (fl_op_spec){ .type = type,
                         .in = a.inputs,
                         .n_in = count_args(a.inputs),
                         .out = a.outputs,
                         .n_out = count_args(a.outputs),
                         .attrs = a.attrs,
                         .n_attrs = count_attrs(a.attrs),
                         .role = a.role,
                         .tag = a.tag,
                         .redeclares = a.redeclares };
    return fl_block_insert(b, a.before, &spec, out);
}

void fl_op_remove(fl_op_node *n)
{
    fl_block_remove(n->block, n);
}

fl_status fl_op_move(fl_op_node *n, fl_op_node *before)
{
    FL_TRY(check_before(n->block, before, fl_node_type(n)));
    fl_block_move(n->block, n, before);
    return FL_OK;
}

/* --- looking and changing ------------------------------------------------ */

fl_op_node *fl_block_next_op(const fl_block *b, const fl_op_node *after)
{
    return after ? after->next : b->first;
}

size_t fl_block_n_ops(const fl_block *b)
{
    return b->n_ops;
}

const char *fl_op_type(const fl_op_node *n)
{
    return fl_node_type(n);
}

fl_block *fl_op_block(const fl_op_node *n)
{
    return n->block;
}

uint64_t fl_op_tag(const fl_op_node *n)
{
    return n->tag;
}

fl_op_role fl_op_role_of(const fl_op_node *n)
{
    return n->role;
}

void fl_op_set_role(fl_op_node *n, fl_op_role role)
{
    n->role = role;
    n->block->program->version++;
}

/* NULL when there are not so many slots. */
static fl_args *slot_at(const fl_op_node *n, fl_op_side side, size_t i)
{
    int n_slots = side == FL_OP_INPUTS ? fl_node_n_in(n) : fl_node_n_out(n);

    if (i >= (size_t)n_slots)
        return NULL;
    return side == FL_OP_INPUTS ? &n->in[i] : &n->out[i];
}

const char *fl_op_slot_name(const fl_op_node *n, fl_op_side side, size_t i,
                            size_t *n_vars)
{
    const fl_args *slot = slot_at(n, side, i);

    if (!slot)
        return NULL;
    if (n_vars)
        *n_vars = (size_t)slot->n;
    return side == FL_OP_INPUTS ? fl_node_in_name(n, (int)i)
                                : fl_node_out_name(n, (int)i);
}

fl_var *fl_op_var(const fl_op_node *n, fl_op_side side, size_t i, size_t k)
{
    const fl_args *slot = slot_at(n, side, i);

    return slot && k < (size_t)slot->n ? slot->vars[k] : NULL;
}

fl_status fl_op_set_var(fl_op_node *n, fl_op_side side, size_t i, size_t k,
                        fl_var *v)
{
    fl_args *slot = slot_at(n, side, i);

    if (!slot || k >= (size_t)slot->n)
        FL_FAIL(FL_ERR_NOTFOUND, "op %s has no variable %zu in slot %zu",
                fl_node_type(n), k, i);
    return fl_node_set_arg(n, slot, (int)k, v);
}

const char *fl_op_attr_name(const fl_op_node *n, size_t i)
{
    return i < (size_t)fl_op_n_attrs(n->def) ? n->def->attrs[i].name : NULL;
}

fl_status fl_op_attr(const fl_op_node *n, const char *name, fl_attr *out)
{
    int i;

    FL_TRY(fl_node_find_attr(n, name, &i));
    *out = n->attrs[i];
    return FL_OK;
}

fl_status fl_op_set_attr(fl_op_node *n, const char *name, const fl_attr *value)
{
    return fl_node_set_attr(n, name, value);
}

/* --- what there is ------------------------------------------------------- */

static fl_status no_operator(const char *name)
{
    const char *near = fl_ops.nearest(name);

    FL_FAIL(FL_ERR_NOTFOUND, "no operator is called %s%s%s%s", name,
            near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static fl_status find(const char *name, const fl_op **out)
{
    *out = fl_ops.find(name);
    return *out ? FL_OK : no_operator(name);
}

static fl_status look(const fl_op *op, fl_operator_view *out)
{
    fl_operator_view v = { .name = op->name,
                           .doc = op->doc,
                           .n_inputs = (size_t)fl_op_n_in(op),
                           .n_outputs = (size_t)fl_op_n_out(op),
                           .n_attrs = (size_t)fl_op_n_attrs(op),
                           .has_gradient = op->back,
                           .has_effect = op->flags & FL_OP_EFFECT };

    return FL_ARGS_FILL(fl_operator_view, out, &v);
}

fl_status fl_operator_at(size_t i, fl_operator_view *out)
{
    if (i >= fl_ops_count())
        FL_FAIL(FL_ERR_NOTFOUND, "there are %zu operators", fl_ops_count());
    return look(fl_ops_at(i), out);
}

fl_status fl_operator_look(const char *name, fl_operator_view *out)
{
    const fl_op *op;

    FL_TRY(find(name, &op));
    return look(op, out);
}

fl_status fl_operator_slot_at(const char *name, fl_op_side side, size_t i,
                              fl_operator_slot *out)
{
    bool is_in = side == FL_OP_INPUTS;
    const fl_op_slot *slot;
    fl_operator_slot view;
    const fl_op *op;

    FL_TRY(find(name, &op));
    if (i >= (size_t)(is_in ? fl_op_n_in(op) : fl_op_n_out(op)))
        FL_FAIL(FL_ERR_NOTFOUND, "op %s has no slot %zu", name, i);
    slot = is_in ? &op->in[i] : &op->out[i];
    view = (fl_operator_slot){
        .name = slot->name,
        .is_list = slot->flags & FL_OP_SLOT_LIST,
        .is_optional =
            slot->flags & (FL_OP_SLOT_OPTIONAL | FL_OP_SLOT_BYPRODUCT),
        .is_state = slot->flags & FL_OP_SLOT_STATE,
        .takes_rows = slot->flags & FL_OP_SLOT_ROWS,
        .has_gradient =
            op->back && !(slot->flags & (FL_SLOT_NO_GRAD | FL_OP_SLOT_STATE)),
    };
    return FL_ARGS_FILL(fl_operator_slot, out, &view);
}

fl_status fl_operator_attr_at(const char *name, size_t i, fl_operator_attr *out)
{
    fl_operator_attr view;
    const fl_op *op;

    FL_TRY(find(name, &op));
    if (i >= (size_t)fl_op_n_attrs(op))
        FL_FAIL(FL_ERR_NOTFOUND, "op %s has no attribute %zu", name, i);
    view = (fl_operator_attr){ .name = op->attrs[i].name,
                               .type = op->attrs[i].type,
                               .value = op->attrs[i].value };
    return FL_ARGS_FILL(fl_operator_attr, out, &view);
}

static void print_slots(const char *title, const fl_op_slot *slots, int n,
                        fl_str *out)
{
    if (!n)
        return;
    fl_str_addf(out, "  %s", title);
    for (int i = 0; i < n; i++)
        fl_str_addf(out, "%s %s%s%s%s", i ? "," : "", slots[i].name,
                    slots[i].flags & FL_OP_SLOT_LIST ? "*" : "",
                    slots[i].flags & FL_OP_SLOT_OPTIONAL ? "?" : "",
                    slots[i].flags & FL_OP_SLOT_BYPRODUCT ? "~" : "");
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
    const fl_op *op;

    if (name && find(name, &op))
        return NULL;
    for (size_t i = 0; i < fl_ops_count(); i++)
        if (!name || fl_ops_at(i) == op)
            print_op(fl_ops_at(i), &out);
    return fl_str_take(&out);
}
