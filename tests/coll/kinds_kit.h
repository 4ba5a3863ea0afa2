/* kinds_kit.h - what every kind of call gives, by its plain definition. */
#ifndef FL_TESTS_COLL_KINDS_KIT_H
#define FL_TESTS_COLL_KINDS_KIT_H

#include "coll_kit.h"

typedef struct values {
    void *in[KIT_RANKS], *out[KIT_RANKS];
    size_t in_bytes, out_bytes;
} values;

static inline double kinds_get(fl_dtype d, const void *p, size_t i)
{
    switch (d) {
    case FL_DTYPE_F32:
        return ((const float *)p)[i];
    case FL_DTYPE_F64:
        return ((const double *)p)[i];
    case FL_DTYPE_I32:
        return ((const int32_t *)p)[i];
    case FL_DTYPE_I64:
        return (double)((const int64_t *)p)[i];
    default:
        return ((const int8_t *)p)[i];
    }
}

static inline void kinds_put(fl_dtype d, void *p, size_t i, int v)
{
    switch (d) {
    case FL_DTYPE_F32:
        ((float *)p)[i] = (float)v;
        break;
    case FL_DTYPE_F64:
        ((double *)p)[i] = v;
        break;
    case FL_DTYPE_I32:
        ((int32_t *)p)[i] = v;
        break;
    case FL_DTYPE_I64:
        ((int64_t *)p)[i] = v;
        break;
    default:
        ((int8_t *)p)[i] = (int8_t)v;
    }
}

static inline void kinds_make_values(values *v, int n_ranks, fl_dtype d,
                                     size_t n)
{
    v->in_bytes = (n + 1) * fl_dtype_bytes(d);
    v->out_bytes = (n * (size_t)n_ranks + 1) * fl_dtype_bytes(d);
    for (int r = 0; r < n_ranks; r++) {
        v->in[r] = fl_try_alloc(v->in_bytes);
        v->out[r] = fl_try_alloc(v->out_bytes);
        memset(v->out[r], 0x55, v->out_bytes);
        for (size_t i = 0; i < n; i++)
            kinds_put(d, v->in[r], i, kit_value(r, i));
    }
}

static inline void kinds_free_values(values *v, int n_ranks)
{
    for (int r = 0; r < n_ranks; r++) {
        fl_data_free(v->in[r], v->in_bytes);
        fl_data_free(v->out[r], v->out_bytes);
    }
}

static inline double kinds_combine(fl_coll_op op, double a, double b)
{
    switch (op) {
    case FL_COLL_SUM:
        return a + b;
    case FL_COLL_MAX:
        return a > b ? a : b;
    case FL_COLL_MIN:
        return a < b ? a : b;
    default:
        return a * b;
    }
}

static inline double kinds_combined(fl_coll_op op, int n_ranks, size_t i)
{
    double v = kit_value(0, i);

    for (int r = 1; r < n_ranks; r++)
        v = kinds_combine(op, v, kit_value(r, i));
    return v;
}

/* What rank r has at place i of its out; false: out is not that long. */
static inline bool kinds_wanted(const fl_coll_call *a, int n_ranks, int r,
                                size_t i, double *v)
{
    size_t n = a->n, piece = n / (size_t)n_ranks;

    switch (a->kind) {
    case FL_COLL_ALLREDUCE:
        *v = i < n ? kinds_combined(a->op, n_ranks, i) : 0;
        return i < n;
    case FL_COLL_BROADCAST:
        *v = kit_value(a->root, i);
        return i < n;
    case FL_COLL_ALLGATHER:
        *v = n ? kit_value((int)(i / n), i % n) : 0;
        return i < n * (size_t)n_ranks;
    case FL_COLL_REDUCE:
        *v = kinds_combined(a->op, n_ranks, i);
        return i < n && r == a->root;
    case FL_COLL_REDUCESCATTER:
        *v = kinds_combined(a->op, n_ranks, i + piece * (size_t)r);
        return i < piece;
    default:
        return false;
    }
}

static inline void kinds_check(const fl_coll_call *a, const values *v,
                               int n_ranks, int r)
{
    size_t i = 0;
    double want;

    for (; kinds_wanted(a, n_ranks, r, i, &want); i++)
        if (kinds_get(a->dtype, v->out[r], i) != want)
            fail_msg("kind %d op %d dtype %d n %zu: rank %d of %d has %g at "
                     "%zu, not %g",
                     (int)a->kind, (int)a->op, (int)a->dtype, a->n, r, n_ranks,
                     kinds_get(a->dtype, v->out[r], i), i, want);
    /* Not one byte behind it. */
    assert_int_equal(((uint8_t *)v->out[r])[i * fl_dtype_bytes(a->dtype)],
                     0x55);
}

#endif
