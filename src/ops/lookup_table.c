/* lookup_table.c - rows of a table by their ids.
 *
 * lookup_table takes ids of shape [..., 1], lookup_table_v2 of any shape; both
 * give one row of W per id. The gradient of W is rows + values in the order of
 * the ids (is_sparse), or dense. The padding id reads as zeros and is in
 * neither gradient. Tables of i8 are read and not trained, and so are rows +
 * values, whose rows are those of the ids that it lists.
 *
 * With is_distributed W stands for a table of ids and has no value here: the
 * pass dist_pull makes of the lookup one in rows that were pulled.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "kernel/rows.h"
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/rows.h"

enum { W, IDS };
enum { OUT };
enum { IS_SPARSE, IS_DISTRIBUTED, PADDING_IDX, SHOW, CLICK };

typedef struct lookup {
    const uint64_t *ids;
    size_t n, dim;
    bool padded;
    uint64_t padding;
} lookup;

#define KERNELS(T, t)                                                          \
    static void forward_##t(const lookup *l, const T *w, T *out)               \
    {                                                                          \
        fl_rows_##t()->gather(out, l->dim, w, l->ids, l->n, l->dim);           \
        for (size_t i = 0; l->padded && i < l->n; i++)                         \
            if (l->ids[i] == l->padding)                                       \
                memset(out + i * l->dim, 0, l->dim * sizeof(T));               \
    }                                                                          \
    static void dense_back_##t(const lookup *l, const T *dout, T *dw)          \
    {                                                                          \
        fl_rows_##t()->scatter_axpy(dw, l->ids, l->n, l->dim, 1, dout,         \
                                    l->dim);                                   \
        if (l->padded)                                                         \
            memset(dw + l->padding * l->dim, 0, l->dim * sizeof(T));           \
    }
FL_FLOATS(KERNELS)

/* Rows of any type: no number is looked at. */
static void forward_i8(const lookup *l, const int8_t *w, int8_t *out)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->padded && l->ids[i] == l->padding)
            memset(out + i * l->dim, 0, l->dim);
        else
            memcpy(out + i * l->dim, w + l->ids[i] * l->dim, l->dim);
}

static fl_status check_ids_shape(const fl_infer *c, bool v2)
{
    const fl_tensor *ids = fl_infer_in(c, IDS);
    const fl_shape *s = &ids->shape;
    char buf[FL_SLOT_TEXT_MAX];

    if (ids->dtype != FL_DTYPE_I64 && ids->dtype != FL_DTYPE_U64)
        FL_FAIL(FL_ERR_TYPE, "op %s: %s must be i64 or u64", c->node->def->name,
                fl_infer_text(c, IDS, buf));
    if (!v2 && (s->rank < 2 || (s->dim[s->rank - 1] != 1)))
        FL_FAIL(FL_ERR_INVAL,
                "op lookup_table: %s must have two dimensions or more and 1 "
                "as the last",
                fl_infer_text(c, IDS, buf));
    if (v2 && s->rank >= FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL, "op lookup_table_v2: %s has too many dimensions",
                fl_infer_text(c, IDS, buf));
    return FL_OK;
}

static fl_status check_table(const fl_infer *c)
{
    const fl_shape *w = &fl_infer_in(c, W)->shape;
    int64_t padding = fl_int(c, PADDING_IDX);
    char buf[FL_SLOT_TEXT_MAX];

    if (!fl_bool(c, IS_DISTRIBUTED) &&
        (*fl_str_attr(c, SHOW) || *fl_str_attr(c, CLICK)))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: show and click are for a table, with is_distributed",
                c->node->def->name);
    if (w->rank != 2)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must have two dimensions",
                c->node->def->name, fl_infer_text(c, W, buf));
    if (padding < -1 || (w->dim[0] >= 0 && padding >= w->dim[0]))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: padding_idx=%" PRId64 " is neither -1 nor a row of %s",
                c->node->def->name, padding, fl_infer_text(c, W, buf));
    return FL_OK;
}

static fl_status check_type(const fl_infer *c)
{
    const fl_tensor *w = fl_infer_in(c, W);
    char buf[FL_SLOT_TEXT_MAX];

    if (w->dtype == FL_DTYPE_I8 && fl_bool(c, IS_DISTRIBUTED))
        FL_FAIL(FL_ERR_TYPE, "op %s: %s is in a table, which holds no i8",
                c->node->def->name, fl_infer_text(c, W, buf));
    return w->dtype == FL_DTYPE_I8 ? FL_OK : fl_infer_float(c, W);
}

static fl_status infer_lookup(fl_infer *c, bool v2)
{
    const fl_tensor *w = fl_infer_in(c, W);
    fl_tensor *out = fl_infer_out(c, OUT);
    int last;

    FL_TRY(check_type(c));
    FL_TRY(check_ids_shape(c, v2));
    FL_TRY(check_table(c));
    fl_tensor_like(out, fl_infer_in(c, IDS));
    out->dtype = w->dtype;
    last = v2 ? out->shape.rank++ : out->shape.rank - 1;
    out->shape.dim[last] = w->shape.dim[1];
    return FL_OK;
}

