/* c_allreduce.c - sum, maximum, minimum and product over the workers.
 *
 * Several tensors of one type are one message, which is how the gradients of a
 * bucket travel: they are laid one behind the other and taken apart again. A
 * single tensor is worked on where its result is going to be.
 *
 * Share is what this worker's numbers count in the sum. With it a sum of
 * gradients is their mean, in one pass over the memory.
 */
#include <inttypes.h>

#include "kernel/vec.h"
#include "ops/collect.h"

enum { X, SHARE };
enum { OUT };
enum { EVERY = FL_COLLECT_USE_CALC_STREAM + 1 };

/* --- shapes --------------------------------------------------------------- */

static fl_status check_share(const fl_infer *c)
{
    const fl_tensor *share = fl_infer_in(c, SHARE);
    char text[FL_SLOT_TEXT_MAX];

    if (!share)
        return FL_OK;
    FL_TRY(fl_infer_float(c, X));
    if (share->dtype != FL_DTYPE_F64 || fl_shape_numel(&share->shape) != 1)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must be one f64 number",
                c->node->def->name, fl_infer_text(c, SHARE, text));
    return FL_OK;
}

static fl_status check_pair(const fl_infer *c, int i)
{
    const fl_tensor *first = fl_infer_in_at(c, X, 0);
    const fl_tensor *x = fl_infer_in_at(c, X, i);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_collect_check(c, X, i));
    if (x->dtype != first->dtype)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s and %s are one message and must have one type",
                c->node->def->name, fl_infer_text_at(c, X, 0, a),
                fl_infer_text_at(c, X, i, b));
    if (x->kind == FL_KIND_ROWS &&
        (fl_infer_n_in(c, X) > 1 || !fl_dtype_is_float(x->dtype)))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s has rows + values; such gradients are f32 or f64 "
                "and go each for itself",
                c->node->def->name, fl_infer_text_at(c, X, i, a));
    return FL_OK;
}

/* How many rows the others have is known in the run. */
static fl_status reduce_infer(fl_infer *c)
{
    if (fl_infer_n_in(c, X) != fl_infer_n_out(c, OUT))
        FL_FAIL(FL_ERR_INVAL, "op %s: %d X and %d Out; each X has its Out",
                c->node->def->name, fl_infer_n_in(c, X),
                fl_infer_n_out(c, OUT));
    for (int i = 0; i < fl_infer_n_in(c, X); i++) {
        fl_tensor *out = fl_infer_out_at(c, OUT, i);

        FL_TRY(check_pair(c, i));
        fl_tensor_like(out, fl_infer_in_at(c, X, i));
        if (out->kind == FL_KIND_ROWS && !c->running)
            out->shape.dim[0] = -1;
    }
    return FL_OK;
}

static fl_status sum_infer(fl_infer *c)
{
    if (fl_int(c, EVERY) < 1)
        FL_FAIL(FL_ERR_INVAL, "op %s: every=%" PRId64 " is below 1",
                c->node->def->name, fl_int(c, EVERY));
    FL_TRY(reduce_infer(c));
    if (fl_infer_in(c, X)->kind == FL_KIND_ROWS && fl_int(c, EVERY) > 1)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: rows + values are of one step, and every=%" PRId64
                " leaves steps out",
                c->node->def->name, fl_int(c, EVERY));
    return check_share(c);
}

/* --- running -------------------------------------------------------------- */

#define SCALE(T, t)                                                            \
    static void scale_##t(void *to, const void *from, double by, size_t n)     \
    {                                                                          \
        fl_vec_##t()->scale(to, (T)by, from, 0, n);                            \
    }
FL_FLOATS(SCALE)

static size_t bytes_of(const fl_tensor *t)
{
    return (size_t)fl_tensor_numel(t) * fl_dtype_bytes(t->dtype);
}

/* A share of 1 is a copy. */
static void put(void *to, const fl_tensor *x, double share)
{
    size_t bytes = bytes_of(x);

    if (share != 1)
        FL_BY_DTYPE(x->dtype, scale, to, x->data, share,
                    (size_t)fl_tensor_numel(x));
    else if (bytes && to != x->data)
        memcpy(to, x->data, bytes);
}

static void put_all(const fl_op_ctx *c, double share)
{
    for (int i = 0; i < fl_n_in(c, X); i++)
        put(fl_out_at(c, OUT, i)->data, fl_in_at(c, X, i), share);
}

static fl_status pack(const fl_op_ctx *c, fl_collect_state *s, double share)
{
    size_t bytes = 0, at = 0;

    for (int i = 0; i < fl_n_in(c, X); i++)
        bytes += bytes_of(fl_in_at(c, X, i));
    if (!fl_buf_reserve(&s->buf, bytes + 1))
        return FL_NOMEM(c);
    for (int i = 0; i < fl_n_in(c, X); i++) {
        put((char *)s->buf.data + at, fl_in_at(c, X, i), share);
        at += bytes_of(fl_in_at(c, X, i));
    }
    return FL_OK;
}

static void unpack(const fl_op_ctx *c, const fl_collect_state *s)
{
    const char *from = s->buf.data;

    for (int i = 0; i < fl_n_out(c, OUT); i++) {
        const fl_tensor *out = fl_out_at(c, OUT, i);

        if (bytes_of(out))
            memcpy(out->data, from, bytes_of(out));
        from += bytes_of(out);
    }
}

