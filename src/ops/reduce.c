/* reduce.c - sums and means over some dimensions, and the walk over X and Y
 * that broadcasting shares with them. */
#include "ops/reduce.h"

#include "kernel/vec.h"
#include "ops/helpers.h"

enum { X };
enum { OUT };
enum { DIM, KEEP_DIM, REDUCE_ALL };

typedef enum kind { SUM, MEAN } kind;

/* --- the walk ------------------------------------------------------------- */

fl_grid fl_grid_of(const fl_shape *x, const bool has[FL_RANK_MAX])
{
    fl_grid g = { { 1, 1, 1, 1, 1, 1, 1 } };
    int at = 0;

    for (int i = x->rank - 1; i >= 0; i--) {
        if (x->dim[i] == 1)
            continue;
        at += at % 2 != has[i];
        g.n[at] *= (size_t)x->dim[i];
    }
    return g;
}

size_t fl_grid_kept(const fl_grid *g)
{
    return g->n[5] * g->n[3] * g->n[1];
}

/* How many elements of X meet in each of Y. */
static size_t dropped(const fl_grid *g)
{
    return g->n[6] * g->n[4] * g->n[2] * g->n[0];
}

fl_tiles fl_tiles_of(const fl_grid *g, fl_span s)
{
    return (fl_tiles){ .grid = g, .y = s.lo, .hi = s.hi };
}

bool fl_tiles_next(fl_tiles *it, fl_tile *out)
{
    const size_t *n = it->grid->n;
    size_t row, col, left, x;

    if (it->y >= it->hi)
        return false;
    row = it->y / n[1];
    col = it->y % n[1];
    left = it->hi - it->y;
    x = it->outer / n[4] * n[5] + row / n[3];
    x = (x * n[4] + it->outer % n[4]) * n[3] + row % n[3];
    *out = (fl_tile){
        .x = (x * n[2] * n[1] + col) * n[0],
        .y = it->y,
        .rows = n[2],
        .ld = n[1] * n[0],
        .n = n[1] - col < left ? n[1] - col : left,
        .run = n[0],
        .first = it->outer == 0,
    };
    if (++it->outer == n[6] * n[4]) {
        it->outer = 0;
        it->y += out->n;
    }
    return true;
}

#define KERNELS(T, t)                                                          \
    static double sum_of_##t(const fl_tile *tile, const T *x)                  \
    {                                                                          \
        double sum = 0;                                                        \
                                                                               \
        for (size_t r = 0; r < tile->rows; r++)                                \
            sum += fl_vec_##t()->sum(x + r * tile->ld, tile->run);             \
        return sum;                                                            \
    }                                                                          \
    static void add_rows_##t(const fl_tile *tile, T *y, const T *x)            \
    {                                                                          \
        if (tile->first) {                                                     \
            fl_vec_##t()->col_sum(y, x, tile->rows, tile->n, tile->ld);        \
            return;                                                            \
        }                                                                      \
        for (size_t r = 0; r < tile->rows; r++)                                \
            fl_vec_##t()->axpy(y, 1, x + r * tile->ld, tile->n);               \
    }                                                                          \
    void fl_tile_sum_##t(const fl_tile *tile, T *y, const T *x)                \
    {                                                                          \
        x += tile->x;                                                          \
        y += tile->y;                                                          \
        if (tile->run == 1) {                                                  \
            add_rows_##t(tile, y, x);                                          \
            return;                                                            \
        }                                                                      \
        if (tile->rows == 1 && tile->first) {                                  \
            fl_vec_##t()->row_sums(y, x, tile->n, tile->run);                  \
            return;                                                            \
        }                                                                      \
        for (size_t j = 0; j < tile->n; j++) {                                 \
            double sum = sum_of_##t(tile, x + j * tile->run);                  \
                                                                               \
            y[j] = (T)(tile->first ? sum : (double)y[j] + sum);                \
        }                                                                      \
    }                                                                          \
    static void fold_##t(const fl_grid *grid, T *y, const T *x, fl_span s,     \
                         kind k)                                               \
    {                                                                          \
        fl_tiles it = fl_tiles_of(grid, s);                                    \
        fl_tile tile;                                                          \
        T count = (T)dropped(grid);                                            \
                                                                               \
        while (fl_tiles_next(&it, &tile))                                      \
            fl_tile_sum_##t(&tile, y, x);                                      \
        for (size_t i = s.lo; k == MEAN && i < s.hi; i++)                      \
            y[i] /= count;                                                     \
    }                                                                          \
    /* Rows of a tile are alike. */                                            \
    static void spread_tile_##t(const fl_tile *tile, T *dx, const T *g,        \
                                T count)                                       \
    {                                                                          \
        const size_t bytes = tile->n * tile->run * sizeof(*dx);                \
                                                                               \
        for (size_t j = 0; j < tile->n; j++) {                                 \
            T share = g[j] / count;                                            \
                                                                               \
            for (size_t k = 0; k < tile->run; k++)                             \
                dx[j * tile->run + k] = share;                                 \
        }                                                                      \
        for (size_t r = 1; r < tile->rows; r++)                                \
            memcpy(dx + r * tile->ld, dx, bytes);                              \
    }                                                                          \
    static void spread_##t(const fl_grid *grid, T *dx, const T *g, fl_span s,  \
                           kind k)                                             \
    {                                                                          \
        fl_tiles it = fl_tiles_of(grid, s);                                    \
        fl_tile tile;                                                          \
        T count = k == MEAN ? (T)dropped(grid) : 1;                            \
                                                                               \
        while (fl_tiles_next(&it, &tile))                                      \
            spread_tile_##t(&tile, dx + tile.x, g + tile.y, count);            \
    }
