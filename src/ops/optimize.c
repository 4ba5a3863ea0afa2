/* optimize.c - what the operators of the update rules run (optimize_ops.c has
 * their slots).
 *
 * A gradient of rows + values updates the rows it names; rows that are absent
 * count as gradient zero. Where a zero gradient changes something (momentum
 * keeps moving), every row is updated, unless lazy_mode asks for the rows that
 * are present alone. A rule that needs the whole parameter gets the gradient
 * with zeros in place of absent rows.
 *
 * The operators are not sliced: a scalar such as a power of beta is advanced
 * once per step, after every weight has used it, and shares of one operator
 * have no order among them.
 *
 * Hogwild threads run these on shared weights. All loops over weights are in
 * functions marked FL_RACY here, in optim/ and in kernel/rows.
 */
#include "ops/optimize.h"

#include <inttypes.h>

#include "base/thread.h"
#include "kernel/rows.h"
#include "ops/rows.h"
#include "ops/values.h"

enum { PARAM = FL_UPDATE_PARAM, GRAD, RATE, STATE };

/* Rows that the loops over rows ask for ahead of their use, and how many bytes
   of each. */
#define AHEAD 24
#define AHEAD_BYTES 256
#define LINE_BYTES 64

/* Of a dense parameter so many weights are updated together, and those two such
   strips ahead are asked for. */
#define STRIP 128
#define STRIPS_AHEAD 2

/* --- shapes --------------------------------------------------------------- */

/* Like fl_infer_text, for entry i of a list. */
static const char *arg_text(const fl_infer *c, int slot, int i,
                            char buf[FL_SLOT_TEXT_MAX])
{
    const fl_tensor *t = fl_infer_in_at(c, slot, i);
    char shape[FL_SHAPE_TEXT_MAX];

    snprintf(buf, FL_SLOT_TEXT_MAX, "%s (%.100s: %s%s%s)",
             c->node->def->in[slot].name, c->node->in[slot].vars[i]->name,
             fl_dtype_text(t->dtype), fl_shape_text(&t->shape, shape),
             t->kind == FL_KIND_ROWS ? " rows" : "");
    return buf;
}

static fl_status mismatch(const fl_infer *c, int slot, int i)
{
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_FAIL(FL_ERR_INVAL, "op %s: %s does not fit %s", c->node->def->name,
            arg_text(c, slot, i, a), arg_text(c, PARAM, i, b));
}

/* Rows + values have the parameter's dimensions, except for the first. */
static bool shapes_fit(const fl_tensor *param, const fl_tensor *t)
{
    fl_shape s = t->shape;

    if (t->kind == FL_KIND_ROWS && s.rank > 0)
        s.dim[0] = -1;
    return fl_shape_matches(&param->shape, &s);
}

/* A scalar belongs to the parameter but has one element. */
static fl_status check_arg(const fl_infer *c, int slot, int i, bool is_scalar)
{
    const fl_tensor *param = fl_infer_in_at(c, PARAM, i);
    const fl_tensor *t = fl_infer_in_at(c, slot, i);
    char buf[FL_SLOT_TEXT_MAX];

    if (t->dtype != param->dtype)
        return mismatch(c, slot, i);
    if (!is_scalar)
        return shapes_fit(param, t) ? FL_OK : mismatch(c, slot, i);
    if (fl_shape_numel(&t->shape) != 1)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must have one element",
                c->node->def->name, arg_text(c, slot, i, buf));
    return FL_OK;
}

static fl_status check_count(const fl_infer *c, const char *slot, int n)
{
    int n_params = fl_infer_n_in(c, PARAM);

    if (n != n_params)
        FL_FAIL(FL_ERR_INVAL, "op %s: slot %s has %d variables, Param has %d",
                c->node->def->name, slot, n, n_params);
    return FL_OK;
}

