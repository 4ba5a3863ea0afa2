/* reduce_fold.c - the largest, the smallest, the product, all and any over some
 * dimensions; sums are in reduce.c. */
#include <math.h>

#include "ops/helpers.h"
#include "ops/reduce.h"

enum { X };
enum { OUT };

/* The beginnings of the tensors; for gradients alone y, g and dx. */
typedef struct operands {
    const void *x, *y, *g;
    void *to;
} operands;

typedef void (*fold_fn)(const fl_grid *grid, const operands *o, fl_span s);

/* y[j] = STEP(y[j], v) for all v that meet it, beginning with START. */
#define FOLD(T, name, START, STEP)                                             \
    static void name##_tile(const fl_tile *tile, T *y, const T *x)             \
    {                                                                          \
        for (size_t j = 0; tile->first && j < tile->n; j++)                    \
            y[j] = START;                                                      \
        for (size_t r = 0; r < tile->rows; r++)                                \
            for (size_t j = 0; j < tile->n; j++) {                             \
                const T *v = x + r * tile->ld + j * tile->run;                 \
                T so_far = y[j];                                               \
                                                                               \
                for (size_t k = 0; k < tile->run; k++)                         \
                    so_far = (T)STEP(so_far, v[k]);                            \
                y[j] = so_far;                                                 \
            }                                                                  \
    }                                                                          \
    static void name(const fl_grid *grid, const operands *o, fl_span s)        \
    {                                                                          \
        fl_tiles it = fl_tiles_of(grid, s);                                    \
        fl_tile tile;                                                          \
                                                                               \
        while (fl_tiles_next(&it, &tile))                                      \
            name##_tile(&tile, (T *)o->to + tile.y, (const T *)o->x + tile.x); \
    }

/* NaN wins: it is no number that others could be compared with. */
#define LARGER(a, v) ((v) > (a) || (v) != (v) ? (v) : (a))
#define SMALLER(a, v) ((v) < (a) || (v) != (v) ? (v) : (a))
#define TIMES(a, v) ((a) * (v))
#define AND(a, v) ((a) & (v))
#define OR(a, v) ((a) | (v))

