/* push_sparse.c - gives the gradients of pulled rows to their table.
 *
 * Keys come from pull_sparse, so no key occurs twice, and Grad is the gradient
 * of its Rows: dense, one row per key, or rows + values whose rows count Keys.
 * The latter are added up first; a key without a gradient is not pushed, and
 * neither is the padding, which is the last key if it is there.
 *
 * Index says where the keys occur: how often, and in which samples. Shows and
 * clicks of a key are the sums over the samples that have it, each taken once
 * however often the key stands in it.
 *
 * With turns (several batches make one step) the rows are kept, and those of
 * all batches are pushed as one in the last.
 *
 * What the request points to lives until it is done: inputs of the operator,
 * or buffers kept with it that grow to the largest batch.
 */
#include "ir/comm.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "kernel/merge.h"
#include "kernel/rows.h"
#include "ops/helpers.h"
#include "ops/kit.h"

enum { KEYS, GRAD, LEARNING_RATE, INDEX, SHOW, CLICK };
enum { TABLE, PADDING_IDX, UPDATE };

typedef struct push_state {
    fl_comm_request request;
    fl_update update;
    /* Nothing that is asked for overflows: tensors of about these sizes
       exist. */
    fl_buf keys, values, counts, shows, clicks;
    /* With turns: copies of what came before the last. */
    fl_buf *copies;
    fl_rows *batches;
    int n_turns;
    fl_merger merger;
} push_state;

static void release_state(void *p)
{
    push_state *s = p;

    fl_buf_release(&s->keys);
    fl_buf_release(&s->values);
    fl_buf_release(&s->counts);
    fl_buf_release(&s->shows);
    fl_buf_release(&s->clicks);
    for (int i = 0; i < s->n_turns; i++)
        fl_buf_release(&s->copies[i]);
    fl_free(s->copies);
    fl_free(s->batches);
    fl_merger_release(&s->merger);
}

/* --- shapes --------------------------------------------------------------- */

static fl_status check_index(const fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX];

    for (int i = 0; i < fl_infer_n_in(c, INDEX); i++)
        if (fl_infer_in_at(c, INDEX, i)->dtype != FL_DTYPE_I64 ||
            fl_infer_in_at(c, INDEX, i)->shape.rank < 1)
            FL_FAIL(FL_ERR_INVAL,
                    "op push_sparse: %s must be i64, as pull_sparse gave it",
                    fl_infer_text_at(c, INDEX, i, buf));
    return FL_OK;
}

/* Shows or clicks: one number per sample. */
static fl_status check_numbers(const fl_infer *c, int slot)
{
    const fl_tensor *t = fl_infer_in(c, slot);
    char buf[FL_SLOT_TEXT_MAX];

    if (!t)
        return FL_OK;
    if (!fl_infer_n_in(c, INDEX))
        FL_FAIL(FL_ERR_INVAL,
                "op push_sparse: %s needs Index, which says what the samples "
                "have",
                fl_infer_text(c, slot, buf));
    if ((!fl_dtype_is_float(t->dtype) && !fl_dtype_is_id(t->dtype)) ||
        t->n_lod || t->shape.rank < 1 || t->shape.rank > 2 ||
        (t->shape.rank == 2 && t->shape.dim[1] != 1))
        FL_FAIL(FL_ERR_INVAL,
                "op push_sparse: %s must be one number per sample",
                fl_infer_text(c, slot, buf));
    return FL_OK;
}

