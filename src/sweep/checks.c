/* checks.c - what is asked of an operator in one of its cases. */
#include "sweep/checks.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "sweep/trial.h"

/* Central differences in f64, twice, with steps of 1e-4 and half of that; what
   is left of the third derivative cancels between the two, so that they are
   right to about 1e-11 where the fifth is moderate. An error is
   |a - n| / max(1, |n|). */
#define NUMERIC_STEP 1e-4
#define GRADIENT_ERROR 1e-7

/* More elements than this are sampled evenly. */
#define NUMERIC_MAX 100

#define PRECISION_ERROR 1e-4
#define ROUNDED_ERROR 0.1

typedef fl_status (*trial_fn)(fl_op_trial *t);

static fl_status with_trial(const fl_op *op, size_t index, fl_dtype real,
                            trial_fn fn)
{
    fl_op_trial t;
    fl_status st;

    FL_TRY(fl_op_trial_init(&t, op, index, real, FL_BUILD_KNOWN));
    st = fn(&t);
    fl_op_trial_release(&t);
    return st;
}

static fl_status in_both_types(const fl_op *op, size_t index, trial_fn fn)
{
    FL_TRY(fl_err_ctx(with_trial(op, index, FL_DTYPE_F32, fn), "f32"));
    return fl_err_ctx(with_trial(op, index, FL_DTYPE_F64, fn), "f64");
}

static double error_of(double got, double want)
{
    double scale = fabs(want) > 1 ? fabs(want) : 1;

    if (got == want || (isnan(got) && isnan(want)))
        return 0;
    return fabs(got - want) / scale;
}

/* Forward and, where there is one, backward; both are released by the caller
   through pair_release. */
typedef struct pair {
    fl_op_call forward, backward;
    bool has_backward;
} pair;

static fl_status pair_run(fl_op_trial *t, const fl_how *fore, const fl_how *aft,
                          pair *p)
{
    fl_status st;

    *p = (pair){ 0 };
    FL_TRY(fl_op_trial_forward(t, fore, &p->forward));
    if (!t->grad_node)
        return FL_OK;
    st = fl_op_trial_backward(t, &p->forward, aft, &p->backward);
    p->has_backward = !st;
    if (st)
        fl_op_call_release(&p->forward);
    return fl_err_ctx(st, "gradient");
}

static void pair_release(pair *p)
{
    fl_op_call_release(&p->forward);
    if (p->has_backward)
        fl_op_call_release(&p->backward);
}

typedef fl_status (*compare_fn)(const fl_tensor *a, const fl_tensor *b);

static fl_status compare_bits(const fl_tensor *a, const fl_tensor *b)
{
    if (!fl_same_bits(a, b))
        FL_FAIL(FL_ERR_INVAL, "the bits differ");
    return FL_OK;
}

static fl_status compare_to(const fl_tensor *a, const fl_tensor *b, double most)
{
    if (!fl_shape_equal(&a->shape, &b->shape) || a->kind != b->kind)
        FL_FAIL(FL_ERR_INVAL, "the shapes differ");
    for (int64_t i = 0; i < fl_tensor_numel(a); i++)
        if (error_of(fl_value_at(a, i), fl_value_at(b, i)) > most)
            FL_FAIL(FL_ERR_INVAL, "element %" PRId64 " is %.9g, not %.9g", i,
                    fl_value_at(a, i), fl_value_at(b, i));
    return FL_OK;
}

static fl_status compare_values(const fl_tensor *a, const fl_tensor *b)
{
    return compare_to(a, b, PRECISION_ERROR);
}

/* What is rounded may be kept in another type, and only where it is. */
static fl_status compare_rounded(const fl_tensor *a, const fl_tensor *b)
{
    return fl_dtype_is_float(a->dtype) ? compare_to(a, b, ROUNDED_ERROR)
                                       : FL_OK;
}

/* Outputs of two calls of one node, those that both have. */
static fl_status compare_calls(const fl_op_node *n, const fl_op_call *a,
                               const fl_op_call *b, compare_fn compare)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < a->out[s].n; i++)
            if (a->out[s].t[i] && b->out[s].t[i])
                FL_TRY(fl_err_ctx(compare(a->out[s].t[i], b->out[s].t[i]),
                                  "%s[%d]", fl_node_out_name(n, s), i));
    return FL_OK;
}

static fl_status compare_pairs(const fl_op_trial *t, const pair *a,
                               const pair *b, compare_fn compare)
{
    FL_TRY(compare_calls(t->node, &a->forward, &b->forward, compare));
    if (a->has_backward && b->has_backward)
        FL_TRY(
            compare_calls(t->grad_node, &a->backward, &b->backward, compare));
    return FL_OK;
}

