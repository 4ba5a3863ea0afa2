/* acc_ctr.c - rows that count shows and clicks and grow in two stages.
 *
 *     header | show | click | delta_score | embed_w + state      the short form
 *            || embedx_w[dim - 1] + state                        the wide part
 *
 *     score = (show - click) * nonclk_coeff + click * click_coeff
 *
 * A key costs a short row until its score reaches embedx_threshold; the row
 * grows then, and its wide part trains from the next push on. The user sees
 * [embed_w, embedx_w...]: what a row does not have yet is 0. embed_w starts at
 * 0, embedx_w at the columns 1..dim-1 of the initialiser. A value of width 1
 * has no wide part.
 *
 * delta_score is the score of what was pushed since a save for serving last
 * used it.
 * Gradients are applied as they come: they are already the mean or the sum
 * that the program asks for, and are not divided by the shows of the push.
 * Shows and clicks are floats: counting one by one ends at 2^24 unless they
 * decay.
 */
#include "table/acc_kit.h"

#include <string.h>

/* Index into the fields. The state follows embed_w, then the wide part. */
enum { SHOW, CLICK, DELTA_SCORE, EMBED_W };

static const char *const embed_state[FL_RULE_STATE_MAX] = { "embed_state0",
                                                            "embed_state1",
                                                            "embed_state2" };
static const char *const embedx_state[FL_RULE_STATE_MAX] = { "embedx_state0",
                                                             "embedx_state1",
                                                             "embedx_state2" };

static bool has_wide(const fl_acc_ctx *c)
{
    return c->config->dim > 1;
}

static int embedx_w(const fl_acc_ctx *c)
{
    return EMBED_W + 1 + c->n_states;
}

static double score(const fl_table_config *config, double show, double click)
{
    return (show - click) * config->nonclk_coeff + click * config->click_coeff;
}

static double row_score(const fl_acc_ctx *c, const void *row)
{
    return score(c->config, *fl_acc_in(c, row, SHOW),
                 *fl_acc_in(c, row, CLICK));
}

static void add_weights(const fl_acc_ctx *c, fl_row_layout *out,
                        const char *name, const char *const *states,
                        uint32_t len)
{
    int n = c->n_states;

    FL_ASSERT(n <= FL_RULE_STATE_MAX);
    fl_acc_layout_add(out, name, len, FL_FIELD_VALUE);
    for (int s = 0; s < n; s++)
        fl_acc_layout_add(out, states[s], len, FL_FIELD_STATE);
}

static void layout(const fl_acc_ctx *c, fl_row_layout *out)
{
    fl_acc_layout_begin(out);
    fl_acc_layout_add(out, "show", 1, FL_FIELD_STATISTIC);
    fl_acc_layout_add(out, "click", 1, FL_FIELD_STATISTIC);
    fl_acc_layout_add(out, "delta_score", 1, FL_FIELD_STATISTIC);
    add_weights(c, out, "embed_w", embed_state, 1);
    if (has_wide(c)) {
        out->short_bytes = out->bytes;
        add_weights(c, out, "embedx_w", embedx_state, c->config->dim - 1);
    }
    fl_acc_layout_end(out);
}

/* Everything before the wide part. */
static void start(const fl_acc_ctx *c, void *row, float weight)
{
    *fl_acc_at(c, row, SHOW) = 0;
    *fl_acc_at(c, row, CLICK) = 0;
    *fl_acc_at(c, row, DELTA_SCORE) = 0;
    *fl_acc_at(c, row, EMBED_W) = weight;
    fl_acc_start_state(c, row, EMBED_W);
}

static void create(const fl_acc_ctx *c, uint64_t key, void *row)
{
    (void)key;
    start(c, row, 0);
}

