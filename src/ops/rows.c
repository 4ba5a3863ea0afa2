/* rows.c - rows + values: adding up, ordering, making dense.
 *
 * All work space is the operator's scratch, the hash of row numbers too, so a
 * step asks for no memory once the scratch has seen the largest batch.
 */
#include "ops/rows.h"

#include <inttypes.h>

#include "kernel/rows.h"
#include "kernel/unique.h"

/* fl_unique_run takes at most this many slots for n ids; a table that has
   them never grows. */
#define SLOTS_FOR(n) (64 + 4 * (n))

#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)

/* Row numbers of one or more tensors, the different ones and their places. */
typedef struct row_set {
    uint64_t *keys;  /* the different rows */
    uint32_t *index; /* for each number its place in keys */
    size_t n_keys;
} row_set;

int64_t fl_rows_width(const fl_tensor *in)
{
    return fl_shape_count(&in->shape, 1, in->shape.rank);
}

static size_t n_rows(const fl_tensor *t)
{
    return (size_t)t->shape.dim[0];
}

static fl_status find_different(fl_op_ctx *c, const uint64_t *ids, size_t n,
                                row_set *out)
{
    fl_unique table = { .cap = SLOTS_FOR(n) };

    table.slots = fl_scratch(c, table.cap * sizeof(*table.slots));
    out->keys = fl_scratch(c, n * sizeof(*out->keys));
    out->index = fl_scratch(c, n * sizeof(*out->index));
    if (!table.slots || !out->keys || !out->index)
        return FL_NOMEM(c);
    return fl_unique_run(&table, ids, n, out->keys, out->index, &out->n_keys);
}

#define WORK(T, t)                                                             \
    static void add_##t(const fl_tensor *x, const uint32_t *index, T *sum)     \
    {                                                                          \
        fl_rows_##t()->merge(sum, index, n_rows(x), (size_t)fl_rows_width(x),  \
                             1, x->data);                                      \
    }                                                                          \
    static void scatter_##t(const fl_tensor *x, T *dense)                      \
    {                                                                          \
        size_t width = (size_t)fl_rows_width(x);                               \
                                                                               \
        fl_rows_##t()->scatter_axpy(dense, x->rows, n_rows(x), width, 1,       \
                                    x->data, width);                           \
    }
FL_FLOATS(WORK)

/* sum[index[i]] += the values of row i of t. */
static void add_values(const fl_tensor *t, const uint32_t *index, void *sum)
{
    FL_BY_DTYPE(t->dtype, add, t, index, sum);
}

static size_t row_bytes(const fl_tensor *t)
{
    return (size_t)fl_rows_width(t) * fl_dtype_bytes(t->dtype);
}

fl_status fl_rows_merge(fl_op_ctx *c, const fl_tensor *in, fl_tensor *out)
{
    row_set set = { 0 };
    void *sum;

    if (fl_tensor_is_merged(in) || n_rows(in) == 0) {
        *out = *in;
        fl_tensor_set_merged(out, true);
        return FL_OK;
    }
    FL_TRY(find_different(c, in->rows, n_rows(in), &set));
    sum = fl_scratch(c, set.n_keys * row_bytes(in));
    if (!sum)
        return FL_NOMEM(c);
    memset(sum, 0, set.n_keys * row_bytes(in));
    add_values(in, set.index, sum);
    *out = *in;
    out->shape.dim[0] = (int64_t)set.n_keys;
    out->rows = set.keys;
    out->data = sum;
    fl_tensor_set_merged(out, true);
    return FL_OK;
}

void fl_rows_carry(const fl_tensor *in, fl_tensor *out, fl_span s)
{
    if (in->kind != FL_KIND_ROWS || s.lo > 0)
        return;
    fl_tensor_set_merged(out, fl_tensor_is_merged(in));
    if (n_rows(in) && out->rows != in->rows)
        memcpy(out->rows, in->rows, n_rows(in) * sizeof(*in->rows));
}

/* --- in ascending order --------------------------------------------------- */

typedef struct ranked {
    uint64_t key;
    uint32_t from; /* where it stood before */
} ranked;

/* One pass by the digit at `shift`; false when all have the same digit and
   nothing moved. */