static size_t count_numbers(const fl_op_ctx *c)
{
    size_t n = 0;

    for (int i = 0; i < fl_n_in(c, X); i++)
        n += (size_t)fl_tensor_numel(fl_in_at(c, X, i));
    return n;
}

static fl_status begin(const fl_op_ctx *c, fl_collect_state *s,
                       fl_collect_op op, double share)
{
    fl_comm_collect what = { .kind = FL_COLLECT_ALLREDUCE,
                             .op = op,
                             .dtype = fl_in_t(c, X)->dtype,
                             .n = count_numbers(c),
                             .n_vars = (size_t)fl_n_in(c, X) };

    if (fl_n_in(c, X) > 1) {
        FL_TRY(pack(c, s, share));
        what.in = what.out = s->buf.data;
    } else {
        put_all(c, share);
        what.in = what.out = fl_out(c, OUT);
    }
    return fl_collect_begin(c, s, &what);
}

static fl_status reduce_dense(fl_op_ctx *c, fl_collect_op op, double share)
{
    fl_collect_state *s = fl_collect_keep(c);
    bool is_alone;
    fl_status st;

    FL_TRY(fl_collect_is_alone(c, &is_alone));
    if (is_alone) {
        put_all(c, share);
        return FL_OK;
    }
    st = c->resumed ? fl_comm_result(&s->call.answer) : begin(c, s, op, share);
    if (!st && fl_n_in(c, X) > 1)
        unpack(c, s);
    return st;
}

/* Steps in which workers leave it out have the same numbers everywhere. */
static bool is_its_step(const fl_op_ctx *c)
{
    return (c->step_no + 1) % (uint64_t)fl_int(c, EVERY) == 0;
}

static fl_status c_allreduce_sum_run(fl_op_ctx *c)
{
    const fl_tensor *t = fl_in_t(c, SHARE);
    double share = t ? fl_float_at(t, 0) : 1;

    if (!is_its_step(c)) {
        put_all(c, 1);
        return FL_OK;
    }
    if (fl_in_t(c, X)->kind == FL_KIND_ROWS)
        return fl_collect_rows(c, fl_in_t(c, X), fl_out_t(c, OUT), share);
    return reduce_dense(c, FL_COLLECT_SUM, share);
}

static const fl_op_case sum_cases[] = {
    { .in = { "f32[33,7]" } },
    { .in = { "f32[3,4];f32[5];f32[1]" } },
    { .in = { "i64[6,1] below=10" } },
    { .in = { "f32[5,4] rows height=9" } },
    { .in = { "f32[0,8]" }, .attrs = "{ring_id=1, use_calc_stream=true}" },
    { .in = { "f32[3,4];f32[5]" }, .attrs = "{every=3}" },
};

const fl_op fl_op_c_allreduce_sum = {
    .name = "c_allreduce_sum",
    .doc = "Out = the sum of X over all workers, of several X as one message; "
           "what this worker has is multiplied by Share, 1 if it is left out. "
           "Rows + values: those of all workers, in the order of ranks. With "
           "every above 1 it is made once in so many steps, and Out is X in "
           "the others. Calls "
           "with one ring_id begin in the same order everywhere; "
           "use_calc_stream is of other devices and changes nothing",
    .in = { { "X", FL_OP_SLOT_LIST | FL_OP_SLOT_ROWS | FL_SLOT_NO_GRAD },
            { "Share", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD } },
    .out = { { "Out", FL_OP_SLOT_LIST | FL_OP_SLOT_ROWS } },
    .attrs = { FL_COLLECT_ATTRS, { "every", FL_ATTR_INT, "1" } },
    .flags = FL_COLLECT_FLAGS,
    .infer = sum_infer,
    .run = c_allreduce_sum_run,
    .cases = sum_cases,
    .n_cases = FL_LEN(sum_cases),
};

static const fl_op_case reduce_cases[] = {
    { .in = { "f32[33,7]" } },
    { .in = { "i64[6,1] below=10;i64[3] below=9" } },
    { .in = { "f32[0,8]" }, .attrs = "{ring_id=1, use_calc_stream=true}" },
};

#define REDUCE(name_, op_, word)                                               \
    static fl_status name_##_run(fl_op_ctx *c)                                 \
    {                                                                          \
        return reduce_dense(c, op_, 1);                                        \
    }                                                                          \
                                                                               \
    const fl_op fl_op_##name_ = {                                              \
        .name = #name_,                                                        \
        .doc = "Out = the " word " of X over all workers, element by "         \
               "element; see c_allreduce_sum",                                 \
        .in = { { "X", FL_OP_SLOT_LIST | FL_SLOT_NO_GRAD } },                  \
        .out = { { "Out", FL_OP_SLOT_LIST } },                                 \
        .attrs = { FL_COLLECT_ATTRS },                                         \
        .flags = FL_COLLECT_FLAGS,                                             \
        .infer = reduce_infer,                                                 \
        .run = name_##_run,                                                    \
        .cases = reduce_cases,                                                 \
        .n_cases = FL_LEN(reduce_cases),                                       \
    };
REDUCE(c_allreduce_max, FL_COLLECT_MAX, "largest")
REDUCE(c_allreduce_min, FL_COLLECT_MIN, "smallest")
REDUCE(c_allreduce_prod, FL_COLLECT_PROD, "product")
