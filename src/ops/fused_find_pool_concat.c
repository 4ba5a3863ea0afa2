/* fused_find_pool_concat.c - the sparse part of a CTR network whose rows do not
 * change any more: fused_embedding_pool_concat over the rows of a table, which
 * are pooled where they lie.
 *
 * Ids are not united first: to find a row twice costs less than to remember that
 * it was found. Samples go in groups, three of which are under way: of one it is
 * asked where its rows are, the rows of the next come into the cache, and those
 * of the third are pooled.
 */
#include "ir/comm.h"
#include "ops/helpers.h"
#include "ops/pool_concat.h"

enum { IDS, X };
enum { OUT };
enum { ORDER, POOLTYPE, PADDING_IDX, V2, TABLE, DIM };

/* A group ends with the sample that makes it this many ids. */
#define GROUP 256
#define GROUPS 3

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

/* Samples [lo, hi); one without samples is behind the last. */
typedef struct group {
    size_t lo, hi;
    uint64_t *keys;
    size_t n;
    const float **rows;
    float *room;
} group;

static size_t ids_of_sample(const fl_pool_job *j, size_t i)
{
    size_t n = 0;

    if (!j->n_ragged)
        return j->n_lookups;
    for (size_t s = 0; s < j->n_lookups; s++)
        n += fl_pool_hi(&j->lookups[s], i) - fl_pool_lo(&j->lookups[s], i);
    return n;
}

/* The keys of a slot, behind those of the slots before. */
static void add_slot(const fl_pool_job *j, const fl_pool_lookup *l, group *g)
{
    size_t lo = fl_pool_lo(l, g->lo), hi = fl_pool_lo(l, g->hi);

    if (!j->padded) {
        memcpy(g->keys + g->n, l->ids + lo, (hi - lo) * sizeof(*g->keys));
        g->n += hi - lo;
        return;
    }
    for (size_t k = lo; k < hi; k++) {
        g->keys[g->n] = l->ids[k];
        g->n += !fl_pool_is_padding(j, l->ids[k]);
    }
}

/* Every sample has one id of each slot, and none is a padding. */
static bool is_even(const fl_pool_job *j)
{
    return !j->n_ragged && !j->padded;
}

/* Ids of the next group: there are too many lists for the processor to see where
   it goes on. */
static void ask_even(const fl_pool_job *j, size_t lo, size_t n)
{
    for (size_t s = 0; s < j->n_lookups; s++) {
        __builtin_prefetch(j->lookups[s].ids + lo);
        __builtin_prefetch(j->lookups[s].ids + lo + n - 1);
    }
}

static void add_even(const fl_pool_job *j, group *g)
{
    const size_t lo = g->lo, n = g->hi - lo, n_lookups = j->n_lookups;
    const fl_pool_lookup *l = j->lookups;
    uint64_t *keys = g->keys;

    if (g->hi < j->batch)
        ask_even(j, g->hi, n);
    for (size_t s = 0; s < n_lookups; s++, keys += n) {
        *keys = l[s].ids[lo];
        if (n > 1) /* a call costs more than one id */
            memcpy(keys, l[s].ids + lo, n * sizeof(*keys));
    }
    g->n = n * n_lookups;
}

/* Samples from lo on. */
static void fill_group(const fl_pool_job *j, size_t lo, group *g)
{
    size_t n = 0;

    g->lo = g->hi = lo;
    g->n = 0;
    while (g->hi < j->batch && n < GROUP)
        n += ids_of_sample(j, g->hi++);
    if (g->lo == g->hi)
        return;
    if (is_even(j))
        add_even(j, g);
    else
        for (size_t s = 0; s < j->n_lookups; s++)
            add_slot(j, &j->lookups[s], g);
}

/* As many ids as a group may have. */
static size_t most_ids(const fl_pool_job *j)
{
    size_t most = 0;

    if (!j->n_ragged)
        return GROUP + j->n_lookups;
    for (size_t i = 0; i < j->batch; i++) {
        size_t n = ids_of_sample(j, i);

        most = n > most ? n : most;
    }
    return GROUP + most;
}

