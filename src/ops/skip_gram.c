/* skip_gram.c - vectors of words from the words near them.
 *
 * Row XIds[i] of X stands for word i as an input and row YIds[i] of Y for the
 * same word as a target; skip_gram_walk.h says which inputs, targets and
 * negatives meet, kernel/skip_gram.h what they do to each other.
 *
 * With step = 0 the gradient is that of the loss. With step > 0 the windows of
 * a batch are walked through in order, on copies of the rows, and each finds
 * what those before it left behind after a step of that rate, as if it were a
 * batch of its own; the gradient is the way that a row went, divided by the
 * step. So an update with the rate `step` ends where the walk did, and a batch
 * may be large without the steps of a frequent word adding up to one that is
 * too long.
 *
 * Two more forms do the same in one sweep and stand where the pass
 * opt_skip_gram puts them: fused_skip_gram gives loss and gradients,
 * skip_gram_sgd walks on the parameters themselves, which threads share.
 */
#include "kernel/rows.h"
#include "kernel/unique.h"
#include "ops/helpers.h"
#include "ops/skip_gram_walk.h"

enum { X, Y, X_IDS, Y_IDS, NOISE_IDS, LEARNING_RATE };
enum { LOSS, MEAN, X_GRAD, Y_GRAD };
enum { X_OUT = X_GRAD, Y_OUT };
enum { STEP = FL_SKIP_GRAM_ATTRS, X_IS_SPARSE, Y_IS_SPARSE };

/* --- shapes --------------------------------------------------------------- */

static fl_status check_rows(const fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *y = &fl_infer_in(c, Y)->shape;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    if (c->node->in[X].vars[0] == c->node->in[Y].vars[0])
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s is given for Y, too; a word needs a row as an input "
                "and another as a target",
                c->node->def->name, fl_infer_text(c, X, a));
    if (x->rank != 2 || y->rank != 2 ||
        (x->dim[1] >= 0 && y->dim[1] >= 0 && x->dim[1] != y->dim[1]))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s and %s must be rows of one width",
                c->node->def->name, fl_infer_text(c, X, a),
                fl_infer_text(c, Y, b));
    return FL_OK;
}

static bool same_words(const fl_tensor *a, const fl_tensor *b)
{
    int64_t n = fl_shape_numel(&a->shape), m = fl_shape_numel(&b->shape);

    return (n < 0 || m < 0 || n == m);
}

static fl_status check_ids(const fl_infer *c)
{
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_skip_gram_check_words(c, X_IDS));
    FL_TRY(fl_skip_gram_check_words(c, Y_IDS));
    FL_TRY(fl_skip_gram_check_ids(c, NOISE_IDS));
    if (!same_words(fl_infer_in(c, X_IDS), fl_infer_in(c, Y_IDS)))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s and %s must stand for the same words",
                c->node->def->name, fl_infer_text(c, X_IDS, a),
                fl_infer_text(c, Y_IDS, b));
    return FL_OK;
}

static fl_status infer_loss(fl_infer *c)
{
    fl_dtype dtype = fl_infer_in(c, X)->dtype;

    FL_TRY(fl_skip_gram_check(c));
    FL_TRY(check_rows(c));
    FL_TRY(check_ids(c));
    fl_infer_dense(c, LOSS, dtype, 1, (int64_t[]){ 1 });
    fl_infer_dense(c, MEAN, dtype, 1, (int64_t[]){ 1 });
    return FL_OK;
}

static fl_status skip_gram_infer(fl_infer *c)
{
    double step = fl_float(c, STEP);

    if (!(step >= 0 && step <= 1e30))
        FL_FAIL(FL_ERR_INVAL, "op %s: step=%g is not a rate of 0 or more",
                c->node->def->name, step);
    return infer_loss(c);
}

/* Like the rows, or rows + values with room for one row per id. */
static void infer_grad(const fl_infer *c, int in, int out, int64_t n_ids)
{
    const fl_tensor *rows = fl_infer_in(c, in);
    fl_tensor *grad = fl_infer_out(c, out);

    if (!grad)
        return;
    fl_tensor_like(grad, rows);
    if (!fl_bool(c, in == X ? X_IS_SPARSE : Y_IS_SPARSE))
        return;
    grad->kind = FL_KIND_ROWS;
    grad->height = rows->shape.dim[0] > 0 ? rows->shape.dim[0] : 0;
    grad->shape.dim[0] = c->running ? n_ids : -1;
    grad->n_lod = 0;
}

