/* values.c - saved variables of PaddlePaddle 1.8. Every size is checked against
 * what is left of the file before it is used. */
#include "paddle18/values.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "paddle18/desc.h"
#include "tensor/tensor.h"

#define WHAT_BYTES 256

/* One variable under way. */
typedef struct reading {
    fl_p18_bytes b;
    const char *name;
    fl_arena *arena;
} reading;

static size_t left(const reading *r)
{
    return (size_t)(r->b.end - r->b.at);
}

static fl_status fail_at(const reading *r, const char *what)
{
    FL_FAIL(FL_ERR_CORRUPT, "variable %s, byte %zu of its file: %s", r->name,
            (size_t)(r->b.at - r->b.start), what);
}

/* n bytes as a whole number, the lowest first. */
static fl_status take(reading *r, size_t n, const char *what, uint64_t *out)
{
    if (left(r) < n)
        FL_FAIL(FL_ERR_CORRUPT,
                "variable %s: its file ends within %s, at byte %zu", r->name,
                what, (size_t)(r->b.end - r->b.start));
    *out = 0;
    for (size_t i = 0; i < n; i++)
        *out |= (uint64_t)r->b.at[i] << (8 * i);
    r->b.at += n;
    return FL_OK;
}

static fl_status take_version(reading *r, const char *what)
{
    uint64_t version;

    FL_TRY(take(r, sizeof(uint32_t), what, &version));
    if (version != 0)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "variable %s: %s is %" PRIu64
                ", only 0 is known; was it saved by PaddlePaddle 1.x?",
                r->name, what, version);
    return FL_OK;
}

/* --- sequences ------------------------------------------------------------ */

/* One level of offsets: from 0, never falling. */
static fl_status take_level(reading *r, uint64_t *end)
{
    uint64_t bytes, at, before = 0;

    FL_TRY(take(r, sizeof(uint64_t), "the length of a level", &bytes));
    if (bytes > left(r) || bytes % sizeof(uint64_t) || !bytes)
        return fail_at(r, "a level of offsets has an impossible length");
    for (uint64_t i = 0; i < bytes / sizeof(uint64_t); i++) {
        FL_TRY(take(r, sizeof(uint64_t), "its offsets", &at));
        if ((!i && at) || at < before)
            return fail_at(r, "its offsets do not ascend from 0");
        before = at;
    }
    *end = before;
    return FL_OK;
}

static fl_status take_lod(reading *r, uint64_t *n_levels, uint64_t *end)
{
    FL_TRY(take(r, sizeof(uint64_t), "its number of levels", n_levels));
    if (*n_levels > FL_LOD_MAX)
        FL_FAIL(FL_ERR_CORRUPT,
                "variable %s has %" PRIu64
                " levels of offsets; at most %d are possible",
                r->name, *n_levels, FL_LOD_MAX);
    for (uint64_t i = 0; i < *n_levels; i++)
        FL_TRY(take_level(r, end));
    return FL_OK;
}

/* --- values --------------------------------------------------------------- */

static fl_status take_desc(reading *r, fl_tensor *out)
{
    fl_p18_tensor_desc d = { 0 };
    char what[WHAT_BYTES];
    uint64_t bytes;

    FL_TRY(take_version(r, "the version of the tensor"));
    FL_TRY(take(r, sizeof(uint32_t), "the length of the description", &bytes));
    if (bytes > left(r))
        return fail_at(r, "the description is longer than the file");
    FL_TRY(fl_err_ctx(fl_wire_read(&fl_p18_tensor_message, r->b.at,
                                   (size_t)bytes, r->arena, &d),
                      "variable %s", r->name));
    r->b.at += bytes;
    snprintf(what, sizeof(what), "variable %s", r->name);
    return fl_p18_tensor(&d, what, out);
}

static fl_status take_values(reading *r, fl_p18_value *v)
{
    size_t bytes = fl_dtype_bytes(v->tensor.dtype);

    for (int i = 0; i < v->tensor.shape.rank; i++)
        if (v->tensor.shape.dim[i] < 0 ||
            fl_mul_overflow(bytes, (size_t)v->tensor.shape.dim[i], &bytes))
            return fail_at(r, "its shape is not that of saved values");
    if (bytes > left(r))
        FL_FAIL(FL_ERR_CORRUPT,
                "variable %s needs %zu bytes of values, its file has %zu: it "
                "was cut off, or is another variable's",
                r->name, bytes, left(r));
    v->n_bytes = bytes;
    v->tensor.data = (void *)r->b.at;
    r->b.at += bytes;
    return FL_OK;
}

static fl_status take_tensor(reading *r, fl_p18_value *v)
{
    FL_TRY(take_desc(r, &v->tensor));
    return take_values(r, v);
}

fl_status fl_p18_read_tensor(fl_p18_bytes *b, const char *name, fl_arena *arena,
                             fl_p18_value *out)
{
    reading r = { *b, name, arena };
    fl_p18_value v = { 0 };
    uint64_t end = 0;

    FL_TRY(take_version(&r, "the version of the variable"));
    FL_TRY(take_lod(&r, &v.n_lod, &end));
    FL_TRY(take_tensor(&r, &v));
    if (v.n_lod &&
        (!v.tensor.shape.rank || end != (uint64_t)v.tensor.shape.dim[0]))
        return fail_at(&r, "its offsets do not end with its rows");
    *b = r.b;
    *out = v;
    return FL_OK;
}

fl_status fl_p18_read_rows(fl_p18_bytes *b, const char *name, fl_arena *arena,
                           fl_p18_value *out)
{
    reading r = { *b, name, arena };
    fl_p18_value v = { 0 };
    uint64_t height;

    FL_TRY(take_version(&r, "the version of the variable"));
    FL_TRY(take(&r, sizeof(uint64_t), "its number of rows", &v.n_rows));
    if (v.n_rows > left(&r) / sizeof(int64_t))
        return fail_at(&r, "it has more rows than the file has room for");
    v.is_rows = true;
    v.rows = r.b.at;
    r.b.at += v.n_rows * sizeof(int64_t);
    FL_TRY(take(&r, sizeof(int64_t), "its height", &height));
    v.height = (int64_t)height;
    FL_TRY(take_tensor(&r, &v));
    if (!v.tensor.shape.rank || (uint64_t)v.tensor.shape.dim[0] < v.n_rows)
        return fail_at(&r, "it has fewer rows of values than rows");
    *b = r.b;
    *out = v;
    return FL_OK;
}
