/* dist_nce.c - nce with is_sparse, or over tables, takes rows that are looked up.
 *
 *     nce (Label=y, Input=x, Weight=w, Bias=b) -> (Cost=c) {is_sparse}
 *     nce_grad (..) -> (Input@GRAD=dx, Weight@GRAD=dw, Bias@GRAD=db)
 *
 * becomes
 *
 *     nce_sample (Label=y) -> (Out=c@SAMPLES) {of=c}
 *     lookup_table_v2 (W=w, Ids=c@SAMPLES) -> (Out=c@WEIGHT) {is_sparse}
 *     lookup_table_v2 (W=b, Ids=c@SAMPLES) -> (Out=c@BIAS) {is_sparse}
 *     nce (Label=y, Input=x, Weight=c@WEIGHT, Bias=c@BIAS, Samples=c@SAMPLES)
 *         -> (Cost=c)
 *     nce_grad (..) -> (Input@GRAD=dx, Weight@GRAD=c@WEIGHT@GRAD, ..)
 *     lookup_table_v2_grad (..) -> (W@GRAD=dw)
 *     lookup_table_v2_grad (..) -> (W@GRAD=db)
 *
 * with the same draws, and the rows of w and b can be spread over servers. The
 * gradient of b becomes one of rows, as that of w is.
 *
 * Where w or b is a table already, it is the same, with or without is_sparse and
 * a gradient, and the lookups say is_distributed; an array beside the table
 * keeps the gradient it has.
 */
#include "pass/dist_kit.h"
#include "pass/dist_pull.h"

/* One of its two parameters, and the lookup that stands for it. */
typedef struct looked_up {
    const char *slot, *suffix;
    fl_var *param;
    bool is_rows; /* its gradient is, or becomes, one of rows */
    fl_op_node *lookup;
} looked_up;

enum { WEIGHT, BIAS, N_PARAMS };

typedef struct noise {
    fl_block *block;
    fl_op_node *old, *old_grad, *sample, *node;
    looked_up p[N_PARAMS];
} noise;

/* --- which ---------------------------------------------------------------- */

static bool is_array(const fl_dist *d, const fl_var *v)
{
    fl_op_node *update = NULL;

    return v && (v->flags & (FL_VAR_PARAM | FL_VAR_TABLE)) == FL_VAR_PARAM &&
           v->meta.dtype == FL_DTYPE_F32 && v->meta.shape.rank == 2 &&
           !fl_dist_find_update(d, v, &update) && update;
}

static bool is_table(const fl_var *v)
{
    return v && (v->flags & FL_VAR_TABLE);
}

static noise noise_of(fl_op_node *n)
{
    noise t = { .block = n->block,
                .old = n,
                .old_grad = fl_match_grad(n),
                .p = { { .slot = "Weight", .suffix = "@WEIGHT" },
                       { .slot = "Bias", .suffix = "@BIAS" } } };

    for (int i = 0; i < N_PARAMS; i++)
        t.p[i].param = fl_match_in(n, t.p[i].slot);
    return t;
}

static bool match_arrays(const fl_dist *d, fl_op_node *n, noise *out)
{
    if (!fl_match_op(n, "nce") || !fl_match_attr(n, "is_sparse")->b)
        return false;
    *out = noise_of(n);
    out->p[WEIGHT].is_rows = out->p[BIAS].is_rows = true;
    return out->old_grad && is_array(d, out->p[WEIGHT].param) &&
           (!out->p[BIAS].param || is_array(d, out->p[BIAS].param));
}

static const char *grad_slot(const noise *t, const char *slot)
{
    return fl_arena_printf(&t->block->program->arena, "%s" FL_GRAD_SUFFIX,
                           slot);
}

/* The gradient of a parameter that the old operator gave; NULL: none. */
static fl_var *old_grad_of(const noise *t, const looked_up *p)
{
    return fl_match_out(t->old_grad, grad_slot(t, p->slot));
}

static bool has_rows(const noise *t, const looked_up *p)
{
    const fl_var *grad = old_grad_of(t, p);

    return is_table(p->param) || (grad && grad->meta.kind == FL_KIND_ROWS);
}

