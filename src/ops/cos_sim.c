/* cos_sim.c - the cosine of the angle between rows of X and of Y, where Y may
 * have one row for all of X.
 *
 * A row of zeros has no angle: its cosine is 0 and so is its gradient.
 */
#include <math.h>

#include "kernel/vec.h"
#include "ops/helpers.h"

enum { X, Y };
enum { OUT, X_NORM, Y_NORM };

/* Rows of X and of Y, all of one width. */
typedef struct rows {
    const fl_tensor *x, *y;
    size_t n, width;
    size_t y_step; /* 0: one row of Y for all */
} rows;

/* One pair in the eyes of one of its rows: what came back for its cosine z, and
   the norms of this row and of the other. */
typedef struct angle {
    double g, z, own, other;
} angle;

#define KERNELS(T, t)                                                            \
    static T norm_##t(const T *x, size_t n)                                      \
    {                                                                            \
        return (T)sqrt(fl_vec_##t()->dot(x, x, n));                              \
    }                                                                            \
    static void forward_##t(const rows *r, fl_span s, T *out, T *x_norm,         \
                            T *y_norm)                                           \
    {                                                                            \
        for (size_t i = s.lo; i < s.hi; i++) {                                   \
            const T *x = (const T *)r->x->data + i * r->width;                   \
            const T *y = (const T *)r->y->data + i * r->y_step;                  \
            double dots[3], both;                                                \
            T xn, yn;                                                            \
                                                                                 \
            fl_vec_##t()->dots(dots, x, y, r->width);                            \
            xn = (T)sqrt(dots[0]);                                               \
            yn = (T)sqrt(dots[1]);                                               \
            both = (double)xn * (double)yn;                                      \
            out[i] = both > 0 ? (T)(dots[2] / both) : 0;                         \
            if (x_norm)                                                          \
                x_norm[i] = xn;                                                  \
            if (y_norm && r->y_step)                                             \
                y_norm[i] = yn;                                                  \
        }                                                                        \
    }                                                                            \
    /* d = g (other / (|own| |other|) - z own / |own|^2) */                      \
    static void row_back_##t(T *d, const T *own, const T *other, size_t n,       \
                             const angle *a)                                     \
    {                                                                            \
        double both = a->own * a->other;                                         \
                                                                                 \
        if (!(both > 0)) {                                                       \
            memset(d, 0, n * sizeof(T));                                         \
            return;                                                              \
        }                                                                        \
        fl_vec_##t()->scale(d, (T)(a->g / both), other, 0, n);                   \
        fl_vec_##t()->axpy(d, (T)(-a->g * a->z / (a->own * a->own)), own, n);    \
    }                                                                            \
    /* The only row of Y hears of every row of X; this call does its columns   \
       in s. */ \
    static void shared_back_##t(const rows *r, const angle *angles, fl_span s,   \
                                T *dy)                                           \
    {                                                                            \
        const T *x = r->x->data, *y = r->y->data;                                \
        size_t n = s.hi - s.lo;                                                  \
        double along = 0;                                                        \
                                                                                 \
        memset(dy + s.lo, 0, n * sizeof(T));                                     \
        for (size_t i = 0; i < r->n; i++) {                                      \
            const angle *a = &angles[i];                                         \
                                                                                 \
            if (!(a->own * a->other > 0))                                        \
                continue;                                                        \
            fl_vec_##t()->axpy(dy + s.lo, (T)(a->g / (a->own * a->other)),       \
                               x + i * r->width + s.lo, n);                      \
            along += a->g * a->z / (a->own * a->own);                            \
        }                                                                        \
        fl_vec_##t()->axpy(dy + s.lo, (T)-along, y + s.lo, n);                   \
    }
FL_FLOATS(KERNELS)

/* --- forward -------------------------------------------------------------- */

static fl_status cos_sim_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X), *y = fl_infer_in(c, Y);
    fl_tensor *out = fl_infer_out(c, OUT);

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    FL_TRY(fl_infer_rows_alike(c, X, Y));
    fl_tensor_like(out, x);
    out->shape = fl_shape_of(2, (int64_t[]){ x->shape.dim[0], 1 });
    fl_infer_dense(c, X_NORM, x->dtype, 2, (int64_t[]){ x->shape.dim[0], 1 });
    fl_infer_dense(c, Y_NORM, x->dtype, 2, (int64_t[]){ y->shape.dim[0], 1 });
    return FL_OK;
}

static rows rows_of(const fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X), *y = fl_in_t(c, Y);
    size_t width = (size_t)fl_shape_count(&x->shape, 1, x->shape.rank);

    return (rows){ .x = x,
                   .y = y,
                   .n = (size_t)x->shape.dim[0],
                   .width = width,
                   .y_step = y->shape.dim[0] == 1 ? 0 : width };
}

