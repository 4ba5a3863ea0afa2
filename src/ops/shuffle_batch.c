/* shuffle_batch.c - the rows of a batch in a drawn order. The order depends on
 * the seed, the name of Out, the global step and the replica alone; no state
 * moves on, so SeedOut is Seed. */
#include "base/rng.h"
#include "ops/helpers.h"

enum { X, SEED };
enum { OUT, SHUFFLE_IDX, SEED_OUT };
enum { STARTUP_SEED };

/* Everything before the last axis numbers the rows. */
static int64_t n_rows(const fl_shape *x)
{
    return fl_shape_count(x, 0, x->rank > 1 ? x->rank - 1 : 1);
}

static fl_status shuffle_batch_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X), *seed = fl_infer_in(c, SEED);
    int64_t n = n_rows(&x->shape), k = fl_shape_numel(&seed->shape);
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_ids(c, SEED));
    if (k > 1)
        FL_FAIL(FL_ERR_INVAL,
                "op shuffle_batch: %s must hold one seed, or none for "
                "startup_seed",
                fl_infer_text(c, SEED, buf));
    fl_infer_dense(c, OUT, x->dtype, x->shape.rank, x->shape.dim);
    fl_infer_dense(c, SHUFFLE_IDX, FL_DTYPE_I64, 1, &n);
    if (fl_infer_out(c, SEED_OUT))
        fl_tensor_like(fl_infer_out(c, SEED_OUT), seed);
    return FL_OK;
}

/* A number below n, without the bias of a remainder. */
static uint64_t draw_below(uint64_t stream, uint64_t i, uint64_t n)
{
    return (uint64_t)((unsigned __int128)fl_rng_bits(stream, i, 0) * n >> 64);
}

static void draw_order(int64_t *order, int64_t n, uint64_t stream)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t k = (int64_t)draw_below(stream, (uint64_t)i, (uint64_t)i + 1);

        order[i] = order[k];
        order[k] = i;
    }
}

static size_t row_bytes(const fl_tensor *x)
{
    return fl_tensor_numel(x)
               ? (size_t)(fl_tensor_numel(x) / n_rows(&x->shape)) *
                     fl_dtype_bytes(x->dtype)
               : 0;
}

static fl_status shuffle_batch_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X), *seed = fl_in_t(c, SEED);
    bool is_given = fl_tensor_numel(seed) > 0;
    int64_t first = is_given ? fl_id_at(seed, 0) : fl_int(c, STARTUP_SEED);
    int64_t *to = fl_out(c, SHUFFLE_IDX), n = n_rows(&x->shape);
    size_t bytes = row_bytes(x);

    draw_order(to, n, fl_op_stream(c, first, FL_STREAM_MOVING));
    for (int64_t i = 0; i < n && bytes; i++)
        memcpy((char *)fl_out(c, OUT) + (size_t)to[i] * bytes,
               (const char *)x->data + (size_t)i * bytes, bytes);
    if (fl_out_t(c, SEED_OUT) && is_given)
        memmove(fl_out(c, SEED_OUT), seed->data, fl_dtype_bytes(seed->dtype));
    return FL_OK;
}

static fl_status shuffle_batch_back(fl_op_ctx *c)
{
    fl_tensor *dx = fl_din_t(c, X);
    const int64_t *to = fl_saved_out(c, SHUFFLE_IDX);
    const char *g = fl_dout(c, OUT);
    size_t bytes;

    if (!dx)
        return FL_OK;
    if (!g)
        fl_share_zero(c, dx);
    bytes = row_bytes(dx);
    for (int64_t i = 0; g && bytes && i < n_rows(&dx->shape); i++)
        memcpy((char *)dx->data + (size_t)i * bytes, g + (size_t)to[i] * bytes,
               bytes);
    return FL_OK;
}

static const fl_op_case shuffle_batch_cases[] = {
    { .in = { "f32[33,7]", "i64[1] is=[5]" } },
    { .in = { "f32[5,2,3]", "i64[0]" }, .attrs = "{startup_seed=3}" },
    { .in = { "i64[9,1]", "i64[1] is=[0]" } },
    { .in = { "f32[1,4]", "i64[1] is=[7]" } },
    { .in = { "f32[0,8]", "i64[1] is=[5]" } },
};

const fl_op fl_op_shuffle_batch = {
    .name = "shuffle_batch",
    .doc = "Out = the rows of X in a drawn order, another one each step: row i "
           "is row ShuffleIdx[i] of Out. Seed, or startup_seed where it is "
           "empty, says which; 0 is the seed of the program. SeedOut = Seed",
    .in = { { "X", 0 }, { "Seed", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 },
             { "ShuffleIdx", FL_SLOT_NO_GRAD },
             { "SeedOut", FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "startup_seed", FL_ATTR_INT, "0" } },
    .infer = shuffle_batch_infer,
    .run = shuffle_batch_run,
    .back = shuffle_batch_back,
    .back_uses = FL_USES_OUT(SHUFFLE_IDX),
    .cases = shuffle_batch_cases,
    .n_cases = FL_LEN(shuffle_batch_cases),
};
