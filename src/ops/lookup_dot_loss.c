/* lookup_dot_loss.c - pairs of rows that belong together or not.
 *
 *     z[i]    = X[XIds[i]] . Y[YIds[i]]
 *     Loss[i] = max(z, 0) - z Label[i] + log(1 + exp(-|z|))
 *
 * lookup_dot_sgd is the gradient of that and a plain step on X and Y, in the
 * place of two gradients as wide as the rows and two updates. All slopes are of
 * the rows as they were before the step, and each number is made as those
 * operators make it: the bits are the same. The pass opt_lookup_dot puts both
 * where a program has the pattern. */
#include "kernel/rows.h"
#include "kernel/vec.h"
#include "ops/helpers.h"
#include "ops/labels.h"
#include "ops/lookup_dot.h"

enum { X = FL_PAIRS_X, Y, X_IDS, Y_IDS, LABEL };
enum { LOSS, LOGIT };
enum { IGNORE_INDEX = FL_PAIRS_ATTRS };
/* Of lookup_dot_sgd. */
enum { OLD_LOGIT = LABEL + 1, LOSS_GRAD, LEARNING_RATE };
enum { X_OUT, Y_OUT };
enum { SGD_IGNORE_INDEX };

#define KERNELS(T, t)                                                          \
    static void loss_##t(const T *z, const T *label, double ignore, size_t n,  \
                         T *out)                                               \
    {                                                                          \
        fl_vec_##t()->logistic_loss(out, z, label, (T)ignore, n);              \
    }                                                                          \
    /* g = dloss times the slope; nothing came: 0 */                           \
    static void slopes_##t(T *g, const T *z, const T *label, const T *dloss,   \
                           double ignore, size_t n)                            \
    {                                                                          \
        if (dloss)                                                             \
            fl_vec_##t()->logistic_grad(g, z, label, dloss, (T)ignore, n);     \
        else                                                                   \
            memset(g, 0, n * sizeof(T));                                       \
    }                                                                          \
    static void add_##t(T *g, const T *more, size_t n)                         \
    {                                                                          \
        fl_vec_##t()->axpy(g, 1, more, n);                                     \
    }                                                                          \
    static void copy_rows_##t(T *out, const fl_pairs *p, const T *x)           \
    {                                                                          \
        fl_rows_##t()->gather(out, p->dim, x, p->x, p->n, p->dim);             \
    }                                                                          \
    /* to[rows[i]] -= lr (g[i] from[i]); `row` has room for the product */     \
    static void descend_##t(const descent *d, const fl_pairs *p, const T *g,   \
                            T *row)                                            \
    {                                                                          \
        const uint64_t first = 0;                                              \
        const T *from = d->from;                                               \
                                                                               \
        for (size_t i = 0; i < p->n; i++) {                                    \
            size_t at = (d->from_rows ? d->from_rows[i] : i) * p->dim;         \
                                                                               \
            memset(row, 0, p->dim * sizeof(T));                                \
            fl_rows_##t()->scatter_axpy(row, &first, 1, p->dim, g[i],          \
                                        from + at, p->dim);                    \
            fl_rows_##t()->scatter_axpy(d->to, d->rows + i, 1, p->dim,         \
                                        -(T)d->rate, row, p->dim);             \
        }                                                                      \
    }

/* One side goes along the rows of the other: rows[i] of `to`, from row
   from_rows[i] of `from`, or row i where that is NULL. */
typedef struct descent {
    void *to;
    const void *from;
    const uint64_t *rows, *from_rows;
    double rate;
} descent;

FL_FLOATS(KERNELS)

/* --- loss ----------------------------------------------------------------- */

/* As many numbers as pairs. */
static fl_status check_numbers(const fl_infer *c, int slot)
{
    const fl_shape *ids = &fl_infer_in(c, X_IDS)->shape;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_same_dtype(c, X, slot));
    if (!fl_shape_matches(&fl_infer_in(c, slot)->shape, ids))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must have a number for each of %s",
                c->node->def->name, fl_infer_text(c, slot, a),
                fl_infer_text(c, X_IDS, b));
    return FL_OK;
}

