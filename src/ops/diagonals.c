/* diagonals.c - diagonals of matrices: numbers that are put on them
 * (diag_embed), and their sums (trace).
 *
 * dim1 and dim2 are the rows and the columns of the matrices; offset moves the
 * diagonal to the right, or down below 0.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "ops/helpers.h"
#include "ops/walk.h"

enum { INPUT };
enum { OUT };
enum { OFFSET, DIM1, DIM2 };

/* The axes of the matrices in a shape. */
static fl_status infer_axes(const fl_infer *c, const fl_shape *s, int *rows,
                            int *columns)
{
    char buf[FL_SLOT_TEXT_MAX];

    *rows = fl_shape_axis(s, fl_int(c, DIM1));
    *columns = fl_shape_axis(s, fl_int(c, DIM2));
    if (s->rank < 2 || *rows < 0 || *columns < 0 || *rows == *columns)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: dim1=%" PRId64 " and dim2=%" PRId64
                " are no two axes of the matrices of %s",
                c->node->def->name, fl_int(c, DIM1), fl_int(c, DIM2),
                fl_infer_text(c, INPUT, buf));
    return FL_OK;
}

/* The diagonals, last, in what is there besides the matrices. */
static fl_walk diagonals_of(const fl_op_ctx *c, const fl_shape *matrices)
{
    int64_t offset = fl_int(c, OFFSET);
    int rows = fl_shape_axis(matrices, fl_int(c, DIM1));
    int columns = fl_shape_axis(matrices, fl_int(c, DIM2));
    fl_walk all = fl_walk_of(matrices), w = { .shape = { .rank = 0 } };
    int64_t down = matrices->dim[rows] + (offset < 0 ? offset : 0);
    int64_t right = matrices->dim[columns] - (offset > 0 ? offset : 0);
    int64_t n = down < right ? down : right;
    int last;

    for (int i = 0; i < matrices->rank; i++)
        if (i != rows && i != columns) {
            w.step[w.shape.rank] = all.step[i];
            w.shape.dim[w.shape.rank++] = matrices->dim[i];
        }
    last = w.shape.rank++;
    w.shape.dim[last] = n > 0 ? n : 0;
    w.step[last] = all.step[rows] + all.step[columns];
    w.first =
        offset < 0 ? -offset * all.step[rows] : offset * all.step[columns];
    return w;
}

/* --- diag_embed ------------------------------------------------------------ */

static fl_status diag_embed_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, INPUT);
    int64_t n = x->shape.dim[x->shape.rank - 1];
    fl_shape out = { .rank = x->shape.rank + 1 };
    int rows, columns;
    char buf[FL_SLOT_TEXT_MAX];

    if (out.rank > FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL, "op diag_embed: %s has too many axes",
                fl_infer_text(c, INPUT, buf));
    FL_TRY(infer_axes(c, &out, &rows, &columns));
    if (n >= 0)
        n += llabs(fl_int(c, OFFSET));
    for (int i = 0, at = 0; i < out.rank; i++)
        out.dim[i] = i == rows || i == columns ? n : x->shape.dim[at++];
    fl_infer_dense(c, OUT, x->dtype, out.rank, out.dim);
    return FL_OK;
}

static fl_status diag_embed_run(fl_op_ctx *c)
{
    fl_tensor *out = fl_out_t(c, OUT);
    fl_walk w = diagonals_of(c, &out->shape);

    fl_share_zero(c, out);
    fl_walk_put(&w, fl_dtype_bytes(out->dtype), fl_in(c, INPUT), out->data);
    return FL_OK;
}

static fl_status diag_embed_back(fl_op_ctx *c)
{
    const fl_tensor *g = fl_dout_t(c, OUT);
    fl_walk w;

    if (!fl_din_t(c, INPUT) || !g) {
        fl_din_zero(c, INPUT);
        return FL_OK;
    }
    w = diagonals_of(c, &g->shape);
    fl_walk_take(&w, fl_dtype_bytes(g->dtype), fl_din(c, INPUT), g->data);
    return FL_OK;
}

/* --- trace ----------------------------------------------------------------- */

static fl_status trace_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, INPUT);
    fl_shape out = { .rank = 0 };
    int rows, columns;

    FL_TRY(fl_infer_float(c, INPUT));
    FL_TRY(infer_axes(c, &x->shape, &rows, &columns));
    for (int i = 0; i < x->shape.rank; i++)
        if (i != rows && i != columns)
            out.dim[out.rank++] = x->shape.dim[i];
    if (!out.rank)
        out = fl_shape_of(1, (int64_t[]){ 1 });
    fl_infer_dense(c, OUT, x->dtype, out.rank, out.dim);
    return FL_OK;
}

