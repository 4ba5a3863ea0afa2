/* pool_concat.c - checks and columns of pooled rows beside each other. */
#include "ops/pool_concat.h"

#include <inttypes.h>

#include "ops/helpers.h"

static bool parse_type(const char *name, fl_pool_type *out)
{
    static const char *const names[] = { "SUM", "AVERAGE", "SQRT" };

    for (size_t i = 0; i < FL_LEN(names); i++)
        if (!strcmp(names[i], name)) {
            *out = (fl_pool_type)i;
            return true;
        }
    return false;
}

/* --- infer ---------------------------------------------------------------- */

static fl_status check_pooltype(const fl_infer *c, const fl_pool_form *f)
{
    fl_pool_type type;

    if (!parse_type(fl_str_attr(c, f->pooltype), &type))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: pooltype is %s; there are SUM, AVERAGE and SQRT",
                c->node->def->name, fl_str_attr(c, f->pooltype));
    return FL_OK;
}

/* Every entry of Ids and of X stands in `order` once. */
static fl_status check_order(const fl_infer *c, const fl_pool_form *f)
{
    int64_t n_ids = fl_infer_n_in(c, f->ids), n_x = fl_infer_n_in(c, f->x);
    const char *op = c->node->def->name;
    size_t n;
    const int64_t *order = fl_attr_ints(c->node, f->order, &n);

    if ((int64_t)n != n_ids + n_x)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: order has %zu entries for %" PRId64 " Ids and %" PRId64
                " X",
                op, n, n_ids, n_x);
    for (size_t i = 0; i < n; i++) {
        if (order[i] >= n_ids || order[i] < -n_x)
            FL_FAIL(FL_ERR_INVAL,
                    "op %s: entry %" PRId64 " of order names no input", op,
                    order[i]);
        for (size_t k = 0; k < i; k++)
            if (order[k] == order[i])
                FL_FAIL(FL_ERR_INVAL, "op %s: order names %" PRId64 " twice",
                        op, order[i]);
    }
    return FL_OK;
}

static fl_status check_ids(const fl_infer *c, const fl_pool_form *f, int i)
{
    const fl_tensor *t = fl_infer_in_at(c, f->ids, i);
    bool is_flat = fl_bool(c, f->v2);
    bool fits = is_flat ? t->shape.rank == 1
                        : t->shape.rank == 2 && t->shape.dim[1] == 1;
    char buf[FL_SLOT_TEXT_MAX];

    if (t->dtype != FL_DTYPE_I64 && t->dtype != FL_DTYPE_U64)
        FL_FAIL(FL_ERR_TYPE, "op %s: %s must be i64 or u64", c->node->def->name,
                fl_infer_text_at(c, f->ids, i, buf));
    if (!fits || t->n_lod > 1)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s must have the shape %s and at most one level of "
                "offsets",
                c->node->def->name, fl_infer_text_at(c, f->ids, i, buf),
                is_flat ? "[n]" : "[n,1]");
    return FL_OK;
}

static fl_status check_x(const fl_infer *c, const fl_pool_form *f, int i,
                         fl_dtype dtype)
{
    const fl_tensor *t = fl_infer_in_at(c, f->x, i);
    char buf[FL_SLOT_TEXT_MAX];

    if (t->dtype != dtype || t->shape.rank != 2)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s must have two dimensions and the type of the rows, "
                "%s",
                c->node->def->name, fl_infer_text_at(c, f->x, i, buf),
                fl_dtype_text(dtype));
    return FL_OK;
}

/* What is known of the inputs while building: it does not change behind that. */
static fl_status check_all(const fl_infer *c, const fl_pool_form *f,
                           fl_dtype dtype)
{
    FL_TRY(check_pooltype(c, f));
    FL_TRY(check_order(c, f));
    for (int i = 0; i < fl_infer_n_in(c, f->ids); i++)
        FL_TRY(check_ids(c, f, i));
    for (int i = 0; i < fl_infer_n_in(c, f->x); i++)
        FL_TRY(check_x(c, f, i, dtype));
    return FL_OK;
}

/* The number of samples of an input; -1 when it is not known yet. */
static int64_t samples_of(const fl_infer *c, const fl_tensor *t, bool is_ids)
{
    if (!is_ids || t->n_lod == 0)
        return t->shape.dim[0];
    return c->running ? t->lod_len[0] - 1 : -1;
}

/* All inputs of a slot have the samples of the batch. */
static fl_status join_batch(const fl_infer *c, int slot, bool is_ids,
                            int64_t *batch)
{
    const fl_targs *in = &c->in[slot];
    char buf[FL_SLOT_TEXT_MAX];

    for (int i = 0; i < in->n; i++) {
        int64_t n = samples_of(c, in->t[i], is_ids);

        if (*batch >= 0 && n >= 0 && *batch != n)
            FL_FAIL(FL_ERR_INVAL,
                    "op %s: %s has %" PRId64 " samples, others have %" PRId64,
                    c->node->def->name, fl_infer_text_at(c, slot, i, buf), n,
                    *batch);
        if (n >= 0)
            *batch = n;
    }
    return FL_OK;
}