static fl_status loss_infer(fl_infer *c)
{
    FL_TRY(fl_pairs_infer(c, LOSS));
    FL_TRY(check_numbers(c, LABEL));
    if (fl_infer_out(c, LOGIT))
        fl_tensor_like(fl_infer_out(c, LOGIT), fl_infer_out(c, LOSS));
    return FL_OK;
}

static fl_status loss_back_infer(fl_infer *c)
{
    FL_TRY(fl_back_needs(c, LOGIT));
    fl_pairs_infer_grads(c);
    return FL_OK;
}

static void *numbers(fl_op_ctx *c, size_t n)
{
    return fl_scratch(c, (n + 1) * fl_dtype_bytes(fl_in_t(c, X)->dtype));
}

static fl_status loss_run(fl_op_ctx *c)
{
    fl_pairs p = fl_pairs_of(c);
    void *z = fl_out_t(c, LOGIT) ? fl_out(c, LOGIT) : numbers(c, p.n);

    if (!z && p.n)
        return FL_NOMEM(c);
    FL_TRY(fl_pairs_check(c));
    FL_TRY(fl_check_label_numbers(fl_in_t(c, LABEL)));
    fl_pairs_multiply(c, &p, z);
    FL_BY_FLOAT(c, X, loss, z, fl_in(c, LABEL), (double)fl_int(c, IGNORE_INDEX),
                p.n, fl_out(c, LOSS));
    return FL_OK;
}

static fl_status loss_back(fl_op_ctx *c)
{
    fl_pairs p = fl_pairs_of(c);
    void *g = numbers(c, p.n);

    if (!g)
        return FL_NOMEM(c);
    FL_BY_FLOAT(c, X, slopes, g, fl_saved_out(c, LOGIT), fl_in(c, LABEL),
                fl_dout(c, LOSS), (double)fl_int(c, IGNORE_INDEX), p.n);
    if (fl_dout_t(c, LOGIT))
        FL_BY_FLOAT(c, X, add, g, fl_dout(c, LOGIT), p.n);
    fl_pairs_back(c, p, fl_dout_t(c, LOSS) || fl_dout_t(c, LOGIT) ? g : NULL);
    return FL_OK;
}

/* --- a step --------------------------------------------------------------- */

static fl_status sgd_infer(fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_pairs_check_shapes(c));
    for (int slot = LABEL; slot <= LOSS_GRAD; slot++)
        FL_TRY(check_numbers(c, slot));
    FL_TRY(fl_infer_float(c, LEARNING_RATE));
    if (fl_shape_numel(&fl_infer_in(c, LEARNING_RATE)->shape) != 1)
        FL_FAIL(FL_ERR_INVAL, "op lookup_dot_sgd: %s must be one number",
                fl_infer_text(c, LEARNING_RATE, buf));
    if (c->node->in[X].vars[0] == c->node->in[Y].vars[0])
        FL_FAIL(FL_ERR_INVAL,
                "op lookup_dot_sgd: %s is given for Y, too; rows that meet "
                "must be of two parameters",
                fl_infer_text(c, X, buf));
    fl_tensor_like(fl_infer_out(c, X_OUT), fl_infer_in(c, X));
    fl_tensor_like(fl_infer_out(c, Y_OUT), fl_infer_in(c, Y));
    return FL_OK;
}

/* Y goes along the rows that X had before its step. */
static fl_status sgd_run(fl_op_ctx *c)
{
    fl_pairs p = fl_pairs_of(c);
    void *x = fl_carry_over(c, X, X_OUT), *y = fl_carry_over(c, Y, Y_OUT);
    void *g = numbers(c, p.n), *row = numbers(c, p.dim);
    void *old = numbers(c, p.n * p.dim);
    descent d = { .to = x, .from = y, .rows = p.x, .from_rows = p.y };

    if (!g || !row || !old)
        return FL_NOMEM(c);
    FL_TRY(fl_pairs_check(c));
    d.rate = fl_float_at(fl_in_t(c, LEARNING_RATE), 0);
    FL_BY_FLOAT(c, X, slopes, g, fl_in(c, OLD_LOGIT), fl_in(c, LABEL),
                fl_in(c, LOSS_GRAD), (double)fl_int(c, SGD_IGNORE_INDEX), p.n);
    FL_BY_FLOAT(c, X, copy_rows, old, &p, x);
    FL_BY_FLOAT(c, X, descend, &d, &p, g, row);
    d = (descent){ .to = y, .from = old, .rows = p.y, .rate = d.rate };
    FL_BY_FLOAT(c, X, descend, &d, &p, g, row);
    return FL_OK;
}

