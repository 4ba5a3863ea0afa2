/* tensors.c - named tensors to bytes and back. */
#include "front/tensors.h"

#include <inttypes.h>
#include <string.h>

#include "tensor/tensor.h"

/* --- writing -------------------------------------------------------------- */

static void pack_lod(fl_pack *p, const fl_tensor *t)
{
    fl_pack_u32(p, (uint32_t)t->n_lod);
    for (int k = 0; k < t->n_lod; k++) {
        fl_pack_align(p);
        fl_pack_u64(p, (uint64_t)t->lod_len[k]);
        fl_pack_bytes(p, t->lod[k], (size_t)t->lod_len[k] * sizeof(int64_t));
    }
}

static void pack_one(fl_pack *p, const fl_feed *f)
{
    const fl_tensor *t = &f->value;

    fl_pack_text(p, f->name);
    fl_pack_u32(p, (uint32_t)t->dtype);
    fl_pack_u32(p, (uint32_t)t->shape.rank);
    for (int i = 0; i < t->shape.rank; i++)
        fl_pack_u64(p, (uint64_t)t->shape.dim[i]);
    pack_lod(p, t);
    fl_pack_align(p);
    fl_pack_bytes(p, t->data,
                  (size_t)fl_tensor_numel(t) * fl_dtype_bytes(t->dtype));
}

void fl_tensors_pack(fl_pack *p, const fl_feed *feeds, size_t n)
{
    fl_pack_u32(p, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        pack_one(p, &feeds[i]);
}

/* --- reading -------------------------------------------------------------- */

/* What is read, and its beginning. */
typedef struct input {
    fl_unpack u;
    const void *base;
} input;

static uint64_t bytes_left(const input *in)
{
    return (uint64_t)(in->u.end - in->u.at);
}

static fl_status unpack_shape(input *in, const char *name, fl_tensor *t)
{
    uint32_t dtype = fl_unpack_u32(&in->u), rank = fl_unpack_u32(&in->u);

    if (in->u.bad || dtype >= FL_N_DTYPES || rank > FL_RANK_MAX)
        FL_FAIL(FL_ERR_CORRUPT,
                "tensor %s has type %" PRIu32 " and rank %" PRIu32
                ", which do not exist",
                name, dtype, rank);
    t->size = sizeof(*t);
    t->dtype = (fl_dtype)dtype;
    t->shape.rank = (int)rank;
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t dim = fl_unpack_u64(&in->u);

        if (dim > INT32_MAX)
            FL_FAIL(FL_ERR_CORRUPT, "tensor %s has a dimension of %" PRIu64,
                    name, dim);
        t->shape.dim[i] = (int64_t)dim;
    }
    return FL_OK;
}

static fl_status unpack_lod(input *in, const char *name, fl_tensor *t)
{
    uint32_t levels = fl_unpack_u32(&in->u);

    if (in->u.bad || levels > FL_LOD_MAX)
        FL_FAIL(FL_ERR_CORRUPT, "tensor %s has %" PRIu32 " levels of offsets",
                name, levels);
    t->n_lod = (int)levels;
    t->kind = levels ? FL_KIND_RAGGED : FL_KIND_DENSE;
    for (uint32_t k = 0; k < levels; k++) {
        uint64_t n;

        fl_unpack_align(&in->u, in->base);
        n = fl_unpack_u64(&in->u);
        if (in->u.bad || n > bytes_left(in) / sizeof(int64_t))
            FL_FAIL(FL_ERR_CORRUPT,
                    "tensor %s: its offsets reach beyond the message", name);
        t->lod_len[k] = (int64_t)n;
        t->lod[k] = fl_unpack_bytes(&in->u, n * sizeof(int64_t));
    }
    return FL_OK;
}

static fl_status unpack_values(input *in, const char *name, fl_tensor *t)
{
    size_t bytes;

    FL_TRY(fl_err_ctx(fl_tensor_bytes(t, &bytes), "tensor %s", name));
    fl_unpack_align(&in->u, in->base);
    t->data = (void *)(uintptr_t)fl_unpack_bytes(&in->u, bytes);
    if (in->u.bad)
        FL_FAIL(FL_ERR_CORRUPT,
                "tensor %s: its values reach beyond the message", name);
    t->flags = FL_TENSOR_READ_ONLY;
    return FL_OK;
}

static fl_status unpack_one(input *in, fl_arena *arena, fl_feed *out)
{
    char name[FL_TENSOR_NAME_MAX];

    fl_unpack_text(&in->u, name, sizeof(name));
    if (in->u.bad || !*name)
        FL_FAIL(FL_ERR_CORRUPT,
                "the message ends where a tensor's name begins");
    out->name = fl_arena_strdup(arena, name);
    FL_TRY(unpack_shape(in, name, &out->value));
    FL_TRY(unpack_lod(in, name, &out->value));
    return unpack_values(in, name, &out->value);
}

fl_status fl_tensors_unpack(const void *bytes, uint64_t len, fl_arena *arena,
                            fl_feed **feeds, size_t *n)
{
    input in = { .u = fl_unpack_from(bytes, len), .base = bytes };
    uint32_t count = fl_unpack_u32(&in.u);
    fl_feed *all;

    /* A tensor takes more than ten bytes, so that the message bounds them. */
    if (in.u.bad || count > FL_TENSORS_MAX || count > len)
        FL_FAIL(FL_ERR_CORRUPT, "the message does not begin with a number of "
                                "tensors");
    all = fl_arena_alloc(arena, (count + 1) * sizeof(*all));
    for (uint32_t i = 0; i < count; i++)
        FL_TRY(unpack_one(&in, arena, &all[i]));
    if (in.u.at != in.u.end)
        FL_FAIL(FL_ERR_CORRUPT, "%" PRIu64 " bytes follow the last tensor",
                bytes_left(&in));
    *feeds = all;
    *n = count;
    return FL_OK;
}
