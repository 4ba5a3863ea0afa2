/* canon_decay.c - decay that is written out becomes weight_decay.
 *
 *     scale (X=w) -> (Out=t) {scale=0.01}
 *     sum (X=[g, t]) -> (Out=d)
 *
 * is weight_decay (Param=w, Grad=g) -> (Out=d) {l2=0.01}, and with sign (X=w)
 * before the scale {l1=0.01}. Programs from Python write it so; servers, and
 * tables, know the one operator. A sum that writes over the gradient, or a
 * scale over the sign, gets variables of their own first.
 */
#include "pass/canon.h"

typedef struct decay {
    fl_op_node *sum, *scale, *sign; /* sign: NULL for l2 */
    fl_var *param, *grad;
} decay;

/* scale (X) -> Out {scale}, without a bias or a tensor of scales. */
static bool is_factor(const fl_op_node *n)
{
    return fl_match_op(n, "scale") && !fl_match_ins(n, "ScaleTensor").n &&
           fl_match_attr(n, "bias")->f == 0;
}

/* The parameter whose decay the scale gives. */
static fl_var *find_param(decay *m)
{
    fl_var *x = is_factor(m->scale) ? fl_match_in(m->scale, "X") : NULL;

    if (x && !(x->flags & FL_VAR_PARAM)) {
        m->sign = fl_match_writer(x);
        x = fl_match_op(m->sign, "sign") ? fl_match_in(m->sign, "X") : NULL;
    }
    return x && (x->flags & FL_VAR_PARAM) ? x : NULL;
}

/* What is written once and read once: others are not looked into, since many
   operators may use them. */
static bool is_used_twice(const fl_var *v)
{
    return v->first_use && v->first_use->next && !v->first_use->next->next;
}

static bool match(decay *m)
{
    fl_args x = fl_match_ins(m->sum, "X");

    if (!fl_match_op(m->sum, "sum") || x.n != 2 || x.vars[0] == x.vars[1] ||
        !is_used_twice(x.vars[1]))
        return false;
    m->grad = x.vars[0];
    m->scale = fl_match_writer(x.vars[1]);
    m->param = find_param(m);
    return m->param && fl_shape_equal(&m->param->meta.shape,
                                      &fl_match_out(m->sum, "Out")->meta.shape);
}

static bool is_owned(const decay *m, const fl_node_group *g)
{
    return fl_node_group_owns(g, fl_match_out(m->scale, "Out")) &&
           fl_node_group_owns(g, fl_match_out(m->sign, "Out"));
}

static fl_status insert(const decay *m, fl_op_node *place)
{
    fl_op_builder b = { .type = "weight_decay" };

    fl_op_builder_in(&b, "Param", m->param);
    fl_op_builder_in(&b, "Grad", m->grad);
    fl_op_builder_out(&b, "Out", fl_match_out(m->sum, "Out"));
    fl_op_builder_attr(&b, m->sign ? "l1" : "l2",
                       fl_match_attr(m->scale, "scale"));
    return fl_op_builder_insert(&b, place, NULL);
}

static fl_status replace(decay m, bool *fused)
{
    fl_node_group g = { 0 };
    fl_op_node *place;
    fl_status st = FL_OK;

    fl_node_group_add(&g, m.sign);
    fl_node_group_add(&g, m.scale);
    fl_node_group_add(&g, m.sum);
    place = fl_node_group_end(&g);
    if (place && is_owned(&m, &g)) {
        st = insert(&m, place);
        if (!st)
            fl_node_group_remove(&g);
        *fused = !st;
    }
    fl_vec_release(&g);
    return st;
}

static fl_status fuse(fl_op_node *n, bool *fused)
{
    decay m = { .sum = n };

    return match(&m) ? replace(m, fused) : FL_OK;
}

/* The decay of a table is that of the rows of a batch: a program that decays
   all of them, though its gradient has rows, stays as it is written. */
static fl_status fuse_dense(fl_op_node *n, bool *fused)
{
    decay m = { .sum = n };

    return match(&m) && m.grad->meta.kind != FL_KIND_ROWS ? replace(m, fused)
                                                          : FL_OK;
}

/* A sum or a scale of temporaries that writes over what it reads first. */
static bool writes_over(const fl_op_node *n)
{
    const fl_var *out = fl_match_out(n, "Out");

    return (fl_match_op(n, "sum") || fl_match_op(n, "scale")) && out &&
           !out->flags && fl_args_count(fl_match_ins(n, "X"), out);
}

static fl_status fuse_all(fl_program *p, fl_fuse_fn fn, bool *changed)
{
    const fl_op_node *n = fl_program_main(p)->first;
    uint64_t version = p->version;

    while (n && !writes_over(n))
        n = n->next;
    if (n)
        FL_TRY(fl_versions_part(fl_program_main(p), "assign"));
    *changed |= p->version != version;
    return fl_match_sweep(p, fn, changed);
}

static fl_status decay_run(fl_program *p, bool *changed)
{
    return fuse_all(p, fuse, changed);
}

/* What a trainer sends goes by the name of the gradient again: the sum had
   taken it. */
static fl_status give_name_back(fl_op_node *n)
{
    fl_var *out = fl_match_out(n, "Out"), *grad = fl_match_in(n, "Grad");
    const char *name = out->name;
    size_t len = strlen(name);

    if (strncmp(grad->name, name, len) || grad->name[len] != '@')
        return FL_OK;
    FL_TRY(fl_block_rename_var(
        n->block, out,
        fl_arena_printf(&n->block->program->arena, "%s@DECAY", name)));
    return fl_block_rename_var(n->block, grad, name);
}

static fl_status decay_spread(fl_dist *d, bool *changed)
{
    FL_TRY(fuse_all(d->main, fuse_dense, changed));
    for (fl_op_node *n = fl_program_main(d->main)->first; n; n = n->next)
        if (fl_match_op(n, "weight_decay"))
            FL_TRY(give_name_back(n));
    return FL_OK;
}

const fl_pass fl_pass_canon_decay = {
    .name = "canon_decay",
    .doc = "join decay that is written out to weight_decay",
    .required = true,
    .run = decay_run,
    .spread = decay_spread,
};