static fl_status check_params(const fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX];

    for (int i = 0; i < fl_infer_n_in(c, PARAM); i++)
        if (!fl_dtype_is_float(fl_infer_in_at(c, PARAM, i)->dtype))
            FL_FAIL(FL_ERR_TYPE, "op %s: %s must be f32 or f64",
                    c->node->def->name, arg_text(c, PARAM, i, buf));
    return FL_OK;
}

static fl_status check_rate(const fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX];

    if (!fl_infer_n_in(c, RATE))
        return FL_OK; /* of a rule that makes its own */
    FL_TRY(fl_infer_float(c, RATE));
    if (fl_shape_numel(&fl_infer_in(c, RATE)->shape) != 1)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must have one element",
                c->node->def->name, fl_infer_text(c, RATE, buf));
    return FL_OK;
}

/* Attributes are checked where they are read, also those of a text. */
static fl_status check_settings(const fl_infer *c, const fl_rule **rule)
{
    fl_update u;

    FL_ASSERT(fl_node_update(c->node, &u));
    *rule = u.rule;
    return fl_err_ctx(fl_rule_check(u.rule, u.p), "op %s", u.rule->name);
}

/* One list of inputs, and the outputs with their new values. A scalar without
   an output is somebody else's to advance. */
static fl_status infer_state(const fl_infer *c, int in, int out, bool is_scalar)
{
    const fl_op *op = c->node->def;
    int n = fl_infer_n_in(c, in), n_out = fl_infer_n_out(c, out);

    FL_TRY(check_count(c, op->in[in].name, n));
    if (!is_scalar || n_out)
        FL_TRY(check_count(c, op->out[out].name, n_out));
    for (int i = 0; i < n; i++) {
        FL_TRY(check_arg(c, in, i, is_scalar));
        if (n_out)
            fl_tensor_like(fl_infer_out_at(c, out, i),
                           fl_infer_in_at(c, in, i));
    }
    return FL_OK;
}

static bool is_table(const fl_infer *c)
{
    return c->node->in[PARAM].vars[0]->flags & FL_VAR_TABLE;
}

/* The slot of a setting; -1: it is an attribute only. */
static int setting_slot(const fl_op *op, const fl_rule *rule, int i)
{
    const char *slot = rule->params[i].slot;

    return slot ? fl_op_find_in(op, slot) : -1;
}

/* A table has the state with its rows, and shows none of it. */
static fl_status refuse_state(const fl_infer *c, const fl_rule *rule)
{
    const fl_op *op = c->node->def;
    const char *table = c->node->in[PARAM].vars[0]->name;

    for (int i = 0; i < fl_rule_n_params(rule); i++)
        if (setting_slot(op, rule, i) >= 0 &&
            fl_infer_n_in(c, setting_slot(op, rule, i)))
            FL_FAIL(FL_ERR_INVAL,
                    "op %s: %s is a table, whose %s is the same in all steps; "
                    "say it as an attribute and leave %s out",
                    op->name, table, rule->params[i].name,
                    rule->params[i].slot);
    for (int s = STATE; s < fl_op_n_in(op); s++)
        if (fl_infer_n_in(c, s))
            FL_FAIL(FL_ERR_INVAL,
                    "op %s: %s is a table, which keeps %s with its rows; leave "
                    "the slot out",
                    op->name, table, op->in[s].name);
    return FL_OK;
}

/* The update then gets NULL for it, and does not look. */
static bool is_left_out(const fl_op_node *n, const fl_rule *rule, int k)
{
    int with = k < fl_rule_n_states(rule) ? rule->states[k].with : 0;
    fl_update u;

    return with && !n->in[STATE + k].n && fl_node_update(n, &u) &&
           u.p[with - 1] == 0;
}

static fl_status check_setting_slots(const fl_infer *c, const fl_rule *rule)
{
    for (int i = 0; i < fl_rule_n_params(rule); i++)
        if (setting_slot(c->node->def, rule, i) >= 0)
            FL_TRY(fl_infer_number(c, setting_slot(c->node->def, rule, i)));
    return FL_OK;
}