static bool match_tables(fl_op_node *n, noise *out)
{
    if (!fl_match_op(n, "nce") || fl_match_in(n, "Samples"))
        return false;
    *out = noise_of(n);
    for (int i = 0; i < N_PARAMS; i++)
        out->p[i].is_rows = has_rows(out, &out->p[i]);
    return is_table(out->p[WEIGHT].param) || is_table(out->p[BIAS].param);
}

/* What can be looked up has rows; a bias may have come without. */
static fl_status check_rows(const noise *t)
{
    char text[FL_NODE_TEXT_MAX];

    for (int i = 0; i < N_PARAMS; i++)
        if (t->p[i].param && t->p[i].param->meta.shape.rank != 2)
            FL_FAIL(FL_ERR_INVAL,
                    "%s: %s %s must be [num_total_classes, 1], as the other "
                    "parameter is in a table and rows of both are looked up",
                    fl_node_text(t->old, text), t->p[i].slot,
                    t->p[i].param->name);
    return FL_OK;
}

/* --- forward -------------------------------------------------------------- */

static const char *name_of(const noise *t, const char *suffix)
{
    return fl_arena_printf(&t->block->program->arena, "%s%s",
                           fl_match_out(t->old, "Cost")->name, suffix);
}

static void copy_ins(const noise *t, fl_op_builder *b, const char *const *slots,
                     size_t n)
{
    for (size_t i = 0; i < n; i++)
        fl_op_builder_in(b, slots[i], fl_match_in(t->old, slots[i]));
}

static void copy_attrs(const noise *t, fl_op_builder *b)
{
    static const char *const names[] = { "num_total_classes", "num_neg_samples",
                                         "sampler", "seed",
                                         "custom_neg_classes" };

    for (size_t i = 0; i < FL_LEN(names); i++)
        fl_op_builder_attr(b, names[i], fl_match_attr(t->old, names[i]));
}

static fl_status insert_sample(noise *t)
{
    static const char *const slots[] = { "Label", "CustomDistProbs",
                                         "CustomDistAlias",
                                         "CustomDistAliasProbs" };
    fl_op_builder b = { .type = "nce_sample" };

    copy_ins(t, &b, slots, FL_LEN(slots));
    copy_attrs(t, &b);
    fl_op_builder_str(&b, "of", fl_match_out(t->old, "Cost")->name);
    fl_op_builder_out_name(&b, "Out", name_of(t, "@SAMPLES"));
    return fl_op_builder_insert(&b, t->old, &t->sample);
}

static fl_status insert_lookup(noise *t, looked_up *p)
{
    fl_op_builder b = { .type = "lookup_table_v2" };

    if (!p->param)
        return FL_OK;
    fl_op_builder_in(&b, "W", p->param);
    fl_op_builder_in(&b, "Ids", fl_match_out(t->sample, "Out"));
    fl_op_builder_bool(&b, "is_sparse", p->is_rows);
    fl_op_builder_bool(&b, "is_distributed", is_table(p->param));
    fl_op_builder_out_name(&b, "Out", name_of(t, p->suffix));
    return fl_op_builder_insert(&b, t->old, &p->lookup);
}

static fl_status insert_nce(noise *t)
{
    static const char *const slots[] = {
        "Label", "CustomDistProbs", "CustomDistAlias", "CustomDistAliasProbs",
        "Input", "SampleWeight"
    };
    static const char *const outs[] = { "Cost", "SampleLogits",
                                        "SampleLabels" };
    fl_op_builder b = { .type = "nce" };

    copy_ins(t, &b, slots, FL_LEN(slots));
    copy_attrs(t, &b);
    for (int i = 0; i < N_PARAMS; i++)
        fl_op_builder_in(&b, t->p[i].slot, fl_match_out(t->p[i].lookup, "Out"));
    fl_op_builder_in(&b, "Samples", fl_match_out(t->sample, "Out"));
    for (size_t i = 0; i < FL_LEN(outs); i++)
        fl_op_builder_out(&b, outs[i], fl_match_out(t->old, outs[i]));
    return fl_op_builder_insert(&b, t->old, &t->node);
}

/* --- backward ------------------------------------------------------------- */

static const char *rows_grad(const noise *t, const looked_up *p)
{
    return fl_arena_printf(&t->block->program->arena, "%s%s" FL_GRAD_SUFFIX,
                           fl_match_out(t->old, "Cost")->name, p->suffix);
}

