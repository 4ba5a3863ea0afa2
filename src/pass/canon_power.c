/* canon_power.c - an update advances its power of beta itself.
 *
 *     adamax (Param=w, ..., Beta1Pow=p) -> (ParamOut=w, ...) {beta1=0.9}
 *     scale (X=p) -> (Out=p) {scale=0.9}
 *
 * is adamax ... -> (..., Beta1PowOut=p). Fluid writes the scale behind all
 * updates; on servers it would have no place, since they have the power and run
 * updates alone. In one process the program stays as it is written.
 */
#include "pass/canon.h"

static const char *const ins[] = { "Param",  "Grad",    "LearningRate",
                                   "Moment", "InfNorm", "Beta1Pow" };
static const char *const outs[] = { "ParamOut", "MomentOut", "InfNormOut" };

/* The only operator besides n that knows v; NULL when there are several. */
static fl_op_node *find_other(const fl_op_node *n, const fl_var *v)
{
    fl_op_node *found = NULL;

    for (const fl_use *u = v->first_use; u; u = u->next) {
        if (u->node == n || u->node == found)
            continue;
        if (found)
            return NULL;
        found = u->node;
    }
    return found;
}

/* scale (X=p) -> (Out=p) by beta1. */
static fl_op_node *find_advance(const fl_op_node *n, const fl_var *p)
{
    fl_op_node *s = find_other(n, p);

    if (!fl_match_op(s, "scale") || fl_match_in(s, "X") != p ||
        fl_match_out(s, "Out") != p || fl_match_ins(s, "ScaleTensor").n ||
        fl_match_attr(s, "bias")->f != 0 ||
        fl_match_attr(s, "scale")->f != fl_match_attr(n, "beta1")->f)
        return NULL;
    return s;
}

static fl_status insert(fl_op_node *n, const fl_var *power)
{
    fl_op_builder b;

    fl_op_builder_init_like(&b, n);
    for (size_t i = 0; i < FL_LEN(ins); i++)
        fl_op_builder_in(&b, ins[i], fl_match_in(n, ins[i]));
    for (size_t i = 0; i < FL_LEN(outs); i++)
        fl_op_builder_out(&b, outs[i], fl_match_out(n, outs[i]));
    fl_op_builder_out(&b, "Beta1PowOut", power);
    return fl_op_builder_insert(&b, n, NULL);
}

static fl_status fuse(fl_op_node *n, bool *fused)
{
    const fl_var *power =
        fl_match_op(n, "adamax") && !fl_match_outs(n, "Beta1PowOut").n
            ? fl_match_in(n, "Beta1Pow")
            : NULL;
    fl_op_node *advance = power ? find_advance(n, power) : NULL;

    if (!advance)
        return FL_OK;
    FL_TRY(insert(n, power));
    fl_block_remove(advance->block, advance);
    fl_block_remove(n->block, n);
    *fused = true;
    return FL_OK;
}

static fl_status power_spread(fl_dist *d, bool *changed)
{
    return fl_match_sweep(d->main, fuse, changed);
}

const fl_pass fl_pass_canon_power = {
    .name = "canon_power",
    .doc = "let updates advance their powers of beta",
    .spread = power_spread,
};
