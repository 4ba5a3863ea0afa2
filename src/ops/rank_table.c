/* rank_table.c - tables of rank, and what goes by them: the longest length, the
 * order of sequences, and the memory of those that go on. */
#include "ops/rank_table.h"

#include <inttypes.h>
#include <stdlib.h>

#include "ops/arrays.h"
#include "ops/helpers.h"
#include "ops/values.h"

fl_status fl_infer_rank_table(const fl_infer *c, int slot)
{
    const fl_tensor *t = fl_infer_in(c, slot);
    char buf[FL_SLOT_TEXT_MAX];

    if (t->dtype != FL_DTYPE_I64 || t->shape.rank != 2 || t->shape.dim[1] != 2)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s must be i64[-1,2], as lod_rank_table makes it",
                c->node->def->name, fl_infer_text(c, slot, buf));
    return FL_OK;
}

int64_t fl_rank_alive(const fl_tensor *table, int64_t step)
{
    int64_t n = 0;

    while (n < fl_rank_count(table) && fl_rank_length(table, n) > step)
        n++;
    return n;
}

/* --- lod_rank_table ------------------------------------------------------- */

enum { TABLE_X };
enum { TABLE_OUT };
enum { TABLE_LEVEL };

static fl_status lod_rank_table_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, TABLE_X);
    fl_tensor *out = fl_infer_out(c, TABLE_OUT);
    int64_t level = fl_int(c, TABLE_LEVEL);
    int64_t n = -1;
    char buf[FL_SLOT_TEXT_MAX];

    /* What is fed may have more levels than were declared. */
    if (level < 0 || level >= FL_LOD_MAX || (c->running && level >= x->n_lod))
        FL_FAIL(FL_ERR_INVAL,
                "op lod_rank_table: level %" PRId64 " of %s, "
                "which has %d levels of offsets",
                level, fl_infer_text(c, TABLE_X, buf), x->n_lod);
    if (c->running)
        n = x->lod_len[level] - 1;
    fl_infer_dense(c, TABLE_OUT, FL_DTYPE_I64, 2, (int64_t[]){ n, 2 });
    out->n_lod = (int)level;
    out->kind = level ? FL_KIND_RAGGED : FL_KIND_DENSE;
    for (int k = 0; k < (int)level; k++) {
        out->lod[k] = x->lod[k];
        out->lod_len[k] = x->lod_len[k];
    }
    return FL_OK;
}

/* Of equal lengths the first comes first. */
static int by_length(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    if (x[1] != y[1])
        return x[1] > y[1] ? -1 : 1;
    return x[0] < y[0] ? -1 : 1;
}

static fl_status lod_rank_table_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, TABLE_X);
    int64_t level = fl_int(c, TABLE_LEVEL);
    const int64_t *off = x->lod[level];
    int64_t *out = fl_out(c, TABLE_OUT);
    int64_t n = x->lod_len[level] - 1;

    for (int64_t i = 0; i < n; i++) {
        out[2 * i] = i;
        out[2 * i + 1] = off[i + 1] - off[i];
    }
    qsort(out, (size_t)n, 2 * sizeof(*out), by_length);
    return FL_OK;
}

static const fl_op_case lod_rank_table_cases[] = {
    { .in = { "f32[7,2] lod=[0,2,2,7]" } },
    { .in = { "f32[7,2] lod=[0,1,3] lod=[0,2,2,7]" }, .attrs = "{level=1}" },
    { .in = { "f32[0,2] lod=[0]" } },
};

const fl_op fl_op_lod_rank_table = {
    .name = "lod_rank_table",
    .doc = "Out = number and length of each sequence of that level of X, the "
           "longest first",
    .in = { { "X", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "level", FL_ATTR_INT, "0" } },
    .infer = lod_rank_table_infer,
    .run = lod_rank_table_run,
    .cases = lod_rank_table_cases,
    .n_cases = FL_LEN(lod_rank_table_cases),
};

/* --- max_sequence_len ----------------------------------------------------- */

enum { MAX_TABLE };
enum { MAX_OUT };

static fl_status max_sequence_len_infer(fl_infer *c)
{
    FL_TRY(fl_infer_rank_table(c, MAX_TABLE));
    fl_infer_dense(c, MAX_OUT, FL_DTYPE_I64, 1, (int64_t[]){ 1 });
    return FL_OK;
}

static fl_status max_sequence_len_run(fl_op_ctx *c)
{
    const fl_tensor *table = fl_in_t(c, MAX_TABLE);

    *(int64_t *)fl_out(c, MAX_OUT) =
        fl_rank_count(table) ? fl_rank_length(table, 0) : 0;
    return FL_OK;
}

