/* pull_sparse.c - fetches the rows of a batch from a table, or from several.
 *
 * The ids of all lists are united: each different id is asked for once, in
 * order of first appearance, and Index says for every id which of the rows is
 * its own. Rows and Index then serve any lookup as table and ids. Where the rows
 * are elsewhere, keys come in the order of their hashes: so they, their rows, and
 * the gradients afterwards lie server by server, and in the order of the tables.
 * Tables that are asked for the same ids share Keys and Index.
 *
 * The padding id, if it occurs, is the last of Keys: its row is zeros, and no
 * table is asked for it.
 *
 * A request uses memory that lives as long as it does: Keys and Rows are outputs,
 * the requests themselves are kept with the operator. They wake it when the last
 * of them is answered, so a resumed call finds everything done and only looks at
 * the outcome.
 */
#include "base/alloc.h"
#include "ir/comm.h"
#include "kernel/unique.h"
#include "ops/kit.h"

enum { IDS };
enum { ROWS, INDEX, KEYS };
enum { TABLE, DIM, CREATE, PADDING_IDX, TABLES_TOO, DIMS_TOO };

typedef struct pull_state {
    fl_waker port; /* of the requests */
    fl_unique unique;
    fl_comm_request *requests; /* by table */
    size_t n_keys, n_asked;    /* with the padding, and without */
    atomic_int n_open;         /* requests, and who makes them */
    fl_waker *waker;           /* the operator's */
} pull_state;

static void release_state(void *p)
{
    pull_state *s = p;

    fl_unique_release(&s->unique);
    fl_free(s->requests);
}

static const char *table_at(const fl_op_node *n, int i)
{
    size_t len;

    return i ? fl_attr_strings(n, TABLES_TOO, &len)[i - 1]
             : fl_attr_str(n, TABLE);
}

static int64_t dim_at(const fl_op_node *n, int i)
{
    size_t len;

    return i ? fl_attr_ints(n, DIMS_TOO, &len)[i - 1] : fl_attr_int(n, DIM);
}

static fl_status check_table(const fl_op_node *n, int i)
{
    const char *table = table_at(n, i);
    int64_t dim = dim_at(n, i);

    if (!*table)
        FL_FAIL(FL_ERR_INVAL, "op pull_sparse: table is not given");
    if (dim < 1 || dim > INT32_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op pull_sparse: dim=%lld of table %s is not positive",
                (long long)dim, table);
    return FL_OK;
}

static fl_status check_tables(const fl_infer *c)
{
    size_t n_tables, n_dims;

    (void)fl_attr_strings(c->node, TABLES_TOO, &n_tables);
    (void)fl_attr_ints(c->node, DIMS_TOO, &n_dims);
    if (n_tables != n_dims || (size_t)fl_infer_n_out(c, ROWS) != 1 + n_tables)
        FL_FAIL(FL_ERR_INVAL,
                "op pull_sparse: %d Rows, %zu tables_too and %zu dims_too; "
                "each table behind the first has one of each",
                fl_infer_n_out(c, ROWS), n_tables, n_dims);
    for (int i = 0; i < fl_infer_n_out(c, ROWS); i++)
        FL_TRY(check_table(c->node, i));
    return FL_OK;
}

static fl_status check_attrs(const fl_infer *c)
{
    FL_TRY(check_tables(c));
    if (fl_int(c, PADDING_IDX) < -1)
        FL_FAIL(FL_ERR_INVAL,
                "op pull_sparse: padding_idx=%lld of table %s is neither -1 "
                "nor an id",
                (long long)fl_int(c, PADDING_IDX), fl_str_attr(c, TABLE));
    if (fl_infer_n_out(c, INDEX) != fl_infer_n_in(c, IDS))
        FL_FAIL(FL_ERR_INVAL,
                "op pull_sparse: %d Ids and %d Index; each Ids has its Index",
                fl_infer_n_in(c, IDS), fl_infer_n_out(c, INDEX));
    return FL_OK;
}

