/* transpose2.c - axes in another order. Both ways are one loop over the rows
 * of what is written, so shares write what is theirs alone. */
#include "ops/helpers.h"
#include "ops/reshape.h"

enum { X };
enum { OUT, XSHAPE };
enum { AXIS, DATA_FORMAT };

/* A tensor that is written in order from one with other strides. */
typedef struct walk {
    int rank;
    size_t dim[FL_RANK_MAX], stride[FL_RANK_MAX]; /* of what is read */
} walk;

/* Element `row` * dim[last] of what is written lies here in what is read. */
static size_t row_start(const walk *w, size_t row)
{
    size_t at = 0;

    for (int i = w->rank - 2; i >= 0; i--) {
        at += row % w->dim[i] * w->stride[i];
        row /= w->dim[i];
    }
    return at;
}

#define COPY(T)                                                                \
    static void copy_##T(void *to, const void *from, const walk *w,            \
                         fl_span rows)                                         \
    {                                                                          \
        size_t n = w->dim[w->rank - 1], stride = w->stride[w->rank - 1];       \
                                                                               \
        for (size_t r = rows.lo; r < rows.hi; r++) {                           \
            const T *x = (const T *)from + row_start(w, r);                    \
            T *y = (T *)to + r * n;                                            \
                                                                               \
            for (size_t i = 0; i < n; i++)                                     \
                y[i] = x[i * stride];                                          \
        }                                                                      \
    }
COPY(uint8_t)
COPY(uint32_t)
COPY(uint64_t)

/* Written axis i is axis order[i] of what is read. */
static walk walk_over(const fl_shape *read, const int64_t *order)
{
    walk w = { .rank = read->rank };

    for (int i = 0; i < read->rank; i++) {
        int from = (int)order[i];

        w.dim[i] = (size_t)read->dim[from];
        w.stride[i] = (size_t)fl_shape_count(read, from + 1, read->rank);
    }
    return w;
}

static void copy(const fl_op_ctx *c, fl_tensor *to, const fl_tensor *from,
                 const int64_t *order)
{
    walk w = walk_over(&from->shape, order);
    size_t n = (size_t)fl_tensor_numel(to);
    fl_span rows = fl_op_span(c, n ? n / w.dim[w.rank - 1] : 0);

    switch (fl_dtype_bytes(to->dtype)) {
    case 1:
        copy_uint8_t(to->data, from->data, &w, rows);
        break;
    case 4:
        copy_uint32_t(to->data, from->data, &w, rows);
        break;
    default:
        copy_uint64_t(to->data, from->data, &w, rows);
    }
}

/* Axes from the end are counted from the start; each stands there once. */
static fl_status read_order(const fl_infer *c, int rank,
                            int64_t order[FL_RANK_MAX])
{
    size_t n;
    const int64_t *axis = fl_attr_ints(c->node, AXIS, &n);
    char buf[FL_SLOT_TEXT_MAX];
    unsigned seen = 0;

    for (size_t i = 0; i < n && n == (size_t)rank; i++) {
        order[i] = axis[i] < 0 ? axis[i] + rank : axis[i];
        if (order[i] >= 0 && order[i] < rank)
            seen |= 1u << order[i];
    }
    if (n != (size_t)rank || seen != (1u << rank) - 1)
        FL_FAIL(FL_ERR_INVAL,
                "op transpose2: axis must name each of the %d axes of %s once",
                rank, fl_infer_text(c, X, buf));
    return FL_OK;
}

static fl_status transpose2_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int64_t order[FL_RANK_MAX] = { 0 };
    fl_shape shape = x->shape;

    FL_TRY(read_order(c, x->shape.rank, order));
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = x->shape.dim[order[i]];
    return fl_infer_reshaped(c, &shape,
                             order[0] == 0 ? FL_ROWS_STAY : FL_ROWS_CHANGE);
}

static void order_of(const fl_op_ctx *c, int64_t order[FL_RANK_MAX])
{
    size_t n;
    const int64_t *axis = fl_attr_ints(c->node, AXIS, &n);

    for (size_t i = 0; i < n; i++)
        order[i] = axis[i] < 0 ? axis[i] + (int64_t)n : axis[i];
}

static fl_status transpose2_run(fl_op_ctx *c)
{
    int64_t order[FL_RANK_MAX] = { 0 };

    order_of(c, order);
    copy(c, fl_out_t(c, OUT), fl_in_t(c, X), order);
    return FL_OK;
}

static fl_status transpose2_back(fl_op_ctx *c)
{
    int64_t order[FL_RANK_MAX] = { 0 }, back[FL_RANK_MAX] = { 0 };
    fl_tensor *dx = fl_din_t(c, X);

    if (!dx)
        return FL_OK;
    if (!fl_dout_t(c, OUT)) {
        fl_share_zero(c, dx);
        return FL_OK;
    }
    order_of(c, order);
    for (int i = 0; i < dx->shape.rank; i++)
        back[order[i]] = i;
    copy(c, dx, fl_dout_t(c, OUT), back);
    return FL_OK;
}

static const fl_op_case transpose2_cases[] = {
    { .in = { "f32[33,7]" }, .attrs = "{axis=[1,0]}" },
    { .in = { "f32[5,3,4]" }, .attrs = "{axis=[2,0,1]}" },
    { .in = { "f32[5,3,2,4]" }, .attrs = "{axis=[0,2,1,3]}" },
    { .in = { "f32[5,3,4]" }, .attrs = "{axis=[0,-1,1]}" },
    { .in = { "i64[5,3] below=9" }, .attrs = "{axis=[1,0]}" },
    { .in = { "f32[7,3,2] lod=[0,2,2,7]" }, .attrs = "{axis=[0,2,1]}" },
    { .in = { "f32[9]" }, .attrs = "{axis=[0]}" },
    { .in = { "f32[0,8]" }, .attrs = "{axis=[1,0]}" },
};

/* transpose is the older form, which programs give no XShape. */
#define TRANSPOSE(op)                                                          \
    const fl_op fl_op_##op = {                                                 \
        .name = #op,                                                           \
        .doc =                                                                 \
            "Out = X with its axes in another order: axis i of Out is axis "   \
            "axis[i] of X; XShape is [0, dims of X] and holds no numbers",     \
        .in = { { "X", 0 } },                                                  \
        .out = { { "Out", 0 }, { "XShape", FL_OP_SLOT_BYPRODUCT } },           \
        .attrs = { { "axis", FL_ATTR_INTS, "[]" },                             \
                   { "data_format", FL_ATTR_STRING, "AnyLayout" } },           \
        .flags = FL_OP_SLICED,                                                 \
        .infer = transpose2_infer,                                             \
        .run = transpose2_run,                                                 \
        .back = transpose2_back,                                               \
        .cases = transpose2_cases,                                             \
        .n_cases = FL_LEN(transpose2_cases),                                   \
    };
TRANSPOSE(transpose2)
TRANSPOSE(transpose)