/* Runs in two ways and wants the same bits. */
static fl_status same_both_ways(fl_op_trial *t, const fl_how *one,
                                const fl_how *other)
{
    pair a, b;
    fl_status st;

    FL_TRY(pair_run(t, one, one, &a));
    st = pair_run(t, other, other, &b);
    if (!st) {
        st = compare_pairs(t, &a, &b, compare_bits);
        pair_release(&b);
    }
    pair_release(&a);
    return st;
}

/* --- shapes --------------------------------------------------------------- */

/* What the run gave against what the program promised. Run may lower the
   number of rows of rows + values. */
static fl_status keeps_promise(const fl_tensor *meta, const fl_tensor *got)
{
    fl_shape promised = meta->shape;
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];

    if (got->kind == FL_KIND_ROWS)
        promised.dim[0] = -1;
    if (meta->dtype == got->dtype && meta->n_lod == got->n_lod &&
        (meta->kind == FL_KIND_ROWS) == (got->kind == FL_KIND_ROWS) &&
        fl_shape_matches(&promised, &got->shape))
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL, "built as %s%s lod=%d, but the run gives %s%s lod=%d",
            fl_dtype_text(meta->dtype), fl_shape_text(&meta->shape, a),
            meta->n_lod, fl_dtype_text(got->dtype),
            fl_shape_text(&got->shape, b), got->n_lod);
}

static fl_status check_promises(const fl_op_node *n, const fl_op_call *c)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++)
            if (n->out[s].vars[i] && c->out[s].t[i])
                FL_TRY(fl_err_ctx(
                    keeps_promise(&n->out[s].vars[i]->meta, c->out[s].t[i]),
                    "%s[%d]", fl_node_out_name(n, s), i));
    return FL_OK;
}

static fl_status check_shapes_of(fl_op_trial *t)
{
    pair p;
    fl_status st;

    FL_TRY(pair_run(t, &(fl_how){ 0 }, &(fl_how){ 0 }, &p));
    st = check_promises(t->node, &p.forward);
    if (!st && p.has_backward)
        st = check_promises(t->grad_node, &p.backward);
    pair_release(&p);
    return st;
}

fl_status fl_check_shapes(const fl_op *op, size_t index)
{
    fl_op_trial t;
    fl_status st;

    FL_TRY(in_both_types(op, index, check_shapes_of));
    FL_TRY(fl_err_ctx(
        fl_op_trial_init(&t, op, index, FL_DTYPE_F32, FL_BUILD_UNKNOWN),
        "with a first dimension of -1"));
    st = check_shapes_of(&t);
    fl_op_trial_release(&t);
    return fl_err_ctx(st, "with a first dimension of -1");
}

/* --- forms ---------------------------------------------------------------- */

/* Of the inputs there are types, shapes and numbers of offsets left. */
static void leave_forms(fl_op_call *c, int n_slots)
{
    for (int s = 0; s < n_slots; s++)
        for (int i = 0; i < c->in[s].n; i++) {
            fl_tensor *t = c->in[s].t[i];

            t->data = NULL;
            for (int k = 0; k < t->n_lod; k++)
                t->lod[k] = fl_arena_alloc(&c->mem, (size_t)t->lod_len[k] *
                                                        sizeof(int64_t));
        }
}

static fl_status same_form(const fl_op_node *n, const fl_op_call *a,
                           const fl_op_call *b)
{
    for (int s = 0; s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++) {
            const fl_tensor *x = a->out[s].t[i], *y = b->out[s].t[i];

            if (x->dtype != y->dtype || x->n_lod != y->n_lod ||
                !fl_shape_equal(&x->shape, &y->shape))
                FL_FAIL(FL_ERR_INVAL, "%s[%d] is inferred from more than forms",
                        fl_node_out_name(n, s), i);
        }
    return FL_OK;
}

static fl_status same_workspace(const fl_buf *a, const fl_buf *b)
{
    if (a->bytes != b->bytes ||
        (a->bytes && memcmp(a->data, b->data, a->bytes)))
        FL_FAIL(FL_ERR_INVAL,
                "infer leaves something for the run that follows from more "
                "than forms");
    return FL_OK;
}

static fl_status infer_blindly(fl_op_trial *t, const fl_op_call *seen,
                               fl_op_call *blind)
{
    fl_infer infer = { t->node, blind->in, blind->out, true,
                       &blind->workspace };

    leave_forms(blind, fl_op_n_in(t->op));
    if (blind->workspace.buf.bytes)
        memset(blind->workspace.buf.data, 0, blind->workspace.buf.bytes);
    FL_TRY(t->op->infer(&infer));
    FL_TRY(same_workspace(&seen->workspace.buf, &blind->workspace.buf));
    return same_form(t->node, seen, blind);
}