static void infer_grads(const fl_infer *c, int x_grad, int y_grad)
{
    int64_t n = fl_shape_numel(&fl_infer_in(c, X_IDS)->shape);

    infer_grad(c, X, x_grad, n);
    infer_grad(c, Y, y_grad,
               n + fl_shape_numel(&fl_infer_in(c, NOISE_IDS)->shape));
}

static fl_status skip_gram_back_infer(fl_infer *c)
{
    infer_grads(c, X, Y);
    return FL_OK;
}

static fl_status fused_infer(fl_infer *c)
{
    FL_TRY(skip_gram_infer(c));
    infer_grads(c, X_GRAD, Y_GRAD);
    return FL_OK;
}

static fl_status sgd_infer(fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(infer_loss(c));
    FL_TRY(fl_infer_float(c, LEARNING_RATE));
    if (fl_shape_numel(&fl_infer_in(c, LEARNING_RATE)->shape) != 1)
        FL_FAIL(FL_ERR_INVAL, "op skip_gram_sgd: %s must be one number",
                fl_infer_text(c, LEARNING_RATE, buf));
    fl_tensor_like(fl_infer_out(c, X_OUT), fl_infer_in(c, X));
    fl_tensor_like(fl_infer_out(c, Y_OUT), fl_infer_in(c, Y));
    return FL_OK;
}

/* --- walking -------------------------------------------------------------- */

/* Rows that are read and added to, and what it costs. */
typedef struct run {
    fl_skip_gram_walk walk;
    const void *x, *y;
    void *to_x, *to_y;
    double step;
    fl_skip_gram_loss loss;
    size_t n_pairs;
} run;

#define WALK(T, t)                                                             \
    static fl_status walk_##t(fl_op_ctx *c, run *r)                            \
    {                                                                          \
        const fl_skip_gram_##t##_table *f = fl_skip_gram_##t();                \
        fl_skip_gram_walk *w = &r->walk;                                       \
        fl_skip_gram_step now, next;                                           \
        fl_skip_gram_##t##_rows rows = {                                       \
            .x = r->x,                                                         \
            .y = r->y,                                                         \
            .to_x = r->to_x,                                                   \
            .to_y = r->to_y,                                                   \
            .dim = w->dim,                                                     \
            .step = (T)r->step,                                                \
            .room = fl_scratch(                                                \
                c, sizeof(T) * fl_skip_gram_room(w->dim,                       \
                                                 fl_skip_gram_inputs_max(w),   \
                                                 1 + (size_t)w->negatives))    \
        };                                                                     \
                                                                               \
        FL_TRY(fl_skip_gram_step_init(&now, c, w));                            \
        FL_TRY(fl_skip_gram_step_init(&next, c, w));                           \
        if (!rows.room)                                                        \
            return FL_NOMEM(c);                                                \
        memset(rows.room, 0, w->dim * sizeof(T));                              \
        for (bool more = fl_skip_gram_next(w, &now); more;) {                  \
            fl_skip_gram_step done = now;                                      \
                                                                               \
            more = fl_skip_gram_next(w, &next);                                \
            if (more)                                                          \
                f->ahead(&rows, &now.rows, &next.rows);                        \
            f->window(&rows, &now.rows, &r->loss);                             \
            r->n_pairs += now.rows.n_in;                                       \
            now = next;                                                        \
            next = done;                                                       \
        }                                                                      \
        return FL_OK;                                                          \
    }                                                                          \
    static void tell_##t(const fl_op_ctx *c, const run *r)                     \
    {                                                                          \
        double sum = fl_skip_gram_sum(&r->loss);                               \
                                                                               \
        if (fl_out_t(c, LOSS))                                                 \
            *(T *)fl_out(c, LOSS) = (T)sum;                                    \
        if (fl_out_t(c, MEAN))                                                 \
            *(T *)fl_out(c, MEAN) =                                            \
                r->n_pairs ? (T)(sum / (double)r->n_pairs) : 0;                \
    }                                                                          \
    static void gather_##t(const fl_tensor *rows, const uint64_t *keys,        \
                           size_t n, T *out)                                   \
    {                                                                          \
        size_t dim = (size_t)rows->shape.dim[1];                               \
                                                                               \
        fl_rows_##t()->gather(out, dim, rows->data, keys, n, dim);             \
    }                                                                          \
    /* As one row of rows.h, whose loop may run beside writers. */             \
    static void copy_##t(T *to, const T *from, size_t n)                       \
    {                                                                          \
        const uint64_t first = 0;                                              \
                                                                               \
        fl_rows_##t()->gather(to, n, from, &first, 1, n);                      \
    }                                                                          \
    static void way_##t(T *to, double a, const T *from, size_t n)              \
    {                                                                          \
        fl_skip_gram_##t()->difference(to, (T)a, from, to, n);                 \
    }
