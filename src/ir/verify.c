/* verify.c - is this a program that can run? */
#include "ir/program.h"

static bool written_before(const fl_op_node *reader, const fl_var *v)
{
    const fl_op_node *n = reader->prev;

    for (; n; n = n->prev)
        if (fl_node_writes_var(n, v))
            return true;
    return false;
}

static fl_status verify_input(const fl_op_node *n, const fl_var *v)
{
    char text[FL_NODE_TEXT_MAX];

    if (fl_block_find_var(n->block, v->name) != v)
        FL_FAIL(FL_ERR_INVAL, "%s reads %s, which is not in its block",
                fl_node_text(n, text), v->name);
    if (v->flags & (FL_VAR_DATA | FL_VAR_PERSIST))
        return FL_OK;
    if (v->block != n->block || written_before(n, v))
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL,
            "%s reads %s before any operator writes it, and it is neither "
            "data nor persistent",
            fl_node_text(n, text), v->name);
}

static fl_status verify_node(fl_op_node *n)
{
    char text[FL_NODE_TEXT_MAX];

    for (int s = 0; s < fl_node_n_in(n); s++)
        for (int i = 0; i < n->in[s].n; i++)
            if (n->in[s].vars[i])
                FL_TRY(verify_input(n, n->in[s].vars[i]));
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++)
            if (n->out[s].vars[i] && (n->out[s].vars[i]->flags & FL_VAR_DATA))
                FL_FAIL(FL_ERR_INVAL, "%s writes %s, which is fed",
                        fl_node_text(n, text), n->out[s].vars[i]->name);
    return fl_node_infer(n);
}

fl_status fl_program_verify(const fl_program *p)
{
    for (size_t i = 0; i < p->blocks.len; i++)
        for (fl_op_node *n = p->blocks.data[i]->first; n; n = n->next)
            FL_TRY(verify_node(n));
    for (size_t i = 0; i < p->fetches.len; i++)
        if (!fl_block_find_var(fl_program_main(p), p->fetches.data[i]))
            FL_FAIL(FL_ERR_NOTFOUND, "fetched variable %s does not exist",
                    p->fetches.data[i]);
    return FL_OK;
}