static fl_status push_infer(fl_infer *c)
{
    const fl_tensor *keys = fl_infer_in(c, KEYS);
    const fl_tensor *grad = fl_infer_in(c, GRAD);
    const fl_tensor *lr = fl_infer_in(c, LEARNING_RATE);
    char tk[FL_SLOT_TEXT_MAX], tg[FL_SLOT_TEXT_MAX];

    if (!*fl_str_attr(c, TABLE))
        FL_FAIL(FL_ERR_INVAL, "op push_sparse: table is not given");
    if (keys->dtype != FL_DTYPE_U64 || keys->shape.rank != 1)
        FL_FAIL(FL_ERR_INVAL, "op push_sparse: %s must be u64 of one dimension",
                fl_infer_text(c, KEYS, tk));
    if (grad->dtype != FL_DTYPE_F32 || grad->shape.rank != 2)
        FL_FAIL(FL_ERR_INVAL,
                "op push_sparse: %s must be f32 of two dimensions",
                fl_infer_text(c, GRAD, tg));
    if (lr)
        FL_TRY(fl_infer_float(c, LEARNING_RATE));
    if (lr && fl_shape_numel(&lr->shape) != 1)
        FL_FAIL(FL_ERR_INVAL, "op push_sparse: %s must be one number",
                fl_infer_text(c, LEARNING_RATE, tg));
    if (grad->kind != FL_KIND_ROWS && keys->shape.dim[0] >= 0 &&
        grad->shape.dim[0] >= 0 && keys->shape.dim[0] != grad->shape.dim[0])
        FL_FAIL(FL_ERR_INVAL,
                "op push_sparse: %s and %s must have one row per key",
                fl_infer_text(c, KEYS, tk), fl_infer_text(c, GRAD, tg));
    FL_TRY(check_index(c));
    FL_TRY(check_numbers(c, SHOW));
    return check_numbers(c, CLICK);
}

/* --- counting ------------------------------------------------------------- */

static fl_status count_list(const fl_op_ctx *c, int list, size_t n_keys,
                            uint32_t *counts)
{
    const fl_tensor *t = fl_in_at(c, INDEX, list);
    const uint64_t *index = fl_tensor_ids(t);
    size_t n = (size_t)fl_tensor_numel(t);

    for (size_t i = 0; i < n; i++) {
        if (index[i] >= n_keys)
            FL_FAIL(FL_ERR_INVAL,
                    "Index[%d]: %" PRId64 " at place %zu is not one of %zu "
                    "keys",
                    list, (int64_t)index[i], i, n_keys);
        counts[index[i]]++;
    }
    return FL_OK;
}

static size_t n_samples(const fl_tensor *t)
{
    return (size_t)(t->n_lod ? t->lod_len[0] - 1 : t->shape.dim[0]);
}

/* The entries of sample i: a row, or the rows of its sequence, whatever levels
   are inside. */
static fl_span sample_span(const fl_tensor *t, size_t i)
{
    size_t width = (size_t)fl_shape_count(&t->shape, 1, t->shape.rank);
    fl_span s = { i, i + 1 };

    for (int level = 0; level < t->n_lod; level++) {
        s.lo = (size_t)t->lod[level][s.lo];
        s.hi = (size_t)t->lod[level][s.hi];
    }
    return (fl_span){ s.lo * width, s.hi * width };
}

static float number_at(const fl_tensor *t, size_t i)
{
    switch (t->dtype) {
    case FL_DTYPE_F32:
        return ((const float *)t->data)[i];
    case FL_DTYPE_F64:
        return (float)((const double *)t->data)[i];
    case FL_DTYPE_I32:
        return (float)((const int32_t *)t->data)[i];
    case FL_DTYPE_U64:
        return (float)((const uint64_t *)t->data)[i];
    default:
        return (float)((const int64_t *)t->data)[i];
    }
}

/* Adds numbers of samples up by key. */
typedef struct tally {
    uint32_t *seen;        /* by key: 1 + the last sample that had it */
    float *shows, *clicks; /* by key; NULL when they are not given */
    float show, click;     /* of the sample at hand */
} tally;

static void add_sample(const tally *y, const fl_tensor *t, size_t sample)
{
    const uint64_t *index = fl_tensor_ids(t);
    fl_span s = sample_span(t, sample);

    for (size_t i = s.lo; i < s.hi; i++) {
        uint64_t key = index[i];

        if (y->seen[key] == sample + 1)
            continue;
        y->seen[key] = (uint32_t)sample + 1;
        if (y->shows)
            y->shows[key] += y->show;
        if (y->clicks)
            y->clicks[key] += y->click;
    }
}

static fl_status check_samples(const fl_op_ctx *c, int slot, size_t batch)
{
    const fl_tensor *t = fl_in_t(c, slot);

    if (t && (size_t)fl_tensor_numel(t) != batch)
        FL_FAIL(FL_ERR_INVAL, "%s has %zu numbers, Index[0] has %zu samples",
                c->node->def->in[slot].name, (size_t)fl_tensor_numel(t), batch);
    return FL_OK;
}

