/* sum.c - the sum of a list of tensors, dense or rows + values, or of arrays of
 * them. This is what adds up the gradients of a variable that is used more than
 * once. */
#include "kernel/vec.h"
#include "ops/arrays.h"
#include "ops/helpers.h"
#include "ops/rows.h"

enum { X };
enum { OUT };

/* Elements of Out that are added up at a time. */
#define BLOCK 2048

static fl_status mismatch(const fl_infer *c, int i, int k)
{
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_FAIL(FL_ERR_INVAL, "op sum: %s and %s do not fit",
            fl_infer_text_at(c, X, i, a), fl_infer_text_at(c, X, k, b));
}

/* Rows of the table that a tensor stands for; -1 when that is not known. */
static int64_t height_of(const fl_tensor *t)
{
    if (t->kind != FL_KIND_ROWS)
        return t->shape.dim[0];
    return t->height ? t->height : -1;
}

/* May they be added? Rows + values count as the table they belong to. */
static bool fits(const fl_tensor *a, const fl_tensor *b)
{
    fl_shape x = a->shape, y = b->shape;

    x.dim[0] = height_of(a);
    y.dim[0] = height_of(b);
    return a->dtype == b->dtype && fl_shape_matches(&x, &y);
}

static int first_dense(const fl_infer *c)
{
    for (int i = 0; i < fl_infer_n_in(c, X); i++)
        if (fl_infer_in_at(c, X, i)->kind != FL_KIND_ROWS)
            return i;
    return -1;
}

/* Room for all rows; how many are different is known after the run. */
static int64_t count_rows(const fl_infer *c)
{
    int64_t n = 0;

    for (int i = 0; i < fl_infer_n_in(c, X); i++) {
        int64_t rows = fl_infer_in_at(c, X, i)->shape.dim[0];

        if (rows < 0)
            return -1;
        n += rows;
    }
    return n;
}

/* Floats; integers where all are dense. */
static fl_status check_type(const fl_infer *c)
{
    fl_dtype d = fl_infer_in_at(c, X, 0)->dtype;
    char buf[FL_SLOT_TEXT_MAX];

    if (fl_dtype_is_float(d))
        return FL_OK;
    for (int i = 0; i < fl_infer_n_in(c, X); i++)
        if ((d != FL_DTYPE_I32 && d != FL_DTYPE_I64) ||
            fl_infer_in_at(c, X, i)->kind == FL_KIND_ROWS)
            FL_FAIL(FL_ERR_TYPE,
                    "op sum: %s must be f32 or f64, or i32 or i64 without rows",
                    fl_infer_text_at(c, X, i, buf));
    return FL_OK;
}

/* Arrays are added up place by place; what is there shows when they are. */
static fl_status infer_arrays(const fl_infer *c)
{
    for (int i = 1; i < fl_infer_n_in(c, X); i++)
        if (fl_infer_in_at(c, X, i)->kind != FL_KIND_ARRAY)
            return mismatch(c, 0, i);
    fl_infer_array_of(c, OUT, fl_infer_in(c, X));
    return FL_OK;
}

static fl_status sum_infer(fl_infer *c)
{
    fl_tensor *out = fl_infer_out(c, OUT);
    int dense = first_dense(c);
    int model = dense < 0 ? 0 : dense;

    if (fl_infer_in(c, X)->kind == FL_KIND_ARRAY)
        return infer_arrays(c);

    FL_TRY(check_type(c));
    for (int i = 0; i < fl_infer_n_in(c, X); i++)
        if (!fits(fl_infer_in_at(c, X, i), fl_infer_in_at(c, X, model)))
            return mismatch(c, i, model);
    fl_tensor_like(out, fl_infer_in_at(c, X, model));
    if (dense < 0)
        out->shape.dim[0] = count_rows(c);
    return FL_OK;
}

#define ADD(T, t)                                                              \
    static void add_##t(fl_tensor *out, const fl_tensor *x)                    \
    {                                                                          \
        fl_vec_##t()->axpy(out->data, 1, x->data,                              \
                           (size_t)fl_tensor_numel(out));                      \
    }
FL_FLOATS(ADD)

static void add_dense(fl_tensor *out, const fl_tensor *x)
{
    FL_BY_DTYPE(out->dtype, add, out, x);
}

/* All are dense: a block of Out is added up before the next one begins, so that
   it stays in the cache. */
#define ADD_ALL(T, t)                                                          \
    static void add_all_##t(T *out, fl_tensor *const *x, int n_x, size_t n)    \
    {                                                                          \
        for (size_t lo = 0; lo < n; lo += BLOCK) {                             \
            size_t len = n - lo < BLOCK ? n - lo : BLOCK;                      \
            const T *so_far = (const T *)x[0]->data + lo;                      \
                                                                               \
            for (int i = 1; i < n_x; i++, so_far = out + lo)                   \
                fl_vec_##t()->add(out + lo, so_far,                            \
                                  (const T *)x[i]->data + lo, len);            \
        }                                                                      \
    }
FL_FLOATS(ADD_ALL)

