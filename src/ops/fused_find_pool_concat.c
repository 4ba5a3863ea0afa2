/* fused_find_pool_concat.c - the sparse part of a CTR network whose rows do not
 * change any more: fused_embedding_pool_concat over the rows of a table, which
 * are pooled where they lie.
 *
 * Ids are not united first: to find a row twice costs less than to remember that
 * it was found. Samples go in groups: the rows of a group are on their way into
 * the cache when it is pooled, and do not drive each other out.
 */
#include "ir/comm.h"
#include "ops/helpers.h"
#include "ops/pool_concat.h"

enum { IDS, X };
enum { OUT };
enum { ORDER, POOLTYPE, PADDING_IDX, V2, TABLE, DIM };

/* A group ends with the sample that makes it this many ids. */
#define GROUP 96

static const fl_pool_form form = { .ids = IDS,
                                   .x = X,
                                   .order = ORDER,
                                   .pooltype = POOLTYPE,
                                   .padding_idx = PADDING_IDX,
                                   .v2 = V2 };

static fl_status find_infer(fl_infer *c)
{
    if (!*fl_str_attr(c, TABLE))
        FL_FAIL(FL_ERR_INVAL, "op fused_find_pool_concat: table is not given");
    if (fl_int(c, PADDING_IDX) < -1)
        FL_FAIL(FL_ERR_INVAL,
                "op fused_find_pool_concat: padding_idx=%lld of table %s is "
                "neither -1 nor an id",
                (long long)fl_int(c, PADDING_IDX), fl_str_attr(c, TABLE));
    if (fl_int(c, DIM) < 1 || fl_int(c, DIM) > INT32_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op fused_find_pool_concat: dim=%lld of table %s is not "
                "positive",
                (long long)fl_int(c, DIM), fl_str_attr(c, TABLE));
    return fl_pool_infer(c, &form, FL_DTYPE_F32, fl_int(c, DIM));
}

/* --- groups --------------------------------------------------------------- */

/* The keys of sample i behind those of the group; returns how many it has
   then. */
static size_t add_sample(const fl_pool_job *j, size_t i, uint64_t *keys,
                         size_t n)
{
    for (size_t s = 0; s < j->n_lookups; s++) {
        const fl_pool_lookup *l = &j->lookups[s];

        for (size_t k = fl_pool_lo(l, i); k < fl_pool_hi(l, i); k++) {
            keys[n] = l->ids[k];
            n += !fl_pool_is_padding(j, l->ids[k]);
        }
    }
    return n;
}

/* Samples from lo on; returns the one behind them. */
static size_t fill_group(const fl_pool_job *j, size_t lo, uint64_t *keys,
                         size_t *n)
{
    *n = 0;
    while (lo < j->batch && *n < GROUP)
        *n = add_sample(j, lo++, keys, *n);
    return lo;
}

/* --- pooling -------------------------------------------------------------- */

/* These take rows in the order of the keys, and return what follows them. */
typedef const float *const *row_list;

static row_list pool(const fl_pool_job *j, const fl_pool_lookup *l, size_t i,
                     row_list rows, float *out)
{
    size_t lo = fl_pool_lo(l, i), hi = fl_pool_hi(l, i);
    double factor = fl_pool_factor(j->type, hi - lo);
    row_list first = rows;

    for (size_t k = lo; k < hi; k++) {
        if (fl_pool_is_padding(j, l->ids[k]))
            continue;
        if (rows == first)
            fl_row_copy_f32(out, *rows++, j->dim);
        else
            fl_row_add_f32(out, 1, *rows++, j->dim);
    }
    if (rows == first)
        memset(out, 0, j->dim * sizeof(*out));
    else if (factor != 1)
        fl_row_scale_f32(out, (float)factor, out, j->dim);
    return rows;
}

static row_list pool_sample(const fl_pool_job *j, size_t i, row_list rows,
                            float *out)
{
    for (size_t s = 0; s < j->n_lookups; s++) {
        const fl_pool_lookup *l = &j->lookups[s];

        if (l->off || j->padded)
            rows = pool(j, l, i, rows, out + l->col);
        else
            fl_row_copy_f32(out + l->col, *rows++, j->dim);
    }
    return rows;
}

/* --- run ------------------------------------------------------------------ */

static size_t count_ids(const fl_op_ctx *c)
{
    const fl_targs *ids = &c->in[IDS];
    size_t n = 0;

    for (int i = 0; i < ids->n; i++)
        n += (size_t)ids->t[i]->shape.dim[0];
    return n;
}

