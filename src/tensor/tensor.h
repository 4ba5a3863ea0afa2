/* tensor.h - shapes, sizes and checks of tensors. All functions are pure. */
#ifndef FL_TENSOR_TENSOR_H
#define FL_TENSOR_TENSOR_H

#include "base/status.h"
#include "flotilla/tensor.h"

#define FL_SHAPE_TEXT_MAX 208

/* "[-1,13]", for messages and for the text form. */
const char *fl_shape_text(const fl_shape *s, char buf[FL_SHAPE_TEXT_MAX]);

fl_shape fl_shape_of(int rank, const int64_t *dims);

/* The product of dims [lo, hi); -1 when one of them is not known. */
int64_t fl_shape_count(const fl_shape *s, int lo, int hi);
int64_t fl_shape_numel(const fl_shape *s);

/* Equal, where -1 matches anything. */
bool fl_shape_matches(const fl_shape *a, const fl_shape *b);
bool fl_shape_equal(const fl_shape *a, const fl_shape *b);

/* axis in [-rank, rank) to [0, rank); -1 when it is outside. */
int fl_shape_axis(const fl_shape *s, int64_t axis);

/* How many types there are; their numbers have no gap. */
enum {
    FL_N_DTYPES = 0
#define X(name, value, type, text, long_text) +1
    FL_DTYPE_MAP(X)
#undef X
};

static inline bool fl_dtype_is_float(fl_dtype d)
{
    return d == FL_DTYPE_F32 || d == FL_DTYPE_F64;
}

static inline bool fl_dtype_is_id(fl_dtype d)
{
    return d == FL_DTYPE_I64 || d == FL_DTYPE_U64 || d == FL_DTYPE_I32;
}

/* Whether one may hold the other: sequences are rows with offsets. */
static inline bool fl_kind_fits(fl_kind a, fl_kind b)
{
    return a == b || (a <= FL_KIND_RAGGED && b <= FL_KIND_RAGGED);
}

/* " rows", " array" or nothing, behind a type and a shape. */
static inline const char *fl_kind_text(fl_kind k)
{
    return k == FL_KIND_ROWS ? " rows" : k == FL_KIND_ARRAY ? " array" : "";
}

/* Refuses a tensor of a caller that says more than this version can read:
   another device, strides that are not compact, unknown flags; and bytes of
   type bool that are neither 0 nor 1. */
FL_MUST_CHECK
fl_status fl_tensor_check(const fl_tensor *t);

/* Kind rows: whether no row occurs twice. */
static inline bool fl_tensor_is_merged(const fl_tensor *t)
{
    return t->flags & FL_TENSOR_MERGED;
}

static inline void fl_tensor_set_merged(fl_tensor *t, bool is_merged)
{
    t->flags = is_merged ? t->flags | FL_TENSOR_MERGED
                         : t->flags & ~(uint64_t)FL_TENSOR_MERGED;
}

/* Bytes of the values; fails with FL_ERR_INVAL on overflow. */
FL_MUST_CHECK
fl_status fl_tensor_bytes(const fl_tensor *t, size_t *out);

/* Offsets ascend from 0, levels fit each other and the number of rows. */
FL_MUST_CHECK
fl_status fl_lod_check(const fl_tensor *t);

/* The same of one level of n offsets over `end` rows or sequences. Looks at all
   of them, without a branch for each. */
static inline bool fl_lod_ascends(const int64_t *off, int64_t n, int64_t end)
{
    int64_t falls = 0;

    if (n < 1 || off[0] != 0 || off[n - 1] != end)
        return false;
    for (int64_t i = 1; i < n; i++)
        falls |= off[i] < off[i - 1];
    return !falls;
}

/* Type, shape, lod and kind of `from`; data and rows stay as they are. */
void fl_tensor_like(fl_tensor *to, const fl_tensor *from);

/* Integer i of a tensor of i32, i64 or u64, and a new value for it. */
static inline int64_t fl_id_at(const fl_tensor *t, int64_t i)
{
    return t->dtype == FL_DTYPE_I32 ? ((const int32_t *)t->data)[i]
                                    : ((const int64_t *)t->data)[i];
}

static inline void fl_id_put(fl_tensor *t, int64_t i, int64_t v)
{
    if (t->dtype == FL_DTYPE_I32)
        ((int32_t *)t->data)[i] = (int32_t)v;
    else
        ((int64_t *)t->data)[i] = v;
}

/* The ids of a tensor as u64 are the same bytes for i64 and u64. */
static inline const uint64_t *fl_tensor_ids(const fl_tensor *t)
{
    return (const uint64_t *)t->data;
}

#endif