static void pull(const fl_acc_ctx *c, uint64_t key, const void *row,
                 bool is_short, float *out)
{
    size_t wide_bytes = (c->config->dim - 1) * sizeof(*out);

    (void)key;
    out[0] = row ? *fl_acc_in(c, row, EMBED_W) : 0;
    if (!has_wide(c))
        return;
    if (row && !is_short)
        memcpy(out + 1, fl_acc_in(c, row, embedx_w(c)), wide_bytes);
    else
        memset(out + 1, 0, wide_bytes);
}

static bool push(const fl_acc_ctx *c, void *row, bool is_short,
                 const fl_push_item *item, const fl_hyper *h)
{
    *fl_acc_at(c, row, SHOW) += item->show;
    *fl_acc_at(c, row, CLICK) += item->click;
    *fl_acc_at(c, row, DELTA_SCORE) +=
        (float)score(c->config, item->show, item->click);
    fl_acc_push(c, row, EMBED_W, item->grad, h);
    if (is_short)
        return row_score(c, row) >= c->config->embedx_threshold;
    if (has_wide(c))
        fl_acc_push(c, row, embedx_w(c), item->grad + 1, h);
    return false;
}

static void grow(const fl_acc_ctx *c, uint64_t key, void *row)
{
    float *w = fl_acc_at(c, row, embedx_w(c));

    for (uint32_t col = 1; col < c->config->dim; col++)
        w[col - 1] = (float)fl_init_value(&c->config->init, key, col);
    fl_acc_start_state(c, row, embedx_w(c));
}

static void assign(const fl_acc_ctx *c, uint64_t key, void *row,
                   const float *value)
{
    (void)key;
    start(c, row, value[0]);
    if (!has_wide(c))
        return;
    memcpy(fl_acc_at(c, row, embedx_w(c)), value + 1,
           (c->config->dim - 1) * sizeof(*value));
    fl_acc_start_state(c, row, embedx_w(c));
}

static bool is_zero(const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (x[i] != 0)
            return false;
    return true;
}

/* The wide part of a short row reads as 0: nothing to be added there leaves it
   so. */
static bool add(const fl_acc_ctx *c, void *row, bool is_short,
                const float *delta)
{
    uint32_t n_wide = c->config->dim - 1;
    float *wide;

    if (is_short && !is_zero(delta + 1, n_wide))
        return false;
    *fl_acc_at(c, row, EMBED_W) += delta[0];
    if (is_short || !has_wide(c))
        return true;
    wide = fl_acc_at(c, row, embedx_w(c));
    for (uint32_t i = 0; i < n_wide; i++)
        wide[i] += delta[1 + i];
    return true;
}

static bool keep(const fl_acc_ctx *c, void *row, bool is_short, int unseen_days,
                 int limit_days)
{
    const float rate = (float)c->config->show_click_decay_rate;

    (void)is_short;
    (void)limit_days;
    *fl_acc_at(c, row, SHOW) *= rate;
    *fl_acc_at(c, row, CLICK) *= rate;
    return row_score(c, row) >= c->config->delete_threshold &&
           unseen_days <= c->config->delete_after_unseen_days;
}

/* A base has every row of some score, a delta those that gained some since the
   last save for serving. */
static bool serves(const fl_acc_ctx *c, const void *row, int unseen_days,
                   fl_cut_pick pick, float *score)
{
    double least = pick == FL_PICK_DELTA ? c->config->delta_threshold : 0;

    *score = *fl_acc_in(c, row, DELTA_SCORE);
    return row_score(c, row) >= c->config->base_threshold && *score >= least &&
           unseen_days <= c->config->delta_keep_days;
}

/* What was pushed after the cut stays. */
static void spend(const fl_acc_ctx *c, void *row, float score)
{
    *fl_acc_at(c, row, DELTA_SCORE) -= score;
}

const fl_accessor fl_accessor_ctr = {
    .name = "ctr",
    .doc = "shows and clicks, a short row that grows with its score",
    .layout = layout,
    .create = create,
    .pull = pull,
    .push = push,
    .grow = grow,
    .assign = assign,
    .add = add,
    .serves = serves,
    .spend = spend,
    .ages = true,
    .keep = keep,
};
