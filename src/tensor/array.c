/* array.c - values with owners, in lists.
 *
 * A value is one block: numbers first, then table rows, then the offsets of
 * each level.
 */
#include "tensor/array.h"

#include <stdatomic.h>
#include <string.h>

#define ALIGN_BYTES 64

struct fl_array_item {
    atomic_int owners;
    fl_tensor value;
    void *memory;
    size_t bytes;
};

struct fl_array {
    FL_VEC(fl_array_item *) items; /* NULL: an empty place */
    FL_VEC(fl_tensor) views;       /* of fl_array_view */
};

fl_array *fl_array_new(void)
{
    return fl_alloc(sizeof(fl_array));
}

static void drop_owner(fl_array_item *item)
{
    if (!item || atomic_fetch_sub(&item->owners, 1) > 1)
        return;
    if (item->value.kind == FL_KIND_ARRAY)
        fl_array_free(item->value.data);
    fl_data_free(item->memory, item->bytes);
    fl_free(item);
}

void fl_array_clear(fl_array *a)
{
    for (size_t i = 0; i < a->items.len; i++)
        drop_owner(a->items.data[i]);
    a->items.len = 0;
}

void fl_array_free(fl_array *a)
{
    if (!a)
        return;
    fl_array_clear(a);
    fl_vec_release(&a->items);
    fl_vec_release(&a->views);
    fl_free(a);
}

size_t fl_array_len(const fl_array *a)
{
    return a->items.len;
}

const fl_tensor *fl_array_at(const fl_array *a, size_t i)
{
    return i < a->items.len && a->items.data[i] ? &a->items.data[i]->value
                                                : NULL;
}

void fl_array_drop(fl_array *a, size_t i)
{
    if (i >= a->items.len)
        return;
    drop_owner(a->items.data[i]);
    a->items.data[i] = NULL;
}

static size_t align_up(size_t n)
{
    return (n + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* Where the parts of a value lie in its block. */
typedef struct layout {
    size_t rows_at, lod_at[FL_LOD_MAX], bytes;
} layout;

static fl_status lay_out(const fl_tensor *t, layout *out)
{
    FL_TRY(fl_tensor_bytes(t, &out->bytes));
    out->rows_at = out->bytes = align_up(out->bytes);
    if (t->kind == FL_KIND_ROWS)
        out->bytes += align_up((size_t)t->shape.dim[0] * sizeof(*t->rows));
    for (int k = 0; k < t->n_lod; k++) {
        out->lod_at[k] = out->bytes;
        out->bytes += (size_t)t->lod_len[k] * sizeof(int64_t);
    }
    return FL_OK;
}

static void point_to_parts(fl_array_item *item, const layout *l)
{
    char *memory = item->memory;
    fl_tensor *t = &item->value;

    t->data = memory;
    t->rows =
        t->kind == FL_KIND_ROWS ? (uint64_t *)(memory + l->rows_at) : NULL;
    for (int k = 0; k < t->n_lod; k++) {
        memcpy(memory + l->lod_at[k], t->lod[k],
               (size_t)t->lod_len[k] * sizeof(int64_t));
        t->lod[k] = (const int64_t *)(memory + l->lod_at[k]);
    }
}

static fl_status item_new(const fl_tensor *like, fl_array_item **out)
{
    fl_array_item *item;
    void *memory = NULL;
    layout l = { 0 };

    if (like->kind != FL_KIND_ARRAY) {
        FL_TRY(lay_out(like, &l));
        memory = fl_try_alloc(l.bytes);
        if (!memory)
            FL_FAIL(FL_ERR_NOMEM, "no memory for a value of %zu bytes",
                    l.bytes);
    }
    item = fl_alloc(sizeof(*item));
    atomic_init(&item->owners, 1);
    item->value.size = sizeof(fl_tensor);
    fl_tensor_like(&item->value, like);
    fl_tensor_set_merged(&item->value, fl_tensor_is_merged(like));
    item->memory = memory;
    item->bytes = l.bytes;
    if (like->kind == FL_KIND_ARRAY)
        item->value.data = fl_array_new();
    else
        point_to_parts(item, &l);
    *out = item;
    return FL_OK;
}

static void store(fl_array *a, size_t i, fl_array_item *item)
{
    while (a->items.len <= i)
        fl_vec_push(&a->items, NULL);
    drop_owner(a->items.data[i]);
    a->items.data[i] = item;
}

fl_status fl_array_make(fl_array *a, size_t i, const fl_tensor *like,
                        fl_tensor **out)
{
    fl_array_item *item;

    if (i >= FL_ARRAY_MAX)
        FL_FAIL(FL_ERR_INVAL, "place %zu of an array; %d is the last", i,
                FL_ARRAY_MAX - 1);
    FL_TRY(item_new(like, &item));
    store(a, i, item);
    *out = &item->value;
    return FL_OK;
}

void fl_array_share(fl_array *to, size_t i, const fl_array *from, size_t j)
{
    fl_array_item *item = from->items.data[j];

    atomic_fetch_add(&item->owners, 1);
    store(to, i, item);
}

fl_status fl_array_put(fl_array *a, size_t i, const fl_tensor *value)
{
    fl_tensor *to;
    size_t bytes;

    FL_TRY(fl_array_make(a, i, value, &to));
    if (value->kind == FL_KIND_ARRAY) {
        fl_array_copy(to->data, value->data);
        return FL_OK;
    }
    FL_TRY(fl_tensor_bytes(value, &bytes));
    if (bytes)
        memcpy(to->data, value->data, bytes);
    if (value->kind == FL_KIND_ROWS && value->shape.dim[0])
        memcpy(to->rows, value->rows,
               (size_t)value->shape.dim[0] * sizeof(*to->rows));
    return FL_OK;
}

void fl_array_copy(fl_array *to, const fl_array *from)
{
    if (to == from)
        return;
    for (size_t i = 0; i < from->items.len; i++)
        if (from->items.data[i])
            atomic_fetch_add(&from->items.data[i]->owners, 1);
    fl_array_clear(to);
    for (size_t i = 0; i < from->items.len; i++)
        fl_vec_push(&to->items, from->items.data[i]);
}

fl_status fl_array_take(fl_array *to, const fl_tensor *value)
{
    const fl_tensor *items = value->data;

    fl_array_clear(to);
    for (int64_t i = 0; i < value->shape.dim[0]; i++)
        FL_TRY(fl_array_put(to, (size_t)i, &items[i]));
    return FL_OK;
}

/* An empty place is a tensor without elements. */
fl_tensor fl_array_view(fl_array *a)
{
    const fl_tensor nothing =
        fl_tensor_of(FL_DTYPE_F32, NULL, 1, (int64_t[]){ 0 });

    a->views.len = 0;
    for (size_t i = 0; i < a->items.len; i++) {
        const fl_tensor *t = fl_array_at(a, i);

        fl_vec_push(&a->views, t ? *t : nothing);
    }
    return fl_tensor_array(a->views.data, a->views.len);
}
