/* multiplex.c - each row from one of several tensors, which its id names. */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/sequences.h"

enum { IDS, X };
enum { OUT };

static fl_status multiplex_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    const fl_shape *ids = &fl_infer_in(c, IDS)->shape;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];
    int64_t rows = ids->dim[0];

    FL_TRY(fl_infer_ids(c, IDS));
    if (ids->rank > 2 || (ids->rank == 2 && ids->dim[1] != 1) ||
        (rows >= 0 && x->shape.dim[0] >= 0 && rows > x->shape.dim[0]))
        FL_FAIL(FL_ERR_INVAL,
                "op multiplex: %s must be [n,1] with at most the rows of %s",
                fl_infer_text(c, IDS, a), fl_infer_text_at(c, X, 0, b));
    for (int i = 1; i < fl_infer_n_in(c, X); i++) {
        const fl_tensor *t = fl_infer_in_at(c, X, i);

        if (t->dtype != x->dtype || !fl_shape_matches(&t->shape, &x->shape))
            FL_FAIL(FL_ERR_INVAL, "op multiplex: %s and %s are not alike",
                    fl_infer_text_at(c, X, 0, a), fl_infer_text_at(c, X, i, b));
    }
    fl_infer_dense(c, OUT, x->dtype, x->shape.rank, x->shape.dim);
    fl_infer_out(c, OUT)->shape.dim[0] = rows;
    return FL_OK;
}

static fl_status multiplex_run(fl_op_ctx *c)
{
    const fl_tensor *ids = fl_in_t(c, IDS);
    size_t bytes = fl_row_bytes(fl_out_t(c, OUT));
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(ids));

    for (size_t i = s.lo; i < s.hi; i++) {
        int64_t k = fl_id_at(ids, (int64_t)i);

        if (k < 0 || k >= fl_n_in(c, X))
            FL_FAIL(FL_ERR_INVAL,
                    "Ids: %" PRId64 " in row %zu is not in 0..%d, the numbers "
                    "of X",
                    k, i, fl_n_in(c, X) - 1);
        memcpy((char *)fl_out(c, OUT) + i * bytes,
               (const char *)fl_in_at(c, X, (int)k)->data + i * bytes, bytes);
    }
    return FL_OK;
}

/* Rows of input k that were taken get their gradient, the others none. */
static void give_back(const fl_op_ctx *c, int k, fl_tensor *dx)
{
    const fl_tensor *ids = fl_in_t(c, IDS);
    const char *g = fl_dout(c, OUT);
    size_t bytes = fl_row_bytes(dx), n = (size_t)fl_tensor_numel(ids);
    fl_span s = fl_op_span(c, (size_t)dx->shape.dim[0]);

    for (size_t i = s.lo; i < s.hi; i++) {
        char *row = (char *)dx->data + i * bytes;

        if (g && i < n && fl_id_at(ids, (int64_t)i) == k)
            memcpy(row, g + i * bytes, bytes);
        else
            memset(row, 0, bytes);
    }
}

static fl_status multiplex_back(fl_op_ctx *c)
{
    for (int i = 0; i < fl_n_in(c, X); i++)
        if (fl_din_at(c, X, i))
            give_back(c, i, fl_din_at(c, X, i));
    return FL_OK;
}

static const fl_op_case multiplex_cases[] = {
    { .in = { "i32[33,1] below=3", "f32[33,7];f32[33,7];f32[33,7]" } },
    { .in = { "i64[4] below=2", "f32[9,2,3];f32[9,2,3]" } },
    { .in = { "i32[0,1]", "f32[0,8];f32[0,8]" } },
};

const fl_op fl_op_multiplex = {
    .name = "multiplex",
    .doc = "Out[i] = row i of X[Ids[i]]",
    .in = { { "Ids", FL_SLOT_NO_GRAD }, { "X", FL_OP_SLOT_LIST } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = multiplex_infer,
    .run = multiplex_run,
    .back = multiplex_back,
    .back_uses = FL_USES_IN(IDS),
    .cases = multiplex_cases,
    .n_cases = FL_LEN(multiplex_cases),
};
