/* binary.c - functions of two numbers, element by element. Y may lack
 * dimensions of X, or have 1 in their place: it is repeated over them, and its
 * gradient is summed over them in ascending order of X. reduce.h has the walk.
 */
#include "kernel/vec.h"
#include "ops/helpers.h"
#include "ops/reduce.h"

enum { X, Y };
enum { OUT };
enum { AXIS };

/* The beginnings of the tensors; those that are not needed may be wild. */
typedef struct operands {
    const void *x, *y, *z, *g; /* X, Y, Out, gradient of Out */
    void *to;                  /* what the tile writes */
} operands;

typedef void (*tile_fn)(const fl_tile *tile, const operands *o);

/* By fl_float_index: f32, f64. */
typedef struct binary {
    tile_fn run[2], dx[2], dy[2];
} binary;

/* Where Y stands in X: has[i] when Y has dimension i. False when it does not
   fit; unknown dimensions always do. */
static bool place(const fl_shape *x, const fl_shape *y, int64_t axis,
                  bool has[FL_RANK_MAX])
{
    int64_t at = axis == -1 ? x->rank - y->rank : axis;
    int rank = y->rank;

    while (rank > 0 && y->dim[rank - 1] == 1)
        rank--;
    if (rank == 0)
        at = 0;
    if (at < 0 || at + rank > x->rank)
        return false;
    for (int i = 0; i < x->rank; i++) {
        int64_t k = i - at;

        has[i] = k >= 0 && k < rank && y->dim[k] != 1;
        if (has[i] && x->dim[i] >= 0 && y->dim[k] >= 0 &&
            x->dim[i] != y->dim[k])
            return false;
    }
    return true;
}

static fl_status binary_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X), *y = fl_infer_in(c, Y);
    char tx[FL_SLOT_TEXT_MAX], ty[FL_SLOT_TEXT_MAX];
    bool has[FL_RANK_MAX];

    FL_TRY(fl_infer_same_dtype(c, X, Y));
    if (!place(&x->shape, &y->shape, fl_int(c, AXIS), has))
        FL_FAIL(FL_ERR_INVAL, "op %s: %s does not fit into %s at axis %d",
                c->node->def->name, fl_infer_text(c, Y, ty),
                fl_infer_text(c, X, tx), (int)fl_int(c, AXIS));
    return fl_infer_same(c, X, OUT);
}

static fl_grid grid_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;
    bool has[FL_RANK_MAX] = { false };

    place(x, &fl_in_t(c, Y)->shape, fl_int(c, AXIS), has);
    return fl_grid_of(x, has);
}

static fl_status binary_run(fl_op_ctx *c, const binary *b)
{
    operands o = { .x = fl_in(c, X), .y = fl_in(c, Y), .to = fl_out(c, OUT) };
    tile_fn run = b->run[fl_float_index(fl_in_t(c, X)->dtype, c->node)];
    fl_grid grid;
    fl_tiles it;
    fl_tile tile;

    if (fl_tensor_numel(fl_in_t(c, X)) == 0)
        return FL_OK;
    grid = grid_of(c);
    it = fl_tiles_of(&grid, fl_op_span(c, fl_grid_kept(&grid)));
    while (fl_tiles_next(&it, &tile))
        run(&tile, &o);
    return FL_OK;
}

/* The gradient of X may lie where that of Out lies: a tile is read for Y
   before it is written for X. */
static fl_status binary_back(fl_op_ctx *c, const binary *b)
{
    fl_tensor *dx = fl_din_t(c, X), *dy = fl_din_t(c, Y);
    operands o = { fl_in(c, X), fl_in(c, Y), fl_saved_out(c, OUT),
                   fl_dout(c, OUT), NULL };
    int dtype = fl_float_index(fl_in_t(c, X)->dtype, c->node);
    fl_grid grid;
    fl_tiles it;
    fl_tile tile;

    if (!fl_dout_t(c, OUT) || fl_tensor_numel(fl_in_t(c, X)) == 0) {
        if (dx)
            fl_share_zero(c, dx);
        if (dy)
            fl_share_zero(c, dy);
        return FL_OK;
    }
    grid = grid_of(c);
    it = fl_tiles_of(&grid, fl_op_span(c, fl_grid_kept(&grid)));
    while (fl_tiles_next(&it, &tile)) {
        if (dy) {
            o.to = dy->data;
            b->dy[dtype](&tile, &o);
        }
        if (dx) {
            o.to = dx->data;
            b->dx[dtype](&tile, &o);
        }
    }
    return FL_OK;
}