static fl_status check_form_of(fl_op_trial *t)
{
    fl_op_call seen, blind;
    fl_status st;

    FL_TRY(fl_op_trial_forward(t, &(fl_how){ 0 }, &seen));
    st = fl_op_trial_forward(t, &(fl_how){ 0 }, &blind);
    if (!st) {
        st = infer_blindly(t, &seen, &blind);
        fl_op_call_release(&blind);
    }
    fl_op_call_release(&seen);
    return st;
}

fl_status fl_check_form(const fl_op *op, size_t index)
{
    return op->flags & FL_OP_BY_FORM ? in_both_types(op, index, check_form_of)
                                     : FL_OK;
}

/* --- numeric gradient ----------------------------------------------------- */

/* The sum of all outputs, each weighted with its gradient. */
static fl_status loss(fl_op_trial *t, double *out)
{
    fl_op_call c;

    *out = 0;
    FL_TRY(fl_op_trial_forward(t, &(fl_how){ 0 }, &c));
    for (int s = 0; s < fl_op_n_out(t->op); s++)
        for (int i = 0; i < c.out[s].n; i++) {
            const fl_tensor *y = c.out[s].t[i];

            if (!fl_op_trial_gives(t, s, i))
                continue;
            for (int64_t k = 0; k < fl_tensor_numel(y); k++)
                *out += fl_value_at(y, k) * fl_drawn_gradient(s, i, k);
        }
    fl_op_call_release(&c);
    return FL_OK;
}

static fl_status difference(fl_op_trial *t, fl_tensor *x, int64_t k,
                            double step, double *out)
{
    double at = fl_value_at(x, k), up, down;

    fl_value_set(x, k, at + step);
    FL_TRY(loss(t, &up));
    fl_value_set(x, k, at - step);
    FL_TRY(loss(t, &down));
    fl_value_set(x, k, at);
    *out = (up - down) / (2 * step);
    return FL_OK;
}

static fl_status numeric(fl_op_trial *t, fl_tensor *x, int64_t k, double *out)
{
    double size = fabs(fl_value_at(x, k)), wide, narrow;
    double step = NUMERIC_STEP * (size > 1 ? size : 1);

    FL_TRY(difference(t, x, k, step, &wide));
    FL_TRY(difference(t, x, k, step / 2, &narrow));
    *out = (4 * narrow - wide) / 3;
    return FL_OK;
}

static fl_status check_input(fl_op_trial *t, fl_tensor *x, const fl_tensor *dx)
{
    int64_t n = fl_tensor_numel(x), stride = n / NUMERIC_MAX + 1;
    double *got = fl_densified(dx, &x->shape);
    fl_status st = FL_OK;

    for (int64_t k = 0; k < n && !st; k += stride) {
        double want;

        st = numeric(t, x, k, &want);
        if (!st && !(error_of(got[k], want) <= GRADIENT_ERROR))
            st = fl_err_set(FL_ERR_INVAL,
                            "element %" PRId64
                            " is %.9g, central differences give %.9g",
                            k, got[k], want);
    }
    fl_free(got);
    return st;
}

static fl_status check_gradient_of(fl_op_trial *t)
{
    fl_status st = FL_OK;
    pair p;

    if (!t->grad_node || t->test_case->flags & FL_CASE_NO_SLOPE)
        return FL_OK;
    FL_TRY(pair_run(t, &(fl_how){ 0 }, &(fl_how){ 0 }, &p));
    for (int s = 0; s < fl_op_n_in(t->op); s++)
        for (int i = 0; i < t->in[s].n && !st; i++)
            if (fl_op_trial_wants(t, s, i))
                st = fl_err_ctx(
                    check_input(t, t->in[s].t[i], p.backward.out[s].t[i]),
                    "%s@GRAD[%d]", t->op->in[s].name, i);
    pair_release(&p);
    return st;
}

fl_status fl_check_gradient(const fl_op *op, size_t index)
{
    return with_trial(op, index, FL_DTYPE_F64, check_gradient_of);
}

/* --- f32 against f64 ------------------------------------------------------ */

static fl_status compare_types(fl_op_trial *a, fl_op_trial *b)
{
    bool is_rounded = a->test_case->flags & FL_CASE_ROUNDED;
    pair pa, pb;
    fl_status st;

    FL_TRY(pair_run(a, &(fl_how){ 0 }, &(fl_how){ 0 }, &pa));
    st = pair_run(b, &(fl_how){ 0 }, &(fl_how){ 0 }, &pb);
    if (!st) {
        st = compare_pairs(a, &pa, &pb,
                           is_rounded ? compare_rounded : compare_values);
        pair_release(&pb);
    }
    pair_release(&pa);
    return st;
}