FL_FLOATS(WALK)

static fl_status walk(fl_op_ctx *c, run *r)
{
    return fl_in_t(c, X)->dtype == FL_DTYPE_F64 ? walk_f64(c, r)
                                                : walk_f32(c, r);
}

static fl_status check_rows_of(const fl_op_ctx *c, int slot,
                               const fl_tensor *rows)
{
    const fl_tensor *ids = fl_in_t(c, slot);

    if (fl_tensor_numel(ids) && rows->shape.dim[0] == 0)
        FL_FAIL(FL_ERR_INVAL, "%s: there are ids, and no rows for them",
                c->node->def->in[slot].name);
    /* 0 is a row: nothing is let through. */
    return fl_check_ids(ids, c->node->def->in[slot].name,
                        (uint64_t)rows->shape.dim[0], 0);
}

static fl_status begin(fl_op_ctx *c, run *r)
{
    const fl_tensor *x = fl_in_t(c, X), *y = fl_in_t(c, Y);
    const fl_tensor *words = fl_in_t(c, X_IDS), *targets = fl_in_t(c, Y_IDS);

    *r = (run){ .loss = FL_SKIP_GRAM_LOSS_ZERO, .x = x->data, .y = y->data };
    FL_TRY(fl_skip_gram_walk_init(&r->walk, c, words, fl_in_t(c, NOISE_IDS)));
    r->walk.y = fl_tensor_ids(targets);
    r->walk.dim = (size_t)x->shape.dim[1];
    FL_TRY(check_rows_of(c, X_IDS, x));
    FL_TRY(check_rows_of(c, Y_IDS, y));
    return check_rows_of(c, NOISE_IDS, y);
}

static fl_status skip_gram_run(fl_op_ctx *c)
{
    run r;

    FL_TRY(begin(c, &r));
    r.to_x = fl_in_t(c, X)->data;
    r.to_y = fl_in_t(c, Y)->data;
    FL_TRY(walk(c, &r));
    FL_BY_FLOAT(c, X, tell, c, &r);
    return FL_OK;
}

/* --- gradients ------------------------------------------------------------ */

/* One of the two arrays: the rows that the batch has, their gradient, and the
   ids as rows of these. */
typedef struct side {
    const fl_tensor *rows;
    fl_tensor *grad; /* NULL: not wanted */
    const void *from;
    void *to;
    uint64_t *index;
    size_t n_rows;
} side;

/* Makes rows of their own of the different ones among n ids. */
static fl_status pick_rows(fl_op_ctx *c, side *s, const uint64_t *ids, size_t n)
{
    size_t row_bytes =
        (size_t)s->rows->shape.dim[1] * fl_dtype_bytes(s->rows->dtype);
    fl_unique table = { .cap = 64 + 4 * n };
    uint64_t *keys = fl_scratch(c, (n + 1) * sizeof(*keys));
    uint32_t *index = fl_scratch(c, (n + 1) * sizeof(*index));
    void *from;

    table.slots = fl_scratch(c, table.cap * sizeof(*table.slots));
    s->index = fl_scratch(c, (n + 1) * sizeof(*s->index));
    if (!keys || !index || !table.slots || !s->index)
        return FL_NOMEM(c);
    FL_TRY(fl_unique_run(&table, ids, n, keys, index, &s->n_rows));
    from = fl_scratch(c, (s->n_rows + 1) * row_bytes);
    if (!from)
        return FL_NOMEM(c);
    FL_BY_DTYPE(s->rows->dtype, gather, s->rows, keys, s->n_rows, from);
    s->from = from;
    for (size_t i = 0; i < n; i++)
        s->index[i] = index[i];
    if (s->grad) {
        memcpy(s->grad->rows, keys, s->n_rows * sizeof(*keys));
        s->grad->shape.dim[0] = (int64_t)s->n_rows;
        fl_tensor_set_merged(s->grad, true);
    }
    return FL_OK;
}

