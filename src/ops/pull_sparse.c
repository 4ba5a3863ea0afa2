/* pull_sparse.c - fetches the rows of a batch from a table.
 *
 * The ids of all lists are united: each different id is asked for once, in
 * order of first appearance, and Index says for every id which of the rows is
 * its own. Rows and Index then serve any lookup as table and ids.
 *
 * The request uses memory that lives as long as it does: Keys and Rows are
 * outputs, the request itself is kept with the operator. A resumed call finds
 * everything done and only looks at the outcome.
 */
#include "ir/comm.h"
#include "kernel/unique.h"
#include "ops/kit.h"

enum { IDS };
enum { ROWS, INDEX, KEYS };
enum { TABLE, DIM };

typedef struct pull_state {
    fl_unique unique;
    fl_comm_request request;
} pull_state;

static void release_state(void *p)
{
    fl_unique_release(&((pull_state *)p)->unique);
}

static fl_status check_attrs(const fl_infer *c)
{
    if (!*fl_str_attr(c, TABLE))
        FL_FAIL(FL_ERR_INVAL, "op pull_sparse: table is not given");
    if (fl_int(c, DIM) < 1 || fl_int(c, DIM) > INT32_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op pull_sparse: dim=%lld of table %s is not positive",
                (long long)fl_int(c, DIM), fl_str_attr(c, TABLE));
    if (fl_infer_n_out(c, INDEX) != fl_infer_n_in(c, IDS))
        FL_FAIL(FL_ERR_INVAL,
                "op pull_sparse: %d Ids and %d Index; each Ids has its Index",
                fl_infer_n_in(c, IDS), fl_infer_n_out(c, INDEX));
    return FL_OK;
}

/* Rows and Keys have room for as many as there are ids; run lowers that to the
   number of different ones. */
static fl_status pull_infer(fl_infer *c)
{
    int64_t total = 0;

    FL_TRY(check_attrs(c));
    for (int i = 0; i < fl_infer_n_in(c, IDS); i++) {
        const fl_tensor *ids = fl_infer_in_at(c, IDS, i);
        fl_tensor *index = fl_infer_out_at(c, INDEX, i);
        int64_t n = fl_shape_numel(&ids->shape);

        if (ids->dtype != FL_DTYPE_I64 && ids->dtype != FL_DTYPE_U64)
            FL_FAIL(FL_ERR_INVAL,
                    "op pull_sparse: Ids[%d] (%s) is %s, it must be i64 or u64",
                    i, c->node->in[IDS].vars[i]->name,
                    fl_dtype_text(ids->dtype));
        total = n < 0 || total < 0 ? -1 : total + n;
        fl_tensor_like(index, ids);
        index->dtype = FL_DTYPE_I64;
    }
    /* While building the number of different ids is not known. */
    if (!c->running)
        total = -1;
    fl_infer_dense(c, ROWS, FL_DTYPE_F32, 2,
                   (int64_t[]){ total, fl_int(c, DIM) });
    fl_infer_dense(c, KEYS, FL_DTYPE_U64, 1, (int64_t[]){ total });
    return FL_OK;
}

static size_t count_ids(const fl_op_ctx *c)
{
    size_t n = 0;

    for (int i = 0; i < fl_n_in(c, IDS); i++)
        n += (size_t)fl_tensor_numel(fl_in_at(c, IDS, i));
    return n;
}

/* All ids behind each other; the only list is taken as it is. */
static const uint64_t *join_ids(fl_op_ctx *c, size_t total)
{
    uint64_t *all;
    size_t at = 0;

    if (fl_n_in(c, IDS) == 1)
        return fl_tensor_ids(fl_in_t(c, IDS));
    all = fl_scratch(c, total * sizeof(*all));
    for (int i = 0; all && i < fl_n_in(c, IDS); i++) {
        const fl_tensor *ids = fl_in_at(c, IDS, i);
        size_t n = (size_t)fl_tensor_numel(ids);

        memcpy(all + at, fl_tensor_ids(ids), n * sizeof(*all));
        at += n;
    }
    return all;
}

