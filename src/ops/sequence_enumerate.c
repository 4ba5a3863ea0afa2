/* sequence_enumerate.c - every id and those that follow it. */
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/sequences.h"

enum { X };
enum { OUT };
enum { WIN_SIZE, PAD_VALUE };

typedef struct enumerate_job {
    fl_seqs seqs;
    fl_span s;
    size_t win;
    int64_t pad;
} enumerate_job;

#define KERNEL(T, t)                                                           \
    static void enumerate_##t(const enumerate_job *j, const T *x, T *out)      \
    {                                                                          \
        for (size_t s = j->s.lo; s < j->s.hi; s++) {                           \
            size_t hi = (size_t)j->seqs.off[s + 1];                            \
                                                                               \
            for (size_t i = (size_t)j->seqs.off[s]; i < hi; i++)               \
                for (size_t k = 0; k < j->win; k++)                            \
                    out[i * j->win + k] = k < hi - i ? x[i + k] : (T)j->pad;   \
        }                                                                      \
    }
KERNEL(int32_t, i32)
KERNEL(int64_t, i64)

static fl_status sequence_enumerate_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    fl_tensor *out = fl_infer_out(c, OUT);
    char buf[FL_SLOT_TEXT_MAX];
    int64_t width;

    FL_TRY(fl_infer_ids(c, X));
    FL_TRY(fl_infer_seqs(c, X));
    width = fl_shape_count(&x->shape, 1, x->shape.rank);
    if (width >= 0 && width != 1)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_enumerate: %s must have one id per row",
                fl_infer_text(c, X, buf));
    if (fl_int(c, WIN_SIZE) < 1 || fl_int(c, WIN_SIZE) > INT32_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op sequence_enumerate: win_size=%lld is not at least 1",
                (long long)fl_int(c, WIN_SIZE));
    fl_tensor_like(out, x);
    out->shape.rank = 2;
    out->shape.dim[1] = fl_int(c, WIN_SIZE);
    return FL_OK;
}

static fl_status sequence_enumerate_run(fl_op_ctx *c)
{
    enumerate_job j = { .seqs = fl_seqs_of(fl_in_t(c, X)),
                        .win = (size_t)fl_int(c, WIN_SIZE),
                        .pad = fl_int(c, PAD_VALUE) };

    j.s = fl_op_span(c, j.seqs.n);
    if (fl_in_t(c, X)->dtype == FL_DTYPE_I32)
        enumerate_i32(&j, fl_in(c, X), fl_out(c, OUT));
    else
        enumerate_i64(&j, fl_in(c, X), fl_out(c, OUT));
    return FL_OK;
}

static const fl_op_case sequence_enumerate_cases[] = {
    { .in = { "i64[10,1] lod=[0,3,4,8,10]" },
      .attrs = "{win_size=2, pad_value=7}" },
    { .in = { "i32[6] lod=[0,2,2,5,5,6]" }, .attrs = "{win_size=4}" },
    { .in = { "u64[5,1] lod=[0,2] lod=[0,2,5]" }, .attrs = "{win_size=3}" },
    { .in = { "i64[1,1] lod=[0,1]" }, .attrs = "{win_size=1}" },
    { .in = { "i64[0,1] lod=[0,0]" }, .attrs = "{win_size=2}" },
    { .in = { "i64[20,1] lod=[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,"
              "20]" },
      .attrs = "{win_size=2}" },
};

const fl_op fl_op_sequence_enumerate = {
    .name = "sequence_enumerate",
    .doc = "Out[i] = X[i], X[i + 1], ...: win_size ids; pad_value where the "
           "sequence has ended",
    .in = { { "X", FL_SLOT_NO_GRAD } },
    .out = { { "Out", FL_SLOT_NO_GRAD } },
    .attrs = { { "win_size", FL_ATTR_INT, "1" },
               { "pad_value", FL_ATTR_INT, "0" } },
    .flags = FL_OP_SLICED,
    .infer = sequence_enumerate_infer,
    .run = sequence_enumerate_run,
    .cases = sequence_enumerate_cases,
    .n_cases = FL_LEN(sequence_enumerate_cases),
};