static size_t side_bytes(const side *s)
{
    return s->n_rows * (size_t)s->rows->shape.dim[1] *
           fl_dtype_bytes(s->rows->dtype);
}

/* Where the walk adds: in the gradient, which begins as the rows or as 0. */
static fl_status open_side(fl_op_ctx *c, side *s, bool in_order)
{
    size_t bytes = side_bytes(s);

    s->to = s->grad ? s->grad->data : fl_scratch(c, bytes + 1);
    if (!s->to)
        return FL_NOMEM(c);
    if (bytes && in_order)
        FL_BY_DTYPE(s->rows->dtype, copy, s->to, s->from,
                    s->n_rows * (size_t)s->rows->shape.dim[1]);
    else if (bytes)
        memset(s->to, 0, bytes);
    return FL_OK;
}

static void close_side(const side *s, double scale)
{
    size_t n = s->n_rows * (size_t)s->rows->shape.dim[1];

    if (s->grad)
        FL_BY_DTYPE(s->rows->dtype, way, s->to, scale, s->from, n);
}

/* All ids of Y behind each other. */
static uint64_t *join_ids(fl_op_ctx *c, const fl_skip_gram_walk *w)
{
    size_t n = w->n_words + w->n_noise;
    uint64_t *ids = fl_scratch(c, (n + 1) * sizeof(*ids));

    if (ids && w->n_words)
        memcpy(ids, w->y, w->n_words * sizeof(*ids));
    if (ids && w->n_noise)
        memcpy(ids + w->n_words, w->noise, w->n_noise * sizeof(*ids));
    return ids;
}

/* The walk goes over rows of the batch alone. */
static fl_status pick_inputs(fl_op_ctx *c, fl_skip_gram_walk *w, side *x)
{
    FL_TRY(pick_rows(c, x, w->x, w->n_words));
    w->x = x->index;
    return FL_OK;
}

static fl_status pick_targets(fl_op_ctx *c, fl_skip_gram_walk *w, side *y)
{
    uint64_t *ids = join_ids(c, w);

    if (!ids)
        return FL_NOMEM(c);
    FL_TRY(pick_rows(c, y, ids, w->n_words + w->n_noise));
    w->y = y->index;
    w->noise = y->index + w->n_words;
    return FL_OK;
}

static side side_of(const fl_op_ctx *c, int slot, fl_tensor *grad)
{
    const fl_tensor *rows = fl_in_t(c, slot);

    return (side){ .rows = rows,
                   .grad = grad,
                   .from = rows->data,
                   .n_rows = (size_t)rows->shape.dim[0] };
}

/* Gradients times `scale`, and the loss in r. */
static fl_status gradients(fl_op_ctx *c, run *r, fl_tensor *dx, fl_tensor *dy,
                           double scale)
{
    side x = side_of(c, X, dx), y = side_of(c, Y, dy);
    double step = fl_float(c, STEP);
    bool in_order = step > 0;

    FL_TRY(begin(c, r));
    if (fl_bool(c, X_IS_SPARSE))
        FL_TRY(pick_inputs(c, &r->walk, &x));
    if (fl_bool(c, Y_IS_SPARSE))
        FL_TRY(pick_targets(c, &r->walk, &y));
    FL_TRY(open_side(c, &x, in_order));
    FL_TRY(open_side(c, &y, in_order));
    r->to_x = x.to;
    r->to_y = y.to;
    r->x = in_order ? x.to : x.from;
    r->y = in_order ? y.to : y.from;
    r->step = in_order ? step : -scale;
    FL_TRY(walk(c, r));
    if (in_order) {
        close_side(&x, scale / step);
        close_side(&y, scale / step);
    }
    return FL_OK;
}