static const fl_op_case max_sequence_len_cases[] = {
    { .in = { "i64[3,2] is=[2,5,0,2,1,0]" } },
    { .in = { "i64[0,2]" } },
};

const fl_op fl_op_max_sequence_len = {
    .name = "max_sequence_len",
    .doc = "Out = the longest length in RankTable",
    .in = { { "RankTable", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .infer = max_sequence_len_infer,
    .run = max_sequence_len_run,
    .cases = max_sequence_len_cases,
    .n_cases = FL_LEN(max_sequence_len_cases),
};

/* --- reorder_lod_tensor_by_rank ------------------------------------------- */

enum { REORDER_X, REORDER_TABLE };
enum { REORDER_OUT };

/* Rows of sequence i; without offsets each row is one. */
static fl_span rows_of(const fl_tensor *x, int64_t i)
{
    size_t lo = (size_t)i, hi = (size_t)i + 1;

    for (int k = 0; k < x->n_lod; k++) {
        lo = (size_t)x->lod[k][lo];
        hi = (size_t)x->lod[k][hi];
    }
    return (fl_span){ lo, hi };
}

static int64_t count_sequences(const fl_tensor *x)
{
    return x->n_lod ? x->lod_len[0] - 1 : x->shape.dim[0];
}

static fl_status check_order(const fl_infer *c, const fl_tensor *table)
{
    int64_t n = count_sequences(fl_infer_in(c, REORDER_X));

    if (fl_rank_count(table) != n)
        FL_FAIL(FL_ERR_INVAL,
                "op reorder_lod_tensor_by_rank: X has %" PRId64 " sequences, "
                "and RankTable %" PRId64,
                n, fl_rank_count(table));
    for (int64_t i = 0; i < n; i++)
        if (fl_rank_index(table, i) < 0 || fl_rank_index(table, i) >= n)
            FL_FAIL(FL_ERR_INVAL,
                    "op reorder_lod_tensor_by_rank: RankTable names sequence "
                    "%" PRId64 " of %" PRId64,
                    fl_rank_index(table, i), n);
    return FL_OK;
}

/* Offsets of level k of the reordered sequences. */
static void reorder_level(const fl_tensor *x, const fl_tensor *table, int k,
                          int64_t *to)
{
    int64_t at = 0, end = 0;

    to[at++] = 0;
    for (int64_t i = 0; i < fl_rank_count(table); i++) {
        int64_t lo = fl_rank_index(table, i), hi = lo + 1;

        for (int up = 0; up < k; up++) {
            lo = x->lod[up][lo];
            hi = x->lod[up][hi];
        }
        for (; lo < hi; lo++) {
            end += x->lod[k][lo + 1] - x->lod[k][lo];
            to[at++] = end;
        }
    }
}

static fl_status reorder_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, REORDER_X);
    const fl_tensor *table = fl_infer_in(c, REORDER_TABLE);
    fl_tensor *out = fl_infer_out(c, REORDER_OUT);
    size_t n = 0;
    void *memory = NULL;

    FL_TRY(fl_infer_rank_table(c, REORDER_TABLE));
    fl_tensor_like(out, x);
    if (!c->running)
        return FL_OK;
    FL_TRY(check_order(c, table));
    for (int k = 0; k < x->n_lod; k++)
        n += (size_t)x->lod_len[k];
    FL_TRY(fl_infer_workspace(c, n * sizeof(int64_t) + 1, &memory));
    for (int k = 0; k < x->n_lod; k++) {
        reorder_level(x, table, k, memory);
        out->lod[k] = memory;
        memory = (int64_t *)memory + x->lod_len[k];
    }
    return FL_OK;
}

/* Copies sequences between their place in X and that in the order. */
typedef enum direction { TO_RANK, FROM_RANK } direction;

static void move_sequences(const fl_tensor *x, const fl_tensor *table,
                           direction way, char *to, const char *from)
{
    size_t row = (size_t)fl_shape_count(&x->shape, 1, x->shape.rank) *
                 fl_dtype_bytes(x->dtype);
    size_t at = 0;

    for (int64_t i = 0; i < fl_rank_count(table); i++) {
        fl_span s = rows_of(x, fl_rank_index(table, i));
        size_t bytes = (s.hi - s.lo) * row;

        if (bytes && way == TO_RANK)
            memcpy(to + at, from + s.lo * row, bytes);
        else if (bytes)
            memcpy(to + s.lo * row, from + at, bytes);
        at += bytes;
    }
}

static fl_status reorder_run(fl_op_ctx *c)
{
    move_sequences(fl_in_t(c, REORDER_X), fl_in_t(c, REORDER_TABLE), TO_RANK,
                   fl_out(c, REORDER_OUT), fl_in(c, REORDER_X));
    return FL_OK;
}

