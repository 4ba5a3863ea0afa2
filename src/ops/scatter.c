/* scatter.c - X with some of its rows replaced: by the last of the rows that
 * Ids names for them (overwrite), or by their sum. Shares own rows of X. */
#include <inttypes.h>

#include "ops/helpers.h"

enum { X, IDS, UPDATES };
enum { OUT };
enum { OVERWRITE };

static fl_status scatter_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    const fl_shape *ids = &fl_infer_in(c, IDS)->shape;
    fl_shape wanted = x->shape;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_ids(c, IDS));
    FL_TRY(fl_infer_same_dtype(c, X, UPDATES));
    if (ids->rank != 1 && !(ids->rank == 2 && ids->dim[1] == 1))
        FL_FAIL(FL_ERR_INVAL, "op scatter: %s must be [n] or [n,1]",
                fl_infer_text(c, IDS, a));
    wanted.dim[0] = ids->dim[0];
    if (!fl_shape_matches(&wanted, &fl_infer_in(c, UPDATES)->shape))
        FL_FAIL(FL_ERR_INVAL,
                "op scatter: %s does not have a row for each of %s",
                fl_infer_text(c, UPDATES, a), fl_infer_text(c, IDS, b));
    return fl_infer_same(c, X, OUT);
}

static size_t width_of(const fl_op_ctx *c)
{
    const fl_shape *x = &fl_in_t(c, X)->shape;

    return (size_t)fl_shape_count(x, 1, x->rank);
}

static fl_span own_rows(const fl_op_ctx *c)
{
    return fl_op_span(c, (size_t)fl_in_t(c, X)->shape.dim[0]);
}

static bool is_own(fl_span own, size_t row)
{
    return row >= own.lo && row < own.hi;
}

#define KERNELS(T, t)                                                          \
    static void forward_##t(fl_op_ctx *c, fl_span own)                         \
    {                                                                          \
        const fl_tensor *ids = fl_in_t(c, IDS);                                \
        const T *u = fl_in(c, UPDATES);                                        \
        T *y = fl_out(c, OUT);                                                 \
        size_t w = width_of(c);                                                \
        bool adds = !fl_bool(c, OVERWRITE);                                    \
                                                                               \
        for (int64_t i = 0; adds && i < fl_tensor_numel(ids); i++)             \
            if (is_own(own, (size_t)fl_id_at(ids, i)))                         \
                memset(y + (size_t)fl_id_at(ids, i) * w, 0, w * sizeof(T));    \
        for (int64_t i = 0; i < fl_tensor_numel(ids); i++) {                   \
            size_t row = (size_t)fl_id_at(ids, i);                             \
                                                                               \
            for (size_t k = 0; k < w && is_own(own, row); k++)                 \
                y[row * w + k] =                                               \
                    u[(size_t)i * w + k] + (adds ? y[row * w + k] : 0);        \
        }                                                                      \
    }
FL_FLOATS(KERNELS)

static fl_status check_rows(const fl_op_ctx *c)
{
    const fl_tensor *ids = fl_in_t(c, IDS);
    int64_t n = fl_in_t(c, X)->shape.dim[0];

    for (int64_t i = 0; i < fl_tensor_numel(ids); i++)
        if (fl_id_at(ids, i) < 0 || fl_id_at(ids, i) >= n)
            FL_FAIL(FL_ERR_INVAL,
                    "Ids: %" PRId64 " at place %" PRId64
                    " is not in 0..%" PRId64 ", the rows of X",
                    fl_id_at(ids, i), i, n - 1);
    return FL_OK;
}

static fl_status scatter_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);
    fl_span own = own_rows(c);
    size_t bytes = width_of(c) * fl_dtype_bytes(x->dtype);

    FL_TRY(check_rows(c));
    if (own.lo < own.hi && bytes && fl_out(c, OUT) != x->data)
        memcpy((char *)fl_out(c, OUT) + own.lo * bytes,
               (const char *)x->data + own.lo * bytes,
               (own.hi - own.lo) * bytes);
    if (bytes)
        FL_BY_FLOAT(c, X, forward, c, own);
    return FL_OK;
}

