/* rows.h - copies of a batch of rows (flotilla/rows.h), each in one block of
 * memory:
 *
 *     keys u64 | values f32 [n, dim] | shows f32 | clicks f32 | counts u32
 *
 * of which the last three are there when the batch has them.
 */
#ifndef FL_TENSOR_ROWS_H
#define FL_TENSOR_ROWS_H

#include <string.h>

#include "base/status.h"
#include "flotilla/rows.h"

/* The bytes of a copy, a multiple of 8; FL_ERR_INVAL when there are too many.
   The width must be set. */
FL_MUST_CHECK
fl_status fl_rows_bytes(const fl_rows *r, size_t *bytes);

/* A batch like r whose arrays lie in that memory, which is 8-byte aligned and
   has fl_rows_bytes. */
fl_rows fl_rows_copy(const fl_rows *r, void *memory);

/* The same in n parts, each a batch of its own in the order of r: part[i] is that
   of row i. The memory has fl_rows_bytes and 8 bytes more for each part. */
void fl_rows_deal(const fl_rows *r, const uint16_t *part, size_t n,
                  void *memory, fl_rows *parts);

/* Rows [lo, lo + n) of r, where they lie. */
fl_rows fl_rows_slice(const fl_rows *r, size_t lo, size_t n);

#endif
