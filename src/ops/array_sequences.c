/* array_sequences.c - sequences as an array of their steps, and back.
 *
 * Place t of the array has element t of every sequence that is longer than t,
 * in the order of a table of rank. An element is a row, or, where X has offsets
 * below the level of the table, a sequence of the next level. */
#include <inttypes.h>

#include "ops/arrays.h"
#include "ops/helpers.h"
#include "ops/rank_table.h"

/* --- pieces --------------------------------------------------------------- */

/* Element t of sequence i on `level`: one entry of the level below, as rows. */
static fl_span piece(const fl_tensor *x, int level, int64_t i, int64_t t)
{
    size_t lo = (size_t)(x->lod[level][i] + t), hi = lo + 1;

    for (int k = level + 1; k < x->n_lod; k++) {
        lo = (size_t)x->lod[k][lo];
        hi = (size_t)x->lod[k][hi];
    }
    return (fl_span){ lo, hi };
}

static size_t row_bytes(const fl_tensor *x)
{
    return (size_t)fl_shape_count(&x->shape, 1, x->shape.rank) *
           fl_dtype_bytes(x->dtype);
}

/* Which level of X the table is of: the one below its own offsets. */
static int level_of(const fl_tensor *table)
{
    return table->n_lod;
}

/* --- the steps of X as an array ------------------------------------------- */

/* Offsets of level k of the elements of step t, which begin with those of the
   next level. Gives how many there are. */
static int64_t step_offsets(const fl_tensor *x, const fl_tensor *table,
                            int64_t t, int k, int64_t *to)
{
    int level = level_of(table);
    int64_t n = 1, end = 0;

    to[0] = 0;
    for (int64_t i = 0; i < fl_rank_alive(table, t); i++) {
        int64_t lo = x->lod[level][fl_rank_index(table, i)] + t, hi = lo + 1;

        for (int up = level + 1; up < k; up++) {
            lo = x->lod[up][lo];
            hi = x->lod[up][hi];
        }
        for (; lo < hi; lo++) {
            end += x->lod[k][lo + 1] - x->lod[k][lo];
            to[n++] = end;
        }
    }
    return n;
}

static int64_t step_rows(const fl_tensor *x, const fl_tensor *table, int64_t t)
{
    int64_t n = 0;

    for (int64_t i = 0; i < fl_rank_alive(table, t); i++) {
        fl_span s = piece(x, level_of(table), fl_rank_index(table, i), t);

        n += (int64_t)(s.hi - s.lo);
    }
    return n;
}

static fl_status describe_step(fl_op_ctx *c, const fl_tensor *x,
                               const fl_tensor *table, int64_t t,
                               fl_tensor *out)
{
    int level = level_of(table);

    *out = (fl_tensor){ .dtype = x->dtype, .shape = x->shape };
    out->shape.dim[0] = step_rows(x, table, t);
    for (int k = level + 1; k < x->n_lod; k++) {
        int64_t *off = fl_scratch(c, (size_t)x->lod_len[k] * sizeof(*off));

        if (!off)
            return FL_NOMEM(c);
        out->lod[out->n_lod] = off;
        out->lod_len[out->n_lod++] = step_offsets(x, table, t, k, off);
        out->kind = FL_KIND_RAGGED;
    }
    return FL_OK;
}

static void copy_step(const fl_tensor *x, const fl_tensor *table, int64_t t,
                      char *to)
{
    size_t row = row_bytes(x);

    for (int64_t i = 0; i < fl_rank_alive(table, t); i++) {
        fl_span s = piece(x, level_of(table), fl_rank_index(table, i), t);
        size_t bytes = (s.hi - s.lo) * row;

        if (bytes)
            memcpy(to, (const char *)x->data + s.lo * row, bytes);
        to += bytes;
    }
}

