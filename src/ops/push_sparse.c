/* push_sparse.c - gives the gradients of pulled rows to their table.
 *
 * Keys come from pull_sparse, so no key occurs twice, and Grad is the gradient
 * of its Rows: dense, one row per key, or rows + values whose rows count Keys.
 * The latter are added up first; a key without a gradient is not pushed.
 *
 * What the request points to lives until it is done: inputs of the operator,
 * or a buffer kept with it that grows to the largest batch.
 */
#include "ir/comm.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "kernel/rows.h"
#include "ops/kit.h"

enum { KEYS, GRAD, LEARNING_RATE };
enum { TABLE };

typedef struct push_state {
    fl_comm_request request;
    void *buf;
    size_t buf_bytes;
} push_state;

static void release_state(void *p)
{
    push_state *s = p;

    if (s->buf)
        fl_data_free(s->buf, s->buf_bytes);
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
    FL_TRY(fl_infer_float(c, LEARNING_RATE));
    if (fl_shape_numel(&lr->shape) != 1)
        FL_FAIL(FL_ERR_INVAL, "op push_sparse: %s must be one number",
                fl_infer_text(c, LEARNING_RATE, tg));
    if (grad->kind != FL_KIND_ROWS && keys->shape.dim[0] >= 0 &&
        grad->shape.dim[0] >= 0 && keys->shape.dim[0] != grad->shape.dim[0])
        FL_FAIL(FL_ERR_INVAL,
                "op push_sparse: %s and %s must have one row per key",
                fl_infer_text(c, KEYS, tk), fl_infer_text(c, GRAD, tg));
    return FL_OK;
}

/* Memory for up to n pushed rows out of n_keys, in one piece. */
typedef struct push_room {
    uint64_t *keys;
    float *rows;
    uint32_t *place; /* by key: 1 + its pushed row; 0: none yet */
} push_room;

/* False without memory. Nothing here overflows: tensors of about these sizes
   exist. */
static bool make_room(push_state *s, size_t n, size_t n_keys, size_t dim,
                      push_room *out)
{
    size_t bytes = n * (sizeof(*out->keys) + dim * sizeof(*out->rows)) +
                   (n_keys + 1) * sizeof(*out->place);

    if (!s->buf || bytes > s->buf_bytes) {
        void *buf = fl_try_alloc(bytes);

        if (!buf)
            return false;
        release_state(s);
        s->buf = buf;
        s->buf_bytes = bytes;
    }
    out->keys = s->buf;
    out->rows = (float *)(out->keys + n);
    out->place = (uint32_t *)(out->rows + n * dim);
    return true;
}

/* Numbers the rows of grad by first appearance and writes their keys; place
   of value i goes to index[i]. */
static fl_status number_rows(const fl_tensor *keys, const fl_tensor *grad,
                             const push_room *room, uint32_t *index, size_t *n)
{
    const uint64_t *key = fl_tensor_ids(keys);
    uint64_t n_keys = (uint64_t)keys->shape.dim[0];

    *n = 0;
    memset(room->place, 0, n_keys * sizeof(*room->place));
    for (size_t i = 0; i < (size_t)grad->shape.dim[0]; i++) {
        uint64_t row = grad->rows[i];

        if (row >= n_keys)
            FL_FAIL(FL_ERR_INVAL,
                    "Grad: row %" PRIu64 " at place %zu is not one of %" PRIu64
                    " keys",
                    row, i, n_keys);
        if (!room->place[row]) {
            room->keys[*n] = key[row];
            *n += 1;
            room->place[row] = (uint32_t)*n;
        }
        index[i] = room->place[row] - 1;
    }
    return FL_OK;
}

static fl_status merge_rows(fl_op_ctx *c, push_state *s)
{
    const fl_tensor *keys = fl_in_t(c, KEYS);
    const fl_tensor *grad = fl_in_t(c, GRAD);
    size_t n_keys = (size_t)keys->shape.dim[0];
    size_t n_values = (size_t)grad->shape.dim[0];
    size_t n = n_values < n_keys ? n_values : n_keys;
    size_t dim = (size_t)grad->shape.dim[1];
    uint32_t *index = fl_scratch(c, (n_values + 1) * sizeof(*index));
    fl_comm_request *r = &s->request;
    push_room room;

    if (n >= UINT32_MAX)
        FL_FAIL(FL_ERR_INVAL, "Grad: %zu rows in one push are too many", n);
    if (!index || !make_room(s, n, n_keys, dim, &room))
        return FL_NOMEM(c);
    FL_TRY(number_rows(keys, grad, &room, index, &r->n));
    memset(room.rows, 0, r->n * dim * sizeof(float));
    fl_rows_f32()->merge(room.rows, index, n_values, dim, grad->data);
    r->keys = room.keys;
    r->rows = room.rows;
    return FL_OK;
}

static fl_status fill_request(fl_op_ctx *c, push_state *s)
{
    const fl_tensor *grad = fl_in_t(c, GRAD);
    const fl_tensor *lr = fl_in_t(c, LEARNING_RATE);
    fl_comm_request *r = &s->request;

    r->table = fl_str_attr(c, TABLE);
    r->dim = (uint32_t)grad->shape.dim[1];
    r->lr = lr->dtype == FL_DTYPE_F64 ? *(const double *)lr->data
                                      : (double)*(const float *)lr->data;
    r->merged = true;
    r->waker = c->waker;
    r->error.status = FL_OK;
    atomic_store(&r->finished, false);
    if (grad->kind == FL_KIND_ROWS)
        return merge_rows(c, s);
    r->keys = fl_in(c, KEYS);
    r->n = (size_t)grad->shape.dim[0];
    r->rows = grad->data;
    return FL_OK;
}

static fl_status push_run(fl_op_ctx *c)
{
    push_state *s = fl_op_keep(c, sizeof(*s), release_state);

    if (c->resumed) {
        if (!atomic_load(&s->request.finished))
            return FL_PENDING;
        return s->request.error.status ? fl_err_restore(&s->request.error)
                                       : FL_OK;
    }
    if (!c->comm)
        FL_FAIL(FL_ERR_INVAL,
                "table %s: push_sparse needs a table backend, and there is "
                "none",
                fl_str_attr(c, TABLE));
    FL_TRY(fill_request(c, s));
    return c->comm->push(c->comm, &s->request);
}

static const fl_op_case push_cases[] = {
    { .in = { "u64[1] below=9", "f32[1,4]", "f32[1]" }, .attrs = "{table=t}" },
    { .in = { "u64[1] below=9", "f32[7,4] rows height=1", "f32[1]" },
      .attrs = "{table=t}" },
    { .in = { "u64[0] below=9", "f32[0,4]", "f32[1]" }, .attrs = "{table=t}" },
};

const fl_op fl_op_push_sparse = {
    .name = "push_sparse",
    .doc = "gives the table the gradient Grad of the rows of Keys (both as "
           "pull_sparse has them) and the rate of this step; rows + values "
           "are added up by row first",
    .in = { { "Keys", FL_SLOT_NO_GRAD },
            { "Grad", FL_SLOT_ROWS | FL_SLOT_NO_GRAD },
            { "LearningRate", FL_SLOT_NO_GRAD } },
    .attrs = { { "table", FL_ATTR_STRING, "" } },
    .flags = FL_OP_EFFECT | FL_OP_TRAIN_ONLY | FL_OP_WAITS,
    .infer = push_infer,
    .run = push_run,
    .cases = push_cases,
    .n_cases = FL_LEN(push_cases),
};
