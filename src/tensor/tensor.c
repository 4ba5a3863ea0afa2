/* tensor.c - shapes, sizes and checks of tensors. */
#include "tensor/tensor.h"

#include <inttypes.h>

#include "base/alloc.h"

fl_tensor fl_tensor_of(fl_dtype dtype, const void *data, int rank,
                       const int64_t *dims)
{
    fl_tensor t =
        FL_INIT(fl_tensor, .dtype = dtype, .data = (void *)(uintptr_t)data);

    t.shape = fl_shape_of(rank, dims);
    return t;
}

fl_tensor fl_tensor_ragged(fl_dtype dtype, const void *data, int rank,
                           const int64_t *dims, const int64_t *offsets,
                           int64_t n_seq)
{
    fl_tensor t = fl_tensor_of(dtype, data, rank, dims);

    t.kind = FL_KIND_RAGGED;
    t.n_lod = 1;
    t.lod[0] = offsets;
    t.lod_len[0] = n_seq + 1;
    return t;
}

fl_tensor fl_tensor_array(const fl_tensor *items, size_t n)
{
    fl_tensor t =
        fl_tensor_of(FL_DTYPE_F32, items, 1, &(int64_t){ (int64_t)n });

    t.kind = FL_KIND_ARRAY;
    return t;
}

int64_t fl_tensor_numel(const fl_tensor *t)
{
    return fl_shape_numel(&t->shape);
}

size_t fl_dtype_bytes(fl_dtype d)
{
    switch (d) {
#define X(name, value, type, text, long_text)                                  \
    case FL_DTYPE_##name:                                                      \
        return sizeof(type);
        FL_DTYPE_MAP(X)
#undef X
    }
    return 0;
}

const char *fl_dtype_text(fl_dtype d)
{
    switch (d) {
#define X(name, value, type, text, long_text)                                  \
    case FL_DTYPE_##name:                                                      \
        return text;
        FL_DTYPE_MAP(X)
#undef X
    }
    return "?";
}

bool fl_dtype_parse(const char *word, fl_dtype *out)
{
#define X(name, value, type, text, long_text)                                  \
    if (!strcmp(word, text) || !strcmp(word, long_text)) {                     \
        *out = FL_DTYPE_##name;                                                \
        return true;                                                           \
    }
    FL_DTYPE_MAP(X)
#undef X
    return false;
}

const char *fl_shape_text(const fl_shape *s, char buf[FL_SHAPE_TEXT_MAX])
{
    size_t at = 0;

    buf[at++] = '[';
    for (int i = 0; i < s->rank; i++)
        at += (size_t)snprintf(buf + at, FL_SHAPE_TEXT_MAX - at, "%s%" PRId64,
                               i ? "," : "", s->dim[i]);
    snprintf(buf + at, FL_SHAPE_TEXT_MAX - at, "]");
    return buf;
}

fl_shape fl_shape_of(int rank, const int64_t *dims)
{
    fl_shape s = { .rank = rank };

    FL_ASSERT(rank >= 0 && rank <= FL_RANK_MAX);
    for (int i = 0; i < rank; i++)
        s.dim[i] = dims[i];
    return s;
}

int64_t fl_shape_count(const fl_shape *s, int lo, int hi)
{
    int64_t n = 1;

    for (int i = lo; i < hi; i++) {
        if (s->dim[i] < 0)
            return -1;
        if (__builtin_mul_overflow(n, s->dim[i], &n))
            return INT64_MAX; /* no memory is that large */
    }
    return n;
}

int64_t fl_shape_numel(const fl_shape *s)
{
    return fl_shape_count(s, 0, s->rank);
}

bool fl_shape_matches(const fl_shape *a, const fl_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] >= 0 && b->dim[i] >= 0 && a->dim[i] != b->dim[i])
            return false;
    return true;
}