fl_status fl_update_infer(fl_infer *c)
{
    const fl_rule *rule;
    int n_states;

    FL_TRY(check_settings(c, &rule));
    FL_TRY(check_rate(c));
    FL_TRY(check_params(c));
    FL_TRY(infer_state(c, PARAM, 0, false));
    FL_TRY(check_count(c, "Grad", fl_infer_n_in(c, GRAD)));
    for (int i = 0; i < fl_infer_n_in(c, GRAD); i++)
        FL_TRY(check_arg(c, GRAD, i, false));
    FL_TRY(check_setting_slots(c, rule));
    if (is_table(c))
        return refuse_state(c, rule);
    n_states = fl_rule_n_states(rule);
    for (int k = 0; k < n_states + fl_rule_n_scalars(rule); k++)
        if (!is_left_out(c->node, rule, k))
            FL_TRY(infer_state(c, STATE + k, 1 + k, k >= n_states));
    return FL_OK;
}

/* --- what stays the same from step to step -------------------------------- */

typedef struct plan {
    const fl_rule *rule;
    fl_hyper hyper; /* settings filled in */
    int n_states, n_scalars;
    int seed;          /* place of that setting; -1: it draws nothing */
    bool present_only; /* absent rows are left alone */
    int slots[FL_RULE_PARAM_MAX]; /* that give a setting; -1: none does */
} plan;

static void make_plan(plan *p, const fl_op_node *n)
{
    int lazy = fl_op_find_attr(n->def, FL_LAZY_MODE);
    fl_update u;

    FL_ASSERT(fl_node_update(n, &u));
    p->rule = u.rule;
    p->n_states = fl_rule_n_states(p->rule);
    p->n_scalars = fl_rule_n_scalars(p->rule);
    p->seed = fl_rule_find_param(p->rule, FL_RULE_SEED);
    memcpy(p->hyper.p, u.p, sizeof(u.p));
    for (int i = 0; i < FL_RULE_PARAM_MAX; i++) {
        int slot =
            i < fl_rule_n_params(u.rule) ? setting_slot(n->def, u.rule, i) : -1;

        p->slots[i] = slot >= 0 && n->in[slot].n ? slot : -1;
    }
    p->present_only =
        p->rule->zero_is_noop || (lazy >= 0 && fl_attr_bool(n, lazy));
}

static const plan *plan_of(fl_op_ctx *c)
{
    plan *p = fl_op_keep(c, sizeof(*p), NULL);

    if (!p->rule)
        make_plan(p, c->node);
    return p;
}

/* --- one parameter -------------------------------------------------------- */

/* What the update of one parameter touches. */
typedef struct job {
    const plan *plan;
    fl_hyper h;
    fl_dtype dtype;
    void *w, *state[FL_RULE_STATE_MAX];
    size_t dim;  /* weights of one row */
    int replica; /* or hogwild thread */
} job;

/* The powers of a parameter are shared by hogwild threads, like its weights. */
FL_RACY
static double scalar_get(const fl_tensor *t)
{
    return t->dtype == FL_DTYPE_F64 ? *(const double *)t->data
                                    : (double)*(const float *)t->data;
}

FL_RACY
static void scalar_set(fl_tensor *t, double v)
{
    if (t->dtype == FL_DTYPE_F64)
        *(double *)t->data = v;
    else
        *(float *)t->data = (float)v;
}

/* Each line of [at, at + bytes), the last one too when it starts in the middle
   of one. */
static void ask_lines(const void *base, size_t at, size_t bytes)
{
    const char *p = (const char *)base + at, *end = p + bytes;

    for (p -= (uintptr_t)p % LINE_BYTES; p < end; p += LINE_BYTES)
        __builtin_prefetch(p, 1);
}

/* Weights [at, at + n) and their state. */
static void ask(const job *j, size_t at, size_t n)
{
    size_t size = fl_dtype_bytes(j->dtype);

    ask_lines(j->w, at * size, n * size);
    for (int k = 0; k < j->plan->n_states; k++)
        if (j->state[k])
            ask_lines(j->state[k], at * size, n * size);
}

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