fl_status fl_check_precision(const fl_op *op, size_t index)
{
    fl_op_trial a, b;
    fl_status st;

    FL_TRY(fl_op_trial_init(&a, op, index, FL_DTYPE_F32, FL_BUILD_KNOWN));
    st = fl_op_trial_init(&b, op, index, FL_DTYPE_F64, FL_BUILD_KNOWN);
    if (!st) {
        st = compare_types(&a, &b);
        fl_op_trial_release(&b);
    }
    fl_op_trial_release(&a);
    return st;
}

/* --- the same bits, whatever the way -------------------------------------- */

static fl_status check_shares_of(fl_op_trial *t)
{
    static const int counts[] = { 2, 3, 7 };

    if (!(t->op->flags & FL_OP_SLICED))
        return FL_OK;
    for (size_t i = 0; i < FL_LEN(counts); i++)
        FL_TRY(fl_err_ctx(
            same_both_ways(t, &(fl_how){ 0 }, &(fl_how){ .nth = counts[i] }),
            "%d shares", counts[i]));
    return FL_OK;
}

fl_status fl_check_shares(const fl_op *op, size_t index)
{
    return in_both_types(op, index, check_shares_of);
}

static fl_status check_in_place_of(fl_op_trial *t)
{
    FL_TRY(fl_err_ctx(
        same_both_ways(t, &(fl_how){ 0 }, &(fl_how){ .apart = true }),
        "state in place or apart"));
    if (t->op->flags & FL_OP_OVER_OUT)
        FL_TRY(fl_err_ctx(
            same_both_ways(t, &(fl_how){ 0 }, &(fl_how){ .over_out = true }),
            "over its output or not"));
    if (!(t->op->flags & FL_OP_INPLACE))
        return FL_OK;
    return fl_err_ctx(
        same_both_ways(t, &(fl_how){ 0 }, &(fl_how){ .in_place = true }),
        "in place or not");
}

fl_status fl_check_in_place(const fl_op *op, size_t index)
{
    return in_both_types(op, index, check_in_place_of);
}

static bool keeps_outputs(const fl_op *op)
{
    for (int s = 0; s < fl_op_n_out(op); s++)
        if (op->out[s].flags & FL_OP_SLOT_STATE)
            return true;
    return false;
}

/* An output that may keep what it holds depends on it. */
static fl_status check_written_of(fl_op_trial *t)
{
    if (keeps_outputs(t->op))
        return FL_OK;
    return fl_err_ctx(
        same_both_ways(t, &(fl_how){ .dirt = 0 }, &(fl_how){ .dirt = 0xff }),
        "over zeros or over dirt");
}

fl_status fl_check_written(const fl_op *op, size_t index)
{
    return in_both_types(op, index, check_written_of);
}

/* --- part of the gradients ------------------------------------------------ */

/* Two backward runs after one forward run. */
static fl_status compare_backward(fl_op_trial *t, const fl_how *one,
                                  const fl_how *other, compare_fn compare)
{
    fl_op_call forward, a, b;
    fl_status st;

    FL_TRY(fl_op_trial_forward(t, &(fl_how){ 0 }, &forward));
    st = fl_op_trial_backward(t, &forward, one, &a);
    if (!st) {
        st = fl_op_trial_backward(t, &forward, other, &b);
        if (!st) {
            st = compare_calls(t->grad_node, &a, &b, compare);
            fl_op_call_release(&b);
        }
        fl_op_call_release(&a);
    }
    fl_op_call_release(&forward);
    return st;
}

static fl_status check_uses_of(fl_op_trial *t)
{
    if (!t->grad_node)
        return FL_OK;
    return fl_err_ctx(compare_backward(t, &(fl_how){ 0 },
                                       &(fl_how){ .blind = true },
                                       compare_bits),
                      "back reads what back_uses does not name");
}

fl_status fl_check_uses(const fl_op *op, size_t index)
{
    return in_both_types(op, index, check_uses_of);
}

/* With one wanted input or one given output nothing can be left out: the
   operator would not be there. */