#define KERNELS(T, t)                                                          \
    static void add_up_##t(T *out, const T *on, size_t n_out, size_t n)        \
    {                                                                          \
        for (size_t i = 0; i < n_out; i++) {                                   \
            double sum = 0;                                                    \
                                                                               \
            for (size_t k = 0; k < n; k++)                                     \
                sum += (double)on[i * n + k];                                  \
            out[i] = (T)sum;                                                   \
        }                                                                      \
    }                                                                          \
    static void repeat_##t(T *on, const T *g, size_t n_out, size_t n)          \
    {                                                                          \
        for (size_t i = 0; i < n_out * n; i++)                                 \
            on[i] = g[i / n];                                                  \
    }
FL_FLOATS(KERNELS)

/* Room for all numbers that lie on diagonals. */
static void *room_for(fl_op_ctx *c, const fl_walk *w)
{
    return fl_scratch(c, ((size_t)fl_shape_numel(&w->shape) + 1) *
                             fl_dtype_bytes(fl_in_t(c, INPUT)->dtype));
}

static fl_status trace_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, INPUT);
    fl_walk w = diagonals_of(c, &x->shape);
    size_t n = (size_t)w.shape.dim[w.shape.rank - 1];
    void *on = room_for(c, &w);

    if (!on)
        return FL_NOMEM(c);
    fl_walk_take(&w, fl_dtype_bytes(x->dtype), on, x->data);
    FL_BY_FLOAT(c, INPUT, add_up, fl_out(c, OUT), on,
                (size_t)fl_tensor_numel(fl_out_t(c, OUT)), n);
    return FL_OK;
}

static fl_status trace_back(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, INPUT), *g = fl_dout_t(c, OUT);
    fl_walk w = diagonals_of(c, &x->shape);
    void *on = room_for(c, &w);

    if (!on)
        return FL_NOMEM(c);
    fl_din_zero(c, INPUT);
    if (!fl_din_t(c, INPUT) || !g)
        return FL_OK;
    FL_BY_FLOAT(c, INPUT, repeat, on, g->data, (size_t)fl_tensor_numel(g),
                (size_t)w.shape.dim[w.shape.rank - 1]);
    fl_walk_put(&w, fl_dtype_bytes(x->dtype), on, fl_din(c, INPUT));
    return FL_OK;
}

static const fl_op_case diag_embed_cases[] = {
    { .in = { "f32[5]" } },
    { .in = { "f32[3,4]" }, .attrs = "{offset=1}" },
    { .in = { "f32[3,4,2]" }, .attrs = "{offset=-2, dim1=0, dim2=-2}" },
    { .in = { "i64[3,4] below=9" }, .attrs = "{dim1=2, dim2=1}" },
    { .in = { "f32[0,8]" } },
};

static const fl_op_case trace_cases[] = {
    { .in = { "f32[5,4]" } },
    { .in = { "f32[3,4,5]" }, .attrs = "{offset=2}" },
    { .in = { "f32[3,4,5]" }, .attrs = "{offset=-1, dim1=0, dim2=2}" },
    { .in = { "f32[3,4]" }, .attrs = "{offset=7}" },
    { .in = { "f32[0,8,8]" } },
};

#define AXES                                                                   \
    { "offset", FL_ATTR_INT, "0" }, { "dim1", FL_ATTR_INT, "-2" },             \
    {                                                                          \
        "dim2", FL_ATTR_INT, "-1"                                              \
    }

const fl_op fl_op_diag_embed = {
    .name = "diag_embed",
    .doc = "Out = matrices along dim1 and dim2 with the last axis of Input on "
           "their diagonals, moved by offset to the right, and 0 elsewhere",
    .in = { { "Input", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { AXES },
    .infer = diag_embed_infer,
    .run = diag_embed_run,
    .back = diag_embed_back,
    .cases = diag_embed_cases,
    .n_cases = FL_LEN(diag_embed_cases),
};

const fl_op fl_op_trace = {
    .name = "trace",
    .doc = "Out = the sums over the diagonals of the matrices along dim1 and "
           "dim2, moved by offset to the right; [1] for one matrix",
    .in = { { "Input", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { AXES },
    .infer = trace_infer,
    .run = trace_run,
    .back = trace_back,
    .cases = trace_cases,
    .n_cases = FL_LEN(trace_cases),
};
