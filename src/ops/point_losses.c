/* point_losses.c - losses that look at one place at a time: each input has a
 * number there, and so has the loss.
 *
 * A row of the list below is the mathematics of one operator. a, b and c stand
 * for the numbers of its inputs in the order of its slots, s for its only
 * attribute; <tgmath.h> turns log into logf where they are floats. At a corner
 * the gradient is 0.
 */
#include <tgmath.h>

#include "ops/helpers.h"

enum { INPUTS_MAX = 3 };

/* What a share of one call works on. An input that the operator has not is
   read as the first one. */
typedef struct places {
    const void *in[INPUTS_MAX];
    void *out, *side; /* side: the by-product, or NULL */
    const void *g;
    void *din[INPUTS_MAX];
    double setting;
    fl_span span;
} places;

typedef void (*places_fn)(const places *p);

/* Where a loss wants labels: in [lo, hi] of one of its inputs. */
typedef struct label_range {
    int slot;
    double lo, hi;
} label_range;

/* The margin that is missing, for the losses that are 0 or above. */
#define HINGE (1 - a * (2 * b - 1))
#define RANKED (c * (b - a) + s)

/* How far a prediction is on the side of its label. */
#define SIDE_OF_LABEL (a * (2 * b - 1))

/* log(1 + exp(x)) that never overflows. */
#define SOFTPLUS(x) ((x) > 0 ? (x) + log1p(exp(-(x))) : log1p(exp(x)))

/* The logarithm of what may be 0. */
#define SAFE_LOG(x) fmax(log(x), -100)

#define CUT(x, to) ((x) > (to) ? (to) : (x) < -(to) ? -(to) : (x))

/* name, value, by-product, gradients of a, b and c over that of the value */
#define LOSS_LIST(L)                                                           \
    L(log_loss, -b *log(a + s) - (1 - b) * log(1 - a + s), 0,                  \
      (1 - b) / (1 - a + s) - b / (a + s), 0, 0)                               \
    L(bce_loss, (b - 1) * SAFE_LOG(1 - a) - b * SAFE_LOG(a), 0,                \
      (a - b) / fmax((1 - a) * a, 1e-12f), 0, 0)                               \
    L(hinge_loss, HINGE > 0 ? HINGE : 0, 0, HINGE > 0 ? 1 - 2 * b : 0, 0, 0)   \
    L(huber_loss,                                                              \
      fabs(b - a) <= s ? (b - a) * (b - a) / 2 : s * (fabs(b - a) - s / 2),    \
      b - a, -CUT(b - a, s), CUT(b - a, s), 0)                                 \
    L(modified_huber_loss,                                                     \
      SIDE_OF_LABEL < -1  ? -4 * SIDE_OF_LABEL                                 \
      : SIDE_OF_LABEL < 1 ? (1 - SIDE_OF_LABEL) * (1 - SIDE_OF_LABEL)          \
                          : 0,                                                 \
      SIDE_OF_LABEL,                                                           \
      (SIDE_OF_LABEL < -1  ? -4                                                \
       : SIDE_OF_LABEL < 1 ? -2 * (1 - SIDE_OF_LABEL)                          \
                           : 0) *                                              \
          (2 * b - 1),                                                         \
      0, 0)                                                                    \
    L(margin_rank_loss, RANKED > 0 ? RANKED : 0, RANKED > 0,                   \
      RANKED > 0 ? -c : 0, RANKED > 0 ? c : 0, 0)                              \
    L(rank_loss, SOFTPLUS(b - c) - a * (b - c), 0, 0,                          \
      1 / (1 + exp(c - b)) - a, a - 1 / (1 + exp(c - b)))

#define READ_PLACE(T, i)                                                       \
    const T a = x[i], b = y[i], c = z[i];                                      \
                                                                               \
    (void)b, (void)c

#define READ_INPUTS(T)                                                         \
    const T *x = p->in[0], *y = p->in[1], *z = p->in[2];                       \
    const T s = (T)p->setting;                                                 \
                                                                               \
    (void)s