/* --- descriptors ---------------------------------------------------------- */

#define SIX "i64[6,1] below=17", "i64[6,1] below=9"
#define NONE "i64[0,1] below=17", "i64[0,1] below=9"
#define MANY "u64[33,1] below=4", "i64[33,1] below=3"

static const fl_op_case loss_cases[] = {
    { .in = { "f32[17,5]", "f32[9,5]", SIX, "f32[6,1] below=1" } },
    { .in = { "f32[17,5]", "f32[9,5]", NONE, "f32[0,1]" } },
    { .in = { "f32[4,33]", "f32[3,33]", MANY, "f32[33,1] below=1" },
      .attrs = "{x_is_sparse=true, y_is_sparse=true}" },
    { .in = { "f32[4,8]", "f32[3,8]", "i64[1,1] below=4", "i64[1,1] below=3",
              "f32[1,1] below=1" },
      .attrs = "{y_is_sparse=true, ignore_index=-1}" },
};

static const fl_op_case sgd_cases[] = {
    { .in = { "f32[17,5]", "f32[9,5]", SIX, "f32[6,1] below=1", "f32[6,1]",
              "f32[6,1]", "f32[1] below=1" } },
    { .in = { "f32[17,5]", "f32[9,5]", NONE, "f32[0,1]", "f32[0,1]", "f32[0,1]",
              "f32[1] below=1" } },
    { .in = { "f32[4,33]", "f32[3,33]", MANY, "f32[33,1] below=1", "f32[33,1]",
              "f32[33,1]", "f32[1] below=1" } },
};

const fl_op fl_op_lookup_dot_loss = {
    .name = "lookup_dot_loss",
    .doc = "Logit[i, 0] = X[XIds[i, 0], :] . Y[YIds[i, 0], :], and Loss its "
           "sigmoid cross entropy with Label, 0 where that is ignore_index; "
           "x_is_sparse and y_is_sparse make the gradients rows + values",
    .in = { { "X", 0 },
            { "Y", 0 },
            FL_PAIRS_ID_SLOTS,
            { "Label", FL_SLOT_NO_GRAD } },
    .out = { { "Loss", 0 }, { "Logit", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { FL_PAIRS_ATTR_LIST, { "ignore_index", FL_ATTR_INT, "-100" } },
    .infer = loss_infer,
    .run = loss_run,
    .back = loss_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y) | FL_USES_IN(X_IDS) |
                 FL_USES_IN(Y_IDS) | FL_USES_IN(LABEL) | FL_USES_OUT(LOGIT),
    .back_infer = loss_back_infer,
    .cases = loss_cases,
    .n_cases = FL_LEN(loss_cases),
};

const fl_op fl_op_lookup_dot_sgd = {
    .name = "lookup_dot_sgd",
    .doc = "the gradient of lookup_dot_loss, of which Logit is kept and "
           "LossGrad comes back, and a plain step of LearningRate on X and Y: "
           "with g = LossGrad (sigmoid(Logit) - Label) XOut[XIds[i]] loses "
           "LearningRate g[i] Y[YIds[i]], and YOut[YIds[i]] loses LearningRate "
           "g[i] X[XIds[i]]",
    .in = { { "X", FL_OP_SLOT_STATE | FL_SLOT_NO_GRAD },
            { "Y", FL_OP_SLOT_STATE | FL_SLOT_NO_GRAD },
            FL_PAIRS_ID_SLOTS,
            { "Label", FL_SLOT_NO_GRAD },
            { "Logit", FL_SLOT_NO_GRAD },
            { "LossGrad", FL_SLOT_NO_GRAD },
            { "LearningRate", FL_SLOT_NO_GRAD } },
    .out = { { "XOut", 0 }, { "YOut", 0 } },
    .attrs = { { "ignore_index", FL_ATTR_INT, "-100" } },
    .flags = FL_OP_TRAIN_ONLY | FL_OP_EACH,
    .infer = sgd_infer,
    .run = sgd_run,
    .cases = sgd_cases,
    .n_cases = FL_LEN(sgd_cases),
};
