/* values.h - variables as the `save` and `save_combine` operators of
 * PaddlePaddle 1.8 write them (docs/formats/paddle18.md):
 *
 *     u32 0 | u64 levels | { u64 bytes | u64 offsets... }  a LoDTensor
 *     u32 0 | u64 rows | i64 row... | i64 height           SelectedRows
 *     then  u32 0 | i32 bytes | TensorDesc | raw values
 *
 * The two cannot be told apart by their bytes; whoever reads knows which it is.
 */
#ifndef FL_PADDLE18_VALUES_H
#define FL_PADDLE18_VALUES_H

#include "base/arena.h"
#include "flotilla/tensor.h"

/* What is left to read of a file. */
typedef struct fl_p18_bytes {
    const uint8_t *start, *at, *end;
} fl_p18_bytes;

typedef struct fl_p18_value {
    fl_tensor tensor; /* data points into the file, at any address */
    size_t n_bytes;   /* of its values */
    uint64_t n_lod;   /* levels of offsets that were saved with it */
    bool is_rows;     /* SelectedRows: their number and where their ids lie */
    uint64_t n_rows;
    const uint8_t *rows;
    int64_t height;
} fl_p18_value;

/* Reads the next variable and goes behind it. Errors name `name` and the byte;
   `b` stays where it was then. The arena is for scratch. */
FL_MUST_CHECK
fl_status fl_p18_read_tensor(fl_p18_bytes *b, const char *name, fl_arena *arena,
                             fl_p18_value *out);
FL_MUST_CHECK
fl_status fl_p18_read_rows(fl_p18_bytes *b, const char *name, fl_arena *arena,
                           fl_p18_value *out);

#endif