#define KERNELS(T, t, name, VALUE, SIDE, D0, D1, D2)                           \
    static void name##_forward_##t(const places *p)                            \
    {                                                                          \
        T *out = p->out, *side = p->side;                                      \
        READ_INPUTS(T);                                                        \
                                                                               \
        for (size_t i = p->span.lo; i < p->span.hi; i++) {                     \
            READ_PLACE(T, i);                                                  \
                                                                               \
            out[i] = VALUE;                                                    \
            if (side)                                                          \
                side[i] = SIDE;                                                \
        }                                                                      \
    }                                                                          \
    static void name##_backward_##t(const places *p)                           \
    {                                                                          \
        T *dx = p->din[0], *dy = p->din[1], *dz = p->din[2];                   \
        const T *g = p->g;                                                     \
        READ_INPUTS(T);                                                        \
                                                                               \
        for (size_t i = p->span.lo; i < p->span.hi; i++) {                     \
            READ_PLACE(T, i);                                                  \
                                                                               \
            if (dx)                                                            \
                dx[i] = g[i] * (D0);                                           \
            if (dy)                                                            \
                dy[i] = g[i] * (D1);                                           \
            if (dz)                                                            \
                dz[i] = g[i] * (D2);                                           \
        }                                                                      \
    }

#define ROW(name, ...)                                                         \
    KERNELS(float, f32, name, __VA_ARGS__)                                     \
    KERNELS(double, f64, name, __VA_ARGS__)                                    \
    static const places_fn name##_forward[] = { name##_forward_f32,            \
                                                name##_forward_f64 };          \
    static const places_fn name##_backward[] = { name##_backward_f32,          \
                                                 name##_backward_f64 };
LOSS_LIST(ROW)

/* --- what they share ------------------------------------------------------ */

/* The loss is the last output, behind the by-product. */
static int loss_slot(const fl_op *op)
{
    return fl_op_n_out(op) - 1;
}

/* [n, 1] is as good as [n]. */
static fl_shape column_of(const fl_shape *s)
{
    fl_shape c = *s;

    if (c.rank == 2 && c.dim[1] == 1)
        c.rank = 1;
    return c;
}

static fl_status infer_alike(const fl_infer *c, int slot)
{
    fl_shape first = column_of(&fl_infer_in(c, 0)->shape);
    fl_shape other = column_of(&fl_infer_in(c, slot)->shape);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_same_dtype(c, 0, slot));
    if (!fl_shape_matches(&first, &other))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s and %s must have the same shape",
                c->node->def->name, fl_infer_text(c, 0, a),
                fl_infer_text(c, slot, b));
    return FL_OK;
}

static fl_status infer(fl_infer *c)
{
    const fl_op *op = c->node->def;

    for (int i = 1; i < fl_op_n_in(op); i++)
        FL_TRY(infer_alike(c, i));
    if (fl_op_n_attrs(op) && !(fl_float(c, 0) >= 0))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s=%g is not 0 or above", op->name,
                op->attrs[0].name, fl_float(c, 0));
    for (int i = 0; i < fl_op_n_out(op); i++)
        FL_TRY(fl_infer_same(c, 0, i));
    return FL_OK;
}

static fl_status check_range(const fl_op_ctx *c, const label_range *r,
                             fl_span s)
{
    const fl_tensor *t = fl_in_t(c, r->slot);

    for (size_t i = s.lo; i < s.hi; i++) {
        double v = fl_float_at(t, (int64_t)i);

        if (!(v >= r->lo && v <= r->hi))
            FL_FAIL(FL_ERR_NUMERIC, "%s: %g at place %zu is not in [%g, %g]",
                    c->node->def->in[r->slot].name, v, i, r->lo, r->hi);
    }
    return FL_OK;
}

static places places_of(const fl_op_ctx *c)
{
    const fl_op *op = c->node->def;
    places p = { .span =
                     fl_op_span(c, (size_t)fl_tensor_numel(fl_in_t(c, 0))) };

    for (int i = 0; i < INPUTS_MAX; i++)
        p.in[i] = fl_in(c, i < fl_op_n_in(op) ? i : 0);
    p.setting = fl_op_n_attrs(op) ? fl_float(c, 0) : 0;
    return p;
}

static fl_status run(fl_op_ctx *c, const places_fn f[2],
                     const label_range *labels)
{
    int loss = loss_slot(c->node->def);
    places p = places_of(c);

    if (labels)
        FL_TRY(check_range(c, labels, p.span));
    p.out = fl_out(c, loss);
    p.side = loss ? fl_out(c, 0) : NULL;
    f[fl_float_index(fl_in_t(c, 0)->dtype, c->node)](&p);
    return FL_OK;
}

static fl_status back(fl_op_ctx *c, const places_fn f[2])
{
    const fl_op *op = c->node->def;
    places p = places_of(c);

    p.g = fl_dout(c, loss_slot(op));
    for (int i = 0; i < fl_op_n_in(op); i++) {
        p.din[i] = fl_din(c, i);
        if (!p.g)
            fl_din_zero(c, i);
    }
    if (p.g)
        f[fl_float_index(fl_in_t(c, 0)->dtype, c->node)](&p);
    return FL_OK;
}

