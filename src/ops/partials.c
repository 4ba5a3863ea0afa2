/* partials.c - sums of parts, in order. */
#include "ops/partials.h"

#include <string.h>

#include "base/alloc.h"
#include "kernel/vec.h"

fl_status fl_partials_infer(const fl_infer *c, fl_dtype dtype, size_t n,
                            size_t len)
{
    size_t bytes;
    void *workspace;

    if (!c->running)
        return FL_OK;
    if (fl_mul_overflow(n, len, &bytes) ||
        fl_mul_overflow(bytes, fl_dtype_bytes(dtype), &bytes))
        FL_FAIL(FL_ERR_NOMEM, "op %s: %zu sums of %zu numbers have no size",
                c->node->def->name, n, len);
    return fl_infer_workspace(c, bytes, &workspace);
}

#define SUM(T, t)                                                              \
    void fl_partials_sum_##t(const T *parts, size_t n, size_t len,             \
                             const fl_partial_use *use)                        \
    {                                                                          \
        size_t n_out = use->to ? (size_t)fl_tensor_numel(use->to) : 0;         \
        T *out = use->to ? use->to->data : NULL;                               \
                                                                               \
        if (!n_out)                                                            \
            return;                                                            \
        if (n)                                                                 \
            memcpy(out, parts + use->at, n_out * sizeof(T));                   \
        else                                                                   \
            memset(out, 0, n_out * sizeof(T));                                 \
        for (size_t i = 1; i < n; i++)                                         \
            fl_vec_##t()->add(out, out, parts + i * len + use->at, n_out);     \
    }
FL_FLOATS(SUM)