static fl_status skip_gram_back(fl_op_ctx *c)
{
    const fl_tensor *dout = fl_dout_t(c, LOSS);
    run r;

    return gradients(c, &r, fl_din_t(c, X), fl_din_t(c, Y),
                     dout ? fl_float_at(dout, 0) : 0);
}

static fl_status fused_run(fl_op_ctx *c)
{
    run r;

    FL_TRY(gradients(c, &r, fl_out_t(c, X_GRAD), fl_out_t(c, Y_GRAD), 1));
    FL_BY_FLOAT(c, X, tell, c, &r);
    return FL_OK;
}

/* --- in place ------------------------------------------------------------- */

static fl_status sgd_run(fl_op_ctx *c)
{
    run r;

    FL_TRY(begin(c, &r));
    r.x = r.to_x = fl_carry_over(c, X, X_OUT);
    r.y = r.to_y = fl_carry_over(c, Y, Y_OUT);
    r.step = fl_float_at(fl_in_t(c, LEARNING_RATE), 0);
    FL_TRY(walk(c, &r));
    FL_BY_FLOAT(c, X, tell, c, &r);
    return FL_OK;
}

/* --- descriptors ---------------------------------------------------------- */

#define WORDS "i64[7,1] lod=[0,2,2,7] below=9", "i64[7,1] lod=[0,2,2,7] below=9"
#define LONG                                                                   \
    "i64[33,1] lod=[0,30,33] below=5", "i64[33,1] lod=[0,30,33] below=5"
#define NO_WORDS "i64[0,1] lod=[0,0] below=9", "i64[0,1] lod=[0,0] below=9"
#define ONE "i64[1,1] lod=[0,1] below=9", "i64[1,1] lod=[0,1] below=9"

static const fl_op_case skip_gram_cases[] = {
    { .in = { "f32[9,5]", "f32[9,5]", WORDS, "i64[4,1] below=9" } },
    { .in = { "f32[9,5]", "f32[9,5]", WORDS, "i64[4,1] below=9" },
      .attrs = "{x_is_sparse=false, y_is_sparse=false, seed=3}" },
    { .in = { "f32[9,37]", "f32[9,37]", WORDS, "u64[4] below=9" },
      .attrs = "{shared=true, negatives=2}" },
    { .in = { "f32[5,21]", "f32[5,21]", LONG, "i64[6,1] lod=[0,6] below=5" },
      .attrs = "{shared=true, negatives=7, window=3, "
               "y_is_sparse=false}" },
    { .in = { "f32[9,4]", "f32[9,4]", NO_WORDS, "i64[0,1] below=9" } },
    { .in = { "f32[9,4]", "f32[9,4]", ONE, "i64[0,1] below=9" } },
    { .in = { "f32[9,4]", "f32[9,4]", WORDS, "i64[0,1] below=9" },
      .attrs = "{negatives=0}" },
};

static const fl_op_case fused_cases[] = {
    { .in = { "f32[9,5]", "f32[9,5]", WORDS, "i64[4,1] below=9" } },
    { .in = { "f32[9,5]", "f32[9,5]", WORDS, "i64[4,1] below=9" },
      .attrs = "{x_is_sparse=false, step=0.1}" },
    { .in = { "f32[5,21]", "f32[5,21]", LONG, "i64[6,1] lod=[0,6] below=5" },
      .attrs = "{shared=true, negatives=7, window=3, step=0.01}" },
    { .in = { "f32[9,4]", "f32[9,4]", NO_WORDS, "i64[0,1] below=9" } },
};

/* Rows and rates in (0, 1): steps that are too long would run away. */
#define SMALL "f32[9,5] below=1", "f32[9,5] below=1"

