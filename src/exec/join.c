/* join.c - rows + values of several gradients, one list behind the other. */
#include "exec/join.h"

#include "base/alloc.h"
#include "kernel/vec.h"
#include "tensor/floats.h"

#define SCALE(T, t)                                                            \
    static void scale_##t(T *x, double coeff, size_t n)                        \
    {                                                                          \
        fl_vec_##t()->scale(x, (T)coeff, x, 0, n);                             \
    }
FL_FLOATS(SCALE)

void fl_scale_values(fl_tensor *t, double coeff)
{
    FL_BY_DTYPE(t->dtype, scale, t->data, coeff, (size_t)fl_tensor_numel(t));
}

fl_status fl_join_rows(fl_buf *b, const fl_tensor *const *parts, int n,
                       double coeff, fl_tensor *out)
{
    const fl_shape *s = &parts[0]->shape;
    size_t width =
        (size_t)fl_shape_count(s, 1, s->rank) * fl_dtype_bytes(parts[0]->dtype);
    size_t n_rows = 0, at = 0, rows_bytes;

    for (int i = 0; i < n; i++)
        n_rows += (size_t)parts[i]->shape.dim[0];
    rows_bytes = (n_rows * sizeof(uint64_t) + 63) / 64 * 64;
    if (!fl_buf_reserve(b, rows_bytes + n_rows * width))
        FL_FAIL(FL_ERR_NOMEM, "no memory to join %zu rows of gradients",
                n_rows);
    for (int i = 0; i < n; i++) {
        const fl_tensor *t = parts[i];
        size_t k = (size_t)t->shape.dim[0];

        if (!k)
            continue;
        memcpy((uint64_t *)b->data + at, t->rows, k * sizeof(uint64_t));
        memcpy((char *)b->data + rows_bytes + at * width, t->data, k * width);
        at += k;
    }
    out->rows = b->data;
    out->data = (char *)b->data + rows_bytes;
    out->shape.dim[0] = (int64_t)n_rows;
    fl_tensor_set_merged(out, false);
    fl_scale_values(out, coeff);
    return FL_OK;
}