static bool sort_digit(ranked *to, const ranked *from, size_t n, int shift)
{
    uint32_t start[DIGITS] = { 0 };
    uint32_t sum = 0;

    for (size_t i = 0; i < n; i++)
        start[from[i].key >> shift & (DIGITS - 1)]++;
    if (start[from[0].key >> shift & (DIGITS - 1)] == n)
        return false;
    for (size_t d = 0; d < DIGITS; d++) {
        uint32_t count = start[d];

        start[d] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        to[start[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
    return true;
}

/* Puts keys in ascending order and numbers the n places anew. */
static fl_status sort_set(fl_op_ctx *c, row_set *set, size_t n)
{
    ranked *a = fl_scratch(c, set->n_keys * sizeof(*a));
    ranked *b = fl_scratch(c, set->n_keys * sizeof(*b));
    uint32_t *rank = fl_scratch(c, set->n_keys * sizeof(*rank));

    if (!a || !b || !rank)
        return FL_NOMEM(c);
    for (size_t i = 0; i < set->n_keys; i++)
        a[i] = (ranked){ set->keys[i], (uint32_t)i };
    for (int shift = 0; shift < 64 && set->n_keys > 1; shift += DIGIT_BITS)
        if (sort_digit(b, a, set->n_keys, shift)) {
            ranked *t = a;

            a = b;
            b = t;
        }
    for (size_t i = 0; i < set->n_keys; i++) {
        set->keys[i] = a[i].key;
        rank[a[i].from] = (uint32_t)i;
    }
    for (size_t i = 0; i < n; i++)
        set->index[i] = rank[set->index[i]];
    return FL_OK;
}

/* The row numbers of all tensors, one after the other. */
static uint64_t *join_rows(fl_op_ctx *c, const fl_targs *in, size_t *n)
{
    uint64_t *ids;
    size_t at = 0;

    *n = 0;
    for (int i = 0; i < in->n; i++)
        *n += n_rows(in->t[i]);
    ids = fl_scratch(c, *n * sizeof(*ids));
    for (int i = 0; ids && i < in->n; i++) {
        size_t count = n_rows(in->t[i]);

        if (count)
            memcpy(ids + at, in->t[i]->rows, count * sizeof(*ids));
        at += count;
    }
    return ids;
}

fl_status fl_rows_sum(fl_op_ctx *c, const fl_targs *in, fl_tensor *out)
{
    size_t n, at = 0;
    row_set set = { 0 };
    uint64_t *ids = join_rows(c, in, &n);

    out->shape.dim[0] = 0;
    fl_tensor_set_merged(out, true);
    if (n == 0)
        return FL_OK;
    if (!ids)
        return FL_NOMEM(c);
    FL_TRY(find_different(c, ids, n, &set));
    FL_TRY(sort_set(c, &set, n));
    memcpy(out->rows, set.keys, set.n_keys * sizeof(*set.keys));
    memset(out->data, 0, set.n_keys * row_bytes(out));
    for (int i = 0; i < in->n; i++) {
        add_values(in->t[i], set.index + at, out->data);
        at += n_rows(in->t[i]);
    }
    out->shape.dim[0] = (int64_t)set.n_keys;
    return FL_OK;
}

/* --- dense ---------------------------------------------------------------- */

fl_status fl_rows_add_to(const fl_tensor *in, fl_tensor *dense)
{
    size_t n = n_rows(in);
    uint64_t height = (uint64_t)dense->shape.dim[0];

    for (size_t i = 0; i < n; i++)
        if (in->rows[i] >= height)
            FL_FAIL(FL_ERR_INVAL,
                    "row %" PRIu64 " at place %zu is not below the height "
                    "%" PRIu64,
                    in->rows[i], i, height);
    FL_BY_DTYPE(in->dtype, scatter, in, dense->data);
    return FL_OK;
}

fl_status fl_rows_no_grad(const fl_infer *c, int slot)
{
    for (int i = 0; i < c->out[slot].n; i++)
        if (c->out[slot].t[i] && c->in[slot].t[i]->kind == FL_KIND_ROWS)
            FL_FAIL(FL_ERR_INVAL,
                    "op %s_grad: variable %s holds rows + values, which have "
                    "no gradient",
                    c->node->def->name, c->node->in[slot].vars[i]->name);
    return FL_OK;
}
