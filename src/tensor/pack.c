/* pack.c - copies of values, each in one block. */
#include "tensor/pack.h"

#include <string.h>

#define ALIGN_BYTES 64

/* A block that is being filled; without memory its size is counted. */
typedef struct block {
    char *memory;
    size_t used_bytes;
} block;

static void *next_piece(block *b, size_t bytes)
{
    void *at = b->memory ? b->memory + b->used_bytes : NULL;

    b->used_bytes += (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    return at;
}

static void *put(block *b, const void *from, size_t bytes, fl_pack_what what)
{
    void *to = next_piece(b, bytes);

    if (to && from && bytes && what == FL_PACK_ALL)
        memmove(to, from, bytes);
    return to;
}

static size_t value_bytes(const fl_tensor *t)
{
    return (size_t)fl_tensor_numel(t) * fl_dtype_bytes(t->dtype);
}

static fl_tensor lay_out(block *b, const fl_tensor *t, fl_pack_what what)
{
    fl_tensor to = *t;

    to.size = sizeof(fl_tensor);
    to.strides = NULL;
    to.flags &= ~(uint64_t)FL_TENSOR_READ_ONLY;
    to.data = put(b, t->data, value_bytes(t), what);
    for (int k = 0; k < t->n_lod; k++)
        to.lod[k] = put(b, t->lod[k], (size_t)t->lod_len[k] * sizeof(**t->lod),
                        FL_PACK_ALL);
    to.rows = NULL;
    if (t->kind == FL_KIND_ROWS)
        to.rows =
            put(b, t->rows, (size_t)t->shape.dim[0] * sizeof(*t->rows), what);
    return to;
}

/* The tensors of an array lie behind each other, their pieces behind them. */
static fl_tensor lay_out_array(block *b, const fl_tensor *t, fl_pack_what what)
{
    const fl_tensor *items = t->data;
    size_t n = (size_t)t->shape.dim[0];
    fl_tensor *to = next_piece(b, n * sizeof(*to));
    fl_tensor array = *t;

    for (size_t i = 0; i < n; i++) {
        fl_tensor item = lay_out(b, &items[i], what);

        if (to)
            to[i] = item;
    }
    array.size = sizeof(fl_tensor);
    array.data = to;
    return array;
}

static fl_tensor lay_out_any(block *b, const fl_tensor *t, fl_pack_what what)
{
    return t->kind == FL_KIND_ARRAY ? lay_out_array(b, t, what)
                                    : lay_out(b, t, what);
}

size_t fl_tensor_packed_bytes(const fl_tensor *t)
{
    block b = { 0 };

    (void)lay_out_any(&b, t, FL_PACK_ALL);
    return b.used_bytes;
}

fl_tensor fl_pack(void *memory, const fl_tensor *t, fl_pack_what what)
{
    block b = { .memory = memory };

    return lay_out_any(&b, t, what);
}

fl_tensor fl_tensor_pack(const fl_tensor *t, void *block_)
{
    return fl_pack(block_, t, FL_PACK_ALL);
}
