/* dist.c - how far two tensors that meet element by element are apart, by any
 * norm. */
#include <math.h>

#include "ops/broadcast.h"
#include "ops/helpers.h"

enum { X, Y };
enum { OUT };
enum { P };
enum { AT_THE_END = -1 };

static fl_status dist_infer(fl_infer *c)
{
    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    FL_TRY(fl_infer_meeting(c, AT_THE_END, fl_infer_in(c, X)->dtype));
    if (isnan(fl_float(c, P)))
        FL_FAIL(FL_ERR_INVAL, "op dist: p is no number");
    fl_infer_dense(c, OUT, fl_infer_in(c, X)->dtype, 1, (int64_t[]){ 1 });
    return FL_OK;
}

/* How one more difference, which is not negative, adds to those so far. */
static double add(double p, double so_far, double d, bool is_first)
{
    if (p == 0)
        return so_far + (d != 0);
    if (isinf(p))
        return is_first || (p > 0) == (d > so_far) ? d : so_far;
    return so_far + pow(d, p);
}

/* What a difference adds to the distance when it grows by a little. */
static double slope(double p, double d, double distance)
{
    double size = fabs(d), sign = d > 0 ? 1 : -1;

    if (d == 0 || p == 0 || distance == 0)
        return 0;
    if (isinf(p))
        return size == distance ? sign : 0;
    return sign * pow(size / distance, p - 1);
}

#define KERNELS(T, t)                                                          \
    static double distance_##t(const T *x, const T *y, const fl_meeting *m,    \
                               double p)                                       \
    {                                                                          \
        fl_meeting_rows it = fl_meeting_rows_of(                               \
            m, (fl_span){ 0, (size_t)fl_shape_numel(&m->out) });               \
        fl_meeting_row r;                                                      \
        double sum = 0;                                                        \
                                                                               \
        while (fl_meeting_next(&it, &r))                                       \
            for (size_t i = 0; i < r.n; i++) {                                 \
                T d = x[r.x + i * m->run[0].x] - y[r.y + i * m->run[0].y];     \
                                                                               \
                sum = add(p, sum, fabs((double)d), !r.out && !i);              \
            }                                                                  \
        return p == 0 || isinf(p) ? sum : pow(sum, 1 / p);                     \
    }                                                                          \
    static void forward_##t(T *out, const T *x, const T *y,                    \
                            const fl_meeting *m, double p)                     \
    {                                                                          \
        *out = (T)distance_##t(x, y, m, p);                                    \
    }                                                                          \
    static void backward_##t(const fl_op_ctx *c, const fl_meeting *m,          \
                             double p)                                         \
    {                                                                          \
        const T *x = fl_in(c, X), *y = fl_in(c, Y);                            \
        const T *far = fl_saved_out(c, OUT), *g = fl_dout(c, OUT);             \
        T *dx = fl_din(c, X), *dy = fl_din(c, Y);                              \
        fl_meeting_rows it = fl_meeting_rows_of(                               \
            m, (fl_span){ 0, (size_t)fl_shape_numel(&m->out) });               \
        fl_meeting_row r;                                                      \
                                                                               \
        while (fl_meeting_next(&it, &r))                                       \
            for (size_t i = 0; i < r.n; i++) {                                 \
                size_t at_x = r.x + i * m->run[0].x;                           \
                size_t at_y = r.y + i * m->run[0].y;                           \
                double d = (double)(x[at_x] - y[at_y]);                        \
                T s = (T)slope(p, d, (double)*far) * *g;                       \
                                                                               \
                if (dx)                                                        \
                    dx[at_x] += s;                                             \
                if (dy)                                                        \
                    dy[at_y] -= s;                                             \
            }                                                                  \
    }
FL_FLOATS(KERNELS)

static fl_status dist_run(fl_op_ctx *c)
{
    fl_meeting m =
        fl_meeting_of(&fl_in_t(c, X)->shape, &fl_in_t(c, Y)->shape, AT_THE_END);

    FL_BY_FLOAT(c, X, forward, fl_out(c, OUT), fl_in(c, X), fl_in(c, Y), &m,
                fl_float(c, P));
    return FL_OK;
}

static fl_status dist_back(fl_op_ctx *c)
{
    fl_meeting m =
        fl_meeting_of(&fl_in_t(c, X)->shape, &fl_in_t(c, Y)->shape, AT_THE_END);

    fl_din_zero(c, X);
    fl_din_zero(c, Y);
    if (fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, X, backward, c, &m, fl_float(c, P));
    return FL_OK;
}

static const fl_op_case dist_cases[] = {
    { .in = { "f32[33,7]", "f32[33,7]" } },
    { .in = { "f32[5,1,4]", "f32[3,1]" }, .attrs = "{p=3}" },
    { .in = { "f32[7]", "f32[5,7]" }, .attrs = "{p=1}" },
    { .in = { "f32[3,4]", "f32[3,4]" }, .attrs = "{p=0}" },
    { .in = { "f32[3,4]", "f32[3,4]" }, .attrs = "{p=inf}" },
    { .in = { "f32[3,4]", "f32[3,4]" }, .attrs = "{p=-inf}" },
    { .in = { "f32[0,8]", "f32[0,8]" } },
};

const fl_op fl_op_dist = {
    .name = "dist",
    .doc = "Out = the norm p of X - Y, which meet element by element: the root "
           "of the sum of |X - Y|^p, their number but for zeros (p=0), the "
           "largest (inf) or the smallest (-inf) of |X - Y|",
    .in = { { "X", 0 }, { "Y", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "p", FL_ATTR_FLOAT, "2" } },
    .infer = dist_infer,
    .run = dist_run,
    .back = dist_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y) | FL_USES_OUT(OUT),
    .cases = dist_cases,
    .n_cases = FL_LEN(dist_cases),
};