static fl_status part(fl_op_ctx *c, const fl_tensor *x, const fl_tensor *table,
                      fl_array *out)
{
    int64_t n = fl_rank_count(table) ? fl_rank_length(table, 0) : 0;

    fl_array_clear(out);
    for (int64_t t = 0; t < n; t++) {
        fl_tensor like, *step;

        FL_TRY(describe_step(c, x, table, t, &like));
        FL_TRY(fl_array_make(out, (size_t)t, &like, &step));
        copy_step(x, table, t, step->data);
    }
    return FL_OK;
}

/* --- an array as sequences like those of X --------------------------------- */

/* Rows of entry i of step t. */
static fl_span entry(const fl_tensor *step, int64_t i)
{
    size_t lo = (size_t)i, hi = (size_t)i + 1;

    for (int k = 0; k < step->n_lod; k++) {
        lo = (size_t)step->lod[k][lo];
        hi = (size_t)step->lod[k][hi];
    }
    return (fl_span){ lo, hi };
}

static const fl_tensor *step_at(const fl_array *a, int64_t t)
{
    return fl_array_at(a, (size_t)t);
}

/* The place of each sequence in the order. */
static int64_t *ranks_of(fl_op_ctx *c, const fl_tensor *table)
{
    int64_t n = fl_rank_count(table);
    int64_t *rank = fl_scratch(c, ((size_t)n + 1) * sizeof(*rank));

    for (int64_t i = 0; rank && i < n; i++)
        rank[fl_rank_index(table, i)] = i;
    return rank;
}

/* The elements of all steps, sequence after sequence; places that are empty
   count as zeros. `x` has the offsets, `to` the memory. */
static fl_status join(fl_op_ctx *c, const fl_array *steps,
                      const fl_tensor *table, fl_tensor *to)
{
    int64_t *rank = ranks_of(c, table);
    size_t row = row_bytes(to), at = 0;

    if (!rank)
        return FL_NOMEM(c);
    for (int64_t i = 0; i < fl_rank_count(table); i++)
        for (int64_t t = 0; t < fl_rank_length(table, rank[i]); t++) {
            const fl_tensor *step = step_at(steps, t);
            fl_span from =
                step ? entry(step, rank[i]) : piece(to, level_of(table), i, t);
            size_t bytes = (from.hi - from.lo) * row;

            if (bytes && step)
                memcpy((char *)to->data + at,
                       (const char *)step->data + from.lo * row, bytes);
            else if (bytes)
                memset((char *)to->data + at, 0, bytes);
            at += bytes;
        }
    return FL_OK;
}

/* --- lod_tensor_to_array --------------------------------------------------- */

enum { PART_X, PART_TABLE };
enum { PART_OUT };

static fl_status lod_tensor_to_array_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, PART_X);
    const fl_tensor *table = fl_infer_in(c, PART_TABLE);
    fl_tensor like = *x;
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_rank_table(c, PART_TABLE));
    if (c->running && level_of(table) >= x->n_lod)
        FL_FAIL(FL_ERR_INVAL,
                "op lod_tensor_to_array: RankTable is of level %d, and %s has "
                "%d levels of offsets",
                level_of(table), fl_infer_text(c, PART_X, buf), x->n_lod);
    like.shape.dim[0] = -1;
    like.n_lod -= level_of(table) + 1;
    like.n_lod = like.n_lod > 0 ? like.n_lod : 0;
    fl_infer_array_of(c, PART_OUT, &like);
    return FL_OK;
}

static fl_status lod_tensor_to_array_run(fl_op_ctx *c)
{
    return part(c, fl_in_t(c, PART_X), fl_in_t(c, PART_TABLE),
                fl_array_of(fl_out_t(c, PART_OUT)));
}

static fl_status lod_tensor_to_array_back(fl_op_ctx *c)
{
    return join(c, fl_array_of(fl_dout_t(c, PART_OUT)), fl_in_t(c, PART_TABLE),
                fl_din_t(c, PART_X));
}

static const fl_op_case lod_tensor_to_array_cases[] = {
    { .in = { "f32[7,2] lod=[0,2,2,7]", "i64[3,2] is=[2,5,0,2,1,0]" } },
};

