/* verify.c - is this a program that can run? */
#include "ir/program.h"

/* `written` has the variables that operators before n write. */
static fl_status verify_input(const fl_op_node *n, int slot, const fl_var *v,
                              const fl_map *written)
{
    char text[FL_NODE_TEXT_MAX];

    if (fl_block_find_var(n->block, v->name) != v)
        FL_FAIL(FL_ERR_INVAL, "%s reads %s, which is not in its block",
                fl_node_text(n, text), v->name);
    if (v->flags & (FL_VAR_DATA | FL_VAR_PERSIST))
        return FL_OK;
    /* An array is empty before anybody writes to it. */
    if (v->meta.kind == FL_KIND_ARRAY ||
        (fl_node_in_flags(n, slot) & FL_OP_SLOT_UNSET))
        return FL_OK;
    if (v->block != n->block || fl_map_find(written, v->name))
        return FL_OK;
    /* The operator that runs a block may give it values of its own. */
    if (n->block->parent >= 0)
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL,
            "%s reads %s before any operator writes it, and it is neither "
            "data nor persistent",
            fl_node_text(n, text), v->name);
}

static fl_status verify_output(const fl_op_node *n, fl_var *v, fl_map *written)
{
    char text[FL_NODE_TEXT_MAX];

    if ((v->flags & FL_VAR_DATA) && !(n->def->flags & FL_OP_FED))
        FL_FAIL(FL_ERR_INVAL, "%s writes %s, which is fed",
                fl_node_text(n, text), v->name);
    fl_map_put(written, v->name, v);
    return FL_OK;
}

static fl_status verify_attrs(const fl_op_node *n)
{
    int64_t n_blocks = (int64_t)n->block->program->blocks.len;
    char text[FL_NODE_TEXT_MAX];

    for (int i = 0; i < fl_op_n_attrs(n->def); i++)
        if (n->attrs[i].type == FL_ATTR_BLOCK &&
            (n->attrs[i].i < -1 || n->attrs[i].i >= n_blocks))
            FL_FAIL(FL_ERR_INVAL, "%s: %s is block %lld, and there are %lld",
                    fl_node_text(n, text), n->def->attrs[i].name,
                    (long long)n->attrs[i].i, (long long)n_blocks);
    return FL_OK;
}

static fl_status verify_node(fl_op_node *n, fl_map *written)
{
    for (int s = 0; s < fl_node_n_in(n); s++)
        for (int i = 0; i < n->in[s].n; i++)
            if (n->in[s].vars[i])
                FL_TRY(verify_input(n, s, n->in[s].vars[i], written));
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++)
            if (n->out[s].vars[i])
                FL_TRY(verify_output(n, n->out[s].vars[i], written));
    FL_TRY(verify_attrs(n));
    return fl_node_infer(n);
}

static fl_status verify_block(const fl_block *b)
{
    fl_map written = { 0 };
    fl_status st = FL_OK;

    for (fl_op_node *n = b->first; n && !st; n = n->next)
        st = fl_err_at_op(verify_node(n, &written), n->tag, fl_node_type(n));
    fl_map_release(&written);
    return st;
}

fl_status fl_program_verify(const fl_program *p)
{
    for (size_t i = 0; i < p->blocks.len; i++)
        FL_TRY(verify_block(p->blocks.data[i]));
    for (size_t i = 0; i < p->fetches.len; i++)
        if (!fl_block_find_var(fl_program_main(p), p->fetches.data[i]))
            FL_FAIL(FL_ERR_NOTFOUND, "fetched variable %s does not exist",
                    p->fetches.data[i]);
    return FL_OK;
}
