/* positive_negative_pair.c - pairs of rows of one query, by whether their
 * scores are in the order of their labels. */
#include <inttypes.h>
#include <stdlib.h>

#include "ops/helpers.h"

enum { SCORE, LABEL, QUERY_ID, POSITIVE, NEGATIVE, NEUTRAL, WEIGHT };
enum { COLUMN };
enum { N_SUMS = 3 }; /* outputs, in the order of the inputs from POSITIVE on */

typedef struct row {
    int64_t query;
    double score, label, weight;
} row;

/* --- shapes --------------------------------------------------------------- */

static fl_status check_column(const fl_infer *c, int slot)
{
    const fl_tensor *t = fl_infer_in(c, slot);
    fl_shape want = { 2, { fl_infer_in(c, SCORE)->shape.dim[0], 1 } };
    char buf[FL_SLOT_TEXT_MAX];

    if (t && !fl_shape_matches(&t->shape, &want))
        FL_FAIL(FL_ERR_INVAL,
                "op positive_negative_pair: %s must be [n,1] with the rows of "
                "Score",
                fl_infer_text(c, slot, buf));
    return FL_OK;
}

/* Sums that were counted before are all there, or none of them is. */
static fl_status check_sums(const fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX];

    for (int slot = POSITIVE; slot <= NEUTRAL; slot++) {
        const fl_tensor *t = fl_infer_in(c, slot);
        int64_t n = t ? fl_shape_numel(&t->shape) : 1;

        FL_TRY(fl_infer_same_dtype(c, SCORE, slot));
        if (!t != !fl_infer_in(c, POSITIVE) || (n >= 0 && n != 1))
            FL_FAIL(FL_ERR_INVAL,
                    "op positive_negative_pair: %s must be one number, and "
                    "the three sums go together",
                    fl_infer_text(c, slot, buf));
    }
    return FL_OK;
}

static fl_status check_score(const fl_infer *c)
{
    const fl_shape *s = &fl_infer_in(c, SCORE)->shape;
    int64_t column = fl_int(c, COLUMN), width = s->dim[1];
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, SCORE));
    if (s->rank != 2 || (width >= 0 && (column >= width || column < -width)))
        FL_FAIL(FL_ERR_INVAL,
                "op positive_negative_pair: %s must have two dimensions and a "
                "column %" PRId64,
                fl_infer_text(c, SCORE, buf), column);
    return FL_OK;
}

static fl_status pairs_infer(fl_infer *c)
{
    FL_TRY(check_score(c));
    FL_TRY(fl_infer_same_dtype(c, SCORE, LABEL));
    FL_TRY(fl_infer_same_dtype(c, SCORE, WEIGHT));
    FL_TRY(fl_infer_ids(c, QUERY_ID));
    FL_TRY(check_column(c, LABEL));
    FL_TRY(check_column(c, QUERY_ID));
    FL_TRY(check_column(c, WEIGHT));
    FL_TRY(check_sums(c));
    for (int i = 0; i < N_SUMS; i++)
        fl_infer_dense(c, i, fl_infer_in(c, SCORE)->dtype, 1, (int64_t[]){ 1 });
    return FL_OK;
}

/* --- counting ------------------------------------------------------------- */

static int by_query(const void *a, const void *b)
{
    int64_t x = ((const row *)a)->query, y = ((const row *)b)->query;

    return (x > y) - (x < y);
}

static void read_rows(const fl_op_ctx *c, row *rows, size_t n)
{
    int64_t width = fl_in_t(c, SCORE)->shape.dim[1];
    int64_t column = fl_int(c, COLUMN);
    const fl_tensor *weight = fl_in_t(c, WEIGHT);

    for (int64_t i = 0; i < (int64_t)n; i++)
        rows[i] = (row){
            .query = fl_id_at(fl_in_t(c, QUERY_ID), i),
            .score = fl_float_at(fl_in_t(c, SCORE),
                                 i * width + column + (column < 0) * width),
            .label = fl_float_at(fl_in_t(c, LABEL), i),
            .weight = weight ? fl_float_at(weight, i) : 1,
        };
}

/* Equal labels say nothing. Equal scores are neutral, and negative as well. */
static void count_pair(const row *a, const row *b, double *sums)
{
    double w = (a->weight + b->weight) / 2;
    double order = (a->score - b->score) * (a->label - b->label);

    if (a->label == b->label)
        return;
    if (a->score == b->score)
        sums[NEUTRAL - POSITIVE] += w;
    sums[order > 0 ? 0 : NEGATIVE - POSITIVE] += w;
}

static void count_pairs(const row *rows, size_t n, double *sums)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n && rows[k].query == rows[i].query; k++)
            count_pair(&rows[i], &rows[k], sums);
}

static fl_status pairs_run(fl_op_ctx *c)
{
    size_t n = (size_t)fl_in_t(c, SCORE)->shape.dim[0];
    row *rows = fl_scratch(c, (n + 1) * sizeof(*rows));
    double sums[N_SUMS] = { 0 };

    if (!rows)
        return FL_NOMEM(c);
    for (int i = 0; i < N_SUMS; i++)
        if (fl_in_t(c, POSITIVE + i))
            sums[i] = fl_float_at(fl_in_t(c, POSITIVE + i), 0);
    read_rows(c, rows, n);
    qsort(rows, n, sizeof(*rows), by_query);
    count_pairs(rows, n, sums);
    for (int i = 0; i < N_SUMS; i++)
        if (fl_out_t(c, i)->dtype == FL_DTYPE_F32)
            *(float *)fl_out(c, i) = (float)sums[i];
        else
            *(double *)fl_out(c, i) = sums[i];
    return FL_OK;
}

static const fl_op_case pairs_cases[] = {
    { .in = { "f32[33,1]", "f32[33,1]", "i64[33,1] below=4" } },
    { .in = { "f32[9,3]", "f32[9,1]", "i64[9,1] below=2", "f32[1]", "f32[1]",
              "f32[1]", "f32[9,1]" },
      .attrs = "{column=1}" },
    { .in = { "f32[0,1]", "f32[0,1]", "i64[0,1]" } },
};

#define OPTIONAL (FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD)
#define SUM (OPTIONAL | FL_OP_SLOT_STATE | FL_OP_SLOT_COUNT)

const fl_op fl_op_positive_negative_pair = {
    .name = "positive_negative_pair",
    .doc = "PositivePair = the pairs of rows of one QueryID whose Score, of "
           "column, is in the order of Label, NegativePair = those whose "
           "Score is not, NeutralPair = those whose Score is the same, which "
           "are negative too; a pair counts as the mean of its Weight, and "
           "the sums begin with those that are given",
    .in = { { "Score", FL_SLOT_NO_GRAD },
            { "Label", FL_SLOT_NO_GRAD },
            { "QueryID", FL_SLOT_NO_GRAD },
            { "AccumulatePositivePair", SUM },
            { "AccumulateNegativePair", SUM },
            { "AccumulateNeutralPair", SUM },
            { "Weight", OPTIONAL } },
    .out = { { "PositivePair", FL_SLOT_NO_GRAD },
             { "NegativePair", FL_SLOT_NO_GRAD },
             { "NeutralPair", FL_SLOT_NO_GRAD } },
    .attrs = { { "column", FL_ATTR_INT, "-1" } },
    .infer = pairs_infer,
    .run = pairs_run,
    .cases = pairs_cases,
    .n_cases = FL_LEN(pairs_cases),
};