static fl_status reorder_back(fl_op_ctx *c)
{
    move_sequences(fl_in_t(c, REORDER_X), fl_in_t(c, REORDER_TABLE), FROM_RANK,
                   fl_din(c, REORDER_X), fl_dout(c, REORDER_OUT));
    return FL_OK;
}

static const fl_op_case reorder_cases[] = {
    { .in = { "f32[7,2] lod=[0,2,2,7]", "i64[3,2] is=[2,5,0,2,1,0]" } },
    { .in = { "f32[3,4]", "i64[3,2] is=[2,5,0,2,1,0]" } },
    { .in = { "f32[7,2] lod=[0,1,3] lod=[0,2,2,7]", "i64[2,2] is=[1,2,0,1]" } },
    { .in = { "f32[0,2] lod=[0]", "i64[0,2]" } },
};

const fl_op fl_op_reorder_lod_tensor_by_rank = {
    .name = "reorder_lod_tensor_by_rank",
    .doc = "Out = the sequences of X, or its rows when it has no offsets, in "
           "the order of RankTable",
    .in = { { "X", 0 }, { "RankTable", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE } },
    .out = { { "Out", 0 } },
    .infer = reorder_infer,
    .run = reorder_run,
    .back = reorder_back,
    .back_uses = FL_USES_IN(REORDER_TABLE),
    .cases = reorder_cases,
    .n_cases = FL_LEN(reorder_cases),
};

/* --- shrink_rnn_memory ---------------------------------------------------- */

enum { SHRINK_X, SHRINK_TABLE, SHRINK_I };
enum { SHRINK_OUT };

static fl_status shrink_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, SHRINK_X);
    fl_tensor *out = fl_infer_out(c, SHRINK_OUT);
    int64_t n = -1;

    FL_TRY(fl_infer_rank_table(c, SHRINK_TABLE));
    FL_TRY(fl_infer_index(c, SHRINK_I));
    fl_tensor_like(out, x);
    if (c->running) {
        n = fl_rank_alive(fl_infer_in(c, SHRINK_TABLE),
                          fl_id_at(fl_infer_in(c, SHRINK_I), 0));
        if (n > count_sequences(x))
            FL_FAIL(FL_ERR_INVAL,
                    "op shrink_rnn_memory: %" PRId64 " sequences go on, and X "
                    "has %" PRId64,
                    n, count_sequences(x));
        if (x->n_lod) {
            out->lod_len[0] = n + 1;
            for (int k = 1; k < x->n_lod; k++)
                out->lod_len[k] = out->lod[k - 1][out->lod_len[k - 1] - 1] + 1;
            n = out->lod[x->n_lod - 1][out->lod_len[x->n_lod - 1] - 1];
        }
    }
    out->shape.dim[0] = n;
    return FL_OK;
}

static size_t bytes_of(const fl_tensor *t)
{
    return (size_t)fl_tensor_numel(t) * fl_dtype_bytes(t->dtype);
}

static fl_status shrink_run(fl_op_ctx *c)
{
    if (bytes_of(fl_out_t(c, SHRINK_OUT)))
        memcpy(fl_out(c, SHRINK_OUT), fl_in(c, SHRINK_X),
               bytes_of(fl_out_t(c, SHRINK_OUT)));
    return FL_OK;
}

static fl_status shrink_back(fl_op_ctx *c)
{
    const fl_tensor *dout = fl_dout_t(c, SHRINK_OUT);

    fl_din_zero(c, SHRINK_X);
    if (dout && bytes_of(dout))
        memcpy(fl_din(c, SHRINK_X), dout->data, bytes_of(dout));
    return FL_OK;
}

static const fl_op_case shrink_cases[] = {
    { .in = { "f32[3,2]", "i64[3,2] is=[2,5,0,2,1,1]", "i64[1] is=[1]" } },
    { .in = { "f32[7,2] lod=[0,2,2,7]", "i64[3,2] is=[2,5,0,2,1,1]",
              "i64[1] is=[1]" } },
    { .in = { "f32[0,2]", "i64[0,2]", "i64[1] is=[0]" } },
};

const fl_op fl_op_shrink_rnn_memory = {
    .name = "shrink_rnn_memory",
    .doc = "Out = the first rows of X, or sequences: as many as are longer "
           "than I in RankTable",
    .in = { { "X", 0 },
            { "RankTable", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE },
            { "I", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE } },
    .out = { { "Out", 0 } },
    .infer = shrink_infer,
    .run = shrink_run,
    .back = shrink_back,
    .cases = shrink_cases,
    .n_cases = FL_LEN(shrink_cases),
};