#define FUNCTIONS(name, labels)                                                \
    static fl_status name##_run(fl_op_ctx *c)                                  \
    {                                                                          \
        return run(c, name##_forward, labels);                                 \
    }                                                                          \
    static fl_status name##_back(fl_op_ctx *c)                                 \
    {                                                                          \
        return back(c, name##_backward);                                       \
    }
FUNCTIONS(log_loss, (&(label_range){ 1, 0, 1 }))
FUNCTIONS(bce_loss, (&(label_range){ 0, 0, 1 }))
FUNCTIONS(hinge_loss, (&(label_range){ 1, 0, 1 }))
FUNCTIONS(huber_loss, NULL)
FUNCTIONS(modified_huber_loss, (&(label_range){ 1, 0, 1 }))
FUNCTIONS(margin_rank_loss, (&(label_range){ 2, -1, 1 }))
FUNCTIONS(rank_loss, (&(label_range){ 0, 0, 1 }))

/* The fields that all descriptors have alike. */
#define DESCRIPTOR(op)                                                         \
    .name = #op, .flags = FL_OP_SLICED, .infer = infer, .run = op##_run,       \
    .back = op##_back, .cases = op##_cases, .n_cases = FL_LEN(op##_cases)

/* --- of a prediction and its label ---------------------------------------- */

static const fl_op_case log_loss_cases[] = {
    { .in = { "f32[6,1] below=1", "f32[6,1]" }, .flags = FL_CASE_BINARY },
    { .in = { "f32[0,1] below=1", "f32[0,1]" }, .flags = FL_CASE_BINARY },
    { .in = { "f32[33,3] below=1", "f32[33,3] below=1" },
      .attrs = "{epsilon=0.01}" },
    { .in = { "f32[5,1] lod=[0,2,2,5] below=1", "f32[5,1]" },
      .flags = FL_CASE_BINARY },
};

const fl_op fl_op_log_loss = {
    DESCRIPTOR(log_loss),
    .doc = "Loss = -Labels log(Predicted + epsilon) - (1 - Labels) "
           "log(1 - Predicted + epsilon), place by place; a label that is not "
           "in [0, 1] is an error",
    .in = { { "Predicted", 0 }, { "Labels", FL_SLOT_NO_GRAD } },
    .out = { { "Loss", 0 } },
    .attrs = { { "epsilon", FL_ATTR_FLOAT, "0.0001" } },
    .back_uses = FL_USES_IN(0) | FL_USES_IN(1),
};

static const fl_op_case bce_loss_cases[] = {
    { .in = { "f32[6,1] below=1", "f32[6,1]" }, .flags = FL_CASE_BINARY },
    { .in = { "f32[0,1] below=1", "f32[0,1]" }, .flags = FL_CASE_BINARY },
    { .in = { "f32[33,3] below=1", "f32[33,3] below=1" } },
    { .in = { "f32[5,1] lod=[0,2,2,5] below=1", "f32[5,1]" },
      .flags = FL_CASE_BINARY },
};

const fl_op fl_op_bce_loss = {
    DESCRIPTOR(bce_loss),
    .doc =
        "Out = -Label log(X) - (1 - Label) log(1 - X), place by place, where "
        "no logarithm is below -100; X that is not in [0, 1] is an error",
    .in = { { "X", 0 }, { "Label", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .back_uses = FL_USES_IN(0) | FL_USES_IN(1),
};

static const fl_op_case hinge_loss_cases[] = {
    { .in = { "f32[6,1]", "f32[6,1]" }, .flags = FL_CASE_BINARY },
    { .in = { "f32[0,1]", "f32[0,1]" }, .flags = FL_CASE_BINARY },
    { .in = { "f32[33,3]", "f32[33,3]" }, .flags = FL_CASE_BINARY },
    { .in = { "f32[5,1] lod=[0,2,2,5]", "f32[5,1]" }, .flags = FL_CASE_BINARY },
};

const fl_op fl_op_hinge_loss = {
    DESCRIPTOR(hinge_loss),
    .doc = "Loss = max(0, 1 - Logits (2 Labels - 1)), place by place; labels "
           "are 0 or 1, and one that is not in [0, 1] is an error",
    .in = { { "Logits", 0 }, { "Labels", FL_SLOT_NO_GRAD } },
    .out = { { "Loss", 0 } },
    .back_uses = FL_USES_IN(0) | FL_USES_IN(1),
};

static const fl_op_case huber_loss_cases[] = {
    { .in = { "f32[6,1]", "f32[6,1]" } },
    { .in = { "f32[0,1]", "f32[0,1]" } },
    { .in = { "f32[33,3]", "f32[33,3]" }, .attrs = "{delta=0.3}" },
    { .in = { "f32[5,1] lod=[0,2,2,5]", "f32[5,1]" } },
};

const fl_op fl_op_huber_loss = {
    DESCRIPTOR(huber_loss),
    .doc = "Residual = Y - X; Out = Residual^2 / 2 where |Residual| is at most "
           "delta, and delta (|Residual| - delta / 2) elsewhere",
    .in = { { "X", 0 }, { "Y", 0 } },
    .out = { { "Residual", FL_OP_SLOT_BYPRODUCT }, { "Out", 0 } },
    .attrs = { { "delta", FL_ATTR_FLOAT, "1" } },
    .back_uses = FL_USES_IN(0) | FL_USES_IN(1),
};

static const fl_op_case modified_huber_loss_cases[] = {
    { .in = { "f32[6,1]", "f32[6,1]" }, .flags = FL_CASE_BINARY },
    { .in = { "f32[0,1]", "f32[0,1]" }, .flags = FL_CASE_BINARY },
    { .in = { "f32[33,1]", "f32[33,1]" }, .flags = FL_CASE_BINARY },
    { .in = { "f32[5,1] lod=[0,2,2,5]", "f32[5,1]" }, .flags = FL_CASE_BINARY },
};

const fl_op fl_op_modified_huber_loss = {
    DESCRIPTOR(modified_huber_loss),
    .doc = "IntermediateVal = X (2 Y - 1); Out = -4 of it where it is below "
           "-1, (1 - IntermediateVal)^2 where it is below 1, and 0 elsewhere; "
           "labels Y are 0 or 1, and one that is not in [0, 1] is an error",
    .in = { { "X", 0 }, { "Y", FL_SLOT_NO_GRAD } },
    .out = { { "IntermediateVal", FL_OP_SLOT_BYPRODUCT }, { "Out", 0 } },
    .back_uses = FL_USES_IN(0) | FL_USES_IN(1),
};

/* --- of two scores -------------------------------------------------------- */

static const fl_op_case margin_rank_loss_cases[] = {
    { .in = { "f32[6,1]", "f32[6,1]", "f32[6,1] below=1" } },
    { .in = { "f32[0,1]", "f32[0,1]", "f32[0,1] below=1" } },
    { .in = { "f32[33,3]", "f32[33,3]", "f32[33,3] below=1" },
      .attrs = "{margin=0.8}" },
    { .in = { "f32[5,1] lod=[0,2,2,5]", "f32[5,1]", "f32[5,1]" },
      .attrs = "{margin=0.1}",
      .flags = FL_CASE_BINARY },
};

const fl_op fl_op_margin_rank_loss = {
    DESCRIPTOR(margin_rank_loss),
    .doc = "Out = max(0, margin - Label (X1 - X2)), place by place, and "
           "Activated = 1 where it is above 0; Label is 1 where X1 is to be "
           "the larger, -1 where X2 is; one that is not in [-1, 1] is an error",
    .in = { { "X1", 0 }, { "X2", 0 }, { "Label", FL_SLOT_NO_GRAD } },
    .out = { { "Activated", FL_OP_SLOT_BYPRODUCT }, { "Out", 0 } },
    .attrs = { { "margin", FL_ATTR_FLOAT, "0" } },
    .back_uses = FL_USES_IN(0) | FL_USES_IN(1) | FL_USES_IN(2),
};

static const fl_op_case rank_loss_cases[] = {
    { .in = { "f32[6,1] below=1", "f32[6,1]", "f32[6,1]" } },
    { .in = { "f32[0,1] below=1", "f32[0,1]", "f32[0,1]" } },
    { .in = { "f32[33,3] below=1", "f32[33,3]", "f32[33,3]" } },
    { .in = { "f32[5,1] lod=[0,2,2,5] below=1", "f32[5,1]", "f32[5,1]" } },
};

const fl_op fl_op_rank_loss = {
    DESCRIPTOR(rank_loss),
    .doc = "Out = log(1 + exp(Left - Right)) - Label (Left - Right), place by "
           "place; Label is 1 where Left is to be the larger, 0 where Right "
           "is, and anything between; one that is not in [0, 1] is an error",
    .in = { { "Label", FL_SLOT_NO_GRAD }, { "Left", 0 }, { "Right", 0 } },
    .out = { { "Out", 0 } },
    .back_uses = FL_USES_IN(0) | FL_USES_IN(1) | FL_USES_IN(2),
};