/* Hogwild threads that come at one time begin at places far from each other (the
   golden ratio spreads any number of them), so that none waits for lines that
   another one is writing. */
static size_t first_strip(int replica, size_t n_strips)
{
    uint32_t part = (uint32_t)replica * 0x9e3779b9u;

    return (size_t)((uint64_t)part * n_strips >> 32);
}

static void ask_row(const job *j, size_t row)
{
    ask(j, row * j->dim, least(j->dim, AHEAD_BYTES / fl_dtype_bytes(j->dtype)));
}

#define UPDATES(T, t)                                                            \
    static void update_##t(const job *j, size_t at, size_t n, const T *g)        \
    {                                                                            \
        T *state[FL_RULE_STATE_MAX] = { 0 };                                     \
                                                                                 \
        for (int k = 0; k < j->plan->n_states; k++)                              \
            state[k] = j->state[k] ? (T *)j->state[k] + at : NULL;               \
        j->plan->rule->update_##t((T *)j->w + at, state, g, n, &j->h);           \
    }                                                                            \
    static void update_row_##t(const job *j, size_t row, const T *g)             \
    {                                                                            \
        update_##t(j, row * j->dim, j->dim, g);                                  \
    }                                                                            \
    static void update_strips_##t(const job *j, size_t n, const T *g)            \
    {                                                                            \
        size_t n_strips = (n + STRIP - 1) / STRIP;                               \
        size_t i = first_strip(j->replica, n_strips);                            \
                                                                                 \
        for (size_t k = 0; k < n_strips; k++, i = (i + 1) % n_strips) {          \
            size_t at = i * STRIP;                                               \
                                                                                 \
            if (i + STRIPS_AHEAD < n / STRIP)                                    \
                ask(j, at + STRIPS_AHEAD * STRIP, STRIP);                        \
            update_##t(j, at, least(n - at, STRIP), g + at);                     \
        }                                                                        \
    }                                                                            \
    static void update_present_##t(const job *j, const fl_tensor *g)             \
    {                                                                            \
        const T *values = g->data;                                               \
        size_t n = (size_t)g->shape.dim[0];                                      \
                                                                                 \
        for (size_t i = 0; i < n; i++) {                                         \
            if (i + AHEAD < n)                                                   \
                ask_row(j, g->rows[i + AHEAD]);                                  \
            update_row_##t(j, g->rows[i], values + i * j->dim);                  \
        }                                                                        \
    }                                                                            \
    /* place[row] is 1 + the place of that row in g, or 0 for zeros. */          \
    static void update_every_##t(const job *j, const fl_tensor *g,               \
                                 const uint32_t *place, size_t n_rows,           \
                                 const T *zeros)                                 \
    {                                                                            \
        const T *values = g->data;                                               \
                                                                                 \
        for (size_t row = 0; row < n_rows; row++)                                \
            update_row_##t(j, row,                                               \
                           place[row] ? values + (place[row] - 1) * j->dim       \
                                      : zeros);                                  \
    }                                                                            \
    /* Without state the step is linear in the gradient: rows that occur twice \
       need no merging. */ \
    static void scatter_##t(const job *j, const fl_tensor *g)                    \
    {                                                                            \
        fl_rows_##t()->scatter_axpy(j->w, g->rows, (size_t)g->shape.dim[0],      \
                                    j->dim, -(T)j->h.lr, g->data, j->dim);       \
    }                                                                            \
    static void add_rows_##t(T *to, const fl_tensor *g, size_t dim)              \
    {                                                                            \
        fl_rows_##t()->scatter_axpy(to, g->rows, (size_t)g->shape.dim[0], dim,   \
                                    1, g->data, dim);                            \
    }                                                                            \
    /* As one row of rows.h, whose loop may run beside writers. */               \
    static void copy_##t(T *to, const T *from, size_t n)                         \
    {                                                                            \
        const uint64_t first = 0;                                                \
                                                                                 \
        fl_rows_##t()->gather(to, n, from, &first, 1, n);                        \
    }