#define FLOAT_FOLDS(T, t)                                                      \
    FOLD(T, max_##t, -(T)INFINITY, LARGER)                                     \
    FOLD(T, min_##t, (T)INFINITY, SMALLER)                                     \
    FOLD(T, prod_##t, 1, TIMES)
FL_FLOATS(FLOAT_FOLDS)

/* What does not fit goes round, as everywhere with whole numbers. */
#define WHOLE_TIMES(a, v) ((int64_t)((uint64_t)(a) * (uint64_t)(v)))
#define WHOLE_FOLDS(T, t, least, largest)                                      \
    FOLD(T, max_##t, least, LARGER)                                            \
    FOLD(T, min_##t, largest, SMALLER)                                         \
    FOLD(T, prod_##t, 1, WHOLE_TIMES)
WHOLE_FOLDS(int32_t, i32, INT32_MIN, INT32_MAX)
WHOLE_FOLDS(int64_t, i64, INT64_MIN, INT64_MAX)
FOLD(bool, all_bool, true, AND)
FOLD(bool, any_bool, false, OR)

/* dx[i] = EXPR for each i of X and the j of Out that it goes into. */
#define SPREAD(T, name, EXPR)                                                  \
    static void name(const fl_grid *grid, const operands *o, fl_span s)        \
    {                                                                          \
        const T *x = o->x, *y = o->y, *g = o->g;                               \
        fl_tiles it = fl_tiles_of(grid, s);                                    \
        T *dx = o->to;                                                         \
        fl_tile tile;                                                          \
                                                                               \
        while (fl_tiles_next(&it, &tile))                                      \
            for (size_t e = 0; e < tile.rows * tile.n * tile.run; e++) {       \
                size_t in_row = e % (tile.n * tile.run);                       \
                size_t i =                                                     \
                    tile.x + e / (tile.n * tile.run) * tile.ld + in_row;       \
                size_t j = tile.y + in_row / tile.run;                         \
                                                                               \
                dx[i] = EXPR;                                                  \
            }                                                                  \
    }

/* The product without element `i`, for an element that is 0. */
#define PRODUCT_WITHOUT(T, t)                                                  \
    static T product_without_##t(const fl_grid *grid, const T *x, size_t j,    \
                                 size_t i)                                     \
    {                                                                          \
        fl_tiles it = fl_tiles_of(grid, (fl_span){ j, j + 1 });                \
        fl_tile tile;                                                          \
        T product = 1;                                                         \
                                                                               \
        while (fl_tiles_next(&it, &tile))                                      \
            for (size_t r = 0; r < tile.rows; r++)                             \
                for (size_t k = 0; k < tile.run; k++)                          \
                    if (tile.x + r * tile.ld + k != i)                         \
                        product *= x[tile.x + r * tile.ld + k];                \
        return product;                                                        \
    }
FL_FLOATS(PRODUCT_WITHOUT)

#define SPREADS(T, t)                                                          \
    SPREAD(T, extreme_back_##t, x[i] == y[j] ? g[j] : 0)                       \
    SPREAD(T, prod_back_##t,                                                   \
           g[j] *                                                              \
               (x[i] == 0 ? product_without_##t(grid, x, j, i) : y[j] / x[i]))
FL_FLOATS(SPREADS)

/* --- the operators -------------------------------------------------------- */

/* By type_of, or once for bool; `nothing` is what no element makes. */
enum { I32 = 2, I64, N_TYPES };
typedef struct folding {
    fold_fn run[N_TYPES], back[I32];
    double nothing;
} folding;

static fl_status number_infer(fl_infer *c)
{
    fl_dtype dtype = fl_infer_in(c, X)->dtype;

    if (dtype != FL_DTYPE_I32 && dtype != FL_DTYPE_I64)
        FL_TRY(fl_infer_float(c, X));
    return fl_reduce_infer(c);
}

static fl_status bool_infer(fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX];

    if (fl_infer_in(c, X)->dtype != FL_DTYPE_BOOL)
        FL_FAIL(FL_ERR_TYPE, "op %s: %s must be bool; compare or cast it first",
                c->node->def->name, fl_infer_text(c, X, buf));
    return fl_reduce_infer(c);
}

static int type_of(const fl_op_ctx *c)
{
    fl_dtype dtype = fl_in_t(c, X)->dtype;

    switch (dtype) {
    case FL_DTYPE_BOOL:
        return 0;
    case FL_DTYPE_I32:
        return I32;
    case FL_DTYPE_I64:
        return I64;
    default:
        return fl_float_index(dtype, c->node);
    }
}

static fl_grid grid_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    bool kept[FL_RANK_MAX];

    fl_reduce_kept(c->node, x, kept);
    return fl_grid_of(x, kept);
}

/* The nearest number of that range. */
static int64_t whole(double value, int64_t least, int64_t largest)
{
    return value == -INFINITY  ? least
           : value == INFINITY ? largest
                               : (int64_t)value;
}

static void fill(const fl_op_ctx *c, double value)
{
    fl_tensor *out = fl_out_t(c, OUT);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(out));

    for (size_t i = s.lo; i < s.hi; i++)
        switch (out->dtype) {
        case FL_DTYPE_F32:
            ((float *)out->data)[i] = (float)value;
            break;
        case FL_DTYPE_F64:
            ((double *)out->data)[i] = value;
            break;
        case FL_DTYPE_I32:
            ((int32_t *)out->data)[i] =
                (int32_t)whole(value, INT32_MIN, INT32_MAX);
            break;
        case FL_DTYPE_I64:
            ((int64_t *)out->data)[i] = whole(value, INT64_MIN, INT64_MAX);
            break;
        default:
            ((bool *)out->data)[i] = value != 0;
        }
}

static fl_status fold_run(fl_op_ctx *c, const folding *f)
{
    operands o = { .x = fl_in(c, X), .to = fl_out(c, OUT) };
    fl_grid grid;

    if (fl_tensor_numel(fl_in_t(c, X)) == 0) {
        fill(c, f->nothing);
        return FL_OK;
    }
    grid = grid_of(c);
    f->run[type_of(c)](&grid, &o, fl_op_span(c, fl_grid_kept(&grid)));
    return FL_OK;
}

static fl_status fold_back(fl_op_ctx *c, const folding *f)
{
    operands o = { fl_in(c, X), fl_saved_out(c, OUT), fl_dout(c, OUT),
                   fl_din(c, X) };
    fl_grid grid;

    if (!fl_din_t(c, X) || fl_tensor_numel(fl_in_t(c, X)) == 0)
        return FL_OK;
    if (!fl_dout_t(c, OUT) || type_of(c) >= I32) {
        fl_share_zero(c, fl_din_t(c, X));
        return FL_OK;
    }
    grid = grid_of(c);
    f->back[type_of(c)](&grid, &o, fl_op_span(c, fl_grid_kept(&grid)));
    return FL_OK;
}

static const fl_op_case number_cases[] = {
    FL_REDUCE_CASES("f32"),
    { .in = { "i64[3,4,5] below=9" }, .attrs = "{dim=[0,2]}" },
    { .in = { "i32[33,7] below=3" }, .attrs = "{reduce_all=true}" },
    { .in = { "i32[0,8]" }, .attrs = "{dim=[0]}" },
};
static const fl_op_case bool_cases[] = { FL_REDUCE_CASES("bool") };

#define DESCRIPTOR(name_, text)                                                \
    .name = #name_, .doc = "Out = " text " X " FL_REDUCE_TEXT,                 \
    .out = { { "Out", 0 } }, .attrs = { FL_REDUCE_ATTRS },                     \
    .flags = FL_OP_SLICED, .run = name_##_run

#define FLOATS(name_, back_name, nothing, text)                                \
    static const folding name_##_fold = {                                      \
        { name_##_f32, name_##_f64, name_##_i32, name_##_i64 },                \
        { back_name##_f32, back_name##_f64 },                                  \
        nothing,                                                               \
    };                                                                         \
    static fl_status reduce_##name_##_run(fl_op_ctx *c)                        \
    {                                                                          \
        return fold_run(c, &name_##_fold);                                     \
    }                                                                          \
    static fl_status name_##_back(fl_op_ctx *c)                                \
    {                                                                          \
        return fold_back(c, &name_##_fold);                                    \
    }                                                                          \
    const fl_op fl_op_reduce_##name_ = {                                       \
        DESCRIPTOR(reduce_##name_, text),                                      \
        .in = { { "X", 0 } },                                                  \
        .infer = number_infer,                                                 \
        .back = name_##_back,                                                  \
        .back_uses = FL_USES_IN(X) | FL_USES_OUT(OUT),                         \
        .cases = number_cases,                                                 \
        .n_cases = FL_LEN(number_cases),                                       \
    };

#define BOOLS(name_, nothing, text)                                            \
    static fl_status reduce_##name_##_run(fl_op_ctx *c)                        \
    {                                                                          \
        static const folding f = { { name_##_bool }, { NULL }, nothing };      \
                                                                               \
        return fold_run(c, &f);                                                \
    }                                                                          \
    const fl_op fl_op_reduce_##name_ = {                                       \
        DESCRIPTOR(reduce_##name_, text),                                      \
        .in = { { "X", FL_SLOT_NO_GRAD } },                                    \
        .infer = bool_infer,                                                   \
        .cases = bool_cases,                                                   \
        .n_cases = FL_LEN(bool_cases),                                         \
    };

FLOATS(max, extreme_back, 0,
       "the largest element (0 of none; of equal ones each gets the whole "
       "gradient) of")
FLOATS(min, extreme_back, 0,
       "the smallest element (0 of none; of equal ones each gets the whole "
       "gradient) of")
FLOATS(prod, prod_back, 1, "the product (1 of none) of")
BOOLS(all, 1, "whether all elements are true (of none they are) of the bool")
BOOLS(any, 0, "whether any element is true (of none it is not) of the bool")