/* dX = dOut, dY = the sum of dOut. */
#define PLAIN_GRADIENTS(T, t)                                                  \
    static void copy_##t(const fl_tile *tile, const operands *o)               \
    {                                                                          \
        const T *g = (const T *)o->g + tile->x;                                \
        T *dx = (T *)o->to + tile->x;                                          \
                                                                               \
        for (size_t r = 0; dx != g && r < tile->rows; r++)                     \
            memcpy(dx + r * tile->ld, g + r * tile->ld,                        \
                   tile->n * tile->run * sizeof(T));                           \
    }                                                                          \
    static void sum_##t(const fl_tile *tile, const operands *o)                \
    {                                                                          \
        fl_tile_sum_##t(tile, o->to, o->g);                                    \
    }
FL_FLOATS(PLAIN_GRADIENTS)

/* What a gradient does not read may be NULL. */
static const void *at(const void *p, size_t bytes)
{
    return p ? (const char *)p + bytes : NULL;
}

/* Runs `statement` with i, the place in X, and j, that in Y. */
#define EACH(tile, statement)                                                  \
    for (size_t r = 0; r < (tile)->rows; r++)                                  \
        for (size_t j = 0; j < (tile)->n; j++)                                 \
            for (size_t i = r * (tile)->ld + j * (tile)->run, k = 0;           \
                 k < (tile)->run; i++, k++)                                    \
    statement

#define POINTERS(T, tile, o)                                                   \
    const T *x = (const T *)at((o)->x, (tile)->x * sizeof(T));                 \
    const T *y = (const T *)at((o)->y, (tile)->y * sizeof(T));                 \
    const T *z = (const T *)at((o)->z, (tile)->x * sizeof(T));                 \
    const T *g = (const T *)at((o)->g, (tile)->x * sizeof(T));                 \
                                                                               \
    (void)x, (void)y, (void)z, (void)g

#define VALUE(T, t, name, EXPR)                                                \
    static void name##_run_##t(const fl_tile *tile, const operands *o)         \
    {                                                                          \
        const T *x = (const T *)o->x + tile->x;                                \
        const T *y = (const T *)o->y + tile->y;                                \
        T *to = (T *)o->to + tile->x;                                          \
                                                                               \
        if (tile->run != 1) {                                                  \
            EACH(tile, to[i] = EXPR;)                                          \
            return;                                                            \
        }                                                                      \
        for (size_t r = 0; r < tile->rows; r++)                                \
            fl_vec_##t()->name(to + r * tile->ld, x + r * tile->ld, y,         \
                               tile->n);                                       \
    }

#define GRADIENT_OF_X(T, t, name, EXPR)                                        \
    static void name##_dx_##t(const fl_tile *tile, const operands *o)          \
    {                                                                          \
        T *to = (T *)o->to + tile->x;                                          \
        POINTERS(T, tile, o);                                                  \
                                                                               \
        EACH(tile, to[i] = EXPR;)                                              \
    }

/* A run along X is added up in double, as fl_tile_sum does. */
#define GRADIENT_OF_Y(T, t, name, EXPR)                                        \
    static void name##_dy_##t(const fl_tile *tile, const operands *o)          \
    {                                                                          \
        T *to = (T *)o->to + tile->y;                                          \
        POINTERS(T, tile, o);                                                  \
                                                                               \
        for (size_t j = 0; tile->first && j < tile->n; j++)                    \
            to[j] = 0;                                                         \
        for (size_t r = 0; r < tile->rows; r++)                                \
            for (size_t j = 0; j < tile->n; j++) {                             \
                size_t i = r * tile->ld + j * tile->run;                       \
                double sum = 0;                                                \
                                                                               \
                for (size_t end = i + tile->run; i < end; i++)                 \
                    sum += EXPR;                                               \
                to[j] += (T)sum;                                               \
            }                                                                  \
    }

