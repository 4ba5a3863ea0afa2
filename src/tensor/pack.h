/* pack.h - a value in one block of memory: its numbers, the offsets of its
 * levels, its row numbers, and for an array all of its tensors. */
#ifndef FL_TENSOR_PACK_H
#define FL_TENSOR_PACK_H

#include "tensor/tensor.h"

/* What a block gets of the value: all that it points to, or offsets alone, with
   room for the rest. */
typedef enum fl_pack_what { FL_PACK_ALL, FL_PACK_ROOM } fl_pack_what;

/* The value as it lies in the block, which has room for fl_tensor_packed_bytes;
   the numbers are its first piece. */
fl_tensor fl_pack(void *block, const fl_tensor *t, fl_pack_what what);

#endif