static fl_status check_batch(const fl_op_ctx *c, size_t batch)
{
    if (batch >= UINT32_MAX)
        FL_FAIL(FL_ERR_INVAL, "Index[0]: %zu samples are too many", batch);
    for (int i = 1; i < fl_n_in(c, INDEX); i++)
        if (n_samples(fl_in_at(c, INDEX, i)) != batch)
            FL_FAIL(FL_ERR_INVAL, "Index[%d] has %zu samples, Index[0] has %zu",
                    i, n_samples(fl_in_at(c, INDEX, i)), batch);
    FL_TRY(check_samples(c, SHOW, batch));
    return check_samples(c, CLICK, batch);
}

static fl_status sum_samples(fl_op_ctx *c, push_state *s, size_t n_keys)
{
    const fl_tensor *show = fl_in_t(c, SHOW), *click = fl_in_t(c, CLICK);
    size_t batch = n_samples(fl_in_t(c, INDEX));
    size_t bytes = n_keys * sizeof(float);
    tally y = { .seen = fl_scratch(c, (n_keys + 1) * sizeof(*y.seen)) };

    FL_TRY(check_batch(c, batch));
    y.shows = show ? fl_buf_zeros(&s->shows, bytes) : NULL;
    y.clicks = click ? fl_buf_zeros(&s->clicks, bytes) : NULL;
    if (!y.seen || (show && !y.shows) || (click && !y.clicks))
        return FL_NOMEM(c);
    memset(y.seen, 0, n_keys * sizeof(*y.seen));
    for (size_t i = 0; i < batch; i++) {
        y.show = show ? number_at(show, i) : 0;
        y.click = click ? number_at(click, i) : 0;
        for (int l = 0; l < fl_n_in(c, INDEX); l++)
            add_sample(&y, fl_in_at(c, INDEX, l), i);
    }
    s->request.rows.shows = y.shows;
    s->request.rows.clicks = y.clicks;
    return FL_OK;
}

/* How often each key occurs, and with which shows and clicks. */
static fl_status count_keys(fl_op_ctx *c, push_state *s)
{
    size_t n_keys = (size_t)fl_in_t(c, KEYS)->shape.dim[0];
    uint32_t *counts;

    s->request.rows.counts = NULL;
    s->request.rows.shows = s->request.rows.clicks = NULL;
    if (!fl_n_in(c, INDEX))
        return FL_OK;
    counts = fl_buf_zeros(&s->counts, n_keys * sizeof(*counts));
    if (!counts)
        return FL_NOMEM(c);
    for (int i = 0; i < fl_n_in(c, INDEX); i++)
        FL_TRY(count_list(c, i, n_keys, counts));
    s->request.rows.counts = counts;
    if (!fl_in_t(c, SHOW) && !fl_in_t(c, CLICK))
        return FL_OK;
    return sum_samples(c, s, n_keys);
}

/* --- gradients of rows + values ------------------------------------------- */

/* place[k] = 1 + the number of key k among those that Grad has, 0 for the
   others. */
static fl_status number_keys(const fl_tensor *grad, size_t n_keys,
                             uint32_t *place, size_t *n)
{
    memset(place, 0, n_keys * sizeof(*place));
    for (size_t i = 0; i < (size_t)grad->shape.dim[0]; i++) {
        if (grad->rows[i] >= n_keys)
            FL_FAIL(FL_ERR_INVAL,
                    "Grad: row %" PRIu64 " at place %zu is not one of %zu "
                    "keys",
                    grad->rows[i], i, n_keys);
        place[grad->rows[i]] = 1;
    }
    *n = 0;
    for (size_t k = 0; k < n_keys; k++)
        if (place[k])
            place[k] = (uint32_t)(*n += 1);
    return FL_OK;
}

/* What belongs to keys with a gradient moves to their places. These are never
   behind the keys', so `to` may be `from`; NULL is left alone. */
#define PICK(T, t)                                                             \
    static void pick_##t(T *to, const T *from, const uint32_t *place,          \
                         size_t n_keys)                                        \
    {                                                                          \
        for (size_t k = 0; to && k < n_keys; k++)                              \
            if (place[k])                                                      \
                to[place[k] - 1] = from[k];                                    \
    }
PICK(uint64_t, u64)
PICK(uint32_t, u32)
PICK(float, f32)