/* Room for any group. */
static fl_status make_room(fl_op_ctx *c, fl_comm_find *f, uint64_t **keys)
{
    size_t n = count_ids(c) + 1;

    *keys = fl_scratch(c, n * sizeof(**keys));
    f->keys = *keys;
    f->rows = fl_scratch(c, n * sizeof(*f->rows));
    f->room = fl_scratch(c, n * f->dim * sizeof(*f->room));
    return f->keys && f->rows && f->room ? FL_OK : FL_NOMEM(c);
}

static fl_status check_port(const fl_op_ctx *c)
{
    if (!c->comm || !c->comm->data->find)
        FL_FAIL(FL_ERR_INVAL,
                "table %s: fused_find_pool_concat needs rows of a frozen model "
                "in memory; others are pulled (pull_sparse)",
                fl_str_attr(c, TABLE));
    return FL_OK;
}

static fl_status find_run(fl_op_ctx *c)
{
    fl_comm_find f = { .table = fl_str_attr(c, TABLE),
                       .dim = (uint32_t)fl_int(c, DIM) };
    float *out = fl_out(c, OUT);
    uint64_t *keys;
    fl_pool_job j;

    FL_TRY(check_port(c));
    FL_TRY(fl_pool_job_init(&j, c, &form, f.dim));
    FL_TRY(make_room(c, &f, &keys));
    for (size_t i = 0, end; i < j.batch;) {
        row_list rows = f.rows;

        end = fill_group(&j, i, keys, &f.n);
        FL_TRY(c->comm->data->find(c->comm, &f));
        for (; i < end; i++, out += j.ld) {
            rows = pool_sample(&j, i, rows, out);
            fl_pool_copy_dense(&j, &c->in[X], i, out);
        }
    }
    return FL_OK;
}

static const fl_op_case find_cases[] = {
    { .in = { "i64[7,1] lod=[0,2,2,7] below=9;i64[3,1] lod=[0,1,2,3] below=9;"
              "i64[3,1] below=9" },
      .attrs = "{order=[0,1,2], table=t, dim=4}" },
    { .in = { "i64[7,1] lod=[0,2,2,7] below=9;u64[3,1] below=9",
              "f32[3,2];f32[3,7]" },
      .attrs = "{order=[-2,1,-1,0], pooltype=AVERAGE, table=t, dim=4}" },
    { .in = { "i64[9] lod=[0,2,2,9] below=4;i64[3] below=4", "f32[3,1]" },
      .attrs = "{order=[1,0,-1], pooltype=SQRT, v2=true, table=t, dim=4}" },
    /* more than one group */
    { .in = { "i64[300,1] below=9;u64[300,1] below=9", "f32[300,1]" },
      .attrs = "{order=[0,-1,1], table=t, dim=4}" },
    { .in = { "i64[9,1] lod=[0,2,2,9] below=3;i64[3,1] below=3", "f32[3,2]" },
      .attrs = "{order=[1,0,-1], pooltype=AVERAGE, padding_idx=1, table=t, "
               "dim=4}" },
    { .in = { "i64[0,1] lod=[0] below=9;i64[0,1] below=9", "f32[0,3]" },
      .attrs = "{order=[0,1,-1], table=t, dim=4}" },
    { .in = { "i64[0,1] lod=[0,0,0] below=9" },
      .attrs = "{order=[0], table=t, dim=4}" },
};

const fl_op fl_op_fused_find_pool_concat = {
    .name = "fused_find_pool_concat",
    .doc = "Out[i] = the pieces of sample i beside each other, as order says: "
           "entry e >= 0 is SUM, AVERAGE or SQRT (sum / sqrt(count)) of the "
           "rows of Ids[e] in the table (dim numbers; zeros without ids), "
           "entry -1-j is X[j][i]; the id padding_idx (-1: none) gives zeros; "
           "v2 takes ids of shape [n], else they are [n,1]; for tables that do "
           "not change",
    .in = { { "Ids", FL_OP_SLOT_LIST | FL_SLOT_NO_GRAD },
            { "X", FL_OP_SLOT_LIST | FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "order", FL_ATTR_INTS, "[]" },
               { "pooltype", FL_ATTR_STRING, "SUM" },
               { "padding_idx", FL_ATTR_INT, "-1" },
               { "v2", FL_ATTR_BOOL, "false" },
               { "table", FL_ATTR_STRING, "" },
               { "dim", FL_ATTR_INT, "0" } },
    .infer = find_infer,
    .run = find_run,
    .cases = find_cases,
    .n_cases = FL_LEN(find_cases),
};