static void write_shared_norm(const fl_op_ctx *c, const rows *r)
{
    fl_tensor *to = fl_out_t(c, Y_NORM);

    if (!to || r->y_step || c->ith)
        return;
    if (to->dtype == FL_DTYPE_F32)
        *(float *)to->data = norm_f32(r->y->data, r->width);
    else
        *(double *)to->data = norm_f64(r->y->data, r->width);
}

static fl_status cos_sim_run(fl_op_ctx *c)
{
    rows r = rows_of(c);

    FL_BY_FLOAT(c, X, forward, &r, fl_op_span(c, r.n), fl_out(c, OUT),
                fl_out(c, X_NORM), fl_out(c, Y_NORM));
    write_shared_norm(c, &r);
    return FL_OK;
}

/* --- backward ------------------------------------------------------------- */

/* Pair i in the eyes of X (own is X) or of Y. */
static angle angle_at(const fl_op_ctx *c, const rows *r, size_t i, int own)
{
    size_t yi = r->y_step ? i : 0;
    double x = fl_float_at(fl_saved_out_t(c, X_NORM), (int64_t)i);
    double y = fl_float_at(fl_saved_out_t(c, Y_NORM), (int64_t)yi);

    return (angle){ .g = fl_float_at(fl_dout_t(c, OUT), (int64_t)i),
                    .z = fl_float_at(fl_saved_out_t(c, OUT), (int64_t)i),
                    .own = own == X ? x : y,
                    .other = own == X ? y : x };
}

static void *row_at(const fl_tensor *t, size_t i, size_t step)
{
    return (char *)t->data + i * step * fl_dtype_bytes(t->dtype);
}

/* The gradient of X, or of Y where it has a row for each of X. */
static void back_rows(const fl_op_ctx *c, const rows *r, int own)
{
    fl_tensor *d = fl_din_t(c, own);
    size_t own_step = own == X ? r->width : r->y_step;
    size_t other_step = own == X ? r->y_step : r->width;
    fl_span s = fl_op_span(c, r->n);

    for (size_t i = s.lo; i < s.hi; i++) {
        angle a = angle_at(c, r, i, own);

        FL_BY_DTYPE(d->dtype, row_back, row_at(d, i, own_step),
                    row_at(own == X ? r->x : r->y, i, own_step),
                    row_at(own == X ? r->y : r->x, i, other_step), r->width,
                    &a);
    }
}

static fl_status back_shared(fl_op_ctx *c, const rows *r)
{
    angle *angles = fl_scratch(c, (r->n + 1) * sizeof(*angles));

    if (!angles)
        return FL_NOMEM(c);
    for (size_t i = 0; i < r->n; i++)
        angles[i] = angle_at(c, r, i, Y);
    FL_BY_FLOAT(c, X, shared_back, r, angles, fl_op_span(c, r->width),
                fl_din(c, Y));
    return FL_OK;
}

static fl_status cos_sim_back(fl_op_ctx *c)
{
    rows r = rows_of(c);

    if (!fl_dout_t(c, OUT)) {
        fl_din_zero(c, X);
        fl_din_zero(c, Y);
        return FL_OK;
    }
    if (fl_din_t(c, X))
        back_rows(c, &r, X);
    if (fl_din_t(c, Y) && !r.y_step)
        return back_shared(c, &r);
    if (fl_din_t(c, Y))
        back_rows(c, &r, Y);
    return FL_OK;
}

static fl_status cos_sim_back_infer(fl_infer *c)
{
    FL_TRY(fl_back_needs(c, X_NORM));
    return fl_back_needs(c, Y_NORM);
}

static const fl_op_case cos_sim_cases[] = {
    { .in = { "f32[6,7]", "f32[6,7]" } },
    { .in = { "f32[0,7]", "f32[0,7]" } },
    { .in = { "f32[1,16]", "f32[1,16]" } },
    { .in = { "f32[33,5]", "f32[33,5]" } },
    { .in = { "f32[9,33]", "f32[1,33]" } },
    { .in = { "f32[0,5]", "f32[1,5]" } },
    { .in = { "f32[5,2,3] lod=[0,2,2,5]", "f32[1,2,3]" } },
};

const fl_op fl_op_cos_sim = {
    .name = "cos_sim",
    .doc = "Out[i] = X[i] Y[i] / (|X[i]| |Y[i]|), row by row, or with the one "
           "row that Y has; 0 where a row is all zeros, whose gradient is 0 "
           "too. XNorm and YNorm are the norms",
    .in = { { "X", 0 }, { "Y", 0 } },
    .out = { { "Out", 0 },
             { "XNorm", FL_OP_SLOT_BYPRODUCT },
             { "YNorm", FL_OP_SLOT_BYPRODUCT } },
    .flags = FL_OP_SLICED,
    .infer = cos_sim_infer,
    .run = cos_sim_run,
    .back = cos_sim_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y) | FL_USES_OUT(OUT) |
                 FL_USES_OUT(X_NORM) | FL_USES_OUT(Y_NORM),
    .back_infer = cos_sim_back_infer,
    .cases = cos_sim_cases,
    .n_cases = FL_LEN(cos_sim_cases),
};
