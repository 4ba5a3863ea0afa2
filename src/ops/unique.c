/* unique.c - the different ids of a tensor, in the order in which they come:
 * unique says for each place which one it has, unique_with_counts also how
 * often each occurs. */
#include "kernel/unique.h"

#include "ops/helpers.h"

enum { X };
enum { OUT, INDEX, COUNT };
enum { DTYPE };

static fl_status unique_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int64_t n = x->shape.dim[0];
    char buf[FL_SLOT_TEXT_MAX];
    fl_dtype dtype;

    FL_TRY(fl_infer_dtype(c, DTYPE, &dtype));
    FL_TRY(fl_infer_ids(c, X));
    if (x->shape.rank != 1)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s must have one dimension",
                c->node->def->name, fl_infer_text(c, X, buf));
    if (dtype != FL_DTYPE_I32 && dtype != FL_DTYPE_I64)
        FL_FAIL(FL_ERR_TYPE, "op %s: dtype %s is not int32 or int64",
                c->node->def->name, fl_str_attr(c, DTYPE));
    fl_infer_dense(c, INDEX, dtype, 1, &n);
    n = c->running ? n : -1;
    fl_infer_dense(c, OUT, x->dtype, 1, &n);
    if (fl_op_n_out(c->node->def) > COUNT)
        fl_infer_dense(c, COUNT, dtype, 1, &n);
    return FL_OK;
}

/* What fl_unique_run works on: all ids as 64 bits, the different ones, and
   where each is among them. */
typedef struct work {
    uint64_t *ids, *keys;
    uint32_t *index;
    size_t n, n_keys;
} work;

static fl_status find(fl_op_ctx *c, work *w)
{
    const fl_tensor *x = fl_in_t(c, X);
    fl_unique u = { 0 };
    fl_status st;

    w->n = (size_t)fl_tensor_numel(x);
    w->ids = fl_scratch(c, (w->n + 1) * sizeof(*w->ids));
    w->keys = fl_scratch(c, (w->n + 1) * sizeof(*w->keys));
    w->index = fl_scratch(c, (w->n + 1) * sizeof(*w->index));
    if (!w->ids || !w->keys || !w->index)
        return FL_NOMEM(c);
    for (size_t i = 0; i < w->n; i++)
        w->ids[i] = (uint64_t)fl_id_at(x, (int64_t)i);
    st = fl_unique_run(&u, w->ids, w->n, w->keys, w->index, &w->n_keys);
    fl_unique_release(&u);
    return st;
}

static fl_status unique_run(fl_op_ctx *c)
{
    work w;

    FL_TRY(find(c, &w));
    for (size_t i = 0; i < w.n_keys; i++)
        fl_id_put(fl_out_t(c, OUT), (int64_t)i, (int64_t)w.keys[i]);
    for (size_t i = 0; i < w.n; i++)
        fl_id_put(fl_out_t(c, INDEX), (int64_t)i, w.index[i]);
    fl_out_rows(c, OUT, w.n_keys);
    return FL_OK;
}

static fl_status counts_run(fl_op_ctx *c)
{
    fl_tensor *count = fl_out_t(c, COUNT);
    work w;

    FL_TRY(find(c, &w));
    for (size_t i = 0; i < w.n_keys; i++) {
        fl_id_put(fl_out_t(c, OUT), (int64_t)i, (int64_t)w.keys[i]);
        fl_id_put(count, (int64_t)i, 0);
    }
    for (size_t i = 0; i < w.n; i++) {
        fl_id_put(fl_out_t(c, INDEX), (int64_t)i, w.index[i]);
        fl_id_put(count, w.index[i], fl_id_at(count, w.index[i]) + 1);
    }
    fl_out_rows(c, OUT, w.n_keys);
    fl_out_rows(c, COUNT, w.n_keys);
    return FL_OK;
}

static const fl_op_case unique_cases[] = {
    { .in = { "i64[33] below=7" } },
    { .in = { "i32[5] below=3" }, .attrs = "{dtype=int64}" },
    { .in = { "i64[0]" } },
};

#define UNIQUE_ATTRS                                                           \
    {                                                                          \
        {                                                                      \
            "dtype", FL_ATTR_STRING, "int32"                                   \
        }                                                                      \
    }

const fl_op fl_op_unique = {
    .name = "unique",
    .doc = "Out = the different ids of X in the order in which they come, "
           "Index = for each place of X where its id is in Out, as dtype",
    .in = { { "X", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 }, { "Index", 0 } },
    .attrs = UNIQUE_ATTRS,
    .infer = unique_infer,
    .run = unique_run,
    .cases = unique_cases,
    .n_cases = FL_LEN(unique_cases),
};

const fl_op fl_op_unique_with_counts = {
    .name = "unique_with_counts",
    .doc = "Out and Index as of unique, Count = how often each id of Out "
           "occurs in X, as dtype",
    .in = { { "X", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 }, { "Index", 0 }, { "Count", 0 } },
    .attrs = UNIQUE_ATTRS,
    .infer = unique_infer,
    .run = counts_run,
    .cases = unique_cases,
    .n_cases = FL_LEN(unique_cases),
};
