/* tensor.h - numbers with a type and a shape: what goes in and comes out.
 *
 * A tensor is a view: it points to memory and does not own it. Fed tensors
 * point to the caller's memory for the time of the run, which only reads it;
 * fetched ones point to the executor's, until its next run.
 *
 *   dense    shape [rows, ...]; device, strides and data as in DLPack
 *   ragged   n sequences of rows of different length: n + 1 offsets in lod[0];
 *            with more levels lod[k] counts sequences of lod[k + 1]
 *   rows     a sparse gradient: values [n, ...] and the table row of each
 *   array    n values of these kinds: shape [n], data points to n tensors
 *
 * Tensors come in arrays, so the struct does not grow: fields to come take
 * from `reserved`, which is zero until then (abi.h).
 */
#ifndef FLOTILLA_TENSOR_H
#define FLOTILLA_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flotilla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FL_RANK_MAX 9
#define FL_LOD_MAX 4

/* Name, pinned number, C type, text, long text. A bool is a byte, 0 or 1; a
   float16 is its bits. The types of the first list are C's own. Operators
   compute with float32 and float64, some with integers; they take the others
   where numbers are moved, compared or cast. */
#define FL_DTYPE_PLAIN_MAP(X)                                                  \
    X(F32, 0, float, "f32", "float32")                                         \
    X(F64, 1, double, "f64", "float64")                                        \
    X(I32, 2, int32_t, "i32", "int32")                                         \
    X(I64, 3, int64_t, "i64", "int64")                                         \
    X(U64, 4, uint64_t, "u64", "uint64")                                       \
    X(U8, 5, uint8_t, "u8", "uint8")                                           \
    X(BOOL, 6, bool, "bool", "bool")                                           \
    X(I8, 8, int8_t, "i8", "int8")                                             \
    X(I16, 9, int16_t, "i16", "int16")
#define FL_DTYPE_MAP(X)                                                        \
    FL_DTYPE_PLAIN_MAP(X)                                                      \
    X(F16, 7, uint16_t, "f16", "float16")

typedef enum fl_dtype {
#define X(name, value, type, text, long_text) FL_DTYPE_##name = value,
    FL_DTYPE_MAP(X)
#undef X
} fl_dtype;

typedef enum fl_kind {
    FL_KIND_DENSE,
    FL_KIND_RAGGED,
    FL_KIND_ROWS,
    FL_KIND_ARRAY
} fl_kind;

/* dim[0] is the batch; -1 stands for "not known before the run". */
typedef struct fl_shape {
    int rank;
    int64_t dim[FL_RANK_MAX];
} fl_shape;

/* Where the memory is. There is one type so far: id 0 of the CPU, which is what
   zeros say. */
typedef enum fl_device_type { FL_DEVICE_CPU = 0 } fl_device_type;
typedef struct fl_device {
    fl_device_type type;
    int32_t id;
} fl_device;

/* flags of a tensor. */
#define FL_TENSOR_MERGED (1u << 0)    /* kind rows: no row occurs twice */
#define FL_TENSOR_READ_ONLY (1u << 1) /* the memory must not be written to */

typedef struct fl_tensor {
    uint32_t size; /* of this struct: fl_tensor_of and FL_INIT set it */
    fl_dtype dtype;
    fl_kind kind;
    fl_device device;
    int n_lod;
    uint64_t flags;
    fl_shape shape;
    void *data;
    /* In elements, one per dimension; NULL: compact, the last dimension next to
       itself. Others are refused so far. */
    const int64_t *strides;
    int64_t lod_len[FL_LOD_MAX]; /* number of offsets: sequences + 1 */
    const int64_t *lod[FL_LOD_MAX];
    uint64_t *rows; /* kind rows: shape.dim[0] table rows */
    int64_t height; /* kind rows: rows of the table; 0 when it has no end */
    void *reserved[4];
} fl_tensor;

/* A dense view of `data`, for example
   fl_tensor_of(FL_DTYPE_F32, p, 2, FL_ARRAY(int64_t, 128, 32)). */
FL_API fl_tensor fl_tensor_of(fl_dtype dtype, const void *data, int rank,
                              const int64_t *dims);

/* Ids or rows of n_seq sequences: offsets has n_seq + 1 entries. */
FL_API fl_tensor fl_tensor_ragged(fl_dtype dtype, const void *data, int rank,
                                  const int64_t *dims, const int64_t *offsets,
                                  int64_t n_seq);

/* n tensors as one value. */
FL_API fl_tensor fl_tensor_array(const fl_tensor *items, size_t n);

/* A copy of all that a tensor points to, in one block of the caller's: as large
   as the first function says, and aligned for any type. */
FL_API size_t fl_tensor_packed_bytes(const fl_tensor *t);
FL_API fl_tensor fl_tensor_pack(const fl_tensor *t, void *block);

/* Elements, and bytes of one element. */
FL_API int64_t fl_tensor_numel(const fl_tensor *t);
FL_API size_t fl_dtype_bytes(fl_dtype d);
FL_API const char *fl_dtype_text(fl_dtype d);

/* A float16 as a number, and the nearest one to a number. */
FL_API float fl_half_value(uint16_t bits);
FL_API uint16_t fl_half_of(double v);

/* Accepts "f32" and "float32"; false when it is neither. */
FL_API bool fl_dtype_parse(const char *text, fl_dtype *out);

#ifdef __cplusplus
}
#endif
#endif
