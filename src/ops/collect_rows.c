/* collect_rows.c - rows + values of all workers become one list.
 *
 * Each worker brings [row numbers, values] as bytes. The lists stand one behind
 * the other in the order of ranks, so that all workers add up the values of a
 * row in the same order. Values are scaled before they travel.
 */
#include "base/alloc.h"
#include "kernel/vec.h"
#include "ops/collect.h"

#define SCALE(T, t)                                                            \
    static void scale_##t(void *to, const void *from, double by, size_t n)     \
    {                                                                          \
        fl_vec_##t()->scale(to, (T)by, from, 0, n);                            \
    }
FL_FLOATS(SCALE)

static size_t value_bytes(const fl_tensor *t)
{
    return (size_t)fl_shape_count(&t->shape, 1, t->shape.rank) *
           fl_dtype_bytes(t->dtype);
}

static size_t row_bytes(const fl_tensor *t)
{
    return sizeof(uint64_t) + value_bytes(t);
}

/* --- on the way ----------------------------------------------------------- */

static void *make_room(fl_comm_collect *r, const uint64_t *counts, uint64_t sum)
{
    fl_collect_state *s = (fl_collect_state *)r;
    size_t n = (size_t)s->n_workers;

    memcpy(s->counts, counts, n * sizeof(*counts));
    return fl_buf_reserve(&s->all, (size_t)sum + 1) ? s->all.data : NULL;
}

/* Behind numbers of 8 bytes values of any type are aligned. */
static fl_status pack(const fl_op_ctx *c, fl_collect_state *s,
                      const fl_tensor *x, double share)
{
    size_t k = (size_t)x->shape.dim[0];

    if (!fl_buf_reserve(&s->buf, k * row_bytes(x) + 1))
        return FL_NOMEM(c);
    if (!k)
        return FL_OK;
    memcpy(s->buf.data, x->rows, k * sizeof(uint64_t));
    FL_BY_DTYPE(x->dtype, scale, (uint64_t *)s->buf.data + k, x->data, share,
                (size_t)fl_tensor_numel(x));
    return FL_OK;
}

static fl_status carry(const fl_op_ctx *c, fl_collect_state *s,
                       const fl_tensor *x, double share)
{
    s->n_workers = fl_comm_n_workers(c->comm);
    if (!s->counts)
        s->counts = fl_alloc((size_t)s->n_workers * sizeof(*s->counts));
    FL_TRY(pack(c, s, x, share));
    return fl_collect_begin(
        c, s,
        &(fl_comm_collect){ .kind = FL_COLLECT_ALLGATHER,
                            .dtype = FL_DTYPE_U8,
                            .in = s->buf.data,
                            .n = (size_t)x->shape.dim[0] * row_bytes(x),
                            .n_vars = 1,
                            .room = make_room });
}

/* --- what came ------------------------------------------------------------ */

static fl_status place(const fl_op_ctx *c, const fl_collect_state *s,
                       fl_tensor *out)
{
    uint64_t rows = 0;

    for (int i = 0; i < s->n_workers; i++) {
        if (s->counts[i] % row_bytes(out))
            FL_FAIL(FL_ERR_CORRUPT,
                    "worker %d sent %llu bytes, which are no rows of %zu", i,
                    (unsigned long long)s->counts[i], row_bytes(out));
        rows += s->counts[i] / row_bytes(out);
    }
    out->shape.dim[0] = (int64_t)rows;
    return c->blocks->place(c->blocks, out);
}

static void unpack(const fl_collect_state *s, fl_tensor *out)
{
    size_t width = value_bytes(out), at = 0;
    const char *from = s->all.data;

    for (int i = 0; i < s->n_workers; i++) {
        size_t k = (size_t)s->counts[i] / row_bytes(out);

        if (k) {
            memcpy(out->rows + at, from, k * sizeof(uint64_t));
            memcpy((char *)out->data + at * width, from + k * sizeof(uint64_t),
                   k * width);
        }
        from += s->counts[i];
        at += k;
    }
    fl_tensor_set_merged(out, false);
}

static fl_status copy_own(const fl_tensor *x, fl_tensor *out, double share)
{
    size_t k = (size_t)x->shape.dim[0];

    out->shape = x->shape;
    fl_tensor_set_merged(out, fl_tensor_is_merged(x));
    if (k)
        memcpy(out->rows, x->rows, k * sizeof(uint64_t));
    FL_BY_DTYPE(x->dtype, scale, out->data, x->data, share,
                (size_t)fl_tensor_numel(x));
    return FL_OK;
}

fl_status fl_collect_rows(fl_op_ctx *c, const fl_tensor *x, fl_tensor *out,
                          double share)
{
    fl_collect_state *s = fl_collect_keep(c);
    bool is_alone;

    FL_TRY(fl_collect_is_alone(c, &is_alone));
    if (is_alone)
        return copy_own(x, out, share);
    FL_TRY(c->resumed ? fl_comm_result(&s->call.answer)
                      : carry(c, s, x, share));
    FL_TRY(place(c, s, out));
    unpack(s, out);
    return FL_OK;
}