static void pick_keys(const push_state *s, const uint32_t *place, size_t n_keys)
{
    const fl_rows *r = &s->request.rows;

    pick_u64(s->keys.data, r->keys, place, n_keys);
    pick_u32(r->counts ? s->counts.data : NULL, r->counts, place, n_keys);
    pick_f32(r->shows ? s->shows.data : NULL, r->shows, place, n_keys);
    pick_f32(r->clicks ? s->clicks.data : NULL, r->clicks, place, n_keys);
}

static void add_up(const fl_tensor *grad, const uint32_t *place,
                   uint32_t *index, float *rows, size_t n)
{
    size_t n_values = (size_t)grad->shape.dim[0];
    size_t dim = (size_t)grad->shape.dim[1];

    for (size_t i = 0; i < n_values; i++)
        index[i] = place[grad->rows[i]] - 1;
    memset(rows, 0, n * dim * sizeof(*rows));
    fl_rows_f32()->merge(rows, index, n_values, dim, 1, grad->data);
}

static fl_status merge_rows(fl_op_ctx *c, push_state *s)
{
    const fl_tensor *grad = fl_in_t(c, GRAD);
    size_t n_keys = (size_t)fl_in_t(c, KEYS)->shape.dim[0];
    size_t n_values = (size_t)grad->shape.dim[0];
    uint32_t *place = fl_scratch(c, (n_keys + 1) * sizeof(*place));
    uint32_t *index = fl_scratch(c, (n_values + 1) * sizeof(*index));
    fl_rows *r = &s->request.rows;
    size_t n;

    if (n_keys >= UINT32_MAX)
        FL_FAIL(FL_ERR_INVAL, "Keys: %zu in one push are too many", n_keys);
    if (!place || !index)
        return FL_NOMEM(c);
    FL_TRY(number_keys(grad, n_keys, place, &n));
    if (!fl_buf_reserve(&s->keys, n * sizeof(*r->keys)) ||
        !fl_buf_reserve(&s->values,
                        n * (size_t)grad->shape.dim[1] * sizeof(*r->values)))
        return FL_NOMEM(c);
    pick_keys(s, place, n_keys);
    add_up(grad, place, index, s->values.data, n);
    r->keys = s->keys.data;
    r->values = s->values.data;
    r->n = n;
    return FL_OK;
}

/* --- running -------------------------------------------------------------- */

/* The padding is the last key, and of those with a gradient too. */
static void leave_padding_out(const fl_op_ctx *c, fl_rows *r)
{
    int64_t padding = fl_int(c, PADDING_IDX);

    if (padding >= 0 && r->n && r->keys[r->n - 1] == (uint64_t)padding)
        r->n--;
}

static fl_status fill_request(fl_op_ctx *c, push_state *s)
{
    const fl_tensor *grad = fl_in_t(c, GRAD), *lr = fl_in_t(c, LEARNING_RATE);
    fl_comm_request *r = &s->request;

    r->table = fl_str_attr(c, TABLE);
    r->worker = c->worker;
    r->step = c->step_no;
    fl_comm_begin(&r->answer, c->waker);
    r->rows = (fl_rows){ .keys = fl_in(c, KEYS),
                         .values = grad->data,
                         .n = (size_t)grad->shape.dim[0],
                         .lr = lr ? fl_float_at(lr, 0) : 1,
                         .merged = true,
                         .dim = (uint32_t)grad->shape.dim[1],
                         .scale = c->worker.scale };
    FL_TRY(count_keys(c, s));
    if (grad->kind == FL_KIND_ROWS)
        FL_TRY(merge_rows(c, s));
    leave_padding_out(c, &r->rows);
    return FL_OK;
}

static fl_status read_update(const fl_op_ctx *c, push_state *s)
{
    const char *words = fl_str_attr(c, UPDATE);

    if (!*words || s->update.rule)
        return FL_OK;
    FL_TRY(
        fl_err_ctx(fl_update_parse(words, &s->update), "update='%s'", words));
    s->request.update = &s->update;
    return FL_OK;
}

/* --- turns ---------------------------------------------------------------- */

static void make_turns(const fl_op_ctx *c, push_state *s)
{
    size_t n = (size_t)c->n_turns;

    if (s->n_turns)
        return;
    s->copies = fl_alloc(n * sizeof(*s->copies));
    s->batches = fl_alloc(n * sizeof(*s->batches));
    s->n_turns = c->n_turns;
}