FL_FLOATS(KERNELS)

/* --- the operators -------------------------------------------------------- */

#define WHOLE_KERNELS(T, t)                                                    \
    /* What does not fit goes round. */                                        \
    static void add_up_##t(const fl_tile *tile, T *y, const T *x)              \
    {                                                                          \
        for (size_t j = 0; j < tile->n; j++) {                                 \
            uint64_t sum = tile->first ? 0 : (uint64_t)y[j];                   \
                                                                               \
            for (size_t k = 0; k < tile->rows * tile->run; k++)                \
                sum += (uint64_t)x[k / tile->run * tile->ld + j * tile->run +  \
                                   k % tile->run];                             \
            y[j] = (T)sum;                                                     \
        }                                                                      \
    }                                                                          \
    static void sum_##t(const fl_grid *grid, T *y, const T *x, fl_span s)      \
    {                                                                          \
        fl_tiles it = fl_tiles_of(grid, s);                                    \
        fl_tile tile;                                                          \
                                                                               \
        while (fl_tiles_next(&it, &tile))                                      \
            add_up_##t(&tile, y + tile.y, x + tile.x);                         \
    }
WHOLE_KERNELS(int32_t, i32)
WHOLE_KERNELS(int64_t, i64)

bool fl_reduce_kept(const fl_op_node *n, const fl_shape *x,
                    bool kept[FL_RANK_MAX])
{
    size_t n_dims;
    const int64_t *dims = fl_attr_ints(n, DIM, &n_dims);
    bool all = fl_attr_bool(n, REDUCE_ALL) || n_dims == 0;

    for (int i = 0; i < FL_RANK_MAX; i++)
        kept[i] = !all;
    for (size_t i = 0; i < n_dims && !all; i++) {
        int axis = fl_shape_axis(x, dims[i]);

        if (axis < 0)
            return false;
        kept[axis] = false;
    }
    return true;
}

static fl_status fold(fl_op_ctx *c, const bool kept[FL_RANK_MAX], kind k)
{
    const fl_tensor *x = fl_in_t(c, X);
    fl_grid grid;
    fl_span s;

    if (fl_tensor_numel(x) == 0) {
        fl_share_zero(c, fl_out_t(c, OUT));
        return FL_OK;
    }
    grid = fl_grid_of(&x->shape, kept);
    s = fl_op_span(c, fl_grid_kept(&grid));
    if (x->dtype == FL_DTYPE_I32)
        sum_i32(&grid, fl_out(c, OUT), x->data, s);
    else if (x->dtype == FL_DTYPE_I64)
        sum_i64(&grid, fl_out(c, OUT), x->data, s);
    else
        FL_BY_FLOAT(c, X, fold, &grid, fl_out(c, OUT), x->data, s, k);
    return FL_OK;
}

static fl_status spread(fl_op_ctx *c, const bool kept[FL_RANK_MAX], kind k)
{
    const fl_tensor *g = fl_dout_t(c, OUT);
    fl_tensor *dx = fl_din_t(c, X);
    fl_grid grid;
    fl_span s;

    if (!dx || fl_tensor_numel(dx) == 0)
        return FL_OK;
    if (!g || !fl_dtype_is_float(dx->dtype)) {
        fl_share_zero(c, dx);
        return FL_OK;
    }
    grid = fl_grid_of(&dx->shape, kept);
    s = fl_op_span(c, fl_grid_kept(&grid));
    FL_BY_FLOAT(c, X, spread, &grid, dx->data, g->data, s, k);
    return FL_OK;
}

