/* lod_reset.c - the same rows in other sequences: those of Y, those whose
 * offsets Y holds as numbers, or those of target_lod; append puts them below
 * the sequences that X has. */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/sequences.h"
#include "ops/values.h"

enum { X, Y };
enum { OUT };
enum { TARGET_LOD, APPEND };

/* How many offsets there are; -1 when Y says it later. */
static int64_t count_offsets(const fl_infer *c)
{
    const fl_tensor *y = fl_infer_in(c, Y);
    size_t n;

    if (y)
        return fl_shape_numel(&y->shape);
    fl_attr_ints(c->node, TARGET_LOD, &n);
    return (int64_t)n;
}

static int64_t offset_at(const fl_infer *c, int64_t i)
{
    const fl_tensor *y = fl_infer_in(c, Y);
    size_t n;

    return y ? fl_id_at(y, i) : fl_attr_ints(c->node, TARGET_LOD, &n)[i];
}

/* Offsets begin at 0, do not descend and end with the rows of X; below other
   sequences each row is one. */
static fl_status check_offsets(const fl_infer *c, const int64_t *off, int64_t n)
{
    const fl_tensor *x = fl_infer_in(c, X);
    char buf[FL_SLOT_TEXT_MAX];
    bool fits = off[0] == 0 && off[n - 1] == x->shape.dim[0];

    if (fl_infer_out(c, OUT)->n_lod)
        fits = fits && n - 1 == x->shape.dim[0];
    for (int64_t i = 1; fits && i < n; i++)
        fits = off[i] >= off[i - 1];
    if (!fits)
        FL_FAIL(FL_ERR_INVAL,
                "op lod_reset: offsets from %" PRId64 " to %" PRId64
                " do not cut the rows of %s; they must ascend from 0 to "
                "%" PRId64,
                off[0], off[n - 1], fl_infer_text(c, X, buf), x->shape.dim[0]);
    return FL_OK;
}

/* Numbers as the innermost level of Out. */
static fl_status set_numbers(const fl_infer *c)
{
    fl_tensor *out = fl_infer_out(c, OUT);
    int64_t n = count_offsets(c);
    void *workspace = NULL;
    int64_t *off;

    out->lod[out->n_lod] = NULL;
    out->lod_len[out->n_lod] = 0;
    if (c->running) {
        FL_TRY(fl_infer_workspace(c, (size_t)n * sizeof(*off), &workspace));
        off = workspace;
        for (int64_t i = 0; i < n; i++)
            off[i] = offset_at(c, i);
        FL_TRY(check_offsets(c, off, n));
        out->lod[out->n_lod] = off;
        out->lod_len[out->n_lod] = n;
    }
    out->n_lod++;
    return FL_OK;
}

static fl_status check_numbers(const fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX];

    if (fl_infer_in(c, Y) && !fl_dtype_is_id(fl_infer_in(c, Y)->dtype))
        FL_FAIL(FL_ERR_INVAL,
                "op lod_reset: %s has neither sequences nor offsets",
                fl_infer_text(c, Y, buf));
    if (count_offsets(c) == 0 || count_offsets(c) == 1)
        FL_FAIL(FL_ERR_INVAL,
                "op lod_reset: sequences have two offsets or more, in Y or "
                "target_lod");
    return FL_OK;
}

static fl_status lod_reset_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X), *y = fl_infer_in(c, Y);
    fl_tensor *out = fl_infer_out(c, OUT);
    int kept = fl_bool(c, APPEND) ? x->n_lod : 0;
    char buf[FL_SLOT_TEXT_MAX];

    fl_tensor_like(out, x);
    out->kind = FL_KIND_RAGGED;
    if (y && y->n_lod && !fl_bool(c, APPEND)) {
        fl_tensor_like(out, y);
        out->dtype = x->dtype;
        out->shape = x->shape;
        return FL_OK;
    }
    if (kept == FL_LOD_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op lod_reset: %s has %d levels of offsets, there is no room "
                "for another",
                fl_infer_text(c, X, buf), kept);
    FL_TRY(check_numbers(c));
    out->n_lod = kept;
    return set_numbers(c);
}

static fl_status lod_reset_run(fl_op_ctx *c)
{
    fl_share_copy(c, fl_out_t(c, OUT), fl_in_t(c, X));
    return FL_OK;
}

static fl_status lod_reset_back(fl_op_ctx *c)
{
    if (fl_din_t(c, X))
        fl_share_copy(c, fl_din_t(c, X), fl_dout_t(c, OUT));
    return FL_OK;
}

static const fl_op_case lod_reset_cases[] = {
    { .in = { "f32[7,3] lod=[0,2,2,7]" }, .attrs = "{target_lod=[0,4,7]}" },
    { .in = { "f32[7,3]" }, .attrs = "{target_lod=[0,0,4,7]}" },
    { .in = { "f32[7,3]", "i32[3] is=[0,2,7]" } },
    { .in = { "f32[7,3]", "f32[7,1] lod=[0,2,2,7]" } },
    { .in = { "i64[7,1] lod=[0,2,2,7] below=9" },
      .attrs = "{target_lod=[0,1,2,3,4,5,6,7], append=true}" },
    { .in = { "f32[0,8]" }, .attrs = "{target_lod=[0,0]}" },
};

const fl_op fl_op_lod_reset = {
    .name = "lod_reset",
    .doc = "Out = the rows of X in the sequences of Y, in those whose offsets "
           "Y holds, or in those of target_lod; append keeps the sequences "
           "that X has and puts these below them",
    .in = { { "X", 0 }, { "Y", FL_VALUE_SLOT } },
    .out = { { "Out", 0 } },
    .attrs = { { "target_lod", FL_ATTR_INTS, "[]" },
               { "append", FL_ATTR_BOOL, "false" } },
    .flags = FL_OP_SLICED,
    .infer = lod_reset_infer,
    .run = lod_reset_run,
    .back = lod_reset_back,
    .cases = lod_reset_cases,
    .n_cases = FL_LEN(lod_reset_cases),
};
