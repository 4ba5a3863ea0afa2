/* versions.c - one variable per value.
 *
 * Backward reads forward values. Where an operator overwrites a variable that
 * an earlier one has read, the earlier value must still be there. Two walks
 * over the block: one counts who writes what, the other, where something is
 * written again, gives the values their variables.
 *
 * A block inside an operator knows a variable by its name, so that one which it
 * uses cannot be another: what is read of it here is read from copies.
 */
#include "pass/versions.h"

#include "ir/builder.h"

/* A variable on the way through the block. */
typedef struct value {
    fl_var *now; /* where it lies at this point */
    int n_writers, n_written;
} value;

typedef struct parter {
    fl_block *block;
    fl_map values; /* by name */
    fl_arena tmp;
    bool any; /* something is written again */
    const char *copy_op;
} parter;

static bool is_temporary(const fl_var *v, const fl_block *b)
{
    return v->block == b && !(v->flags & (FL_VAR_DATA | FL_VAR_PERSIST));
}

static bool is_only_here(const fl_var *v, const fl_block *b)
{
    for (const fl_use *u = v->first_use; u; u = u->next)
        if (u->node->block != b)
            return false;
    return true;
}

static void count_write(parter *p, fl_var *v)
{
    value *x = fl_map_find(&p->values, v->name);

    if (!x) {
        x = fl_arena_alloc(&p->tmp, sizeof(*x));
        x->now = v;
        fl_map_put(&p->values, v->name, x);
    }
    x->n_writers++;
    p->any |= x->n_writers > 1;
}

static void count_writers(parter *p)
{
    for (fl_op_node *n = p->block->first; n; n = n->next)
        for (int s = 0; s < fl_node_n_out(n); s++)
            for (int i = 0; i < n->out[s].n; i++)
                if (n->out[s].vars[i] &&
                    is_temporary(n->out[s].vars[i], p->block))
                    count_write(p, n->out[s].vars[i]);
}

/* NULL for what has one value, or stays as it is. */
static value *parted(const parter *p, const fl_var *v)
{
    value *x = v ? fl_map_find(&p->values, v->name) : NULL;

    return x && x->n_writers > 1 && is_temporary(v, p->block) &&
                   is_only_here(v, p->block)
               ? x
               : NULL;
}

static void read_values(parter *p, fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_in(n); s++)
        for (int i = 0; i < n->in[s].n; i++) {
            value *x = parted(p, n->in[s].vars[i]);

            if (x && x->now != n->in[s].vars[i])
                fl_node_put_arg(n, &n->in[s], i, x->now);
        }
}

static fl_status add_version(fl_block *b, const fl_var *v, int i, fl_var **out)
{
    const char *name =
        fl_arena_printf(&b->program->arena, "%s@VERSION@%d", v->name, i);

    while (fl_block_find_var(b, name))
        name = fl_arena_printf(&b->program->arena, "%s@", name);
    return fl_block_add_var(b, name, &v->meta, v->flags, out);
}

/* The last value keeps the variable. */
static fl_status write_values(parter *p, fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++) {
            fl_var *v = n->out[s].vars[i];
            value *x = parted(p, v);

            if (!x)
                continue;
            x->now = v;
            if (++x->n_written == x->n_writers)
                continue;
            FL_TRY(add_version(p->block, v, x->n_written - 1, &x->now));
            fl_node_put_arg(n, &n->out[s], i, x->now);
        }
    return FL_OK;
}

/* --- what other blocks use ------------------------------------------------ */

static bool runs_block(const fl_op_node *n)
{
    for (int i = 0; i < fl_op_n_attrs(n->def); i++)
        if (n->attrs[i].type == FL_ATTR_BLOCK && n->attrs[i].i >= 0)
            return true;
    return false;
}

/* Does backward need what the node found in a slot? */
static bool is_needed(const fl_op_node *n, int slot)
{
    return n->is_grad ||
           (n->def->back && (n->def->back_uses & FL_USES_IN(slot)));
}

static bool reads_plainly(const fl_op_node *n, const fl_var *v)
{
    for (int s = 0; s < fl_node_n_in(n) && !runs_block(n); s++)
        for (int i = 0; i < n->in[s].n; i++)
            if (n->in[s].vars[i] == v && is_needed(n, s))
                return true;
    return false;
}

/* The operator that writes v next; NULL: none. */
static fl_op_node *next_writer(fl_op_node *n, const fl_var *v)
{
    for (n = n->next; n && !fl_node_writes_var(n, v);)
        n = n->next;
    return n;
}

static bool is_read_plainly(const fl_op_node *n, const fl_op_node *last,
                            const fl_var *v)
{
    for (n = n->next; n; n = n->next) {
        if (reads_plainly(n, v))
            return true;
        if (n == last)
            break;
    }
    return false;
}

static void read_copy(fl_op_node *n, const fl_var *v, fl_var *copy)
{
    for (int s = 0; s < fl_node_n_in(n); s++)
        for (int i = 0; i < n->in[s].n; i++)
            if (n->in[s].vars[i] == v && is_needed(n, s))
                fl_node_put_arg(n, &n->in[s], i, copy);
}

/* Operators behind `writer`, up to and with the next one that writes v, read a
   copy of what it wrote. */
static fl_status copy_value(parter *p, fl_op_node *writer, fl_op_node *last,
                            fl_var *v)
{
    fl_op_builder b = { .type = p->copy_op };
    fl_op_node *n;
    fl_var *copy;

    FL_TRY(add_version(p->block, v, 0, &copy));
    fl_op_builder_in(&b, "X", v);
    fl_op_builder_out(&b, "Out", copy);
    FL_TRY(fl_op_builder_put(&b, p->block, writer->next, &n));
    while (n != last) {
        n = n->next;
        if (reads_plainly(n, v))
            read_copy(n, v, copy);
    }
    return FL_OK;
}

static fl_status copy_values(parter *p, fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++) {
            fl_var *v = n->out[s].vars[i];
            fl_op_node *next;

            if (!v || !is_temporary(v, p->block) || is_only_here(v, p->block))
                continue;
            next = next_writer(n, v);
            if (next && is_read_plainly(n, next, v))
                FL_TRY(copy_value(p, n, next, v));
        }
    return FL_OK;
}

fl_status fl_versions_part(fl_block *b, const char *copy_op)
{
    parter p = { .block = b, .copy_op = copy_op };
    fl_status st = FL_OK;

    fl_arena_init(&p.tmp, 16 << 10);
    count_writers(&p);
    for (fl_op_node *n = b->first; n && p.any && !st; n = n->next) {
        read_values(&p, n);
        st = write_values(&p, n);
        if (!st)
            st = copy_values(&p, n);
    }
    fl_map_release(&p.values);
    fl_arena_release(&p.tmp);
    return st;
}
