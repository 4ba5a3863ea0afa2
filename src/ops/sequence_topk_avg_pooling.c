/* sequence_topk_avg_pooling.c - the means of the largest numbers of each row of
 * matrices.
 *
 * X has, for each entry of the batch and each channel, a matrix of as many rows
 * as ROW has and as many columns as COLUMN has. Out has a row for each of ROW,
 * with the mean of the largest topks[i] numbers for each channel and i. Where
 * there are fewer, those that are missing count as 0. pos = where they lie, -1
 * where there are none.
 */
#include "ops/helpers.h"
#include "ops/sequences.h"

enum { X, ROW, COLUMN };
enum { OUT, POS };
enum { TOPKS, CHANNEL_NUM };

static fl_status check_topks(const fl_infer *c)
{
    size_t n;
    const int64_t *topks = fl_attr_ints(c->node, TOPKS, &n);

    if (!n || fl_int(c, CHANNEL_NUM) < 1)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_topk_avg_pooling: topks and channel_num must be "
                "there");
    for (size_t i = 0; i < n; i++)
        if (topks[i] < 1 || (i && topks[i] < topks[i - 1]))
            FL_FAIL(FL_ERR_INVAL,
                    "op sequence_topk_avg_pooling: topks must be above 0 and "
                    "ascend");
    return FL_OK;
}

static fl_status check_sizes(const fl_infer *c)
{
    fl_seqs x = fl_seqs_of(fl_infer_in(c, X));
    fl_seqs row = fl_seqs_of(fl_infer_in(c, ROW));
    fl_seqs column = fl_seqs_of(fl_infer_in(c, COLUMN));
    bool fits = x.n == row.n && x.n == column.n;

    for (size_t s = 0; fits && s < x.n; s++)
        fits = fl_seqs_len(&x, s) == (size_t)fl_int(c, CHANNEL_NUM) *
                                         fl_seqs_len(&row, s) *
                                         fl_seqs_len(&column, s);
    if (!fits)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_topk_avg_pooling: sequences of X must have "
                "channel_num times as many numbers as the matrices of ROW and "
                "COLUMN");
    return FL_OK;
}

static fl_status pooling_infer(fl_infer *c)
{
    const fl_tensor *row = fl_infer_in(c, ROW);
    fl_tensor *out = fl_infer_out(c, OUT);
    int64_t channels = fl_int(c, CHANNEL_NUM), n_rows = row->shape.dim[0];
    size_t n;
    const int64_t *topks = fl_attr_ints(c->node, TOPKS, &n);

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(check_topks(c));
    for (int slot = X; slot <= COLUMN; slot++)
        FL_TRY(fl_infer_one_level(c, slot));
    if (c->running)
        FL_TRY(check_sizes(c));
    fl_tensor_like(out, row);
    out->dtype = fl_infer_in(c, X)->dtype;
    out->shape = fl_shape_of(2, (int64_t[]){ n_rows, channels * (int64_t)n });
    fl_infer_dense(
        c, POS, FL_DTYPE_I32, 1,
        (int64_t[]){ n_rows < 0 ? -1 : n_rows * channels * topks[n - 1] });
    return FL_OK;
}

/* A row of a matrix: its numbers, its means, and places of the largest. */
typedef struct line {
    size_t at_x, n, at_out, at_pos;
} line;

/* What all lines share. */
typedef struct plan {
    fl_seqs x, row, column;
    size_t channels, n_topks, most;
    const int64_t *topks;
} plan;

static plan plan_of(const fl_op_ctx *c)
{
    plan p = { .x = fl_seqs_of(fl_in_t(c, X)),
               .row = fl_seqs_of(fl_in_t(c, ROW)),
               .column = fl_seqs_of(fl_in_t(c, COLUMN)),
               .channels = (size_t)fl_int(c, CHANNEL_NUM) };

    p.topks = fl_attr_ints(c->node, TOPKS, &p.n_topks);
    p.most = (size_t)p.topks[p.n_topks - 1];
    return p;
}

/* Line r of channel k of entry s. */
static line line_of(const plan *p, size_t s, size_t k, size_t r)
{
    size_t rows = fl_seqs_len(&p->row, s), n = fl_seqs_len(&p->column, s);
    size_t at = ((size_t)p->row.off[s] + r) * p->channels + k;

    return (line){ .at_x = (size_t)p->x.off[s] + (k * rows + r) * n,
                   .n = n,
                   .at_out = at * p->n_topks,
                   .at_pos = at * p->most };
}

static bool is_taken(const int32_t *pos, size_t n, size_t at)
{
    for (size_t i = 0; i < n; i++)
        if (pos[i] == (int32_t)at)
            return true;
    return false;
}

