/* op.c - looking things up in operator descriptors. */
#include "ir/op.h"

static int count_slots(const fl_op_slot *slots)
{
    int n = 0;

    while (n < FL_OP_SLOTS_MAX && slots[n].name)
        n++;
    return n;
}

int fl_op_n_in(const fl_op *op)
{
    return count_slots(op->in);
}

int fl_op_n_out(const fl_op *op)
{
    return count_slots(op->out);
}

int fl_op_n_attrs(const fl_op *op)
{
    int n = 0;

    while (n < FL_ATTRS_MAX && op->attrs[n].name)
        n++;
    return n;
}

static int find_slot(const fl_op_slot *slots, const char *name)
{
    for (int i = 0; i < FL_OP_SLOTS_MAX && slots[i].name; i++)
        if (!strcmp(slots[i].name, name))
            return i;
    return -1;
}

int fl_op_find_in(const fl_op *op, const char *name)
{
    return find_slot(op->in, name);
}

int fl_op_find_out(const fl_op *op, const char *name)
{
    return find_slot(op->out, name);
}

int fl_op_find_attr(const fl_op *op, const char *name)
{
    for (int i = 0; i < FL_ATTRS_MAX && op->attrs[i].name; i++)
        if (!strcmp(op->attrs[i].name, name))
            return i;
    return -1;
}
