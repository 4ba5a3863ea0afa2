#include "train/objective.h"

#include <string.h>

/* The variable that this one is the gradient of; NULL: it is none. */
static const fl_var *source_of(fl_program *program, const fl_var *grad)
{
    size_t len = strlen(grad->name), cut = strlen(FL_GRAD_SUFFIX);
    fl_str name = { 0 };
    const fl_var *v;

    if (len <= cut || strcmp(grad->name + len - cut, FL_GRAD_SUFFIX) != 0)
        return NULL;
    fl_str_addf(&name, "%.*s", (int)(len - cut), grad->name);
    v = fl_program_var(program, name.data);
    fl_str_release(&name);
    return v;
}

static bool reads_nothing(const fl_op_node *n)
{
    for (int i = 0; i < fl_node_n_in(n); i++)
        if (n->in[i].n)
            return false;
    return true;
}

/* Backward begins with the operator that makes the loss's gradient out of
   nothing. */
const char *fl_objective_of(fl_program *program)
{
    const fl_op_node *n = program ? fl_program_main(program)->first : NULL;

    for (; n; n = n->next) {
        bool is_seed = n->role == FL_OP_ROLE_BACKWARD && reads_nothing(n) &&
                       fl_node_n_out(n) && n->out[0].n;
        const fl_var *loss =
            is_seed ? source_of(program, n->out[0].vars[0]) : NULL;

        if (loss)
            return loss->name;
    }
    return NULL;
}

/* The operator that gives a variable, or NULL. */
static const fl_op_node *maker_of(fl_program *program, const char *name)
{
    const fl_var *v = fl_program_var(program, name);
    const fl_op_node *n = fl_program_main(program)->first;

    while (v && n && !fl_node_writes_var(n, v))
        n = n->next;
    return v ? n : NULL;
}

/* What the operator keeps from batch to batch, and writes back under its own
   name. */
fl_status fl_objective_clear_counts(fl_scope *scope, fl_program *program,
                                    const char *auc)
{
    const fl_op_node *n = auc ? maker_of(program, auc) : NULL;

    if (auc && !n)
        FL_FAIL(FL_ERR_NOTFOUND, "no operator of the program gives %s (auc)",
                auc);
    for (int i = 0; n && i < fl_node_n_in(n); i++)
        for (int k = 0; k < n->in[i].n; k++) {
            const fl_var *v = n->in[i].vars[k];
            fl_tensor t;

            if (!(v->flags & FL_VAR_PERSIST) || !fl_node_writes_var(n, v))
                continue;
            FL_TRY(fl_scope_get(scope, v->name, &t));
            memset(t.data, 0,
                   (size_t)fl_tensor_numel(&t) * fl_dtype_bytes(t.dtype));
        }
    return FL_OK;
}
