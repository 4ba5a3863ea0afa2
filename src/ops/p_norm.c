/* p_norm.c - the norm p along an axis, and the root of the sum of squares over
 * some dimensions (frobenius_norm). */
#include <inttypes.h>
#include <math.h>

#include "ops/helpers.h"
#include "ops/reduce.h"

enum { X };
enum { OUT };
enum { PORDER, AXIS, EPSILON, KEEPDIM };

static fl_status p_norm_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int axis = fl_shape_axis(&x->shape, fl_int(c, AXIS));
    fl_shape out = { .rank = 0 };
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, X));
    if (axis < 0)
        FL_FAIL(FL_ERR_INVAL, "op p_norm: %s has no axis %" PRId64,
                fl_infer_text(c, X, buf), fl_int(c, AXIS));
    if (!(fl_float(c, PORDER) > 0) || isinf(fl_float(c, PORDER)))
        FL_FAIL(FL_ERR_INVAL, "op p_norm: porder=%g is not above 0",
                fl_float(c, PORDER));
    for (int i = 0; i < x->shape.rank; i++)
        if (i != axis || fl_bool(c, KEEPDIM))
            out.dim[out.rank++] = i == axis ? 1 : x->shape.dim[i];
    if (!out.rank)
        out = fl_shape_of(1, (int64_t[]){ 1 });
    fl_infer_dense(c, OUT, x->dtype, out.rank, out.dim);
    return FL_OK;
}

/* Which dimensions of X stay, and how numbers add up to a norm. */
typedef struct norm {
    bool kept[FL_RANK_MAX];
    double p, epsilon;
} norm;

#define KERNELS(T, t)                                                          \
    static double add_tile_##t(const fl_tile *tile, const T *x, double p)      \
    {                                                                          \
        double sum = 0;                                                        \
                                                                               \
        for (size_t k = 0; k < tile->rows * tile->run; k++)                    \
            sum += pow(                                                        \
                fabs((double)x[k / tile->run * tile->ld + k % tile->run]), p); \
        return sum;                                                            \
    }                                                                          \
    static void forward_##t(T *y, const T *x, const fl_grid *grid,             \
                            const norm *n, fl_span s)                          \
    {                                                                          \
        for (size_t i = s.lo; i < s.hi; i++) {                                 \
            fl_tiles it = fl_tiles_of(grid, (fl_span){ i, i + 1 });            \
            fl_tile tile;                                                      \
            double sum = 0;                                                    \
                                                                               \
            while (fl_tiles_next(&it, &tile))                                  \
                sum += add_tile_##t(&tile, x + tile.x, n->p);                  \
            y[i] = (T)pow(sum, 1 / n->p);                                      \
        }                                                                      \
    }                                                                          \
    /* dx = g (|x| / y)^(p - 1), with the sign of x. */                        \
    static void backward_##t(const fl_op_ctx *c, const fl_grid *grid,          \
                             const norm *n, fl_span s)                         \
    {                                                                          \
        const T *x = fl_in(c, X), *y = fl_saved_out(c, OUT);                   \
        const T *g = fl_dout(c, OUT);                                          \
        T *dx = fl_din(c, X);                                                  \
        fl_tiles it = fl_tiles_of(grid, s);                                    \
        fl_tile tile;                                                          \
                                                                               \
        while (fl_tiles_next(&it, &tile))                                      \
            for (size_t e = 0; e < tile.rows * tile.n * tile.run; e++) {       \
                size_t in_row = e % (tile.n * tile.run);                       \
                size_t i =                                                     \
                    tile.x + e / (tile.n * tile.run) * tile.ld + in_row;       \
                size_t j = tile.y + in_row / tile.run;                         \
                double of = fabs((double)x[i]) / ((double)y[j] + n->epsilon);  \
                                                                               \
                dx[i] =                                                        \
                    x[i] == 0                                                  \
                        ? 0                                                    \
                        : (T)copysign(pow(of, n->p - 1), (double)x[i]) * g[j]; \
            }                                                                  \
    }
FL_FLOATS(KERNELS)