const fl_op fl_op_lod_tensor_to_array = {
    .name = "lod_tensor_to_array",
    .doc = "Out, an array, has at place t element t of the sequences of X that "
           "are longer than t, in the order of RankTable",
    .in = { { "X", 0 }, { "RankTable", FL_SLOT_NO_GRAD } },
    .out = { { "Out", FL_OP_SLOT_ARRAY } },
    .infer = lod_tensor_to_array_infer,
    .run = lod_tensor_to_array_run,
    .back = lod_tensor_to_array_back,
    .back_uses = FL_USES_IN(PART_TABLE),
    .cases = lod_tensor_to_array_cases,
    .n_cases = FL_LEN(lod_tensor_to_array_cases),
};

/* --- array_to_lod_tensor --------------------------------------------------- */

enum { JOIN_X, JOIN_TABLE };
enum { JOIN_OUT };

static int step_levels(const fl_tensor *x)
{
    const fl_array *a = fl_array_of(x);
    const fl_tensor *first = fl_array_len(a) ? fl_array_at(a, 0) : NULL;

    return first ? first->n_lod : 0;
}

static fl_status check_steps(const fl_infer *c)
{
    const fl_array *a = fl_array_of(fl_infer_in(c, JOIN_X));
    const fl_tensor *table = fl_infer_in(c, JOIN_TABLE);
    int64_t n = fl_rank_count(table) ? fl_rank_length(table, 0) : 0;

    for (int64_t t = 0; t < n; t++) {
        const fl_tensor *step = step_at(a, t);
        int64_t have = 0;

        if (step)
            have = step->n_lod ? step->lod_len[0] - 1 : step->shape.dim[0];
        if (have < fl_rank_alive(table, t))
            FL_FAIL(FL_ERR_INVAL,
                    "op array_to_lod_tensor: place %" PRId64
                    " of X has %" PRId64 " elements, and %" PRId64
                    " sequences are that long",
                    t, have, fl_rank_alive(table, t));
    }
    return FL_OK;
}

/* Lengths of the sequences, and below them what the steps have. */
static int64_t *join_own_level(const fl_tensor *table, int64_t *to)
{
    int64_t n = fl_rank_count(table);

    for (int64_t i = 0; i < n; i++)
        to[1 + fl_rank_index(table, i)] = fl_rank_length(table, i);
    to[0] = 0;
    for (int64_t i = 0; i < n; i++)
        to[i + 1] += to[i];
    return to + n + 1;
}

static int64_t rank_of(const fl_tensor *table, int64_t sequence)
{
    int64_t i = 0;

    while (fl_rank_index(table, i) != sequence)
        i++;
    return i;
}

static int64_t *join_level(const fl_array *a, const fl_tensor *table, int k,
                           int64_t *to)
{
    int64_t end = 0;

    *to++ = 0;
    for (int64_t s = 0; s < fl_rank_count(table); s++) {
        int64_t rank = rank_of(table, s);

        for (int64_t t = 0; t < fl_rank_length(table, rank); t++) {
            const fl_tensor *step = step_at(a, t);
            int64_t lo = rank, hi = rank + 1;

            for (int up = 0; up < k; up++) {
                lo = step->lod[up][lo];
                hi = step->lod[up][hi];
            }
            for (; lo < hi; lo++) {
                end += step->lod[k][lo + 1] - step->lod[k][lo];
                *to++ = end;
            }
        }
    }
    return to;
}

static int64_t count_offsets(const fl_infer *c, int levels)
{
    const fl_array *a = fl_array_of(fl_infer_in(c, JOIN_X));
    int64_t n = fl_rank_count(fl_infer_in(c, JOIN_TABLE)) + 1;

    for (int k = 0; k < levels; k++, n++)
        for (size_t t = 0; t < fl_array_len(a); t++)
            n += fl_array_at(a, t)->lod_len[k];
    return n;
}