static fl_status lookup_table_infer(fl_infer *c)
{
    return infer_lookup(c, false);
}

static fl_status lookup_table_v2_infer(fl_infer *c)
{
    return infer_lookup(c, true);
}

static lookup lookup_of(const fl_op_ctx *c)
{
    const fl_tensor *ids = fl_in_t(c, IDS);
    int64_t padding = fl_int(c, PADDING_IDX);

    return (lookup){ .ids = fl_tensor_ids(ids),
                     .n = (size_t)fl_tensor_numel(ids),
                     .dim = (size_t)fl_in_t(c, W)->shape.dim[1],
                     .padded = padding >= 0,
                     .padding = (uint64_t)padding };
}

/* --- rows + values as a table ----------------------------------------------
 */

/* A row that is listed, and where its values lie. */
typedef struct place {
    uint64_t row;
    size_t at;
} place;

static int by_row(const void *a, const void *b)
{
    uint64_t x = ((const place *)a)->row, y = ((const place *)b)->row;

    return (x > y) - (x < y);
}

static place *places_of(fl_op_ctx *c, const fl_tensor *w, size_t n)
{
    place *places = fl_scratch(c, (n + 1) * sizeof(*places));

    for (size_t i = 0; places && i < n; i++)
        places[i] = (place){ w->rows[i], i };
    if (places)
        qsort(places, n, sizeof(*places), by_row);
    return places;
}

/* The ids become places in the values of W; the padding id stands for none. */
static fl_status find_places(fl_op_ctx *c, const fl_tensor *w, lookup *l)
{
    size_t n = (size_t)w->shape.dim[0];
    place *places = places_of(c, w, n);
    uint64_t *at = fl_scratch(c, (l->n + 1) * sizeof(*at));

    if (!places || !at)
        return FL_NOMEM(c);
    for (size_t i = 0; i < l->n; i++) {
        place want = { .row = l->ids[i] };
        const place *found = bsearch(&want, places, n, sizeof(want), by_row);
        bool is_padding = l->padded && l->ids[i] == l->padding;

        if (!found && !is_padding)
            FL_FAIL(FL_ERR_INVAL, "op %s: W lists no row %" PRIu64,
                    c->node->def->name, l->ids[i]);
        at[i] = found ? found->at : 0;
        if (is_padding)
            at[i] = n;
    }
    l->ids = at;
    l->padding = n;
    return FL_OK;
}

/* --- running ---------------------------------------------------------------
 */

static fl_status check_rows(const fl_op_ctx *c, const fl_tensor *w, size_t n)
{
    if (n && w->shape.dim[0] == 0)
        FL_FAIL(FL_ERR_INVAL, "Ids: %zu ids for a table W without rows", n);
    /* 0 is a row: nothing is let through. */
    return fl_check_ids(fl_in_t(c, IDS), "Ids", (uint64_t)w->shape.dim[0], 0);
}

static fl_status lookup_run(fl_op_ctx *c)
{
    const fl_tensor *w = fl_in_t(c, W);
    lookup l = lookup_of(c);

    if (fl_bool(c, IS_DISTRIBUTED))
        FL_FAIL(FL_ERR_INVAL,
                "%s is in a table, not in memory: with is_distributed a "
                "program runs after the pass dist_pull, and W is a parameter "
                "with the word table",
                c->node->in[W].vars[0]->name);
    if (w->kind == FL_KIND_ROWS)
        FL_TRY(find_places(c, w, &l));
    else
        FL_TRY(check_rows(c, w, l.n));
    if (w->dtype == FL_DTYPE_I8)
        forward_i8(&l, w->data, fl_out(c, OUT));
    else
        FL_BY_FLOAT(c, W, forward, &l, w->data, fl_out(c, OUT));
    return FL_OK;
}

static fl_status lookup_back_infer(fl_infer *c)
{
    const fl_tensor *w = fl_infer_in(c, W);
    const fl_tensor *ids = fl_infer_in(c, IDS);
    fl_tensor *dw = fl_infer_out(c, W);

    FL_TRY(fl_rows_no_grad(c, W));
    if (!dw || !fl_bool(c, IS_SPARSE))
        return FL_OK;
    dw->kind = FL_KIND_ROWS;
    dw->height = w->shape.dim[0] > 0 ? w->shape.dim[0] : 0;
    dw->shape.dim[0] = fl_shape_numel(&ids->shape);
    dw->n_lod = 0;
    return FL_OK;
}