static fl_status run(fl_op_ctx *c, const norm *n)
{
    const fl_tensor *x = fl_in_t(c, X);
    fl_grid grid;

    if (!fl_tensor_numel(x)) {
        fl_share_zero(c, fl_out_t(c, OUT));
        return FL_OK;
    }
    grid = fl_grid_of(&x->shape, n->kept);
    FL_BY_FLOAT(c, X, forward, fl_out(c, OUT), x->data, &grid, n,
                fl_op_span(c, fl_grid_kept(&grid)));
    return FL_OK;
}

static fl_status back(fl_op_ctx *c, const norm *n)
{
    fl_grid grid;

    if (!fl_din_t(c, X) || !fl_dout_t(c, OUT)) {
        fl_din_zero(c, X);
        return FL_OK;
    }
    if (!fl_tensor_numel(fl_in_t(c, X)))
        return FL_OK;
    grid = fl_grid_of(&fl_in_t(c, X)->shape, n->kept);
    FL_BY_FLOAT(c, X, backward, c, &grid, n,
                fl_op_span(c, fl_grid_kept(&grid)));
    return FL_OK;
}

static norm p_norm_of(const fl_op_ctx *c)
{
    norm n = { .p = fl_float(c, PORDER), .epsilon = fl_float(c, EPSILON) };
    int axis = fl_shape_axis(&fl_in_t(c, X)->shape, fl_int(c, AXIS));

    for (int i = 0; i < FL_RANK_MAX; i++)
        n.kept[i] = i != axis;
    return n;
}

static norm frobenius_of(const fl_op_ctx *c)
{
    norm n = { .p = 2 };

    fl_reduce_kept(c->node, &fl_in_t(c, X)->shape, n.kept);
    return n;
}

static fl_status p_norm_run(fl_op_ctx *c)
{
    norm n = p_norm_of(c);

    return run(c, &n);
}

static fl_status p_norm_back(fl_op_ctx *c)
{
    norm n = p_norm_of(c);

    return back(c, &n);
}

static fl_status frobenius_infer(fl_infer *c)
{
    FL_TRY(fl_infer_float(c, X));
    return fl_reduce_infer(c);
}

static fl_status frobenius_run(fl_op_ctx *c)
{
    norm n = frobenius_of(c);

    return run(c, &n);
}

static fl_status frobenius_back(fl_op_ctx *c)
{
    norm n = frobenius_of(c);

    return back(c, &n);
}

static const fl_op_case p_norm_cases[] = {
    { .in = { "f32[33,7]" } },
    { .in = { "f32[3,4,5]" }, .attrs = "{axis=1, porder=3}" },
    { .in = { "f32[7]" }, .attrs = "{porder=1, keepdim=true}" },
    { .in = { "f32[0,8]" }, .attrs = "{axis=0}" },
};

static const fl_op_case frobenius_cases[] = { FL_REDUCE_CASES("f32") };

const fl_op fl_op_p_norm = {
    .name = "p_norm",
    .doc = "Out = the root of order porder of the sum of |X|^porder along "
           "axis, which it lacks unless keepdim; epsilon keeps the gradient "
           "finite",
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "porder", FL_ATTR_FLOAT, "2" },
               { "axis", FL_ATTR_INT, "-1" },
               { "epsilon", FL_ATTR_FLOAT, "1e-12" },
               { "keepdim", FL_ATTR_BOOL, "false" } },
    .flags = FL_OP_SLICED,
    .infer = p_norm_infer,
    .run = p_norm_run,
    .back = p_norm_back,
    .back_uses = FL_USES_IN(X) | FL_USES_OUT(OUT),
    .cases = p_norm_cases,
    .n_cases = FL_LEN(p_norm_cases),
};

const fl_op fl_op_frobenius_norm = {
    .name = "frobenius_norm",
    .doc = "Out = the root of the sum of squares of X " FL_REDUCE_TEXT,
    .in = { { "X", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { FL_REDUCE_ATTRS },
    .flags = FL_OP_SLICED,
    .infer = frobenius_infer,
    .run = frobenius_run,
    .back = frobenius_back,
    .back_uses = FL_USES_IN(X) | FL_USES_OUT(OUT),
    .cases = frobenius_cases,
    .n_cases = FL_LEN(frobenius_cases),
};