/* Offsets above the table's level, of the level, and below it. */
static fl_status join_offsets(const fl_infer *c, fl_tensor *out)
{
    const fl_tensor *x = fl_infer_in(c, JOIN_X);
    const fl_tensor *table = fl_infer_in(c, JOIN_TABLE);
    int levels = step_levels(x), at = level_of(table);
    int64_t *next;
    void *memory;

    FL_TRY(fl_infer_workspace(
        c, (size_t)count_offsets(c, levels) * sizeof(int64_t), &memory));
    for (int k = 0; k < at; k++) {
        out->lod[k] = table->lod[k];
        out->lod_len[k] = table->lod_len[k];
    }
    next = join_own_level(table, memory);
    out->lod[at] = memory;
    out->lod_len[at++] = fl_rank_count(table) + 1;
    for (int k = 0; k < levels; k++) {
        int64_t *end = join_level(fl_array_of(x), table, k, next);

        out->lod[at] = next;
        out->lod_len[at++] = end - next;
        next = end;
    }
    out->n_lod = at;
    out->shape.dim[0] = out->lod[at - 1][out->lod_len[at - 1] - 1];
    return FL_OK;
}

static fl_status array_to_lod_tensor_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, JOIN_X);
    const fl_tensor *table = fl_infer_in(c, JOIN_TABLE);
    fl_tensor *out = fl_infer_out(c, JOIN_OUT);
    bool is_real = c->running && !c->node->is_grad;

    FL_TRY(fl_infer_array(c, JOIN_X));
    FL_TRY(fl_infer_rank_table(c, JOIN_TABLE));
    out->dtype = x->dtype;
    out->shape = x->shape;
    if (out->shape.rank)
        out->shape.dim[0] = -1;
    out->kind = FL_KIND_RAGGED;
    out->n_lod = level_of(table) + 1 + x->n_lod;
    if (!is_real)
        return FL_OK;
    FL_TRY(check_steps(c));
    if (fl_array_len(fl_array_of(x)) && fl_array_at(fl_array_of(x), 0)) {
        out->dtype = fl_array_at(fl_array_of(x), 0)->dtype;
        out->shape = fl_array_at(fl_array_of(x), 0)->shape;
    }
    return join_offsets(c, out);
}

static fl_status array_to_lod_tensor_run(fl_op_ctx *c)
{
    return join(c, fl_array_of(fl_in_t(c, JOIN_X)), fl_in_t(c, JOIN_TABLE),
                fl_out_t(c, JOIN_OUT));
}

/* The offsets of Out are those of its gradient. */
static fl_status array_to_lod_tensor_back(fl_op_ctx *c)
{
    fl_tensor dout = *fl_dout_t(c, JOIN_OUT);
    const fl_tensor *out = fl_saved_out_t(c, JOIN_OUT);

    dout.n_lod = out->n_lod;
    memcpy(dout.lod, out->lod, sizeof(dout.lod));
    memcpy(dout.lod_len, out->lod_len, sizeof(dout.lod_len));
    return part(c, &dout, fl_in_t(c, JOIN_TABLE),
                fl_array_of(fl_din_t(c, JOIN_X)));
}

static const fl_op_case array_to_lod_tensor_cases[] = {
    { .in = { "f32[3,2] array", "i64[3,2] is=[2,5,0,2,1,0]" } },
};

const fl_op fl_op_array_to_lod_tensor = {
    .name = "array_to_lod_tensor",
    .doc = "Out = the sequences whose elements are the places of the array X, "
           "as lod_tensor_to_array made them",
    .in = { { "X", FL_OP_SLOT_ARRAY },
            { "RankTable", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE } },
    .out = { { "Out", 0 } },
    .infer = array_to_lod_tensor_infer,
    .run = array_to_lod_tensor_run,
    .back = array_to_lod_tensor_back,
    .back_uses = FL_USES_IN(JOIN_TABLE) | FL_USES_OUT(JOIN_OUT),
    .cases = array_to_lod_tensor_cases,
    .n_cases = FL_LEN(array_to_lod_tensor_cases),
};
