/* meshgrid.c - vectors as the axes of a grid: each is repeated along the axes of
 * the others. */
#include "ops/helpers.h"
#include "ops/reduce.h"

enum { X };
enum { OUT };

static fl_status meshgrid_infer(fl_infer *c)
{
    int n = fl_infer_n_in(c, X);
    fl_shape grid = { .rank = n };
    char buf[FL_SLOT_TEXT_MAX];

    if (n < 1 || n > FL_RANK_MAX || fl_infer_n_out(c, OUT) != n)
        FL_FAIL(FL_ERR_INVAL,
                "op meshgrid: X has %d vectors and Out %d grids; 1 to %d of "
                "both are possible",
                n, fl_infer_n_out(c, OUT), FL_RANK_MAX);
    for (int i = 0; i < n; i++) {
        const fl_tensor *x = fl_infer_in_at(c, X, i);

        if (x->shape.rank != 1 || x->dtype != fl_infer_in_at(c, X, 0)->dtype)
            FL_FAIL(FL_ERR_INVAL,
                    "op meshgrid: %s must be a vector of the type of the first",
                    fl_infer_text_at(c, X, i, buf));
        grid.dim[i] = x->shape.dim[0];
    }
    for (int i = 0; i < n; i++) {
        fl_tensor *out = fl_infer_out_at(c, OUT, i);

        fl_tensor_like(out, fl_infer_in_at(c, X, i));
        out->shape = grid;
        out->n_lod = 0;
    }
    return FL_OK;
}

/* Vector i as [before][n][after], where it is the same in all but the middle. */
static void spread(const fl_tensor *x, fl_tensor *out, int i)
{
    const fl_shape *s = &out->shape;
    size_t size = fl_dtype_bytes(out->dtype), n = (size_t)s->dim[i];
    size_t after = (size_t)fl_shape_count(s, i + 1, s->rank);
    size_t all = (size_t)fl_tensor_numel(out);

    for (size_t at = 0; at < all; at++)
        memcpy((char *)out->data + at * size,
               (const char *)x->data + at / after % n * size, size);
}

static fl_status meshgrid_run(fl_op_ctx *c)
{
    for (int i = 0; i < fl_n_in(c, X); i++)
        if (fl_out_at(c, OUT, i))
            spread(fl_in_at(c, X, i), fl_out_at(c, OUT, i), i);
    return FL_OK;
}

static void add_up(const fl_tensor *g, fl_tensor *dx, int i)
{
    bool has[FL_RANK_MAX] = { false };
    fl_grid grid;
    fl_tiles it;
    fl_tile tile;

    has[i] = true;
    grid = fl_grid_of(&g->shape, has);
    it = fl_tiles_of(&grid, (fl_span){ 0, fl_grid_kept(&grid) });
    while (fl_tiles_next(&it, &tile))
        FL_BY_DTYPE(g->dtype, fl_tile_sum, &tile, dx->data, g->data);
}

static fl_status meshgrid_back(fl_op_ctx *c)
{
    for (int i = 0; i < fl_n_in(c, X); i++) {
        const fl_tensor *g = fl_dout_at(c, OUT, i);
        fl_tensor *dx = fl_din_at(c, X, i);

        if (dx && (!g || !fl_tensor_numel(g)))
            fl_share_zero(c, dx);
        else if (dx)
            add_up(g, dx, i);
    }
    return FL_OK;
}

static const fl_op_case meshgrid_cases[] = {
    { .in = { "f32[5];f32[3]" } },
    { .in = { "f32[2];f32[3];f32[4]" } },
    { .in = { "f32[7]" } },
    { .in = { "i64[3] below=9;i64[2] below=9" } },
    { .in = { "f32[0];f32[8]" } },
};

const fl_op fl_op_meshgrid = {
    .name = "meshgrid",
    .doc = "Out = for each vector of X a grid, whose axes have the lengths of "
           "the vectors, with the vector along its own axis",
    .in = { { "X", FL_OP_SLOT_LIST } },
    .out = { { "Out", FL_OP_SLOT_LIST } },
    .infer = meshgrid_infer,
    .run = meshgrid_run,
    .back = meshgrid_back,
    .cases = meshgrid_cases,
    .n_cases = FL_LEN(meshgrid_cases),
};
