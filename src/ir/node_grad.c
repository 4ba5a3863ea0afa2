/* node_grad.c - what a gradient operator must have. */
#include "ir/node.h"

static bool any_var(const fl_args *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->vars[i])
            return true;
    return false;
}

static bool all_vars(const fl_args *a)
{
    for (int i = 0; i < a->n; i++)
        if (!a->vars[i])
            return false;
    return true;
}

fl_status fl_node_check_grad_inputs(const fl_op_node *n)
{
    int n_in = fl_op_n_in(n->def), n_out = fl_op_n_out(n->def);

    for (int s = 0; s < n_in + n_out; s++) {
        bool saved = s >= n_in && fl_node_reads(n, s) &&
                     !(fl_node_in_flags(n, s) & FL_OP_SLOT_BYPRODUCT);
        bool needed =
            s < n_in && !(fl_node_in_flags(n, s) & FL_OP_SLOT_OPTIONAL);

        if (((needed || saved) && !any_var(&n->in[s])) ||
            (s < n_in && !all_vars(&n->in[s])))
            FL_FAIL(FL_ERR_INVAL, "op %s_grad: slot %s is missing",
                    n->def->name, fl_node_in_name(n, s));
    }
    return FL_OK;
}

fl_status fl_node_check_grad_sides(const fl_op_node *n)
{
    int n_in = fl_op_n_in(n->def), n_out = fl_op_n_out(n->def);
    bool came = false, wanted = false;

    for (int s = 0; s < n_out; s++)
        came |= any_var(&n->in[n_in + n_out + s]);
    for (int s = 0; s < n_in; s++)
        wanted |= any_var(&n->out[s]);
    if (!came || !wanted)
        FL_FAIL(FL_ERR_INVAL, "op %s_grad: no gradient of %s is %s",
                n->def->name, came ? "an input" : "an output",
                came ? "wanted" : "given");
    return FL_OK;
}

static fl_status compare_grad(const fl_op_node *n, int slot,
                              const fl_tensor *got, const fl_tensor *want,
                              bool running)
{
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];
    bool same = running ? fl_shape_equal(&got->shape, &want->shape)
                        : fl_shape_matches(&got->shape, &want->shape);

    if (got->kind == FL_KIND_ROWS || got->kind == FL_KIND_ARRAY ||
        (same && got->dtype == want->dtype))
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL,
            "op %s_grad: %s is %s%s, but the output it belongs to is %s%s",
            n->def->name, fl_node_in_name(n, slot), fl_dtype_text(got->dtype),
            fl_shape_text(&got->shape, a), fl_dtype_text(want->dtype),
            fl_shape_text(&want->shape, b));
}

fl_status fl_node_check_grads(const fl_op_node *n, const fl_targs *in,
                              bool running)
{
    int n_out = fl_op_n_out(n->def);
    int first = fl_op_n_in(n->def) + n_out;
    fl_targs out[FL_OP_SLOTS_MAX] = { 0 };
    fl_workspace workspace = { 0 };
    fl_infer c = { .node = n,
                   .in = in,
                   .out = out,
                   .running = running,
                   .workspace = running ? &workspace : NULL };
    fl_arena tmp;
    fl_status st;

    fl_arena_init(&tmp, 4 << 10);
    for (int s = 0; s < n_out; s++) {
        int len = in[first + s].n ? in[first + s].n : 1;

        out[s].n = len;
        out[s].t =
            fl_arena_alloc(&tmp, sizeof(fl_tensor *) * ((size_t)len + 1));
        for (int i = 0; i < len; i++)
            out[s].t[i] = fl_arena_alloc(&tmp, sizeof(fl_tensor));
    }
    st = n->def->infer(&c);
    for (int s = 0; s < n_out && !st; s++)
        for (int i = 0; i < in[first + s].n && !st; i++)
            if (in[first + s].t[i])
                st = compare_grad(n, first + s, in[first + s].t[i], out[s].t[i],
                                  running);
    fl_buf_release(&workspace.buf);
    fl_arena_release(&tmp);
    return st;
}