static fl_status check_parts_of(fl_op_trial *t)
{
    int n_in = fl_op_trial_n_wanted(t), n_out = fl_op_trial_n_given(t);

    for (int i = 1; t->grad_node && n_in > 1 && i <= n_in; i++)
        FL_TRY(fl_err_ctx(compare_backward(t, &(fl_how){ 0 },
                                           &(fl_how){ .only_in = i },
                                           compare_bits),
                          "only gradient %d is wanted", i));
    for (int i = 1; t->grad_node && n_out > 1 && i <= n_out; i++)
        FL_TRY(fl_err_ctx(
            compare_backward(t, &(fl_how){ .only_out = i, .zero_other = true },
                             &(fl_how){ .only_out = i }, compare_values),
            "only gradient %d came", i));
    return FL_OK;
}

fl_status fl_check_parts(const fl_op *op, size_t index)
{
    return in_both_types(op, index, check_parts_of);
}

/* --- without memory ------------------------------------------------------- */

/* One run in which allocation `k` fails, if the run makes so many. */
static fl_status run_failing(fl_op_trial *t, const fl_op_call *forward,
                             uint64_t k)
{
    fl_how h = { .fail = k };
    fl_status st;
    fl_op_call c;

    st = forward ? fl_op_trial_backward(t, forward, &h, &c)
                 : fl_op_trial_forward(t, &h, &c);
    if (!st)
        fl_op_call_release(&c);
    if (st && st != FL_ERR_NOMEM)
        return fl_err_ctx(st, "allocation %" PRIu64 " fails, status %s", k,
                          fl_status_text(st));
    return FL_OK;
}

/* Each time the operator starts anew, with nothing kept from the run before. */
static fl_status fail_one_by_one(fl_op_trial *t, const fl_op_call *forward)
{
    size_t bytes;
    uint64_t k = 0;

    fl_op_trial_forget(t);
    bytes = fl_data_bytes();
    do {
        FL_TRY(run_failing(t, forward, ++k));
        fl_op_trial_forget(t);
        if (fl_data_bytes() != bytes)
            FL_FAIL(FL_ERR_INVAL,
                    "allocation %" PRIu64 " fails: %zu bytes are lost", k,
                    fl_data_bytes() - bytes);
    } while (k <= t->n_allocs);
    return FL_OK;
}

static fl_status check_no_memory_of(fl_op_trial *t)
{
    fl_op_call forward;
    fl_status st;

    FL_TRY(fail_one_by_one(t, NULL));
    if (!t->grad_node)
        return FL_OK;
    FL_TRY(fl_op_trial_forward(t, &(fl_how){ 0 }, &forward));
    st = fail_one_by_one(t, &forward);
    fl_op_call_release(&forward);
    return fl_err_ctx(st, "gradient");
}

fl_status fl_check_no_memory(const fl_op *op, size_t index)
{
    return with_trial(op, index, FL_DTYPE_F32, check_no_memory_of);
}

/* --- the descriptor ------------------------------------------------------- */

fl_status fl_check_doc(const fl_op *op, size_t index)
{
    (void)index;
    if (!op->doc || !*op->doc)
        FL_FAIL(FL_ERR_INVAL, "there is no doc");
    return FL_OK;
}

/* What the cases of an operator feed it. */
typedef struct feed_kinds {
    bool any_batch, any_empty, any_gradient;
} feed_kinds;

static void look_at(const fl_op_trial *t, feed_kinds *k)
{
    k->any_gradient = k->any_gradient || t->grad_node;
    for (int s = 0; s < fl_op_n_in(t->op); s++)
        for (int i = 0; i < t->in[s].n; i++) {
            int64_t n = fl_tensor_numel(t->in[s].t[i]);
            bool is_batch = !(t->op->in[s].flags & FL_OP_SLOT_VALUE);

            k->any_batch = k->any_batch || (is_batch && n > 1);
            k->any_empty = k->any_empty || (is_batch && n == 0);
        }
}

/* An operator whose inputs are all single numbers, or stand for attributes, has
   no batch. */
fl_status fl_check_cases(const fl_op *op, size_t index)
{
    feed_kinds k = { 0 };
    fl_op_trial t;

    (void)index;
    if (!op->n_cases)
        FL_FAIL(FL_ERR_INVAL, "there are no cases");
    for (size_t i = 0; i < op->n_cases; i++) {
        FL_TRY(fl_err_ctx(
            fl_op_trial_init(&t, op, i, FL_DTYPE_F32, FL_BUILD_KNOWN),
            "case %zu", i));
        look_at(&t, &k);
        fl_op_trial_release(&t);
    }
    if (k.any_batch && !k.any_empty)
        FL_FAIL(FL_ERR_INVAL, "no case has an empty batch");
    if (op->back && !k.any_gradient)
        FL_FAIL(FL_ERR_INVAL, "no case asks for a gradient");
    return FL_OK;
}