#define BOTH(M, name, EXPR) M(float, f32, name, EXPR) M(double, f64, name, EXPR)

BOTH(VALUE, add, x[i] + y[j])

BOTH(VALUE, sub, x[i] - y[j])
BOTH(GRADIENT_OF_Y, sub, -g[i])

BOTH(VALUE, mul, x[i] * y[j])
BOTH(GRADIENT_OF_X, mul, g[i] * y[j])
BOTH(GRADIENT_OF_Y, mul, g[i] * x[i])

BOTH(VALUE, div, x[i] / y[j])
BOTH(GRADIENT_OF_X, div, g[i] / y[j])
BOTH(GRADIENT_OF_Y, div, -g[i] * z[i] / y[j])

/* Positive, so that quotients stay tame. */
#define POSITIVE .flags = FL_CASE_POSITIVE

static const fl_op_case binary_cases[] = {
    { .in = { "f32[1]", "f32[1]" }, POSITIVE },
    { .in = { "f32[33,7]", "f32[33,7]" }, POSITIVE },
    { .in = { "f32[33,7]", "f32[7]" }, POSITIVE },
    { .in = { "f32[33,7]", "f32[1,7]" }, POSITIVE },
    { .in = { "f32[33,7]", "f32[33,1]" }, POSITIVE },
    { .in = { "f32[33,7]", "f32[33]" }, .attrs = "{axis=0}", POSITIVE },
    { .in = { "f32[33,7]", "f32[1]" }, POSITIVE },
    { .in = { "f32[2,3,4,5]", "f32[3,4]" }, .attrs = "{axis=1}", POSITIVE },
    { .in = { "f32[2,3,4]", "f32[3,1]" }, .attrs = "{axis=1}", POSITIVE },
    { .in = { "f32[2,3,2,3,2]", "f32[2,1,2,1,2]" }, POSITIVE },
    { .in = { "f32[7,3] lod=[0,2,2,7]", "f32[3]" }, POSITIVE },
    { .in = { "f32[0,8]", "f32[0,8]" }, POSITIVE },
    { .in = { "f32[0,8]", "f32[8]" }, POSITIVE },
};

#define BINARY(name_, sign, dx_, dy_, uses)                                    \
    static const binary name_##_tiles = {                                      \
        { name_##_run_f32, name_##_run_f64 },                                  \
        { dx_##_f32, dx_##_f64 },                                              \
        { dy_##_f32, dy_##_f64 },                                              \
    };                                                                         \
    static fl_status name_##_run(fl_op_ctx *c)                                 \
    {                                                                          \
        return binary_run(c, &name_##_tiles);                                  \
    }                                                                          \
    static fl_status name_##_back(fl_op_ctx *c)                                \
    {                                                                          \
        return binary_back(c, &name_##_tiles);                                 \
    }                                                                          \
    const fl_op fl_op_elementwise_##name_ = {                                  \
        .name = "elementwise_" #name_,                                         \
        .doc = "Out = X " sign " Y, element by element; Y is repeated over "   \
               "the dimensions of X that it lacks or has as 1, its first one " \
               "standing at axis (-1: its last one at the end)",               \
        .in = { { "X", 0 }, { "Y", 0 } },                                      \
        .out = { { "Out", 0 } },                                               \
        .attrs = { { "axis", FL_ATTR_INT, "-1" } },                            \
        .flags = FL_OP_INPLACE | FL_OP_SLICED,                                 \
        .infer = binary_infer,                                                 \
        .run = name_##_run,                                                    \
        .back = name_##_back,                                                  \
        .back_uses = uses,                                                     \
        .cases = binary_cases,                                                 \
        .n_cases = FL_LEN(binary_cases),                                       \
    };

BINARY(add, "+", copy, sum, 0)
BINARY(sub, "-", copy, sub_dy, 0)
BINARY(mul, "*", mul_dx, mul_dy, FL_USES_IN(X) | FL_USES_IN(Y))
BINARY(div, "/", div_dx, div_dy, FL_USES_IN(Y) | FL_USES_OUT(OUT))