static fl_status mean_infer(fl_infer *c)
{
    FL_TRY(fl_infer_float(c, X));
    fl_infer_dense(c, OUT, fl_infer_in(c, X)->dtype, 1, (int64_t[]){ 1 });
    return FL_OK;
}

static fl_status mean_run(fl_op_ctx *c)
{
    return fold(c, (bool[FL_RANK_MAX]){ false }, MEAN);
}

static fl_status mean_back(fl_op_ctx *c)
{
    return spread(c, (bool[FL_RANK_MAX]){ false }, MEAN);
}

fl_status fl_reduce_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    bool kept[FL_RANK_MAX], keep_dim = fl_bool(c, KEEP_DIM);
    fl_shape s = { 0 };
    char buf[FL_SLOT_TEXT_MAX];

    if (!fl_reduce_kept(c->node, &x->shape, kept))
        FL_FAIL(FL_ERR_INVAL, "op %s: dim names a dimension that %s has not",
                c->node->def->name, fl_infer_text(c, X, buf));
    for (int i = 0; i < x->shape.rank; i++)
        if (kept[i] || keep_dim)
            s.dim[s.rank++] = kept[i] ? x->shape.dim[i] : 1;
    if (s.rank == 0)
        s.dim[s.rank++] = 1;
    fl_tensor_like(fl_infer_out(c, OUT), x);
    fl_infer_out(c, OUT)->shape = s;
    if (!kept[0])
        fl_infer_dense(c, OUT, x->dtype, s.rank, s.dim);
    return FL_OK;
}

static fl_status reduce_mean_infer(fl_infer *c)
{
    FL_TRY(fl_infer_float(c, X));
    return fl_reduce_infer(c);
}

static fl_status reduce_sum_infer(fl_infer *c)
{
    fl_dtype dtype = fl_infer_in(c, X)->dtype;

    if (dtype != FL_DTYPE_I32 && dtype != FL_DTYPE_I64)
        FL_TRY(fl_infer_float(c, X));
    return fl_reduce_infer(c);
}

static fl_status reduce_run(fl_op_ctx *c, kind k)
{
    bool kept[FL_RANK_MAX];

    fl_reduce_kept(c->node, &fl_in_t(c, X)->shape, kept);
    return fold(c, kept, k);
}

static fl_status reduce_back(fl_op_ctx *c, kind k)
{
    bool kept[FL_RANK_MAX];

    fl_reduce_kept(c->node, &fl_in_t(c, X)->shape, kept);
    return spread(c, kept, k);
}

static fl_status reduce_sum_run(fl_op_ctx *c)
{
    return reduce_run(c, SUM);
}

static fl_status reduce_sum_back(fl_op_ctx *c)
{
    return reduce_back(c, SUM);
}

static fl_status reduce_mean_run(fl_op_ctx *c)
{
    return reduce_run(c, MEAN);
}

static fl_status reduce_mean_back(fl_op_ctx *c)
{
    return reduce_back(c, MEAN);
}

static const fl_op_case mean_cases[] = {
    { .in = { "f32[1,1]" } },
    { .in = { "f32[33,7]" } },
    { .in = { "f32[3,4,5]" } },
    { .in = { "f32[0,8]" } },
};

static const fl_op_case reduce_mean_cases[] = { FL_REDUCE_CASES("f32") };

static const fl_op_case reduce_sum_cases[] = {
    FL_REDUCE_CASES("f32"),
    { .in = { "i64[3,4,5] below=9" }, .attrs = "{dim=[0,2]}" },
    { .in = { "i32[33,7] below=9" }, .attrs = "{reduce_all=true}" },
    { .in = { "i64[2,3,2,3] below=9" }, .attrs = "{dim=[1,3]}" },
};

const fl_op fl_op_mean = {
    .name = "mean",
    .doc = "Out = the mean of all elements of X, of shape [1]; the mean of "
           "nothing is 0",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = mean_infer,
    .run = mean_run,
    .back = mean_back,
    .cases = mean_cases,
    .n_cases = FL_LEN(mean_cases),
};

#define REDUCE(op, text)                                                       \
    const fl_op fl_op_##op = {                                                 \
        .name = #op,                                                           \
        .doc = "Out = the " text " of X " FL_REDUCE_TEXT,                      \
        .in = { { "X", 0 } },                                                  \
        .out = { { "Out", 0 } },                                               \
        .attrs = { FL_REDUCE_ATTRS },                                          \
        .flags = FL_OP_SLICED,                                                 \
        .infer = op##_infer,                                                   \
        .run = op##_run,                                                       \
        .back = op##_back,                                                     \
        .cases = op##_cases,                                                   \
        .n_cases = FL_LEN(op##_cases),                                         \
    };

REDUCE(reduce_sum, "sum")
REDUCE(reduce_mean, "mean")