static fl_status make_group(fl_op_ctx *c, size_t n, size_t dim, group *g)
{
    g->keys = fl_scratch(c, n * sizeof(*g->keys));
    g->rows = fl_scratch(c, n * sizeof(*g->rows));
    g->room = fl_scratch(c, n * dim * sizeof(*g->room));
    return g->keys && g->rows && g->room ? FL_OK : FL_NOMEM(c);
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

/* The samples of a group, slot by slot, as their keys are. */
static row_list pool_slot(const fl_pool_job *j, const fl_pool_lookup *l,
                          const group *g, row_list rows, float *out)
{
    out += l->col;
    for (size_t i = g->lo; i < g->hi; i++, out += j->ld)
        if (l->off || j->padded)
            rows = pool(j, l, i, rows, out);
        else
            fl_row_copy_f32(out, *rows++, j->dim);
    return rows;
}

/* As add_even, with which there is nothing to add up. */
static void pool_even(const fl_pool_job *j, const group *g, float *out)
{
    const size_t n = g->hi - g->lo, dim = j->dim, ld = j->ld;
    row_list rows = (row_list)g->rows;

    for (size_t s = 0; s < j->n_lookups; s++) {
        float *to = out + j->lookups[s].col;

        for (size_t i = 0; i < n; i++, to += ld)
            fl_row_copy_f32(to, *rows++, dim);
    }
}

/* --- run ------------------------------------------------------------------ */

static fl_status check_port(const fl_op_ctx *c)
{
    if (!c->comm || !c->comm->data->find)
        FL_FAIL(FL_ERR_INVAL,
                "table %s: fused_find_pool_concat needs rows of a frozen model "
                "in memory; others are pulled (pull_sparse)",
                fl_str_attr(c, TABLE));
    return FL_OK;
}

/* Finds the rows of a group, and says which group follows. */
static fl_status find_group(const fl_op_ctx *c, const group *g,
                            const group *next)
{
    fl_comm_find f = { .table = fl_str_attr(c, TABLE),
                       .dim = (uint32_t)fl_int(c, DIM),
                       .keys = g->keys,
                       .n = g->n,
                       .room = g->room,
                       .rows = g->rows,
                       .next = next->keys,
                       .n_next = next->n,
                       .is_asked = g->lo > 0 };

    return c->comm->data->find(c->comm, &f);
}

static void pool_group(const fl_op_ctx *c, const fl_pool_job *j, const group *g)
{
    row_list rows = (row_list)g->rows;
    float *out = (float *)fl_out(c, OUT) + g->lo * j->ld;

    if (is_even(j))
        pool_even(j, g, out);
    else
        for (size_t s = 0; s < j->n_lookups; s++)
            rows = pool_slot(j, &j->lookups[s], g, rows, out);
    for (size_t i = g->lo; i < g->hi; i++, out += j->ld)
        fl_pool_copy_dense(j, &c->in[X], i, out);
}

static fl_status run_groups(const fl_op_ctx *c, const fl_pool_job *j,
                            group g[GROUPS])
{
    fill_group(j, 0, &g[0]);
    fill_group(j, g[0].hi, &g[1]);
    FL_TRY(find_group(c, &g[0], &g[1]));
    for (size_t k = 0; g[k % GROUPS].lo < j->batch; k++) {
        group *next = &g[(k + 1) % GROUPS], *last = &g[(k + 2) % GROUPS];

        fill_group(j, next->hi, last);
        if (next->lo < j->batch)
            FL_TRY(find_group(c, next, last));
        pool_group(c, j, &g[k % GROUPS]);
    }
    return FL_OK;
}

static fl_status find_run(fl_op_ctx *c)
{
    group g[GROUPS] = { { 0 } };
    fl_pool_job j;
    size_t n;

    FL_TRY(check_port(c));
    FL_TRY(fl_pool_job_init(&j, c, &form, (size_t)fl_int(c, DIM)));
    n = most_ids(&j);
    for (int i = 0; i < GROUPS; i++)
        FL_TRY(make_group(c, n, j.dim, &g[i]));
    return run_groups(c, &j, g);
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
    .flags = FL_OP_BY_FORM,
    .infer = find_infer,
    .run = find_run,
    .cases = find_cases,
    .n_cases = FL_LEN(find_cases),
};
