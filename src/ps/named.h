/* named.h - tensors with their names, one behind the other, as members send each
 * other what a save needs: text name, u32 dtype, u32 rank, u64 dims, u64 bytes,
 * align, the bytes, align.
 */
#ifndef FL_PS_NAMED_H
#define FL_PS_NAMED_H

#include "rpc/wire/frame.h"
#include "tensor/tensor.h"

#define FL_NAMED_ROOM 256 /* of names, the NUL included */

typedef struct fl_named {
    char name[FL_NAMED_ROOM];
    fl_tensor value; /* dense; the bytes lie where they were read from */
    size_t bytes;
} fl_named;

/* Refuses a longer name. */
FL_MUST_CHECK
fl_status fl_named_check(const char *name);

/* Refuses what is not dense, or has a longer name. */
FL_MUST_CHECK
fl_status fl_named_pack(fl_pack *p, const char *name, const fl_tensor *value);

/* Type and shape alone. */
void fl_named_pack_meta(fl_pack *p, const fl_tensor *value);
void fl_named_read_meta(fl_unpack *u, fl_tensor *value);

/* The next one; false at the end, or when u is bad. `base` is where all of it
   begins. A value whose bytes are not as many as type and shape say makes u
   bad. */
bool fl_named_next(fl_unpack *u, const void *base, fl_named *out);

#endif
