/* train_net.c - what the parts of a program are.
 *
 *   feeds       variables with the word data
 *   loss        what is minimised; else the one single number that operators
 *               compute and no operator reads
 *   label,      what the operator compares that the loss comes from
 *   prediction
 *   metrics     operators that count from batch to batch
 */
#include "train_net.h"

#include <stdio.h>
#include <string.h>

/* --- looking at operators --------------------------------------------------- */

/* The first variable of a slot; NULL: the operator has none there. */
static fl_var *var_in(const fl_op_node *n, fl_op_side side, const char *slot)
{
    const char *name;
    size_t n_vars;

    for (size_t i = 0; (name = fl_op_slot_name(n, side, i, &n_vars)); i++)
        if (!strcmp(name, slot))
            return n_vars ? fl_op_var(n, side, i, 0) : NULL;
    return NULL;
}

static bool has_var(const fl_op_node *n, fl_op_side side, const fl_var *v)
{
    size_t n_vars;

    for (size_t i = 0; fl_op_slot_name(n, side, i, &n_vars); i++)
        for (size_t k = 0; k < n_vars; k++)
            if (fl_op_var(n, side, i, k) == v)
                return true;
    return false;
}

bool net_writes(const fl_op_node *n, const char *name)
{
    size_t n_vars;

    for (size_t i = 0; fl_op_slot_name(n, FL_OP_OUTPUTS, i, &n_vars); i++)
        for (size_t k = 0; k < n_vars; k++) {
            const fl_var *v = fl_op_var(n, FL_OP_OUTPUTS, i, k);

            if (v && !strcmp(fl_var_name(v), name))
                return true;
        }
    return false;
}

/* The state that the operator changes in place, or NULL. */
static fl_var *state_of(const fl_op_node *n)
{
    size_t n_vars;

    for (size_t i = 0; fl_op_slot_name(n, FL_OP_INPUTS, i, &n_vars); i++) {
        fl_operator_slot slot = FL_INIT(fl_operator_slot);

        if (!fl_operator_slot_at(fl_op_type(n), FL_OP_INPUTS, i, &slot) &&
            slot.is_state && n_vars)
            return fl_op_var(n, FL_OP_INPUTS, i, 0);
    }
    return NULL;
}

static bool is_forward(const fl_op_node *n)
{
    return fl_op_role_of(n) == FL_OP_ROLE_FORWARD;
}

/* The next forward operator. */
static fl_op_node *next_forward(const fl_block *b, const fl_op_node *after)
{
    fl_op_node *n = fl_block_next_op(b, after);

    while (n && !is_forward(n))
        n = fl_block_next_op(b, n);
    return n;
}

static fl_op_node *maker_of(const fl_block *b, const fl_var *v)
{
    fl_op_node *n = next_forward(b, NULL);

    while (n && !has_var(n, FL_OP_OUTPUTS, v))
        n = next_forward(b, n);
    return n;
}

/* --- the loss --------------------------------------------------------------- */

static bool is_single(const fl_var *v)
{
    fl_shape s = fl_var_shape(v);
    fl_dtype t = fl_var_dtype(v);

    for (int i = 0; i < s.rank; i++)
        if (s.dim[i] != 1)
            return false;
    return t == FL_DTYPE_F32 || t == FL_DTYPE_F64;
}

static bool is_read(const fl_block *b, const fl_var *v)
{
    for (const fl_op_node *n = NULL; (n = next_forward(b, n)) != NULL;)
        if (has_var(n, FL_OP_INPUTS, v))
            return true;
    return false;
}

/* Backward begins with the gradient of the loss, made of nothing. */
static fl_var *minimized(fl_program *p)
{
    const fl_block *b = fl_program_block(p, 0);
    char name[1024];

    for (const fl_op_node *n = NULL; (n = fl_block_next_op(b, n)) != NULL;) {
        const fl_var *grad = fl_op_role_of(n) == FL_OP_ROLE_BACKWARD &&
                                     !strcmp(fl_op_type(n), "fill_constant")
                                 ? fl_op_var(n, FL_OP_OUTPUTS, 0, 0)
                                 : NULL;
        const char *at = grad ? strstr(fl_var_name(grad), "@GRAD") : NULL;

        if (!at)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(at - fl_var_name(grad)),
                 fl_var_name(grad));
        return fl_program_var(p, name);
    }
    return NULL;
}

/* Single numbers that are there for themselves, but for what metrics tell. */
static void note_loss(const fl_block *b, const fl_op_node *n, net_parts *out)
{
    fl_var *v = fl_op_var(n, FL_OP_OUTPUTS, 0, 0);

    if (!v || !is_single(v) || state_of(n) || is_read(b, v))
        return;
    out->other_loss = out->maybe_loss ? fl_var_name(v) : NULL;
    out->maybe_loss = out->maybe_loss ? out->maybe_loss : fl_var_name(v);
    out->loss = out->other_loss ? NULL : v;
}

