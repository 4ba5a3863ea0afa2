/* program.c - programs and variables of the public API. */
#include "api/layer.h"
#include "ops/ops.h"

void fl_program_set_seed(fl_program *p, uint64_t seed)
{
    p->seed = seed;
    p->version++;
}

uint64_t fl_program_seed(const fl_program *p)
{
    return p->seed;
}

static fl_status infer_block(fl_program *p, const fl_block *b);

/* What an operator's blocks write is read behind it. */
static fl_status infer_node(fl_program *p, fl_op_node *n)
{
    for (int i = 0; i < fl_op_n_attrs(n->def); i++) {
        const fl_attr *a = &n->attrs[i];

        if (a->type == FL_ATTR_BLOCK && a->i > n->block->index &&
            (size_t)a->i < p->blocks.len)
            FL_TRY(infer_block(p, p->blocks.data[a->i]));
    }
    return fl_node_infer_anew(n);
}

static fl_status infer_block(fl_program *p, const fl_block *b)
{
    for (fl_op_node *n = b->first; n; n = n->next)
        FL_TRY(infer_node(p, n));
    return FL_OK;
}

fl_status fl_program_infer(fl_program *p)
{
    p->version++;
    for (size_t i = 0; i < p->blocks.len; i++)
        FL_TRY(infer_block(p, p->blocks.data[i]));
    return FL_OK;
}

uint64_t fl_program_id(const fl_program *p)
{
    return p->id;
}

uint64_t fl_program_version(const fl_program *p)
{
    return p->version;
}

fl_status fl_program_from_text(fl_program **out, fl_ctx *c, const char *text)
{
    fl_program *p;

    FL_TRY(fl_program_parse(text, &fl_ops, &p));
    p->ctx = c;
    if (!p->seed)
        p->seed = (uint64_t)c->conf.seed;
    *out = p;
    return FL_OK;
}

char *fl_program_to_text(const fl_program *p)
{
    return fl_program_print(p);
}

fl_status fl_program_copy(fl_program **out, const fl_program *p)
{
    return fl_program_clone(p, FL_CLONE_ALL, out);
}

fl_status fl_program_for_test(fl_program **out, const fl_program *p)
{
    return fl_program_clone(p, FL_CLONE_FOR_TEST, out);
}

fl_status fl_program_pruned(fl_program **out, const fl_program *p,
                            const char *const *targets, size_t n_targets)
{
    fl_program *q;
    fl_status st;

    FL_TRY(fl_program_clone(p, FL_CLONE_ALL, &q));
    st = fl_program_prune(q, targets, n_targets);
    if (st) {
        fl_program_free(q);
        return st;
    }
    *out = q;
    return FL_OK;
}

/* First values of the parameters behind `v`, and tables for their rows. */
static fl_status add_first_values(fl_ctx *c, const fl_var *v)
{
    for (; v; v = v->next) {
        if (!(v->flags & FL_VAR_PARAM) || !v->init)
            continue;
        if (v->flags & FL_VAR_TABLE)
            FL_TRY(fl_layer_first_table(c, v));
        else
            FL_TRY(fl_layer_first_value(c, v));
    }
    return FL_OK;
}

fl_status fl_program_add(fl_program *p, const char *lines)
{
    const fl_block *b = fl_program_main(p);
    const fl_var *last = b->last_var;

    FL_TRY(fl_program_parse_into(p, lines));
    if (!p->ctx || p != fl_ctx_pair(p->ctx).main)
        return FL_OK;
    return add_first_values(p->ctx, last ? last->next : b->first_var);
}

fl_var *fl_program_var(fl_program *p, const char *name)
{
    return fl_block_find_var(fl_program_main(p), name);
}

const char *fl_var_name(const fl_var *v)
{
    return v->name;
}

fl_dtype fl_var_dtype(const fl_var *v)
{
    return v->meta.dtype;
}

fl_shape fl_var_shape(const fl_var *v)
{
    return v->meta.shape;
}

void fl_var_stop_gradient(fl_var *v)
{
    v->flags |= FL_VAR_STOP_GRAD;
    v->block->program->version++;
}
