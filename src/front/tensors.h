/* tensors.h - named tensors as bytes: what a PREDICT asks with and is answered
 * with (docs/formats/predict.md).
 *
 *     u32 n
 *     n times  text name | u32 type | u32 rank | u64 dim[rank]
 *              u32 levels | levels times: u64 n | u64 offset[n]
 *              bytes of the values
 *
 * Arrays begin at multiples of 8 from the payload's start. What is read are views
 * of the bytes, which must be aligned to 8 and stay. Owner thread only.
 */
#ifndef FL_FRONT_TENSORS_H
#define FL_FRONT_TENSORS_H

#include "base/arena.h"
#include "flotilla/executor.h"
#include "rpc/wire/frame.h"

#define FL_TENSORS_MAX 65536
#define FL_TENSOR_NAME_MAX 256

void fl_tensors_pack(fl_pack *p, const fl_feed *feeds, size_t n);

/* FL_ERR_CORRUPT names what does not parse. The feeds and their names lie in the
   arena. */
FL_MUST_CHECK
fl_status fl_tensors_unpack(const void *bytes, uint64_t len, fl_arena *arena,
                            fl_feed **feeds, size_t *n);

#endif
