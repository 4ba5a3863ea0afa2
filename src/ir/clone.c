/* clone.c - copies of programs, whole or for test, and pruning to targets. */
#include "ir/builder.h"

/* A variable that several operators write is for each what it was for the one
   that is copied. */
static fl_status copy_node(fl_block *to, const fl_op_node *n, bool for_test)
{
    fl_op_builder b;
    fl_attr *is_test;

    fl_op_builder_init_like(&b, n);
    b.redeclares = true;
    for (int s = 0; s < fl_node_n_in(n); s++)
        fl_op_builder_ins(&b, fl_node_in_name(n, s), n->in[s]);
    for (int s = 0; s < fl_node_n_out(n); s++)
        fl_op_builder_outs(&b, fl_node_out_name(n, s), n->out[s]);
    is_test = fl_op_builder_find_attr(&b, "is_test");
    if (for_test && is_test)
        is_test->b = true;
    return fl_op_builder_put(&b, to, NULL, NULL);
}

static const char *copy_text(fl_program *p, const char *s)
{
    return s ? fl_arena_strdup(&p->arena, s) : NULL;
}

static fl_status copy_var(fl_block *to, const fl_var *v)
{
    fl_program *p = to->program;
    fl_var *w;

    FL_TRY(fl_block_add_var(to, v->name, &v->meta, v->flags, &w));
    w->lr = v->lr;
    w->tag = v->tag;
    w->init = copy_text(p, v->init);
    w->regularizer = copy_text(p, v->regularizer);
    w->clip = copy_text(p, v->clip);
    return FL_OK;
}

static bool is_training_role(fl_op_role r)
{
    return r == FL_OP_ROLE_BACKWARD || r == FL_OP_ROLE_OPTIMIZE ||
           r == FL_OP_ROLE_LR || r == FL_OP_ROLE_RPC;
}

static bool skips_node(const fl_op_node *n, fl_clone_kind kind)
{
    return kind == FL_CLONE_FOR_TEST &&
           (is_training_role(n->role) || (n->def->flags & FL_OP_TRAIN_ONLY));
}

static void touch(const fl_args *args, int n_slots, fl_map *touched)
{
    for (int s = 0; s < n_slots; s++)
        for (int i = 0; i < args[s].n; i++)
            if (args[s].vars[i])
                fl_map_put(touched, args[s].vars[i]->name, args[s].vars[i]);
}

/* The names of what the operators of a clone read or write, in any block. */
static void collect_touched(const fl_program *p, fl_clone_kind kind,
                            fl_map *touched)
{
    for (size_t i = 0; i < p->blocks.len; i++)
        for (const fl_op_node *n = p->blocks.data[i]->first; n; n = n->next) {
            if (skips_node(n, kind))
                continue;
            touch(n->in, fl_node_n_in(n), touched);
            touch(n->out, fl_node_n_out(n), touched);
        }
}

/* In a clone for test, a temporary that only dropped operators touch goes. */
static bool skips_var(const fl_var *v, fl_clone_kind kind,
                      const fl_map *touched)
{
    return kind == FL_CLONE_FOR_TEST &&
           !(v->flags & (FL_VAR_DATA | FL_VAR_PARAM)) &&
           !fl_map_find(touched, v->name);
}

static void copy_declarations(fl_block *to, const fl_block *from)
{
    for (const fl_var *v = from->first_var; v; v = v->next) {
        fl_var *w = fl_block_find_var(to, v->name);

        if (w && w->block == to)
            w->meta = v->meta;
    }
}

static fl_status copy_block(fl_block *to, const fl_block *from,
                            fl_clone_kind kind, const fl_map *touched)
{
    for (const fl_var *v = from->first_var; v; v = v->next)
        if (!skips_var(v, kind, touched))
            FL_TRY(copy_var(to, v));
    for (const fl_op_node *n = from->first; n; n = n->next)
        if (!skips_node(n, kind))
            FL_TRY(copy_node(to, n, kind == FL_CLONE_FOR_TEST));
    copy_declarations(to, from);
    return FL_OK;
}

static fl_status copy_vars(fl_block *to, const fl_args *args, int n_slots)
{
    for (int s = 0; s < n_slots; s++)
        for (int i = 0; i < args[s].n; i++) {
            const fl_var *v = args[s].vars[i];

            if (v && !fl_block_find_var(to, v->name))
                FL_TRY(copy_var(to, v));
        }
    return FL_OK;
}

