/* joined.c - values behind each other, offsets moved on. */
#include "front/joined.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tensor/tensor.h"

void fl_joined_init(fl_joined *j, size_t n_inputs)
{
    j->n_inputs = n_inputs;
    j->feeds = fl_alloc((n_inputs + 1) * sizeof(*j->feeds));
    j->values = fl_alloc((n_inputs + 1) * sizeof(*j->values));
    j->offsets = fl_alloc((n_inputs + 1) * FL_LOD_MAX * sizeof(*j->offsets));
}

void fl_joined_release(fl_joined *j)
{
    for (size_t i = 0; i < j->n_inputs; i++)
        fl_buf_release(&j->values[i]);
    for (size_t i = 0; i < j->n_inputs * FL_LOD_MAX; i++)
        fl_buf_release(&j->offsets[i]);
    fl_free(j->feeds);
    fl_free(j->values);
    fl_free(j->offsets);
}

/* --- joining -------------------------------------------------------------- */

static bool same_row(const fl_shape *a, const fl_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 1; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

static bool can_join(fl_feed *const *feeds, size_t n, size_t i)
{
    const fl_tensor *first = &feeds[0][i].value;

    for (size_t r = 0; r < n; r++)
        if (!first->shape.rank ||
            !same_row(&first->shape, &feeds[r][i].value.shape))
            return false;
    return true;
}

static fl_status no_memory(const char *name, size_t bytes)
{
    FL_FAIL(FL_ERR_NOMEM, "no memory for input %s of a batch, %zu bytes", name,
            bytes);
}

static fl_status join_values(fl_joined *j, fl_feed *const *feeds, size_t n,
                             size_t i)
{
    fl_tensor *to = &j->feeds[i].value;
    size_t bytes, each, at = 0;
    char *data;

    to->shape.dim[0] = 0;
    for (size_t r = 0; r < n; r++)
        to->shape.dim[0] += feeds[r][i].value.shape.dim[0];
    FL_TRY(fl_tensor_bytes(to, &bytes));
    data = fl_buf_reserve(&j->values[i], bytes ? bytes : 1);
    if (!data)
        return no_memory(j->feeds[i].name, bytes);
    for (size_t r = 0; r < n; r++, at += each) {
        FL_TRY(fl_tensor_bytes(&feeds[r][i].value, &each));
        if (each)
            memcpy(data + at, feeds[r][i].value.data, each);
    }
    to->data = data;
    return FL_OK;
}

static fl_status join_offsets(fl_joined *j, fl_feed *const *feeds, size_t n,
                              size_t i, int level)
{
    fl_tensor *to = &j->feeds[i].value;
    size_t len = 1, at = 1;
    int64_t *off;

    for (size_t r = 0; r < n; r++)
        len += (size_t)feeds[r][i].value.lod_len[level] - 1;
    off = fl_buf_reserve(&j->offsets[i * FL_LOD_MAX + (size_t)level],
                         len * sizeof(*off));
    if (!off)
        return no_memory(j->feeds[i].name, len * sizeof(*off));
    off[0] = 0;
    for (size_t r = 0; r < n; r++) {
        const fl_tensor *from = &feeds[r][i].value;
        int64_t base = off[at - 1];

        for (int64_t k = 1; k < from->lod_len[level]; k++)
            off[at++] = base + from->lod[level][k];
    }
    to->lod[level] = off;
    to->lod_len[level] = (int64_t)len;
    return FL_OK;
}

fl_status fl_joined_fill(fl_joined *j, fl_feed *const *feeds, size_t n,
                         bool *fits)
{
    *fits = true;
    for (size_t i = 0; i < j->n_inputs; i++)
        *fits = *fits && can_join(feeds, n, i);
    for (size_t i = 0; i < j->n_inputs && *fits; i++) {
        j->feeds[i] = feeds[0][i];
        FL_TRY(join_values(j, feeds, n, i));
        for (int k = 0; k < j->feeds[i].value.n_lod; k++)
            FL_TRY(join_offsets(j, feeds, n, i, k));
    }
    return FL_OK;
}

/* --- splitting ------------------------------------------------------------ */

bool fl_joined_can_split(const fl_tensor *outputs, size_t n_outputs, size_t n)
{
    for (size_t i = 0; i < n_outputs; i++)
        if (!outputs[i].shape.rank || outputs[i].kind == FL_KIND_ROWS ||
            outputs[i].shape.dim[0] != (int64_t)n)
            return false;
    return true;
}

fl_tensor fl_joined_part(const fl_tensor *output, size_t lo, size_t n)
{
    fl_tensor t = *output;
    size_t row = (size_t)fl_shape_count(&t.shape, 1, t.shape.rank) *
                 fl_dtype_bytes(t.dtype);

    t.shape.dim[0] = (int64_t)n;
    t.data = (char *)t.data + lo * row;
    t.kind = FL_KIND_DENSE;
    t.n_lod = 0;
    return t;
}
