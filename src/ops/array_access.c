/* array_access.c - single values of an array of tensors.
 *
 * An operator that writes to an array changes the variable that it is. With the
 * slot Array it says what was there before, so that gradients find their way to
 * it: Array is that same variable, or one that holds an earlier list. */
#include <inttypes.h>

#include "ops/arrays.h"
#include "ops/helpers.h"

/* --- write_to_array ------------------------------------------------------- */

enum { WRITE_X, WRITE_I, WRITE_ARRAY };
enum { WRITE_OUT };

static fl_status write_to_array_infer(fl_infer *c)
{
    FL_TRY(fl_infer_index(c, WRITE_I));
    if (fl_infer_n_in(c, WRITE_ARRAY))
        FL_TRY(fl_infer_array(c, WRITE_ARRAY));
    fl_infer_array_of(c, WRITE_OUT, fl_infer_in(c, WRITE_X));
    return FL_OK;
}

static fl_status write_to_array_run(fl_op_ctx *c)
{
    fl_array *out = fl_array_of(fl_out_t(c, WRITE_OUT));
    size_t i;

    FL_TRY(fl_read_index(c->node, fl_in_t(c, WRITE_I), &i));
    if (fl_n_in(c, WRITE_ARRAY))
        fl_array_copy(out, fl_array_of(fl_in_t(c, WRITE_ARRAY)));
    return fl_array_put(out, i, fl_in_t(c, WRITE_X));
}

/* What was at the place before is gone, so it has no gradient. */
static fl_status write_to_array_back(fl_op_ctx *c)
{
    const fl_tensor *dout = fl_dout_t(c, WRITE_OUT);
    fl_tensor *dx = fl_din_t(c, WRITE_X), *darray = fl_din_t(c, WRITE_ARRAY);
    const fl_tensor *came;
    size_t i;

    FL_TRY(fl_read_index(c->node, fl_in_t(c, WRITE_I), &i));
    came = dout ? fl_array_at(fl_array_of(dout), i) : NULL;
    if (dx)
        fl_share_copy(c, dx, came);
    if (!darray)
        return FL_OK;
    if (dout)
        fl_array_copy(fl_array_of(darray), fl_array_of(dout));
    else
        fl_array_clear(fl_array_of(darray));
    fl_array_drop(fl_array_of(darray), i);
    return FL_OK;
}

static const fl_op_case write_to_array_cases[] = {
    { .in = { "f32[3,4]", "i64[1] is=[0]" } },
    { .in = { "f32[5,2] lod=[0,2,5]", "i64[1] is=[2]" } },
    { .in = { "i64[3,1] below=9", "i32[1] is=[1]" } },
};

const fl_op fl_op_write_to_array = {
    .name = "write_to_array",
    .doc = "Out, an array, has X at place I; what else it holds stays, or is "
           "that of Array",
    .in = { { "X", 0 },
            { "I", FL_SLOT_NO_GRAD },
            { "Array", FL_OP_SLOT_OPTIONAL | FL_OP_SLOT_ARRAY } },
    .out = { { "Out", FL_OP_SLOT_STATE | FL_OP_SLOT_ARRAY } },
    .infer = write_to_array_infer,
    .run = write_to_array_run,
    .back = write_to_array_back,
    .back_uses = FL_USES_IN(WRITE_I),
    .cases = write_to_array_cases,
    .n_cases = FL_LEN(write_to_array_cases),
};

/* --- read_from_array ------------------------------------------------------ */

enum { READ_X, READ_I };
enum { READ_OUT };

/* While building, values are taken to be like the one that was written last. */
static fl_status read_from_array_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, READ_X), *value = x;
    fl_tensor *out = fl_infer_out(c, READ_OUT);
    size_t i;

    FL_TRY(fl_infer_array(c, READ_X));
    FL_TRY(fl_infer_index(c, READ_I));
    if (c->running && !c->node->is_grad) {
        FL_TRY(fl_read_index(c->node, fl_infer_in(c, READ_I), &i));
        value = fl_array_at(fl_array_of(x), i);
        if (!value)
            FL_FAIL(FL_ERR_INVAL,
                    "op read_from_array: %s has nothing at place %zu; it has "
                    "%zu places",
                    c->node->in[READ_X].vars[0]->name, i,
                    fl_array_len(fl_array_of(x)));
    }
    fl_tensor_like(out, value);
    if (value == x)
        out->kind = x->n_lod ? FL_KIND_RAGGED : FL_KIND_DENSE;
    return FL_OK;
}

static fl_status read_from_array_run(fl_op_ctx *c)
{
    fl_tensor *out = fl_out_t(c, READ_OUT);
    const fl_tensor *value;
    size_t i;

    FL_TRY(fl_read_index(c->node, fl_in_t(c, READ_I), &i));
    value = fl_array_at(fl_array_of(fl_in_t(c, READ_X)), i);
    fl_share_copy(c, out, value);
    return FL_OK;
}

static fl_status read_from_array_back(fl_op_ctx *c)
{
    fl_tensor *dx = fl_din_t(c, READ_X);
    size_t i;

    FL_TRY(fl_read_index(c->node, fl_in_t(c, READ_I), &i));
    fl_array_clear(fl_array_of(dx));
    return fl_dout_t(c, READ_OUT)
               ? fl_array_put(fl_array_of(dx), i, fl_dout_t(c, READ_OUT))
               : FL_OK;
}

static const fl_op_case read_from_array_cases[] = {
    { .in = { "f32[3,4] array", "i64[1] is=[1]" } },
    { .in = { "i64[2,1] array", "i32[1] is=[0]" } },
};

const fl_op fl_op_read_from_array = {
    .name = "read_from_array",
    .doc = "Out = the value at place I of the array X",
    .in = { { "X", FL_OP_SLOT_ARRAY },
            { "I", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE } },
    .out = { { "Out", 0 } },
    .infer = read_from_array_infer,
    .run = read_from_array_run,
    .back = read_from_array_back,
    .back_uses = FL_USES_IN(READ_I),
    .cases = read_from_array_cases,
    .n_cases = FL_LEN(read_from_array_cases),
};

/* --- lod_array_length ----------------------------------------------------- */

enum { LENGTH_X };
enum { LENGTH_OUT };

static fl_status lod_array_length_infer(fl_infer *c)
{
    FL_TRY(fl_infer_array(c, LENGTH_X));
    fl_infer_dense(c, LENGTH_OUT, FL_DTYPE_I64, 1, (int64_t[]){ 1 });
    return FL_OK;
}

static fl_status lod_array_length_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, LENGTH_X);

    *(int64_t *)fl_out(c, LENGTH_OUT) = (int64_t)fl_array_len(fl_array_of(x));
    return FL_OK;
}

static const fl_op_case lod_array_length_cases[] = {
    { .in = { "f32[3,4] array" } },
};

const fl_op fl_op_lod_array_length = {
    .name = "lod_array_length",
    .doc = "Out = the number of places of the array X",
    .in = { { "X", FL_OP_SLOT_ARRAY | FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .infer = lod_array_length_infer,
    .run = lod_array_length_run,
    .cases = lod_array_length_cases,
    .n_cases = FL_LEN(lod_array_length_cases),
};
