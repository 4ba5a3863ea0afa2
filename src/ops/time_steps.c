/* time_steps.c - sequences side by side, and the activations of gates. */
#include "ops/time_steps.h"

#include <string.h>

/* --- order ---------------------------------------------------------------- */

static size_t length_of(const fl_steps *s, size_t i)
{
    return s->off ? (size_t)(s->off[i + 1] - s->off[i]) : 1;
}

size_t fl_steps_row(const fl_steps *s, size_t k, size_t t)
{
    size_t i = (size_t)s->seq[k];

    if (!s->off)
        return i;
    return s->reverse ? (size_t)s->off[i + 1] - 1 - t : (size_t)s->off[i] + t;
}

size_t fl_steps_alive(const fl_steps *s, size_t t)
{
    return t < s->n_times ? (size_t)(s->start[t + 1] - s->start[t]) : 0;
}

size_t fl_steps_rows_at(const fl_steps *s, size_t b, size_t t)
{
    size_t n = fl_steps_alive(s, t);

    n = n > b * FL_STEPS_BLOCK ? n - b * FL_STEPS_BLOCK : 0;
    return n < FL_STEPS_BLOCK ? n : FL_STEPS_BLOCK;
}

size_t fl_steps_batch_row(const fl_steps *s, size_t b, size_t t)
{
    return (size_t)s->start[t] + b * FL_STEPS_BLOCK;
}

/* Counting sort; `at` goes from counts to places to the starts of times:
   at[L] sequences are longer than L, so that many stand before those of length
   L, and that many are alive at time L. */
fl_status fl_steps_sort(fl_op_ctx *c, fl_steps *s)
{
    int64_t *at;

    for (size_t i = 0; i < s->n_seq; i++)
        s->n_times =
            length_of(s, i) > s->n_times ? length_of(s, i) : s->n_times;
    s->seq = fl_scratch(c, (s->n_seq + 1) * sizeof(*s->seq));
    s->start = fl_scratch(c, (s->n_times + 1) * sizeof(*s->start));
    if (!s->seq || !s->start)
        return FL_NOMEM(c);
    at = s->start;
    memset(at, 0, (s->n_times + 1) * sizeof(*at));
    for (size_t i = 0; i < s->n_seq; i++)
        if (length_of(s, i))
            at[length_of(s, i) - 1]++;
    for (size_t t = s->n_times; t-- > 0;)
        at[t] += at[t + 1];
    for (size_t i = 0; i < s->n_seq; i++)
        s->seq[at[length_of(s, i)]++] = (int64_t)i;
    at[0] = 0;
    for (size_t t = 0; t < s->n_times; t++)
        at[t + 1] += at[t];
    return FL_OK;
}

/* --- activations ---------------------------------------------------------- */

/* In the order of the numbers that stand for them. */
static const struct {
    const char *name;
    fl_act act;
} acts[] = { { "identity", FL_ACT_NONE },
             { "sigmoid", FL_ACT_SIGMOID },
             { "tanh", FL_ACT_TANH },
             { "relu", FL_ACT_RELU } };

static bool parse_act(const fl_op_node *n, int attr, fl_act *out)
{
    bool by_name = n->def->attrs[attr].type == FL_ATTR_STRING;

    for (size_t i = 0; i < FL_LEN(acts); i++)
        if (by_name ? !strcmp(acts[i].name, fl_attr_str(n, attr))
                    : fl_attr_int(n, attr) == (int64_t)i) {
            *out = acts[i].act;
            return true;
        }
    return false;
}

fl_act fl_act_of(const fl_op_node *n, int attr)
{
    fl_act act = FL_ACT_NONE;

    FL_ASSERT(parse_act(n, attr, &act));
    return act;
}

fl_status fl_infer_act(const fl_infer *c, int attr)
{
    const fl_attr_def *def = &c->node->def->attrs[attr];
    fl_act act;

    if (parse_act(c->node, attr, &act))
        return FL_OK;
    if (def->type == FL_ATTR_STRING)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s is \"%s\"; there are identity, sigmoid, tanh and "
                "relu",
                c->node->def->name, def->name, fl_str_attr(c, attr));
    FL_FAIL(FL_ERR_INVAL,
            "op %s: %s is %lld; there are 0 (identity), 1 (sigmoid), 2 (tanh) "
            "and 3 (relu)",
            c->node->def->name, def->name, (long long)fl_int(c, attr));
}

#define SIGMOID_LEAST (-40)
#define SIGMOID_MOST 13

#define GATE_ACT(T, t)                                                         \
    static void bound_row_##t(T *restrict y, const T *restrict bias, size_t n) \
    {                                                                          \
        for (size_t k = 0; k < n; k++) {                                       \
            T v = bias ? y[k] + bias[k] : y[k];                                \
                                                                               \
            v = v < SIGMOID_LEAST ? SIGMOID_LEAST : v;                         \
            y[k] = v > SIGMOID_MOST ? SIGMOID_MOST : v;                        \
        }                                                                      \
    }                                                                          \
    void fl_gate_act_##t(T *y, const T *bias, size_t rows, size_t cols,        \
                         size_t ld, fl_act act)                                \
    {                                                                          \
        bool bounds = act == FL_ACT_SIGMOID;                                   \
                                                                               \
        for (size_t i = 0; bounds && i < rows; i++)                            \
            bound_row_##t(y + i * ld, bias, cols);                             \
        fl_vec_##t()->bias_act(y, bounds ? NULL : bias, rows, cols, ld, act);  \
    }
FL_FLOATS(GATE_ACT)

/* --- checks --------------------------------------------------------------- */

fl_status fl_infer_matrix(const fl_infer *c, int slot, int like, int64_t rows,
                          int64_t cols)
{
    fl_shape want = { .rank = 2, .dim = { rows, cols } };
    char buf[FL_SLOT_TEXT_MAX], text[FL_SHAPE_TEXT_MAX];

    FL_TRY(fl_infer_same_dtype(c, like, slot));
    if (!fl_infer_in(c, slot) ||
        fl_shape_matches(&fl_infer_in(c, slot)->shape, &want))
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL, "op %s: %s must be %s", c->node->def->name,
            fl_infer_text(c, slot, buf), fl_shape_text(&want, text));
}