/* Integers wrap around, as in scale and elementwise_add. */
#define INTEGERS(T, U)                                                         \
    static void add_all_##T(fl_tensor *out, fl_tensor *const *x, int n_x)      \
    {                                                                          \
        size_t n = (size_t)fl_tensor_numel(out);                               \
        T *to = out->data;                                                     \
                                                                               \
        for (size_t k = 0; k < n; k++) {                                       \
            U sum = 0;                                                         \
                                                                               \
            for (int i = 0; i < n_x; i++)                                      \
                sum += (U)((const T *)x[i]->data)[k];                          \
            to[k] = (T)sum;                                                    \
        }                                                                      \
    }
INTEGERS(int32_t, uint32_t)
INTEGERS(int64_t, uint64_t)

static fl_status sum_integers(fl_op_ctx *c)
{
    if (fl_out_t(c, OUT)->dtype == FL_DTYPE_I32)
        add_all_int32_t(fl_out_t(c, OUT), c->in[X].t, fl_n_in(c, X));
    else
        add_all_int64_t(fl_out_t(c, OUT), c->in[X].t, fl_n_in(c, X));
    return FL_OK;
}

static bool all_dense(const fl_targs *x)
{
    for (int i = 0; i < x->n; i++)
        if (x->t[i]->kind == FL_KIND_ROWS)
            return false;
    return true;
}

static fl_status sum_arrays(const fl_op_ctx *c, fl_array *out)
{
    fl_array_copy(out, fl_array_of(fl_in_at(c, X, 0)));
    for (int i = 1; i < fl_n_in(c, X); i++)
        FL_TRY(fl_array_add(out, fl_array_of(fl_in_at(c, X, i))));
    return FL_OK;
}

/* The first dense one is the beginning, the others follow as listed. */
static fl_status sum_run(fl_op_ctx *c)
{
    fl_tensor *out = fl_out_t(c, OUT);
    int first = 0;

    if (out->kind == FL_KIND_ARRAY)
        return sum_arrays(c, fl_array_of(out));
    if (!fl_dtype_is_float(out->dtype))
        return sum_integers(c);
    if (out->kind == FL_KIND_ROWS)
        return fl_rows_sum(c, &c->in[X], out);
    if (all_dense(&c->in[X]) && fl_n_in(c, X) > 1) {
        FL_BY_DTYPE(out->dtype, add_all, out->data, c->in[X].t, fl_n_in(c, X),
                    (size_t)fl_tensor_numel(out));
        return FL_OK;
    }
    while (fl_in_at(c, X, first)->kind == FL_KIND_ROWS)
        first++;
    fl_share_copy(c, out, fl_in_at(c, X, first));
    for (int i = 0; i < fl_n_in(c, X); i++) {
        const fl_tensor *x = fl_in_at(c, X, i);

        if (i == first)
            continue;
        if (x->kind == FL_KIND_ROWS)
            FL_TRY(fl_err_ctx(fl_rows_add_to(x, out), "X[%d]", i));
        else
            add_dense(out, x);
    }
    return FL_OK;
}

static fl_status sum_back(fl_op_ctx *c)
{
    for (int i = 0; i < fl_n_in(c, X); i++)
        if (fl_din_at(c, X, i) && fl_din_at(c, X, i)->kind == FL_KIND_ARRAY)
            fl_array_copy(fl_array_of(fl_din_at(c, X, i)),
                          fl_array_of(fl_dout_t(c, OUT)));
        else if (fl_din_at(c, X, i))
            fl_share_copy(c, fl_din_at(c, X, i), fl_dout_t(c, OUT));
    return FL_OK;
}

static fl_status sum_back_infer(fl_infer *c)
{
    return fl_rows_no_grad(c, X);
}

static const fl_op_case sum_cases[] = {
    { .in = { "f32[1,7]" } },
    { .in = { "f32[33,7];f32[33,7]" } },
    { .in = { "f32[6,7];f32[6,7];f32[6,7]" } },
    { .in = { "f32[5,4] rows height=9" } },
    { .in = { "f32[5,4] rows height=9;f32[33,4] rows height=9;"
              "f32[0,4] rows height=9" } },
    { .in = { "f32[9,4];f32[5,4] rows height=9" } },
    { .in = { "f32[5,4] rows height=9;f32[9,4];f32[9,4]" } },
    { .in = { "i64[5,2];i64[5,2];i64[5,2]" } },
    { .in = { "i32[5]" } },
    { .in = { "f32[0,8];f32[0,8]" } },
};

const fl_op fl_op_sum = {
    .name = "sum",
    .doc = "Out = X[0] + X[1] + ...; of rows + values each row once, in "
           "ascending order; of both kinds a dense tensor; of arrays place by "
           "place. Integers wrap around",
    .in = { { "X", FL_OP_SLOT_LIST | FL_OP_SLOT_ROWS | FL_OP_SLOT_ARRAY } },
    .out = { { "Out", FL_OP_SLOT_ROWS | FL_OP_SLOT_ARRAY } },
    .infer = sum_infer,
    .run = sum_run,
    .back = sum_back,
    .back_infer = sum_back_infer,
    .cases = sum_cases,
    .n_cases = FL_LEN(sum_cases),
};