bool fl_shape_equal(const fl_shape *a, const fl_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

int fl_shape_axis(const fl_shape *s, int64_t axis)
{
    if (axis < -s->rank || axis >= s->rank)
        return -1;
    return (int)(axis < 0 ? axis + s->rank : axis);
}

static bool is_compact(const fl_tensor *t)
{
    int64_t next = 1;

    if (!t->strides)
        return true;
    for (int i = t->shape.rank - 1; i >= 0; i--) {
        if (t->shape.dim[i] != 1 && t->strides[i] != next)
            return false;
        next *= t->shape.dim[i];
    }
    return true;
}

static bool is_reserved_zero(const fl_tensor *t)
{
    for (size_t i = 0; i < FL_LEN(t->reserved); i++)
        if (t->reserved[i])
            return false;
    return true;
}

/* To read another byte as a bool is undefined. */
static fl_status check_bools(const fl_tensor *t)
{
    const uint8_t *byte = t->data;

    if (t->dtype != FL_DTYPE_BOOL || !byte)
        return FL_OK;
    for (int64_t i = 0; i < fl_tensor_numel(t); i++)
        if (byte[i] > 1)
            FL_FAIL(FL_ERR_INVAL,
                    "element %" PRId64 " is %d, and a bool is 0 or 1; give "
                    "other numbers as u8",
                    i, byte[i]);
    return FL_OK;
}

fl_status fl_tensor_check(const fl_tensor *t)
{
    const uint64_t known = FL_TENSOR_MERGED | FL_TENSOR_READ_ONLY;

    if (t->size != sizeof(fl_tensor))
        FL_FAIL(FL_ERR_INVAL,
                "the tensor's field size is %u and not %zu; make it with "
                "fl_tensor_of or FL_INIT(fl_tensor, ...)",
                t->size, sizeof(fl_tensor));
    if (t->device.type != FL_DEVICE_CPU || t->device.id != 0)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "the memory is on device %d:%d, and this version reads the "
                "CPU's (0:0) alone; copy it there first",
                (int)t->device.type, t->device.id);
    if (t->shape.rank < 0 || t->shape.rank > FL_RANK_MAX)
        FL_FAIL(FL_ERR_INVAL, "rank %d is not in 0..%d", t->shape.rank,
                FL_RANK_MAX);
    if (!is_compact(t))
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "the strides are not those of compact memory, and this version "
                "reads no others; copy the values together first");
    if ((t->flags & ~known) || !is_reserved_zero(t))
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "the tensor has flags or reserved fields that this version "
                "does not know; make it with fl_tensor_of");
    return check_bools(t);
}

fl_status fl_tensor_bytes(const fl_tensor *t, size_t *out)
{
    size_t n = fl_dtype_bytes(t->dtype);
    char buf[FL_SHAPE_TEXT_MAX];

    for (int i = 0; i < t->shape.rank; i++)
        if (t->shape.dim[i] < 0 ||
            fl_mul_overflow(n, (size_t)t->shape.dim[i], &n))
            FL_FAIL(FL_ERR_INVAL, "shape %s has no size",
                    fl_shape_text(&t->shape, buf));
    *out = n;
    return FL_OK;
}

/* What is wrong with a level that does not ascend as it should. */
static fl_status tell_level(const fl_tensor *t, int level, int64_t end)
{
    const int64_t *off = t->lod[level];
    int64_t n = t->lod_len[level];

    if (n < 1 || off[0] != 0)
        FL_FAIL(FL_ERR_INVAL, "offsets of level %d do not start with 0", level);
    for (int64_t i = 1; i < n; i++)
        if (off[i] < off[i - 1])
            FL_FAIL(FL_ERR_INVAL,
                    "offset %" PRId64 " of level %d falls from %" PRId64
                    " to %" PRId64,
                    i, level, off[i - 1], off[i]);
    FL_FAIL(
        FL_ERR_INVAL,
        "offsets of level %d end at %" PRId64 ", but there are %" PRId64 " %s",
        level, off[n - 1], end, level + 1 < t->n_lod ? "sequences" : "rows");
}

static fl_status check_level(const fl_tensor *t, int level, int64_t end)
{
    return fl_lod_ascends(t->lod[level], t->lod_len[level], end)
               ? FL_OK
               : tell_level(t, level, end);
}

fl_status fl_lod_check(const fl_tensor *t)
{
    if (t->n_lod < 0 || t->n_lod > FL_LOD_MAX)
        FL_FAIL(FL_ERR_INVAL, "%d levels of offsets; 0 to %d are possible",
                t->n_lod, FL_LOD_MAX);
    for (int k = 0; k < t->n_lod; k++) {
        int64_t end = t->shape.dim[0];

        if (!t->lod[k])
            FL_FAIL(FL_ERR_INVAL, "level %d has no offsets", k);
        if (k + 1 < t->n_lod)
            end = t->lod_len[k + 1] - 1;
        FL_TRY(check_level(t, k, end));
    }
    return FL_OK;
}

void fl_tensor_like(fl_tensor *to, const fl_tensor *from)
{
    to->dtype = from->dtype;
    to->kind = from->kind;
    to->shape = from->shape;
    to->n_lod = from->n_lod;
    for (int k = 0; k < from->n_lod; k++) {
        to->lod[k] = from->lod[k];
        to->lod_len[k] = from->lod_len[k];
    }
    to->height = from->height;
}
