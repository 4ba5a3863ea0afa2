/* match_matrix_tensor.c - how each word of one text matches each of another, in
 * several ways.
 *
 *     Out of a pair = for each way t the matrix X W[:, t, :] Y', row by row
 *
 * where X and Y are the rows of both texts. Tmp keeps X W for the gradient.
 */
#include "kernel/gemm.h"
#include "ops/helpers.h"
#include "ops/sequences.h"

enum { X, Y, W };
enum { OUT, TMP };
enum { DIM_T };

/* --- infer ---------------------------------------------------------------- */

static fl_status check_shapes(const fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *y = &fl_infer_in(c, Y)->shape;
    const fl_shape *w = &fl_infer_in(c, W)->shape;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX], d[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_float(c, X));
    FL_TRY(fl_infer_same_dtype(c, X, Y));
    FL_TRY(fl_infer_same_dtype(c, X, W));
    if (x->rank != 2 || y->rank != 2 || w->rank != 3 ||
        w->dim[0] != x->dim[1] || w->dim[1] != fl_int(c, DIM_T) ||
        w->dim[2] != y->dim[1])
        FL_FAIL(FL_ERR_INVAL,
                "op match_matrix_tensor: %s must be [n,h], %s [m,k] and %s "
                "[h,%d,k]",
                fl_infer_text(c, X, a), fl_infer_text(c, Y, b),
                fl_infer_text(c, W, d), (int)fl_int(c, DIM_T));
    FL_TRY(fl_infer_one_level(c, X));
    return fl_infer_one_level(c, Y);
}

static fl_status match_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X), *y = fl_infer_in(c, Y);
    int64_t n_ways = fl_int(c, DIM_T), n_tmp, *off;
    fl_seqs qx = { NULL, 0 }, qy = { NULL, 0 };

    FL_TRY(check_shapes(c));
    if (c->running) {
        qx = fl_seqs_of(x);
        qy = fl_seqs_of(y);
    }
    if (qx.n != qy.n)
        FL_FAIL(FL_ERR_INVAL,
                "op match_matrix_tensor: X has %zu texts and Y %zu", qx.n,
                qy.n);
    fl_infer_dense(c, OUT, x->dtype, 2, (int64_t[]){ -1, 1 });
    FL_TRY(fl_infer_new_seqs(c, OUT, qx.n, &off));
    for (size_t s = 0; s < qx.n; s++)
        off[s + 1] = off[s] + n_ways * (int64_t)(fl_seqs_len(&qx, s) *
                                                 fl_seqs_len(&qy, s));
    if (c->running)
        fl_infer_out(c, OUT)->shape.dim[0] = off[qx.n];
    n_tmp = x->shape.dim[0] * n_ways * y->shape.dim[1];
    fl_infer_dense(c, TMP, x->dtype, 2,
                   (int64_t[]){ x->shape.dim[0] < 0 ? -1 : n_tmp, 1 });
    return FL_OK;
}

/* --- run and back ---------------------------------------------------------- */

/* A way of a pair of texts: what meets in rows of both, and where. */
typedef struct meeting {
    int64_t lx, ly, k, ld; /* rows, numbers of a row of Y, of a row of Tmp */
    int64_t at_tmp, at_y, at_out;
} meeting;

static meeting meeting_of(const fl_op_ctx *c, size_t s, int64_t t)
{
    const fl_tensor *x = fl_in_t(c, X), *y = fl_in_t(c, Y);
    fl_seqs qx = fl_seqs_of(x), qy = fl_seqs_of(y);
    meeting m = { .lx = (int64_t)fl_seqs_len(&qx, s),
                  .ly = (int64_t)fl_seqs_len(&qy, s),
                  .k = y->shape.dim[1] };

    m.ld = fl_int(c, DIM_T) * m.k;
    m.at_tmp = qx.off[s] * m.ld + t * m.k;
    m.at_y = qy.off[s] * m.k;
    m.at_out = t * m.lx * m.ly;
    for (size_t before = 0; before < s; before++)
        m.at_out += fl_int(c, DIM_T) * (int64_t)(fl_seqs_len(&qx, before) *
                                                 fl_seqs_len(&qy, before));
    return m;
}

/* X and W as matrices: [n, h] and [h, ways * k]. */
typedef struct sizes {
    int64_t n, h, wide;
} sizes;

static sizes sizes_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape, *w = &fl_in_t(c, W)->shape;

    return (sizes){ x->dim[0], x->dim[1], w->dim[1] * w->dim[2] };
}

#define KERNELS(T, t)                                                          \
    static void match_##t(T *out, const T *tmp, const T *y, const meeting *m)  \
    {                                                                          \
        fl_gemm_shape s = { FL_NO_TRANS, FL_TRANS, m->lx, m->ly,               \
                            m->k,        m->ld,    m->k,  m->ly };             \
                                                                               \
        fl_gemm_##t(&s, 1, tmp + m->at_tmp, y + m->at_y, 0, out + m->at_out);  \
    }                                                                          \
    static void back_tmp_##t(T *dtmp, const T *g, const T *y,                  \
                             const meeting *m)                                 \
    {                                                                          \
        fl_gemm_shape s = { FL_NO_TRANS, FL_NO_TRANS, m->lx, m->k,             \
                            m->ly,       m->ly,       m->k,  m->ld };          \
                                                                               \
        fl_gemm_##t(&s, 1, g + m->at_out, y + m->at_y, 0, dtmp + m->at_tmp);   \
    }                                                                          \
    static void back_y_##t(T *dy, const T *g, const T *tmp, const meeting *m)  \
    {                                                                          \
        fl_gemm_shape s = { FL_TRANS, FL_NO_TRANS, m->ly, m->k,                \
                            m->lx,    m->ly,       m->ld, m->k };              \
                                                                               \
        fl_gemm_##t(&s, 1, g + m->at_out, tmp + m->at_tmp, 1, dy + m->at_y);   \
    }
