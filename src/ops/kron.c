/* kron.c - the Kronecker product: each number of X times all of Y.
 *
 * Place i of axis a of Out is place i / n of X and i % n of Y, where n is the
 * length of that axis of Y. The one of lower rank has axes of length 1 in front.
 */
#include "ops/helpers.h"

enum { X, Y };
enum { OUT };

/* The dimensions with ones in front. */
static fl_shape widened(const fl_shape *s, int rank)
{
    fl_shape w = { .rank = rank };
    int missing = rank - s->rank;

    for (int i = 0; i < rank; i++)
        w.dim[i] = i < missing ? 1 : s->dim[i - missing];
    return w;
}

static int rank_of(const fl_shape *x, const fl_shape *y)
{
    return x->rank > y->rank ? x->rank : y->rank;
}

static fl_status kron_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X), *y = fl_infer_in(c, Y);
    int rank = rank_of(&x->shape, &y->shape);
    fl_shape a = widened(&x->shape, rank), b = widened(&y->shape, rank);

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    for (int i = 0; i < rank; i++)
        a.dim[i] = a.dim[i] < 0 || b.dim[i] < 0 ? -1 : a.dim[i] * b.dim[i];
    fl_infer_dense(c, OUT, x->dtype, rank, a.dim);
    return FL_OK;
}

/* Which numbers of X and Y meet in number i of Out. */
typedef struct meeting {
    fl_shape x, y;
} meeting;

static meeting meeting_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape, *y = &fl_in_t(c, Y)->shape;
    int rank = rank_of(x, y);

    return (meeting){ widened(x, rank), widened(y, rank) };
}

static void meet(const meeting *m, size_t i, size_t *at_x, size_t *at_y)
{
    size_t step_x = 1, step_y = 1;

    *at_x = *at_y = 0;
    for (int a = m->x.rank - 1; a >= 0; a--) {
        size_t nx = (size_t)m->x.dim[a], ny = (size_t)m->y.dim[a];
        size_t place;

        FL_ASSERT(nx && ny); /* Out has numbers, so both have */
        place = i % (nx * ny);
        *at_x += place / ny * step_x;
        *at_y += place % ny * step_y;
        step_x *= nx;
        step_y *= ny;
        i /= nx * ny;
    }
}

#define KERNELS(T, t)                                                          \
    static void forward_##t(T *out, const T *x, const T *y, const meeting *m,  \
                            fl_span s)                                         \
    {                                                                          \
        size_t at_x, at_y;                                                     \
                                                                               \
        for (size_t i = s.lo; i < s.hi; i++) {                                 \
            meet(m, i, &at_x, &at_y);                                          \
            out[i] = x[at_x] * y[at_y];                                        \
        }                                                                      \
    }                                                                          \
    static void backward_##t(const fl_op_ctx *c, const meeting *m, size_t n)   \
    {                                                                          \
        const T *x = fl_in(c, X), *y = fl_in(c, Y), *g = fl_dout(c, OUT);      \
        T *dx = fl_din(c, X), *dy = fl_din(c, Y);                              \
        size_t at_x, at_y;                                                     \
                                                                               \
        for (size_t i = 0; i < n; i++) {                                       \
            meet(m, i, &at_x, &at_y);                                          \
            if (dx)                                                            \
                dx[at_x] += g[i] * y[at_y];                                    \
            if (dy)                                                            \
                dy[at_y] += g[i] * x[at_x];                                    \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

static fl_status kron_run(fl_op_ctx *c)
{
    meeting m = meeting_of(c);

    FL_BY_FLOAT(c, X, forward, fl_out(c, OUT), fl_in(c, X), fl_in(c, Y), &m,
                (fl_span){ 0, (size_t)fl_tensor_numel(fl_out_t(c, OUT)) });
    return FL_OK;
}

static fl_status kron_back(fl_op_ctx *c)
{
    meeting m = meeting_of(c);

    fl_din_zero(c, X);
    fl_din_zero(c, Y);
    if (fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, X, backward, c, &m,
                    (size_t)fl_tensor_numel(fl_dout_t(c, OUT)));
    return FL_OK;
}

static const fl_op_case kron_cases[] = {
    { .in = { "f32[3,2]", "f32[2,4]" } },
    { .in = { "f32[5]", "f32[2,3,2]" } },
    { .in = { "f32[2,3,2]", "f32[3]" } },
    { .in = { "f32[0,8]", "f32[2,2]" } },
};

const fl_op fl_op_kron = {
    .name = "kron",
    .doc = "Out = the Kronecker product of X and Y: each number of X times all "
           "of Y, in its place; the one of lower rank has axes of length 1 in "
           "front",
    .in = { { "X", 0 }, { "Y", 0 } },
    .out = { { "Out", 0 } },
    .infer = kron_infer,
    .run = kron_run,
    .back = kron_back,
    .back_uses = FL_USES_IN(X) | FL_USES_IN(Y),
    .cases = kron_cases,
    .n_cases = FL_LEN(kron_cases),
};