static void infer_rows(fl_tensor *t, int64_t n, int64_t dim)
{
    t->dtype = FL_DTYPE_F32;
    t->kind = FL_KIND_DENSE;
    t->shape = fl_shape_of(2, (int64_t[]){ n, dim });
    t->n_lod = 0;
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
            FL_FAIL(FL_ERR_TYPE,
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
    for (int i = 0; i < fl_infer_n_out(c, ROWS); i++)
        infer_rows(fl_infer_out_at(c, ROWS, i), total, dim_at(c->node, i));
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

/* The place of the padding id in the keys; n_keys when it does not occur. */
static size_t find_padding(const fl_op_ctx *c, size_t n_keys)
{
    const uint64_t *keys = fl_out(c, KEYS);
    int64_t padding = fl_int(c, PADDING_IDX);
    size_t i = padding < 0 ? n_keys : 0;

    while (i < n_keys && keys[i] != (uint64_t)padding)
        i++;
    return i;
}

/* Moves key `at` behind the others, which keep their order. */
static void move_to_end(uint64_t *keys, size_t n_keys, size_t at,
                        uint32_t *index, size_t n)
{
    uint32_t last = (uint32_t)n_keys - 1;
    uint64_t key = keys[at];

    memmove(keys + at, keys + at + 1, (last - at) * sizeof(*keys));
    keys[last] = key;
    for (size_t i = 0; i < n; i++)
        if (index[i] == at)
            index[i] = last;
        else
            index[i] -= index[i] > at;
}

/* Fills Keys and Index and counts the keys, those to ask for as well. */
static fl_status number_ids(fl_op_ctx *c, pull_state *s)
{
    size_t total = count_ids(c);
    const uint64_t *ids = join_ids(c, total);
    uint32_t *index = fl_scratch(c, total * sizeof(*index));
    uint64_t *keys = fl_out(c, KEYS);
    size_t padding;

    if (!ids || !index)
        return FL_NOMEM(c);
    s->unique.by_hash = c->comm->by_hash;
    FL_TRY(fl_unique_run(&s->unique, ids, total, keys, index, &s->n_keys));
    padding = find_padding(c, s->n_keys);
    s->n_asked = s->n_keys;
    if (padding < s->n_keys) {
        move_to_end(keys, s->n_keys, padding, index, total);
        s->n_asked--;
    }
    spread_index(c, index);
    return FL_OK;
}

static void set_sizes(const fl_op_ctx *c, size_t n_keys)
{
    for (int i = 0; i < fl_n_out(c, ROWS); i++)
        fl_out_at(c, ROWS, i)->shape.dim[0] = (int64_t)n_keys;
    fl_out_rows(c, KEYS, n_keys);
}

/* --- requests ------------------------------------------------------------- */

/* True when nobody is to answer any more. */
static bool is_last(pull_state *s)
{
    return atomic_fetch_sub(&s->n_open, 1) == 1;
}

static void note_answer(fl_waker *w)
{
    pull_state *s = (pull_state *)w;

    if (is_last(s))
        fl_wake(s->waker);
}

static pull_state *state_of(fl_op_ctx *c)
{
    pull_state *s = fl_op_keep(c, sizeof(*s), release_state);

    if (!s->requests)
        s->requests =
            fl_alloc((size_t)fl_n_out(c, ROWS) * sizeof(*s->requests));
    s->port.wake = note_answer;
    return s;
}

/* Rows that are not asked for are zeros. */
static void clear_padding(const pull_state *s, float *rows, size_t dim)
{
    if (s->n_asked < s->n_keys)
        memset(rows + s->n_asked * dim, 0, dim * sizeof(*rows));
}

static void ask(const fl_op_ctx *c, pull_state *s, int i)
{
    fl_comm_request *r = &s->requests[i];
    fl_status st;

    r->table = table_at(c->node, i);
    r->rows.dim = (uint32_t)dim_at(c->node, i);
    r->rows.keys = fl_out(c, KEYS);
    r->rows.n = s->n_asked;
    r->out = fl_out_at(c, ROWS, i)->data;
    r->create = fl_bool(c, CREATE);
    r->is_behind = c->is_behind;
    r->worker = c->worker;
    clear_padding(s, r->out, r->rows.dim);
    fl_comm_begin(&r->answer, &s->port);
    st = c->comm->data->pull(c->comm, r);
    if (st != FL_PENDING)
        fl_comm_finish(&r->answer, st);
}

/* The first error is the operator's. */
static fl_status finish(const fl_op_ctx *c, const pull_state *s)
{
    for (int i = 0; i < fl_n_out(c, ROWS); i++)
        FL_TRY(fl_comm_result(&s->requests[i].answer));
    set_sizes(c, s->n_keys);
    return FL_OK;
}

static fl_status ask_all(const fl_op_ctx *c, pull_state *s)
{
    int n = fl_n_out(c, ROWS);

    s->waker = c->waker;
    atomic_store(&s->n_open, n + 1);
    for (int i = 0; i < n; i++)
        ask(c, s, i);
    return is_last(s) ? finish(c, s) : FL_PENDING;
}

static fl_status pull_early(fl_op_ctx *c)
{
    return c->comm ? number_ids(c, state_of(c)) : FL_OK;
}

static fl_status pull_run(fl_op_ctx *c)
{
    pull_state *s = state_of(c);

    if (c->resumed)
        return finish(c, s);
    if (!c->comm)
        FL_FAIL(FL_ERR_INVAL,
                "table %s: pull_sparse needs a table backend, and there is "
                "none",
                fl_str_attr(c, TABLE));
    if (!c->did_early)
        FL_TRY(number_ids(c, s));
    set_sizes(c, s->n_keys);
    return ask_all(c, s);
}

static const fl_op_case pull_cases[] = {
    { .in = { "u64[6,1] below=9" }, .attrs = "{table=t, dim=4}" },
    { .in = { "i64[7,1] lod=[0,2,2,7] below=9;u64[33,1] below=9" },
      .attrs = "{table=t, dim=4, tables_too=[t], dims_too=[4]}" },
    { .in = { "i64[0,1] below=9" }, .attrs = "{table=t, dim=4}" },
    { .in = { "i64[33,1] below=9;u64[7] below=9" },
      .attrs = "{table=t, dim=4, padding_idx=3, tables_too=[t], "
               "dims_too=[4]}" },
    { .in = { "i64[1] below=1" },
      .attrs = "{table=t, dim=4, create=false, padding_idx=0}" },
};

const fl_op fl_op_pull_sparse = {
    .name = "pull_sparse",
    .doc = "Keys = the different ids of all Ids in order of appearance, "
           "or of their hashes where servers have the rows, "
           "Rows[i] = the row of Keys[i] in the table (dim numbers), and "
           "Keys[Index[l][i]] = Ids[l][i] for every list l; the id "
           "padding_idx (-1: none) is the last of Keys and its row zeros; "
           "create makes rows for ids that have none; tables_too are asked "
           "for the same keys, and their rows, of dims_too numbers, are the "
           "next of Rows",
    .in = { { "Ids", FL_OP_SLOT_LIST | FL_SLOT_NO_GRAD } },
    .out = { { "Rows", FL_OP_SLOT_LIST },
             { "Index", FL_OP_SLOT_LIST },
             { "Keys", 0 } },
    .attrs = { { "table", FL_ATTR_STRING, "" },
               { "dim", FL_ATTR_INT, "0" },
               { "create", FL_ATTR_BOOL, "true" },
               { "padding_idx", FL_ATTR_INT, "-1" },
               { "tables_too", FL_ATTR_STRINGS, "[]" },
               { "dims_too", FL_ATTR_INTS, "[]" } },
    .flags = FL_OP_WAITS,
    .infer = pull_infer,
    .run = pull_run,
    .cases = pull_cases,
    .n_cases = FL_LEN(pull_cases),
    .early = pull_early,
};