/* The blocks that a copied operator runs, from another program. */
static fl_status copy_inner(fl_op_node *n, const fl_program *from)
{
    fl_program *p = n->block->program;

    for (int i = 0; i < fl_op_n_attrs(n->def) && p != from; i++) {
        fl_block *inner;
        int64_t at = n->attrs[i].i;

        if (n->attrs[i].type != FL_ATTR_BLOCK || at < 0)
            continue;
        if (at >= (int64_t)from->blocks.len)
            FL_FAIL(FL_ERR_INVAL, "op %s runs block %lld, and there are %zu",
                    fl_node_type(n), (long long)at, from->blocks.len);
        inner = fl_program_add_block(p, n->block);
        n->attrs[i].i = inner->index;
        for (const fl_var *v = from->blocks.data[at]->first_var; v; v = v->next)
            FL_TRY(copy_var(inner, v));
        FL_TRY(fl_block_copy(inner, from->blocks.data[at]->first));
    }
    return FL_OK;
}

fl_status fl_block_copy(fl_block *to, const fl_op_node *first)
{
    for (const fl_op_node *n = first; n; n = n->next) {
        FL_TRY(copy_vars(to, n->in, fl_node_n_in(n)));
        FL_TRY(copy_vars(to, n->out, fl_node_n_out(n)));
        FL_TRY(copy_node(to, n, false));
        FL_TRY(copy_inner(to->last, n->block->program));
    }
    return FL_OK;
}

fl_status fl_program_clone(const fl_program *p, fl_clone_kind kind,
                           fl_program **out)
{
    fl_program *q = fl_program_of(p->ops);
    fl_map touched = { 0 };
    fl_status st = FL_OK;

    collect_touched(p, kind, &touched);
    q->seed = p->seed;
    q->accumulate = kind == FL_CLONE_ALL ? p->accumulate : 0;
    q->ctx = p->ctx;
    q->is_for_test = p->is_for_test || kind == FL_CLONE_FOR_TEST;
    for (size_t i = 0; i < p->blocks.len && !st; i++) {
        const fl_block *from = p->blocks.data[i];
        fl_block *to = i ? fl_program_add_block(q, q->blocks.data[from->parent])
                         : fl_program_main(q);

        st = copy_block(to, from, kind, &touched);
    }
    fl_map_release(&touched);
    for (size_t i = 0; i < p->fetches.len; i++)
        if (fl_block_find_var(fl_program_main(q), p->fetches.data[i]))
            fl_program_fetch(q, p->fetches.data[i]);
    if (st) {
        fl_program_free(q);
        return fl_err_ctx(st, "cloning a program");
    }
    *out = q;
    return FL_OK;
}

static bool writes_needed(const fl_op_node *n, const fl_map *needed)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++)
            if (n->out[s].vars[i] &&
                fl_map_find(needed, n->out[s].vars[i]->name))
                return true;
    return false;
}

/* What is needed, and by-products of the operators that are left, stay. */
static void drop_unused_vars(fl_block *b, fl_map *needed)
{
    fl_var *next;

    collect_touched(b->program, FL_CLONE_ALL, needed);
    for (fl_var *v = b->first_var; v; v = next) {
        next = v->next;
        if (!fl_map_find(needed, v->name))
            fl_block_remove_var(b, v);
    }
}

fl_status fl_program_prune(fl_program *p, const char *const *targets, size_t n)
{
    fl_block *b = fl_program_main(p);
    fl_map needed = { 0 };
    fl_op_node *prev;

    for (size_t i = 0; i < n; i++) {
        fl_var *v = fl_block_find_var(b, targets[i]);

        if (!v) {
            fl_map_release(&needed);
            FL_FAIL(FL_ERR_NOTFOUND, "target %s is not in the program",
                    targets[i]);
        }
        fl_map_put(&needed, v->name, v);
    }
    for (fl_op_node *node = b->last; node; node = prev) {
        prev = node->prev;
        if (writes_needed(node, &needed))
            touch(node->in, fl_node_n_in(node), &needed);
        else
            fl_block_remove(b, node);
    }
    drop_unused_vars(b, &needed);
    fl_program_clear_fetches(p);
    for (size_t i = 0; i < n; i++)
        fl_program_fetch(p, targets[i]);
    fl_map_release(&needed);
    return FL_OK;
}

static void mark_data(const fl_op_node *n)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++)
            if (n->out[s].vars[i])
                n->out[s].vars[i]->flags |= FL_VAR_DATA;
}

void fl_program_drop_fed(fl_program *p)
{
    fl_block *b = fl_program_main(p);
    fl_op_node *next;

    for (fl_op_node *n = b->first; n; n = next) {
        next = n->next;
        if (n->def->flags & FL_OP_FED) {
            mark_data(n);
            fl_block_remove(b, n);
        }
    }
}