FL_FLOATS(UPDATES)

/* The new value lies where the old one lay, unless they are different
   variables. */
static void carry_over(fl_tensor *to, const fl_tensor *from)
{
    size_t n = (size_t)fl_tensor_numel(from);

    if (to->data != from->data && n)
        FL_BY_DTYPE(to->dtype, copy, to->data, from->data, n);
}

static fl_status update_every_row(fl_op_ctx *c, const job *j,
                                  const fl_tensor *g, size_t n_rows)
{
    size_t row_bytes = j->dim * fl_dtype_bytes(j->dtype);
    uint32_t *place = fl_scratch(c, n_rows * sizeof(*place));
    void *zeros = fl_scratch(c, row_bytes);

    if (!place || !zeros)
        return FL_NOMEM(c);
    memset(place, 0, n_rows * sizeof(*place));
    memset(zeros, 0, row_bytes);
    for (uint32_t i = 0; i < (uint32_t)g->shape.dim[0]; i++)
        place[g->rows[i]] = i + 1;
    FL_BY_DTYPE(j->dtype, update_every, j, g, place, n_rows, zeros);
    return FL_OK;
}

/* The whole parameter is one row then. */
static fl_status update_whole(fl_op_ctx *c, job *j, const fl_tensor *grad,
                              size_t n_rows)
{
    size_t bytes = n_rows * j->dim * fl_dtype_bytes(j->dtype);
    void *dense = fl_scratch(c, bytes);

    if (!dense)
        return FL_NOMEM(c);
    memset(dense, 0, bytes);
    FL_BY_DTYPE(j->dtype, add_rows, dense, grad, j->dim);
    j->dim *= n_rows;
    if (j->dim)
        FL_BY_DTYPE(j->dtype, update_row, j, 0, dense);
    return FL_OK;
}

static fl_status update_rows(fl_op_ctx *c, job *j, const fl_tensor *grad,
                             size_t n_rows)
{
    fl_tensor g;

    if (j->plan->rule->whole)
        return update_whole(c, j, grad, n_rows);
    if (!j->plan->n_states) {
        FL_BY_DTYPE(j->dtype, scatter, j, grad);
        return FL_OK;
    }
    FL_TRY(fl_rows_merge(c, grad, &g));
    if (!j->plan->present_only)
        return update_every_row(c, j, &g, n_rows);
    FL_BY_DTYPE(j->dtype, update_present, j, &g);
    return FL_OK;
}

/* A variable of the scope that is not the one that is read keeps the rows that
   the step leaves alone. */
static bool keeps_others(const fl_op_ctx *c, const plan *p, int out, int i)
{
    const fl_tensor *g = fl_in_at(c, GRAD, i);

    return g->kind == FL_KIND_ROWS && p->present_only && p->n_states &&
           !p->rule->whole &&
           (c->node->out[out].vars[i]->flags & FL_VAR_PERSIST);
}

static void carry_rows(fl_tensor *to, const fl_tensor *from, const fl_tensor *g)
{
    size_t bytes = (size_t)fl_shape_count(&from->shape, 1, from->shape.rank) *
                   fl_dtype_bytes(from->dtype);

    for (int64_t i = 0; to->data != from->data && i < g->shape.dim[0]; i++)
        memcpy((char *)to->data + g->rows[i] * bytes,
               (const char *)from->data + g->rows[i] * bytes, bytes);
}

/* Output `out`, entry i, holding the value that the step starts from. */
static fl_tensor *start_output(const fl_op_ctx *c, const plan *p, int in,
                               int out, int i)
{
    fl_tensor *t = fl_out_at(c, out, i);

    if (keeps_others(c, p, out, i))
        carry_rows(t, fl_in_at(c, in, i), fl_in_at(c, GRAD, i));
    else
        carry_over(t, fl_in_at(c, in, i));
    return t;
}

