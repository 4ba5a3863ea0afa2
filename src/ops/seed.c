/* seed.c - a seed as a value, for operators that take one. */
#include "base/rng.h"
#include "ops/helpers.h"

enum { OUT };
enum { SEED };

static fl_status seed_infer(fl_infer *c)
{
    int64_t seed = fl_int(c, SEED);

    if (seed < INT32_MIN || seed > INT32_MAX)
        FL_FAIL(FL_ERR_INVAL, "op seed: seed %lld does not fit in i32",
                (long long)seed);
    fl_infer_dense(c, OUT, FL_DTYPE_I32, 1, (int64_t[]){ 1 });
    return FL_OK;
}

/* A drawn seed is never 0, which stands for none. */
static fl_status seed_run(fl_op_ctx *c)
{
    int64_t seed = fl_int(c, SEED);

    if (!seed)
        seed = 1 + (int64_t)(fl_rng_unit(fl_op_stream(c, 0, FL_STREAM_MOVING),
                                         0, 0) *
                             INT32_MAX);
    fl_id_put(fl_out_t(c, OUT), 0, seed);
    return FL_OK;
}

static const fl_op_case seed_cases[] = {
    { .attrs = "{seed=7}" },
    { .attrs = "{seed=0}" },
};

const fl_op fl_op_seed = {
    .name = "seed",
    .doc = "Out = seed; another one each step, from the seed of the program, "
           "when seed is 0",
    .out = { { "Out", 0 } },
    .attrs = { { "seed", FL_ATTR_INT, "0" } },
    .infer = seed_infer,
    .run = seed_run,
    .cases = seed_cases,
    .n_cases = FL_LEN(seed_cases),
};
