/* named.c - tensors with their names. */
#include "ps/named.h"

#include <string.h>

void fl_named_pack_meta(fl_pack *p, const fl_tensor *value)
{
    fl_pack_u32(p, (uint32_t)value->dtype);
    fl_pack_u32(p, (uint32_t)value->shape.rank);
    for (int i = 0; i < value->shape.rank; i++)
        fl_pack_u64(p, (uint64_t)value->shape.dim[i]);
}

fl_status fl_named_check(const char *name)
{
    if (strlen(name) >= FL_NAMED_ROOM)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s: names of more than %d characters cannot be saved",
                name, FL_NAMED_ROOM - 1);
    return FL_OK;
}

fl_status fl_named_pack(fl_pack *p, const char *name, const fl_tensor *value)
{
    size_t bytes;

    FL_TRY(fl_named_check(name));
    if (value->kind != FL_KIND_DENSE || value->n_lod)
        FL_FAIL(FL_ERR_INVAL,
                "variable %s is not dense, and only dense ones are saved",
                name);
    FL_TRY(fl_err_ctx(fl_tensor_bytes(value, &bytes), "variable %s", name));
    fl_pack_text(p, name);
    fl_named_pack_meta(p, value);
    fl_pack_u64(p, bytes);
    fl_pack_align(p);
    if (bytes)
        fl_pack_bytes(p, value->data, bytes);
    fl_pack_align(p);
    return FL_OK;
}

/* Type and shape; u is bad when there is no such type, or too many dims. */
void fl_named_read_meta(fl_unpack *u, fl_tensor *t)
{
    uint32_t dtype = fl_unpack_u32(u), rank = fl_unpack_u32(u);

    u->bad |= rank > FL_RANK_MAX || dtype >= FL_N_DTYPES;
    if (u->bad)
        return;
    t->dtype = (fl_dtype)dtype;
    t->shape.rank = (int)rank;
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t dim = fl_unpack_u64(u);

        u->bad |= dim > INT64_MAX;
        t->shape.dim[i] = (int64_t)dim;
    }
}

bool fl_named_next(fl_unpack *u, const void *base, fl_named *out)
{
    uint64_t said;

    if (u->bad || u->at == u->end)
        return false;
    *out = (fl_named){ .value = { .size = sizeof(fl_tensor) } };
    fl_unpack_text(u, out->name, sizeof(out->name));
    fl_named_read_meta(u, &out->value);
    said = fl_unpack_u64(u);
    fl_unpack_align(u, base);
    u->bad = u->bad || fl_tensor_bytes(&out->value, &out->bytes) ||
             out->bytes != said;
    if (u->bad)
        return false;
    out->value.data = (void *)(uintptr_t)fl_unpack_bytes(u, said);
    fl_unpack_align(u, base);
    return !u->bad;
}