static int64_t add_width(int64_t sum, int64_t width)
{
    return sum < 0 || width < 0 ? -1 : sum + width;
}

fl_status fl_pool_infer(fl_infer *c, const fl_pool_form *f, fl_dtype dtype,
                        int64_t dim)
{
    const fl_targs *x = &c->in[f->x];
    int64_t out[] = { -1, dim < 0 ? -1 : dim * c->in[f->ids].n };

    if (!c->running)
        FL_TRY(check_all(c, f, dtype));
    FL_TRY(join_batch(c, f->ids, true, &out[0]));
    FL_TRY(join_batch(c, f->x, false, &out[0]));
    for (int i = 0; i < x->n; i++)
        out[1] = add_width(out[1], x->t[i]->shape.dim[1]);
    fl_infer_dense(c, 0, dtype, 2, out);
    return FL_OK;
}

/* --- run ------------------------------------------------------------------ */

/* Offsets 0, 1, 2, ...: every sample has exactly one id. */
static bool one_each(const fl_tensor *ids, size_t batch)
{
    int64_t differ = 0;

    if ((size_t)ids->shape.dim[0] != batch)
        return false;
    for (size_t i = 0; i <= batch; i++)
        differ |= ids->lod[0][i] ^ (int64_t)i;
    return differ == 0;
}

/* Offsets that many inputs share are looked at once. */
static bool shares_offsets(const fl_tensor *ids, const fl_tensor *other)
{
    return other && other->lod[0] == ids->lod[0] &&
           other->shape.dim[0] == ids->shape.dim[0];
}

static size_t batch_of(const fl_tensor *ids)
{
    return (size_t)(ids->n_lod ? ids->lod_len[0] - 1 : ids->shape.dim[0]);
}

static void add_copy(fl_pool_job *j, const fl_tensor *x, int from)
{
    size_t width = (size_t)x->shape.dim[1];

    j->copies[j->n_copies++] = (fl_pool_copy){ from, j->ld, width };
    j->ld += width;
}

static void lay_out(const fl_op_ctx *c, const fl_pool_form *f, fl_pool_job *j)
{
    size_t n;
    const int64_t *order = fl_attr_ints(c->node, f->order, &n);
    fl_tensor *const *all = c->in[f->ids].t;
    fl_pool_lookup *l = j->lookups;
    const fl_tensor *seen = NULL;
    bool one = true;

    for (size_t i = 0; i < n; i++) {
        const fl_tensor *ids;

        if (order[i] < 0) {
            add_copy(j, c->in[f->x].t[-1 - order[i]], (int)(-1 - order[i]));
            continue;
        }
        ids = all[order[i]];
        if (ids->n_lod && !shares_offsets(ids, seen)) {
            seen = ids;
            one = one_each(ids, j->batch);
        }
        l->ids = fl_tensor_ids(ids);
        l->off = one || !ids->n_lod ? NULL : ids->lod[0];
        l->col = j->ld;
        j->n_ragged += l++->off != NULL;
        j->ld += j->dim;
    }
    j->n_lookups = (size_t)(l - j->lookups);
}

fl_status fl_pool_job_init(fl_pool_job *j, fl_op_ctx *c, const fl_pool_form *f,
                           size_t dim)
{
    size_t n_ids = (size_t)fl_n_in(c, f->ids), n_x = (size_t)fl_n_in(c, f->x);

    *j = (fl_pool_job){ .batch = batch_of(fl_in_t(c, f->ids)),
                        .dim = dim,
                        .padded = fl_int(c, f->padding_idx) >= 0,
                        .padding = (uint64_t)fl_int(c, f->padding_idx) };
    FL_ASSERT(parse_type(fl_str_attr(c, f->pooltype), &j->type));
    j->lookups = fl_scratch(c, (n_ids + 1) * sizeof(*j->lookups));
    j->copies = fl_scratch(c, (n_x + 1) * sizeof(*j->copies));
    if (!j->lookups || !j->copies)
        return FL_NOMEM(c);
    lay_out(c, f, j);
    return FL_OK;
}

void fl_pool_copy_dense(const fl_pool_job *j, const fl_targs *x, size_t i,
                        void *out)
{
    for (size_t k = 0; k < j->n_copies; k++) {
        const fl_pool_copy *p = &j->copies[k];
        const fl_tensor *from = x->t[p->from];
        size_t size = fl_dtype_bytes(from->dtype);

        memcpy((char *)out + p->col * size,
               (const char *)from->data + i * p->width * size, p->width * size);
    }
}