FL_FLOATS(KERNELS)

static bool is_empty(const meeting *m)
{
    return !m->lx || !m->ly;
}

static fl_status match_run(fl_op_ctx *c)
{
    sizes z = sizes_of(c);
    fl_gemm_shape s = { FL_NO_TRANS, FL_NO_TRANS, z.n,    z.wide,
                        z.h,         z.h,         z.wide, z.wide };
    size_t n = fl_seqs_of(fl_in_t(c, X)).n;

    if (z.n)
        FL_BY_FLOAT(c, X, fl_gemm, &s, 1, fl_in(c, X), fl_in(c, W), 0,
                    fl_out(c, TMP));
    for (size_t i = 0; i < n * (size_t)fl_int(c, DIM_T); i++) {
        meeting m = meeting_of(c, i % n, (int64_t)(i / n));

        if (!is_empty(&m))
            FL_BY_FLOAT(c, X, match, fl_out(c, OUT), fl_out(c, TMP),
                        fl_in(c, Y), &m);
    }
    return FL_OK;
}

/* Gradients of Y, and of Tmp into dtmp, which is zero where nothing meets. */
static void back_pairs(const fl_op_ctx *c, void *dtmp)
{
    const void *g = fl_dout(c, OUT);
    size_t n = fl_seqs_of(fl_in_t(c, X)).n;

    for (size_t i = 0; i < n * (size_t)fl_int(c, DIM_T); i++) {
        meeting m = meeting_of(c, i % n, (int64_t)(i / n));

        if (is_empty(&m))
            continue;
        FL_BY_FLOAT(c, X, back_tmp, dtmp, g, fl_in(c, Y), &m);
        if (fl_din_t(c, Y))
            FL_BY_FLOAT(c, X, back_y, fl_din(c, Y), g, fl_saved_out(c, TMP),
                        &m);
    }
}

static fl_status match_back(fl_op_ctx *c)
{
    sizes z = sizes_of(c);
    fl_gemm_shape to_x = { FL_NO_TRANS, FL_TRANS, z.n,    z.h,
                           z.wide,      z.wide,   z.wide, z.h };
    fl_gemm_shape to_w = { FL_TRANS, FL_NO_TRANS, z.h,    z.wide,
                           z.n,      z.h,         z.wide, z.wide };
    size_t bytes =
        (size_t)(z.n * z.wide) * fl_dtype_bytes(fl_in_t(c, X)->dtype);
    void *dtmp = fl_scratch(c, bytes + 1);

    if (!dtmp)
        return FL_NOMEM(c);
    for (int slot = X; slot <= W; slot++)
        fl_din_zero(c, slot);
    if (!fl_dout_t(c, OUT) || !z.n)
        return FL_OK;
    memset(dtmp, 0, bytes);
    back_pairs(c, dtmp);
    if (fl_din_t(c, X))
        FL_BY_FLOAT(c, X, fl_gemm, &to_x, 1, dtmp, fl_in(c, W), 0,
                    fl_din(c, X));
    if (fl_din_t(c, W))
        FL_BY_FLOAT(c, X, fl_gemm, &to_w, 1, fl_in(c, X), dtmp, 0,
                    fl_din(c, W));
    return FL_OK;
}

static const fl_op_case match_cases[] = {
    { .in = { "f32[7,3] lod=[0,2,7]", "f32[5,4] lod=[0,4,5]", "f32[3,2,4]" },
      .attrs = "{dim_t=2}" },
    { .in = { "f32[3,2] lod=[0,0,3]", "f32[3,2] lod=[0,2,3]", "f32[2,1,2]" } },
    { .in = { "f32[0,8] lod=[0,0]", "f32[0,8] lod=[0,0]", "f32[8,1,8]" } },
};

const fl_op fl_op_match_matrix_tensor = {
    .name = "match_matrix_tensor",
    .doc = "Out = for each pair of texts and each of dim_t ways t the matrix X "
           "W[:, t, :] Y', number by number, behind each other; Tmp = the "
           "numbers of X W",
    .in = { { "X", 0 }, { "Y", 0 }, { "W", 0 } },
    .out = { { "Out", 0 }, { "Tmp", FL_SLOT_NO_GRAD } },
    .attrs = { { "dim_t", FL_ATTR_INT, "1" } },
    .infer = match_infer,
    .run = match_run,
    .back = match_back,
    .back_uses =
        FL_USES_IN(X) | FL_USES_IN(Y) | FL_USES_IN(W) | FL_USES_OUT(TMP),
    .cases = match_cases,
    .n_cases = FL_LEN(match_cases),
};
