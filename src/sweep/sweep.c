/* sweep.c - what is asked of an operator, one check after the other. */
#include "sweep/sweep.h"

#include "base/vec.h"
#include "ops/ops.h"
#include "sweep/trial.h"

/* Of the descriptor, and of each of its cases. */
static const struct check {
    const char *what;
    fl_check_fn fn;
} of_descriptor[] = {
    { "it says what it does", fl_check_doc },
    { "there are cases for all it can do", fl_check_cases },
}, of_case[] = {
    { "a run gives the shapes that were promised", fl_check_shapes },
    { "what is inferred by form is inferred by nothing else", fl_check_form },
    { "gradients equal central differences", fl_check_gradient },
    { "f32 and f64 agree", fl_check_precision },
    { "any number of shares gives the same bits", fl_check_shares },
    { "in place gives the same bits", fl_check_in_place },
    { "outputs do not depend on dirt", fl_check_written },
    { "back reads what it says", fl_check_uses },
    { "back gives and takes part of the gradients", fl_check_parts },
    { "no memory is an error and nothing else", fl_check_no_memory },
};

bool fl_sweep_has_array(const fl_op *op, size_t index)
{
    bool found = false;
    fl_op_trial t;

    if (fl_op_trial_init(&t, op, index, FL_DTYPE_F32, FL_BUILD_KNOWN))
        return false;
    for (const fl_var *v = fl_program_main(t.program)->first_var; v;
         v = v->next)
        found |= v->meta.kind == FL_KIND_ARRAY;
    fl_op_trial_release(&t);
    return found;
}

static fl_status sweep_case(const fl_op *op, size_t index)
{
    if (fl_sweep_has_array(op, index))
        return FL_OK;
    for (size_t i = 0; i < FL_LEN(of_case); i++)
        FL_TRY(fl_err_ctx(of_case[i].fn(op, index),
                          "operator %s, case %zu, that %s", op->name, index,
                          of_case[i].what));
    return FL_OK;
}

fl_status fl_sweep_op(const fl_op *op)
{
    for (size_t i = 0; i < FL_LEN(of_descriptor); i++)
        FL_TRY(fl_err_ctx(of_descriptor[i].fn(op, 0), "operator %s, that %s",
                          op->name, of_descriptor[i].what));
    for (size_t k = 0; k < op->n_cases; k++)
        FL_TRY(sweep_case(op, k));
    return FL_OK;
}

fl_status fl_op_sweep(const char *name)
{
    const fl_op *op = fl_ops.find(name);
    const char *near = op ? NULL : fl_ops.nearest(name);

    if (!op)
        FL_FAIL(FL_ERR_NOTFOUND, "no operator is called '%s'%s%s%s", name,
                near ? "; did you mean " : "", near ? near : "",
                near ? "?" : "");
    return fl_sweep_op(op);
}