static const fl_op_case sgd_cases[] = {
    { .in = { SMALL, WORDS, "i64[4,1] below=9", "f32[1] below=1" } },
    { .in = { SMALL, WORDS, "i64[4] below=9", "f32[1] below=1" },
      .attrs = "{shared=true, negatives=7, window=2}" },
    { .in = { SMALL, NO_WORDS, "i64[0,1] below=9", "f32[1] below=1" } },
};

#define MEETING                                                                \
    "word i is row XIds[i] of X and row YIds[i] of Y; each word meets those "  \
    "up to k before and behind it in its sentence as Y against their X, k "    \
    "drawn from 1 to window, beside so many negatives, which are drawn from "  \
    "the rows NoiseIds of Y for each such pair, or with shared for all of a "  \
    "word; Loss is the sum over all pairs of the sigmoid cross entropies, "    \
    "Mean the same by pair"

#define STEP_ATTRS                                                             \
    FL_SKIP_GRAM_ATTR_LIST, { "step", FL_ATTR_FLOAT, "0" },                    \
        { "x_is_sparse", FL_ATTR_BOOL, "true" },                               \
    {                                                                          \
        "y_is_sparse", FL_ATTR_BOOL, "true"                                    \
    }

#define ID_SLOTS                                                               \
    { "XIds", FL_SLOT_NO_GRAD }, { "YIds", FL_SLOT_NO_GRAD },                  \
    {                                                                          \
        "NoiseIds", FL_SLOT_NO_GRAD                                            \
    }

const fl_op fl_op_skip_gram = {
    .name = "skip_gram",
    .doc = MEETING
    ". With step > 0 the gradient is the way that rows go in steps of that "
    "rate, one for each pair or, with shared, each word, divided by step; "
    "x_is_sparse and y_is_sparse make gradients rows + values",
    .in = { { "X", 0 }, { "Y", 0 }, ID_SLOTS },
    .out = { { "Loss", 0 }, { "Mean", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { STEP_ATTRS },
    .infer = skip_gram_infer,
    .run = skip_gram_run,
    .back = skip_gram_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y) | FL_USES_IN(X_IDS) |
                 FL_USES_IN(Y_IDS) | FL_USES_IN(NOISE_IDS),
    .back_infer = skip_gram_back_infer,
    .cases = skip_gram_cases,
    .n_cases = FL_LEN(skip_gram_cases),
};

const fl_op fl_op_fused_skip_gram = {
    .name = "fused_skip_gram",
    .doc = "skip_gram and its gradient at once: " MEETING
           ", as the walk meets them",
    .in = { { "X", FL_SLOT_NO_GRAD }, { "Y", FL_SLOT_NO_GRAD }, ID_SLOTS },
    .out = { { "Loss", FL_OP_SLOT_BYPRODUCT },
             { "Mean", FL_OP_SLOT_BYPRODUCT },
             { "XGrad", FL_OP_SLOT_ROWS | FL_OP_SLOT_BYPRODUCT },
             { "YGrad", FL_OP_SLOT_ROWS | FL_OP_SLOT_BYPRODUCT } },
    .attrs = { STEP_ATTRS },
    .infer = fused_infer,
    .run = fused_run,
    .cases = fused_cases,
    .n_cases = FL_LEN(fused_cases),
};

const fl_op fl_op_skip_gram_sgd = {
    .name = "skip_gram_sgd",
    .doc = "skip_gram in steps of LearningRate on X and Y themselves, one for "
           "each pair or, with shared, each word: " MEETING
           ", as the walk meets them",
    .in = { { "X", FL_OP_SLOT_STATE | FL_SLOT_NO_GRAD },
            { "Y", FL_OP_SLOT_STATE | FL_SLOT_NO_GRAD },
            ID_SLOTS,
            { "LearningRate", FL_SLOT_NO_GRAD } },
    .out = { { "Loss", FL_OP_SLOT_BYPRODUCT },
             { "Mean", FL_OP_SLOT_BYPRODUCT },
             { "XOut", 0 },
             { "YOut", 0 } },
    .attrs = { FL_SKIP_GRAM_ATTR_LIST },
    .flags = FL_OP_TRAIN_ONLY | FL_OP_EACH,
    .infer = sgd_infer,
    .run = sgd_run,
    .cases = sgd_cases,
    .n_cases = FL_LEN(sgd_cases),
};