static fl_status insert_nce_grad(noise *t)
{
    fl_op_builder b;

    fl_op_builder_init_grad(&b, t->node);
    fl_op_builder_in(&b, "Cost@GRAD", fl_match_in(t->old_grad, "Cost@GRAD"));
    fl_op_builder_out(&b, "Input@GRAD",
                      fl_match_out(t->old_grad, "Input@GRAD"));
    for (int i = 0; i < N_PARAMS; i++)
        if (old_grad_of(t, &t->p[i]))
            fl_op_builder_out_name(&b, grad_slot(t, t->p[i].slot),
                                   rows_grad(t, &t->p[i]));
    return fl_op_builder_insert(&b, t->old_grad, NULL);
}

static bool are_rows(fl_args a)
{
    for (int i = 0; i < a.n; i++)
        if (a.vars[i]->meta.kind != FL_KIND_ROWS)
            return false;
    return true;
}

/* The gradient comes as rows from now on, and so does what sums, clips and
   decay make of it. */
static void make_rows(const noise *t, fl_var *grad, int64_t height)
{
    static const struct {
        const char *op, *slot;
    } passes_on[] = { { "sum", "X" },
                      { "clip", "X" },
                      { "clip_by_norm", "X" },
                      { "clip_by_global_norm", "X" },
                      { "weight_decay", "Grad" } };

    grad->meta.kind = FL_KIND_ROWS;
    grad->meta.height = height;
    grad->meta.shape.dim[0] = -1;
    for (fl_op_node *n = t->block->first; n; n = n->next)
        for (size_t i = 0; i < FL_LEN(passes_on); i++) {
            fl_args in = fl_match_ins(n, passes_on[i].slot);
            fl_args out = fl_match_outs(n, "Out");

            if (!fl_match_op(n, passes_on[i].op) || !fl_args_count(in, grad))
                continue;
            for (int k = 0; out.n == in.n && k < in.n; k++)
                if (in.vars[k] == grad && out.vars[k] != grad)
                    make_rows(t, out.vars[k], height);
            if (out.n == 1 && in.n > 1 && are_rows(in))
                make_rows(t, out.vars[0], height);
        }
}

static fl_status insert_lookup_grad(noise *t, const looked_up *p)
{
    fl_var *grad = old_grad_of(t, p);
    fl_op_builder b;

    if (!grad)
        return FL_OK;
    if (p->is_rows && grad->meta.kind != FL_KIND_ROWS)
        make_rows(t, grad, p->param->meta.shape.dim[0]);
    fl_op_builder_init_grad(&b, p->lookup);
    fl_op_builder_in_name(&b, "Out@GRAD", rows_grad(t, p));
    fl_op_builder_out(&b, "W@GRAD", grad);
    return fl_op_builder_insert(&b, t->old_grad, NULL);
}

static fl_status translate_grad(noise *t)
{
    FL_TRY(insert_nce_grad(t));
    for (int i = 0; i < N_PARAMS; i++)
        FL_TRY(insert_lookup_grad(t, &t->p[i]));
    fl_block_remove(t->block, t->old_grad);
    return FL_OK;
}

static fl_status translate(noise *t)
{
    FL_TRY(insert_sample(t));
    for (int i = 0; i < N_PARAMS; i++)
        FL_TRY(insert_lookup(t, &t->p[i]));
    FL_TRY(insert_nce(t));
    if (t->old_grad)
        FL_TRY(translate_grad(t));
    fl_block_remove(t->block, t->old);
    return FL_OK;
}

fl_status fl_dist_look_up_noise(fl_dist *d, bool *changed)
{
    fl_op_node *next;

    for (fl_op_node *n = fl_program_main(d->main)->first; n; n = next) {
        noise t;

        next = n->next;
        if (!match_arrays(d, n, &t))
            continue;
        FL_TRY(translate(&t));
        *changed = true;
    }
    return FL_OK;
}

fl_status fl_pull_look_up_noise(const fl_program *p, bool *changed)
{
    fl_op_node *next;

    for (fl_op_node *n = fl_program_main(p)->first; n; n = next) {
        noise t;

        next = n->next;
        if (!match_tables(n, &t))
            continue;
        FL_TRY(check_rows(&t));
        FL_TRY(translate(&t));
        *changed = true;
    }
    return FL_OK;
}