static void find_loss(fl_program *p, net_parts *out)
{
    const fl_block *b = fl_program_block(p, 0);

    out->loss = minimized(p);
    out->is_minimized = out->loss != NULL;
    for (const fl_op_node *n = NULL;
         !out->is_minimized && !out->other_loss && (n = next_forward(b, n));)
        note_loss(b, n, out);
}

/* --- what is compared ------------------------------------------------------- */

/* Operators that compare a prediction with a label. */
static const struct rule {
    const char *type, *label, *prediction;
    fl_op_side side; /* where the prediction is */
    bool is_clicks, is_logits;
} rules[] = {
    { "cross_entropy", "Label", "X", FL_OP_INPUTS, true, false },
    { "cross_entropy2", "Label", "X", FL_OP_INPUTS, true, false },
    { "softmax_with_cross_entropy", "Label", "Softmax", FL_OP_OUTPUTS, true,
      false },
    { "sigmoid_cross_entropy_with_logits", "Label", "X", FL_OP_INPUTS, true,
      true },
    { "log_loss", "Labels", "Predicted", FL_OP_INPUTS, true, false },
    { "huber_loss", "Y", "X", FL_OP_INPUTS, false, false },
    { "hinge_loss", "Labels", "Logits", FL_OP_INPUTS, false, false },
};

static const struct rule *rule_of(const fl_op_node *n)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (!strcmp(rules[i].type, fl_op_type(n)))
            return &rules[i];
    return NULL;
}

/* Labels are cast on their way. */
static fl_var *fed_label(const fl_block *b, fl_var *v)
{
    const fl_op_node *n = v ? maker_of(b, v) : NULL;

    return n && !strcmp(fl_op_type(n), "cast")
               ? fl_op_var(n, FL_OP_INPUTS, 0, 0)
               : v;
}

/* The chance that belongs to the logits. */
static fl_var *chance_of(const fl_block *b, fl_var *logits, bool may_append)
{
    for (const fl_op_node *n = NULL; (n = next_forward(b, n)) != NULL;)
        if (!strcmp(fl_op_type(n), "sigmoid") &&
            has_var(n, FL_OP_INPUTS, logits))
            return fl_op_var(n, FL_OP_OUTPUTS, 0, 0);
    return may_append ? fl_layers_sigmoid(logits) : NULL;
}

static int64_t width_of(const fl_var *v)
{
    fl_shape s = fl_var_shape(v);

    return s.rank == 2 ? s.dim[1] : 0;
}

/* Classes 0 and 1, told apart by one number or two. */
static bool are_clicks(const net_parts *p)
{
    return p->label && p->prediction &&
           fl_var_dtype(p->label) == FL_DTYPE_I64 && width_of(p->label) == 1 &&
           width_of(p->prediction) > 0 && width_of(p->prediction) <= 2;
}

static void find_compared(const fl_block *b, net_parts *out)
{
    const fl_op_node *n = next_forward(b, NULL);
    const struct rule *r = NULL;
    fl_var *v;

    while (n && !(r = rule_of(n)))
        n = next_forward(b, n);
    if (!n)
        return;
    if (!out->label)
        out->label = fed_label(b, var_in(n, FL_OP_INPUTS, r->label));
    v = var_in(n, r->side, r->prediction);
    if (!out->prediction && v)
        out->prediction =
            r->is_logits ? chance_of(b, v, !out->is_minimized) : v;
    out->is_clicks = r->is_clicks && are_clicks(out);
}

/* --- metrics ---------------------------------------------------------------- */

static bool counts_all(const fl_op_node *n)
{
    fl_attr steps;

    return !fl_op_attr(n, "slide_steps", &steps) && steps.i == 0;
}

/* A state of sums, and what they are over. */
static bool is_ratio(const fl_var *state)
{
    return state && fl_var_dtype(state) == FL_DTYPE_F64 && width_of(state) == 2;
}

static void note_metric(const fl_op_node *n, model_net *net)
{
    if (!strcmp(fl_op_type(n), "auc") && counts_all(n)) {
        net->auc = var_in(n, FL_OP_OUTPUTS, "AUC");
        net->stat_pos = var_in(n, FL_OP_INPUTS, "StatPos");
        net->stat_neg = var_in(n, FL_OP_INPUTS, "StatNeg");
    } else if (is_ratio(state_of(n)) && net->n_metrics < MODEL_METRICS_MAX) {
        bool is_error = strstr(fl_op_type(n), "loss") != NULL;

        *(is_error ? model_report_error(net, fl_op_type(n))
                   : model_report(net, fl_op_type(n))) = state_of(n);
    }
}

static size_t count_feeds(const fl_block *b)
{
    size_t n = 0;

    for (const fl_var *v = NULL; (v = fl_block_next_var(b, v)) != NULL;) {
        fl_var_def is = FL_INIT(fl_var_def);

        n += !fl_var_look(v, &is) && is.is_data;
    }
    return n;
}

void net_find(fl_program *p, net_parts *out, model_net *net)
{
    const fl_block *b = fl_program_block(p, 0);

    out->n_feeds = count_feeds(b);
    find_loss(p, out);
    for (const fl_op_node *n = NULL; (n = next_forward(b, n)) != NULL;)
        note_metric(n, net);
    find_compared(b, out);
}