/* Rows and values without those of the padding id. */
static void sparse_back(const lookup *l, const fl_tensor *dout, fl_tensor *dw)
{
    size_t bytes = l->dim * fl_dtype_bytes(dw->dtype);
    size_t n = 0;

    for (size_t i = 0; dout && i < l->n; i++) {
        if (l->padded && l->ids[i] == l->padding)
            continue;
        dw->rows[n] = l->ids[i];
        memcpy((char *)dw->data + n * bytes,
               (const char *)dout->data + i * bytes, bytes);
        n++;
    }
    dw->shape.dim[0] = (int64_t)n;
    fl_tensor_set_merged(dw, n <= 1);
}

static fl_status lookup_back(fl_op_ctx *c)
{
    fl_tensor *dw = fl_din_t(c, W);
    lookup l = lookup_of(c);

    if (!dw)
        return FL_OK;
    if (dw->kind == FL_KIND_ROWS) {
        sparse_back(&l, fl_dout_t(c, OUT), dw);
        return FL_OK;
    }
    fl_share_zero(c, dw);
    if (fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, W, dense_back, &l, fl_dout(c, OUT), dw->data);
    return FL_OK;
}

static const fl_op_case lookup_table_cases[] = {
    { .in = { "f32[17,5]", "i64[6,1] below=17" } },
    { .in = { "i8[17,5]", "i64[6,1] below=17" }, .attrs = "{padding_idx=3}" },
    { .in = { "f32[17,5]", "i64[0,1] below=17" } },
    { .in = { "f32[17,5]", "u64[33,1] below=17" } },
    { .in = { "f32[17,5]", "i64[3,4,1] below=17" } },
    { .in = { "f32[17,5]", "i64[7,1] lod=[0,2,2,7] below=17" } },
    { .in = { "f32[4,5]", "i64[33,1] below=4" }, .attrs = "{padding_idx=3}" },
    { .in = { "f32[17,5]", "i64[33,1] below=17" },
      .attrs = "{is_sparse=true}" },
    { .in = { "f32[17,5]", "i64[0,1] below=17" }, .attrs = "{is_sparse=true}" },
    { .in = { "f32[4,5]", "i64[33,1] below=4" },
      .attrs = "{is_sparse=true, padding_idx=0}" },
};

static const fl_op_case lookup_table_v2_cases[] = {
    { .in = { "f32[17,5]", "i64[6,3] below=17" } },
    { .in = { "f32[17,5]", "i64[0,3] below=17" } },
    { .in = { "f32[17,5]", "u64[7] lod=[0,2,2,7] below=17" } },
    { .in = { "f32[4,5]", "i64[33] below=4" }, .attrs = "{padding_idx=3}" },
    { .in = { "f32[17,5]", "i64[6,3] below=17" }, .attrs = "{is_sparse=true}" },
};

#define LOOKUP_DOC                                                             \
    "; ids are below the height of W, or rows that it lists; the id "          \
    "padding_idx (-1: none) gives "                                            \
    "zeros and, unlike in PaddlePaddle 1.8.5 with is_sparse, no gradient; "    \
    "is_sparse makes the gradient of W rows + values. With is_distributed W "  \
    "is a parameter in a table of ids, pulled and pushed by the batch; show "  \
    "and click name the variables with the numbers of each sample"

#define LOOKUP_ATTRS                                                           \
    {                                                                          \
        { "is_sparse", FL_ATTR_BOOL, "false" },                                \
            { "is_distributed", FL_ATTR_BOOL, "false" },                       \
            { "padding_idx", FL_ATTR_INT, "-1" },                              \
            { "show", FL_ATTR_STRING, "" },                                    \
        {                                                                      \
            "click", FL_ATTR_STRING, ""                                        \
        }                                                                      \
    }

const fl_op fl_op_lookup_table = {
    .name = "lookup_table",
    .doc = "Out[..., :] = W[Ids[..., 0], :]" LOOKUP_DOC,
    .in = { { "W", FL_OP_SLOT_ROWS }, { "Ids", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = LOOKUP_ATTRS,
    .infer = lookup_table_infer,
    .run = lookup_run,
    .back = lookup_back,
    .back_uses = FL_USES_IN(IDS),
    .back_infer = lookup_back_infer,
    .cases = lookup_table_cases,
    .n_cases = FL_LEN(lookup_table_cases),
};

const fl_op fl_op_lookup_table_v2 = {
    .name = "lookup_table_v2",
    .doc = "Out[..., :] = W[Ids[...], :]" LOOKUP_DOC,
    .in = { { "W", FL_OP_SLOT_ROWS }, { "Ids", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = LOOKUP_ATTRS,
    .infer = lookup_table_v2_infer,
    .run = lookup_run,
    .back = lookup_back,
    .back_uses = FL_USES_IN(IDS),
    .back_infer = lookup_back_infer,
    .cases = lookup_table_v2_cases,
    .n_cases = FL_LEN(lookup_table_v2_cases),
};