/* The rows of one batch, until the last of the step has come. */
static fl_status keep_turn(fl_op_ctx *c, push_state *s)
{
    const fl_rows *rows = &s->request.rows;
    fl_buf *b = &s->copies[c->turn];
    size_t bytes;

    FL_TRY(fl_rows_bytes(rows, &bytes));
    if (!fl_buf_reserve(b, bytes))
        return FL_NOMEM(c);
    s->batches[c->turn] = fl_rows_copy(rows, b->data);
    return FL_OK;
}

/* All of them as one, with what they count. */
static fl_status join_turns(const fl_op_ctx *c, push_state *s)
{
    s->batches[c->turn] = s->request.rows;
    return fl_merge_rows(&s->merger, s->batches, (size_t)s->n_turns,
                         &s->request.rows);
}

static fl_status push_run(fl_op_ctx *c)
{
    push_state *s = fl_op_keep(c, sizeof(*s), release_state);

    if (c->resumed)
        return fl_comm_result(&s->request.answer);
    if (!c->comm)
        FL_FAIL(FL_ERR_INVAL,
                "table %s: push_sparse needs a table backend, and there is "
                "none",
                fl_str_attr(c, TABLE));
    FL_TRY(read_update(c, s));
    FL_TRY(fill_request(c, s));
    if (c->n_turns > 1) {
        make_turns(c, s);
        if (c->turn + 1 < c->n_turns)
            return keep_turn(c, s);
        FL_TRY(join_turns(c, s));
    }
    return c->comm->data->push(c->comm, &s->request);
}

static const fl_op_case push_cases[] = {
    { .in = { "u64[1] below=9", "f32[1,4]", "f32[1]" }, .attrs = "{table=t}" },
    { .in = { "u64[1] below=9", "f32[7,4] rows height=1", "f32[1]" },
      .attrs = "{table=t}" },
    { .in = { "u64[0] below=9", "f32[0,4]", "f32[1]" }, .attrs = "{table=t}" },
    { .in = { "u64[1] below=9", "f32[1,4]" },
      .attrs = "{table=t, update=\"optimizer=adadelta\"}" },
    { .in = { "u64[1] below=1", "f32[1,4]", "f32[1]" },
      .attrs = "{table=t, padding_idx=0, update=\"optimizer=sgd\"}" },
    { .in = { "u64[1] below=9", "f32[1,4]", "f32[1]",
              "i64[7,1] lod=[0,2,2,7] below=1;i64[3,1] below=1" },
      .attrs = "{table=t}" },
    { .in = { "u64[1] below=9", "f32[7,4] rows height=1", "f32[1]",
              "i64[7,1] lod=[0,2,2,7] below=1;i64[3] below=1", "f32[3,1]",
              "i64[3] below=2" },
      .attrs = "{table=t}" },
};

const fl_op fl_op_push_sparse = {
    .name = "push_sparse",
    .doc = "gives the table the gradient Grad of the rows of Keys (both as "
           "pull_sparse has them) and the rate of this step, 1 if none is "
           "given; rows + values "
           "are added up by row first, and the key padding_idx (-1: none) is "
           "left out. By Index the table learns how often each key occurs and, "
           "from Show and Click (one number per sample, that is per row or "
           "sequence), the sums over the samples it occurs in. The rows are "
           "updated by the rule and settings of update "
           "(\"optimizer=adam beta1=0.9 ...\"), or as the table was made",
    .in = { { "Keys", FL_SLOT_NO_GRAD },
            { "Grad", FL_OP_SLOT_ROWS | FL_SLOT_NO_GRAD },
            { "LearningRate", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD },
            { "Index",
              FL_OP_SLOT_LIST | FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD },
            { "Show", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD },
            { "Click", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD } },
    .attrs = { { "table", FL_ATTR_STRING, "" },
               { "padding_idx", FL_ATTR_INT, "-1" },
               { "update", FL_ATTR_STRING, "" } },
    .flags = FL_OP_EFFECT | FL_OP_TRAIN_ONLY | FL_OP_WAITS | FL_OP_EACH,
    .infer = push_infer,
    .run = push_run,
    .cases = push_cases,
    .n_cases = FL_LEN(push_cases),
};