/* A rule that draws counts its draws from the first weight of a call. */
static void update_dense(const job *j, const fl_tensor *grad, size_t n)
{
    if (j->plan->rule->whole || j->plan->seed >= 0) {
        if (n)
            FL_BY_DTYPE(j->dtype, update, j, 0, n, grad->data);
        return;
    }
    FL_BY_DTYPE(j->dtype, update_strips, j, n, grad->data);
}

static fl_status update_weights(fl_op_ctx *c, job *j, const fl_tensor *grad,
                                const fl_tensor *param)
{
    if (grad->kind == FL_KIND_ROWS) {
        j->dim = (size_t)fl_rows_width(grad);
        return update_rows(c, j, grad, (size_t)param->shape.dim[0]);
    }
    update_dense(j, grad, (size_t)fl_tensor_numel(param));
    return FL_OK;
}

static fl_status update_one(fl_op_ctx *c, const plan *p, int i,
                            const fl_hyper *h)
{
    fl_tensor *param = start_output(c, p, PARAM, 0, i);
    fl_tensor *scalar[FL_RULE_SCALAR_MAX];
    job j = {
        .plan = p, .h = *h, .dtype = param->dtype, .replica = c->replica
    };
    int n = p->n_states, n_scalars = p->n_scalars;

    j.w = param->data;
    for (int k = 0; k < n; k++)
        if (fl_n_in(c, STATE + k))
            j.state[k] = start_output(c, p, STATE + k, 1 + k, i)->data;
    for (int k = 0; k < n_scalars; k++) {
        j.h.scalar[k] = scalar_get(fl_in_at(c, STATE + n + k, i));
        scalar[k] = fl_out_at(c, 1 + n + k, i);
    }
    if (p->seed >= 0)
        j.h.stream =
            fl_op_stream_at(c, i, (int64_t)j.h.p[p->seed], FL_STREAM_MOVING);
    if (p->rule->prepare)
        p->rule->prepare(&j.h);
    FL_TRY(update_weights(c, &j, fl_in_at(c, GRAD, i), param));
    if (p->rule->advance)
        p->rule->advance(&j.h);
    for (int k = 0; k < n_scalars; k++)
        if (scalar[k])
            scalar_set(scalar[k], j.h.scalar[k]);
    return FL_OK;
}

/* All rows are checked before the first weight changes. */
static fl_status check_rows(const fl_op_ctx *c)
{
    for (int i = 0; i < fl_n_in(c, GRAD); i++) {
        const fl_tensor *g = fl_in_at(c, GRAD, i);
        uint64_t height = (uint64_t)fl_in_at(c, PARAM, i)->shape.dim[0];

        if (g->kind != FL_KIND_ROWS)
            continue;
        for (int64_t k = 0; k < g->shape.dim[0]; k++)
            if (g->rows[k] >= height)
                FL_FAIL(FL_ERR_INVAL,
                        "Grad %d: row %" PRIu64 " at place %" PRId64
                        " is not below %" PRIu64 ", the rows of the parameter",
                        i, g->rows[k], k, height);
    }
    return FL_OK;
}

/* The rate, and settings that a variable has for this step. */
static fl_status read_hyper(const fl_op_ctx *c, const plan *p, fl_hyper *h)
{
    bool given = false;

    *h = p->hyper;
    h->lr = fl_n_in(c, RATE) ? scalar_get(fl_in_t(c, RATE)) : 1;
    for (int i = 0; i < FL_RULE_PARAM_MAX; i++)
        if (p->slots[i] >= 0) {
            h->p[i] = scalar_get(fl_in_t(c, p->slots[i]));
            given = true;
        }
    return given ? fl_rule_check(p->rule, h->p) : FL_OK;
}

fl_status fl_update_run(fl_op_ctx *c)
{
    const plan *p = plan_of(c);
    fl_hyper h;

    FL_TRY(read_hyper(c, p, &h));
    FL_TRY(check_rows(c));
    for (int i = 0; i < fl_n_in(c, PARAM); i++)
        FL_TRY(update_one(c, p, i, &h));
    return FL_OK;
}