/* --- gradients ------------------------------------------------------------ */

/* Rows that were replaced have no influence any more. */
static void back_x(fl_op_ctx *c, fl_tensor *dx, size_t bytes)
{
    const fl_tensor *ids = fl_in_t(c, IDS);
    fl_span own = own_rows(c);
    const char *g = fl_dout(c, OUT);

    if (own.lo < own.hi && dx->data != g)
        memcpy((char *)dx->data + own.lo * bytes, g + own.lo * bytes,
               (own.hi - own.lo) * bytes);
    for (int64_t i = 0; i < fl_tensor_numel(ids); i++)
        if (is_own(own, (size_t)fl_id_at(ids, i)))
            memset((char *)dx->data + (size_t)fl_id_at(ids, i) * bytes, 0,
                   bytes);
}

/* last[row]: 1 + the last place of Ids that names it. */
static size_t *find_last(fl_op_ctx *c)
{
    const fl_tensor *ids = fl_in_t(c, IDS);
    size_t n = (size_t)fl_in_t(c, X)->shape.dim[0];
    size_t *last = fl_scratch(c, (n + 1) * sizeof(*last));

    if (!last)
        return NULL;
    memset(last, 0, (n + 1) * sizeof(*last));
    for (int64_t i = 0; i < fl_tensor_numel(ids); i++)
        last[fl_id_at(ids, i)] = (size_t)i + 1;
    return last;
}

/* An update that a later one replaced has no influence either. */
static fl_status back_updates(fl_op_ctx *c, fl_tensor *du, size_t bytes)
{
    const fl_tensor *ids = fl_in_t(c, IDS);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(ids));
    size_t *last = find_last(c);

    if (!last)
        return FL_NOMEM(c);
    for (size_t i = s.lo; i < s.hi; i++) {
        size_t row = (size_t)fl_id_at(ids, (int64_t)i);
        char *to = (char *)du->data + i * bytes;

        if (fl_bool(c, OVERWRITE) && last[row] != i + 1)
            memset(to, 0, bytes);
        else
            memcpy(to, (const char *)fl_dout(c, OUT) + row * bytes, bytes);
    }
    return FL_OK;
}

static fl_status scatter_back(fl_op_ctx *c)
{
    fl_tensor *dx = fl_din_t(c, X), *du = fl_din_t(c, UPDATES);
    size_t bytes = width_of(c) * fl_dtype_bytes(fl_in_t(c, X)->dtype);

    if (!fl_dout_t(c, OUT)) {
        fl_din_zero(c, X);
        fl_din_zero(c, UPDATES);
        return FL_OK;
    }
    if (dx && bytes)
        back_x(c, dx, bytes);
    return du && bytes ? back_updates(c, du, bytes) : FL_OK;
}

static const fl_op_case scatter_cases[] = {
    { .in = { "f32[33,7]", "i64[5] below=33", "f32[5,7]" } },
    { .in = { "f32[5,3]", "i32[9] below=5", "f32[9,3]" } },
    { .in = { "f32[5,3]", "i64[9,1] below=5", "f32[9,3]" },
      .attrs = "{overwrite=false}" },
    { .in = { "f32[5,2,2]", "i64[1] below=5", "f32[1,2,2]" } },
    { .in = { "f32[5,8]", "i64[0]", "f32[0,8]" } },
    { .in = { "f32[0,8]", "i64[0]", "f32[0,8]" } },
};

const fl_op fl_op_scatter = {
    .name = "scatter",
    .doc = "Out = X with row Ids[i] replaced by Updates[i], the last one where "
           "a row is named twice; by the sum of them when overwrite is false",
    .in = { { "X", 0 }, { "Ids", FL_SLOT_NO_GRAD }, { "Updates", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "overwrite", FL_ATTR_BOOL, "true" } },
    .flags = FL_OP_SLICED,
    .infer = scatter_infer,
    .run = scatter_run,
    .back = scatter_back,
    .back_uses = FL_USES_IN(IDS),
    .cases = scatter_cases,
    .n_cases = FL_LEN(scatter_cases),
};