#define KERNELS(T, t)                                                          \
    /* The largest number besides the first n of pos, the first of equals. */  \
    static int32_t largest_##t(const T *x, size_t len, const int32_t *pos,     \
                               size_t n)                                       \
    {                                                                          \
        int32_t best = -1;                                                     \
                                                                               \
        for (size_t i = 0; i < len; i++)                                       \
            if ((best < 0 || x[i] > x[best]) && !is_taken(pos, n, i))          \
                best = (int32_t)i;                                             \
        return best;                                                           \
    }                                                                          \
    static void forward_##t(const plan *p, line l, const T *x, T *out,         \
                            int32_t *pos)                                      \
    {                                                                          \
        double sum = 0;                                                        \
        size_t n = 0;                                                          \
                                                                               \
        for (size_t i = 0; i < p->n_topks; i++) {                              \
            for (; n < (size_t)p->topks[i]; n++) {                             \
                pos[l.at_pos + n] =                                            \
                    largest_##t(x + l.at_x, l.n, pos + l.at_pos, n);           \
                if (pos[l.at_pos + n] >= 0)                                    \
                    sum += (double)x[l.at_x + (size_t)pos[l.at_pos + n]];      \
            }                                                                  \
            out[l.at_out + i] = (T)(sum / (double)n);                          \
        }                                                                      \
    }                                                                          \
    static void backward_##t(const plan *p, line l, T *dx, const T *g,         \
                             const int32_t *pos)                               \
    {                                                                          \
        for (size_t i = 0; i < p->n_topks; i++)                                \
            for (size_t k = 0; k < (size_t)p->topks[i]; k++)                   \
                if (pos[l.at_pos + k] >= 0)                                    \
                    dx[l.at_x + (size_t)pos[l.at_pos + k]] +=                  \
                        g[l.at_out + i] / (T)p->topks[i];                      \
    }
FL_FLOATS(KERNELS)

typedef enum way { FORWARD, BACKWARD } way;

static void walk_entry(const fl_op_ctx *c, const plan *p, size_t s, way w)
{
    size_t rows = fl_seqs_len(&p->row, s);

    for (size_t i = 0; i < rows * p->channels; i++) {
        line l = line_of(p, s, i / rows, i % rows);

        if (w == FORWARD)
            FL_BY_FLOAT(c, X, forward, p, l, fl_in(c, X), fl_out(c, OUT),
                        fl_out(c, POS));
        else
            FL_BY_FLOAT(c, X, backward, p, l, fl_din(c, X), fl_dout(c, OUT),
                        fl_saved_out(c, POS));
    }
}

static fl_status pooling_run(fl_op_ctx *c)
{
    plan p = plan_of(c);

    for (size_t s = 0; s < p.row.n; s++)
        walk_entry(c, &p, s, FORWARD);
    return FL_OK;
}

static fl_status pooling_back(fl_op_ctx *c)
{
    plan p = plan_of(c);

    fl_din_zero(c, X);
    for (size_t s = 0; s < p.row.n && fl_dout_t(c, OUT) && fl_din_t(c, X); s++)
        walk_entry(c, &p, s, BACKWARD);
    return FL_OK;
}

static const fl_op_case pooling_cases[] = {
    { .in = { "f32[20,1] lod=[0,12,20]", "f32[4,2] lod=[0,2,4]",
              "f32[5,2] lod=[0,3,5]" },
      .attrs = "{topks=[1,2,4], channel_num=2}" },
    { .in = { "f32[6] lod=[0,0,6]", "f32[2,1] lod=[0,0,2]",
              "f32[4,1] lod=[0,1,4]" },
      .attrs = "{topks=[3]}" },
    { .in = { "f32[0,1] lod=[0,0]", "f32[0,8] lod=[0,0]",
              "f32[0,8] lod=[0,0]" },
      .attrs = "{topks=[2]}" },
};

const fl_op fl_op_sequence_topk_avg_pooling = {
    .name = "sequence_topk_avg_pooling",
    .doc = "Out = for each row of ROW, each channel and each k of topks the "
           "mean of the largest k numbers of that row of a matrix of X, which "
           "has a row for each of ROW and a column for each of COLUMN; pos = "
           "their places",
    .in = { { "X", 0 },
            { "ROW", FL_SLOT_NO_GRAD },
            { "COLUMN", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 }, { "pos", FL_SLOT_NO_GRAD } },
    .attrs = { { "topks", FL_ATTR_INTS, "[]" },
               { "channel_num", FL_ATTR_INT, "1" } },
    .infer = pooling_infer,
    .run = pooling_run,
    .back = pooling_back,
    .back_uses = FL_USES_OUT(POS),
    .cases = pooling_cases,
    .n_cases = FL_LEN(pooling_cases),
};