static void spread_index(const fl_op_ctx *c, const uint32_t *index)
{
    for (int i = 0; i < fl_n_out(c, INDEX); i++) {
        fl_tensor *out = fl_out_at(c, INDEX, i);
        size_t n = (size_t)fl_tensor_numel(out);
        int64_t *to = out->data;

        for (size_t k = 0; k < n; k++)
            to[k] = *index++;
    }
}

/* Fills Keys and Index. */
static fl_status number_ids(fl_op_ctx *c, pull_state *s, size_t *n_keys)
{
    size_t total = count_ids(c);
    const uint64_t *ids = join_ids(c, total);
    uint32_t *index = fl_scratch(c, total * sizeof(*index));

    if (!ids || !index)
        return FL_NOMEM(c);
    FL_TRY(
        fl_unique_run(&s->unique, ids, total, fl_out(c, KEYS), index, n_keys));
    spread_index(c, index);
    return FL_OK;
}

static void set_sizes(const fl_op_ctx *c, size_t n_keys)
{
    fl_out_t(c, ROWS)->shape.dim[0] = (int64_t)n_keys;
    fl_out_t(c, KEYS)->shape.dim[0] = (int64_t)n_keys;
}

static fl_status finish(const fl_op_ctx *c, pull_state *s)
{
    if (!atomic_load(&s->request.finished))
        return FL_PENDING;
    if (s->request.error.status)
        return fl_err_restore(&s->request.error);
    set_sizes(c, s->request.n);
    return FL_OK;
}

static fl_status pull_run(fl_op_ctx *c)
{
    pull_state *s = fl_op_keep(c, sizeof(*s), release_state);
    fl_comm_request *r = &s->request;
    size_t n_keys = 0;

    if (c->resumed)
        return finish(c, s);
    if (!c->comm)
        FL_FAIL(FL_ERR_INVAL,
                "table %s: pull_sparse needs a table backend, and there is "
                "none",
                fl_str_attr(c, TABLE));
    FL_TRY(number_ids(c, s, &n_keys));
    set_sizes(c, n_keys);
    r->table = fl_str_attr(c, TABLE);
    r->dim = (uint32_t)fl_int(c, DIM);
    r->keys = fl_out(c, KEYS);
    r->n = n_keys;
    r->rows = fl_out(c, ROWS);
    r->waker = c->waker;
    r->error.status = FL_OK;
    atomic_store(&r->finished, false);
    return c->comm->pull(c->comm, r);
}

static const fl_op_case pull_cases[] = {
    { .in = { "u64[6,1] below=9" }, .attrs = "{table=t, dim=4}" },
    { .in = { "i64[7,1] lod=[0,2,2,7] below=9;u64[33,1] below=9" },
      .attrs = "{table=t, dim=4}" },
    { .in = { "i64[0,1] below=9" }, .attrs = "{table=t, dim=4}" },
};

const fl_op fl_op_pull_sparse = {
    .name = "pull_sparse",
    .doc = "Keys = the different ids of all Ids in order of appearance, "
           "Rows[i] = the row of Keys[i] in the table (dim numbers), and "
           "Keys[Index[l][i]] = Ids[l][i] for every list l",
    .in = { { "Ids", FL_SLOT_LIST | FL_SLOT_NO_GRAD } },
    .out = { { "Rows", 0 }, { "Index", FL_SLOT_LIST }, { "Keys", 0 } },
    .attrs = { { "table", FL_ATTR_STRING, "" }, { "dim", FL_ATTR_INT, "0" } },
    .flags = FL_OP_WAITS,
    .infer = pull_infer,
    .run = pull_run,
    .cases = pull_cases,
    .n_cases = FL_LEN(pull_cases),
};
