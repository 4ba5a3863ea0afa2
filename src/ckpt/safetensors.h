/* safetensors.h - files of named tensors as the public package reads them:
 *
 *     u64  n, little-endian
 *     n    bytes of JSON: {"name": {"dtype": "F32", "shape": [2,3],
 *          "data_offsets": [0,24]}, ...}, then spaces
 *     the bytes of the tensors, without a gap
 *
 * Wider elements come first and the data begins at a multiple of 64, so every
 * tensor lies where its type may be read in place.
 *
 * A writer knows all tensors before the first byte. The bytes of one tensor
 * come in order, those of different ones in any order; owner thread only. A
 * file that is open for reading is mapped and belongs to any thread.
 */
#ifndef FL_CKPT_SAFETENSORS_H
#define FL_CKPT_SAFETENSORS_H

#include "tensor/tensor.h"

/* Pinned number, name in the file, bytes of an element. The first ones are
   those of fl_dtype. */
#define FL_ST_TYPE_MAP(X)                                                      \
    X(F32, 0, 4)                                                               \
    X(F64, 1, 8)                                                               \
    X(I32, 2, 4)                                                               \
    X(I64, 3, 8)                                                               \
    X(U64, 4, 8)                                                               \
    X(U8, 5, 1)                                                                \
    X(BOOL, 6, 1)                                                              \
    X(F16, 7, 2)                                                               \
    X(I8, 8, 1)                                                                \
    X(I16, 9, 2)                                                               \
    X(U32, 10, 4)

typedef enum fl_st_type {
#define X(name, value, bytes) FL_ST_##name = value,
    FL_ST_TYPE_MAP(X)
#undef X
} fl_st_type;

const char *fl_st_type_text(fl_st_type t); /* "F32" */
bool fl_st_type_parse(const char *text, fl_st_type *out);
size_t fl_st_type_bytes(fl_st_type t);

static inline fl_st_type fl_st_type_of(fl_dtype d)
{
    return (fl_st_type)d;
}

/* One tensor of a file. A writer is given name, type and shape. */
typedef struct fl_st_tensor {
    const char *name;
    fl_st_type type;
    fl_shape shape;
    uint64_t offset, bytes; /* offset from the beginning of the file */
    uint64_t xxh3;          /* as the manifest has it; 0: it is not known */
} fl_st_tensor;

/* Bytes of a tensor by type and shape; FL_ERR_INVAL when there are too many. */
FL_MUST_CHECK
fl_status fl_st_tensor_bytes(const fl_st_tensor *t, uint64_t *out);

/* --- writing -------------------------------------------------------------- */

typedef struct fl_st_writer fl_st_writer;

/* Writes the header. Names are different and copied; the file is there under
   its name when it is committed. */
FL_MUST_CHECK
fl_status fl_st_writer_open(fl_st_writer **out, const char *path,
                            const fl_st_tensor *tensors, size_t n);

/* The next bytes of tensor i, in the order of fl_st_writer_open. */
FL_MUST_CHECK
fl_status fl_st_writer_put(fl_st_writer *w, size_t i, const void *bytes,
                           size_t n);

/* All bytes of all tensors were put: syncs the file and gives it its name. w
   is freed, also after an error, which leaves nothing behind. *bytes: the
   file's size; sums [n]: XXH3 of the tensors. */
FL_MUST_CHECK
fl_status fl_st_writer_commit(fl_st_writer *w, uint64_t *bytes, uint64_t *sums);

/* Removes what was written; NULL is fine. */
void fl_st_writer_drop(fl_st_writer *w);

/* --- reading -------------------------------------------------------------- */

typedef struct fl_st_file fl_st_file;

/* Maps the file and checks its header against its size: names are different,
   tensors have our types, lie in the file, aligned, one behind the other. */
FL_MUST_CHECK
fl_status fl_st_open(fl_st_file **out, const char *path);
void fl_st_close(fl_st_file *f); /* NULL is fine */

const char *fl_st_path(const fl_st_file *f);
uint64_t fl_st_file_bytes(const fl_st_file *f);

/* In the order of their bytes; NULL behind the last one. */
const fl_st_tensor *fl_st_at(const fl_st_file *f, size_t i);
/* NULL: there is none. */
const fl_st_tensor *fl_st_find(const fl_st_file *f, const char *name);

/* The bytes of a tensor, read-only, until the file is closed. */
const void *fl_st_bytes(const fl_st_file *f, const fl_st_tensor *t);

/* Notes the sum that a tensor must have. Before the file is shared. */
void fl_st_set_sum(fl_st_file *f, const char *name, uint64_t xxh3);

/* FL_ERR_CORRUPT unless the bytes have this sum. */
FL_MUST_CHECK
fl_status fl_st_verify(const fl_st_file *f, const fl_st_tensor *t,
                       uint64_t xxh3);

#endif
