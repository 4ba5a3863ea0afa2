/* st_type.c - the element types of safetensors files. */
#include <string.h>

#include "base/alloc.h"
#include "ckpt/safetensors.h"

static const struct {
    const char *text;
    size_t bytes;
} types[] = {
#define X(name, value, bytes) [value] = { #name, bytes },
    FL_ST_TYPE_MAP(X)
#undef X
};

#define SAME(name) _Static_assert((int)FL_ST_##name == (int)FL_DTYPE_##name, "")
SAME(F32);
SAME(F64);
SAME(I32);
SAME(I64);
SAME(U64);
SAME(U8);
SAME(BOOL);
SAME(F16);
SAME(I8);
SAME(I16);

const char *fl_st_type_text(fl_st_type t)
{
    return types[t].text;
}

bool fl_st_type_parse(const char *text, fl_st_type *out)
{
    for (size_t i = 0; i < FL_LEN(types); i++)
        if (!strcmp(types[i].text, text)) {
            *out = (fl_st_type)i;
            return true;
        }
    return false;
}

size_t fl_st_type_bytes(fl_st_type t)
{
    return types[t].bytes;
}

fl_status fl_st_tensor_bytes(const fl_st_tensor *t, uint64_t *out)
{
    size_t bytes = fl_st_type_bytes(t->type);

    FL_ASSERT(t->shape.rank >= 0 && t->shape.rank <= FL_RANK_MAX);
    for (int i = 0; i < t->shape.rank; i++)
        if (t->shape.dim[i] < 0 ||
            fl_mul_overflow(bytes, (size_t)t->shape.dim[i], &bytes) ||
            bytes > INT64_MAX)
            FL_FAIL(FL_ERR_INVAL, "tensor %s is larger than any file", t->name);
    *out = bytes;
    return FL_OK;
}
