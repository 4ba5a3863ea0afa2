/* diag.c - matrices with numbers on the diagonal: those of a vector (diag), or
 * ones (eye). */
#include "ops/helpers.h"
#include "ops/walk.h"

enum { DIAGONAL };
enum { OUT };
enum { NUM_ROWS, NUM_COLUMNS, DTYPE };

/* The diagonal of a matrix. */
static fl_walk diagonal_of(const fl_shape *matrix)
{
    int64_t rows = matrix->dim[0], columns = matrix->dim[1];
    fl_shape line =
        fl_shape_of(1, (int64_t[]){ rows < columns ? rows : columns });
    fl_walk w = fl_walk_of(&line);

    w.step[0] = columns + 1;
    return w;
}

static fl_status diag_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, DIAGONAL);
    int64_t n = x->shape.dim[0];
    char buf[FL_SLOT_TEXT_MAX];

    if (x->shape.rank != 1)
        FL_FAIL(FL_ERR_INVAL, "op diag: %s must have one dimension",
                fl_infer_text(c, DIAGONAL, buf));
    fl_infer_dense(c, OUT, x->dtype, 2, (int64_t[]){ n, n });
    return FL_OK;
}

static fl_status diag_run(fl_op_ctx *c)
{
    fl_tensor *out = fl_out_t(c, OUT);
    fl_walk w = diagonal_of(&out->shape);

    fl_share_zero(c, out);
    fl_walk_put(&w, fl_dtype_bytes(out->dtype), fl_in(c, DIAGONAL), out->data);
    return FL_OK;
}

static fl_status eye_infer(fl_infer *c)
{
    int64_t rows = fl_int(c, NUM_ROWS), columns = fl_int(c, NUM_COLUMNS);
    fl_dtype dtype;

    FL_TRY(fl_infer_dtype(c, DTYPE, &dtype));
    if (rows < 0 || columns < -1)
        FL_FAIL(FL_ERR_INVAL,
                "op eye: num_rows=%lld and num_columns=%lld make no matrix",
                (long long)rows, (long long)columns);
    if (!fl_dtype_is_float(dtype) && dtype != FL_DTYPE_I32 &&
        dtype != FL_DTYPE_I64)
        FL_FAIL(FL_ERR_TYPE,
                "op eye: dtype %s is not float32, float64, int32 or int64",
                fl_str_attr(c, DTYPE));
    fl_infer_dense(c, OUT, dtype, 2,
                   (int64_t[]){ rows, columns == -1 ? rows : columns });
    return FL_OK;
}

static void put_one(fl_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case FL_DTYPE_F32:
        ((float *)t->data)[i] = 1;
        return;
    case FL_DTYPE_F64:
        ((double *)t->data)[i] = 1;
        return;
    default:
        fl_id_put(t, i, 1);
    }
}

static fl_status eye_run(fl_op_ctx *c)
{
    fl_tensor *out = fl_out_t(c, OUT);
    fl_walk w = diagonal_of(&out->shape);

    fl_share_zero(c, out);
    for (int64_t i = 0; i < w.shape.dim[0]; i++)
        put_one(out, i * w.step[0]);
    return FL_OK;
}

static const fl_op_case diag_cases[] = {
    { .in = { "f32[9]" } },
    { .in = { "i64[3] below=9" } },
    { .in = { "f32[0]" } },
};

static const fl_op_case eye_cases[] = {
    { .attrs = "{num_rows=5}" },
    { .attrs = "{num_rows=3, num_columns=5, dtype=int64}" },
    { .attrs = "{num_rows=5, num_columns=3, dtype=float64}" },
    { .attrs = "{num_rows=0, num_columns=3}" },
};

const fl_op fl_op_diag = {
    .name = "diag",
    .doc = "Out = a square matrix with the numbers of Diagonal, 0 elsewhere",
    .in = { { "Diagonal", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .infer = diag_infer,
    .run = diag_run,
    .cases = diag_cases,
    .n_cases = FL_LEN(diag_cases),
};

const fl_op fl_op_eye = {
    .name = "eye",
    .doc = "Out = a matrix with ones on its diagonal, 0 elsewhere; "
           "num_columns=-1 makes it square",
    .out = { { "Out", 0 } },
    .attrs = { { "num_rows", FL_ATTR_INT, "0" },
               { "num_columns", FL_ATTR_INT, "-1" },
               { "dtype", FL_ATTR_STRING, "float32" } },
    .infer = eye_infer,
    .run = eye_run,
    .cases = eye_cases,
    .n_cases = FL_LEN(eye_cases),
};
