/* part.h - a part of a call on its way from rank to rank: a head, and bytes.
 *
 *      0  u32  ring
 *      4  u8   kind        fl_coll_kind, or 255: the sender has failed, and the
 *                          bytes are its sentence
 *      5  u8   op
 *      6  u8   dtype
 *      7  u8   ragged      1: an allgather of unequal numbers
 *      8  u64  number      of the call on its ring, from 0
 *     16  u64  n           elements that the sender brings
 *     24  u32  root
 *     28  u32  0
 *     32  u32  step        of the algorithm
 *     36  u32  status      of the failure; else 0
 *     40  u64  chunk       of what is sent in this step
 *
 * All numbers are little-endian.
 */
#ifndef FL_COLL_PART_H
#define FL_COLL_PART_H

#include "coll/sign.h"

#define FL_COLL_HEAD_BYTES 48
#define FL_COLL_KIND_FAILED 255

typedef struct fl_coll_part {
    fl_coll_place at;
    fl_coll_sign sign;
    uint32_t step, status;
    uint64_t chunk;
    int from; /* not in the head */
    const void *bytes;
    size_t n;
} fl_coll_part;

void fl_coll_part_pack(const fl_coll_part *p, uint8_t head[FL_COLL_HEAD_BYTES]);
/* FL_ERR_CORRUPT names the rank. */
FL_MUST_CHECK
fl_status fl_coll_part_read(int from, const void *bytes, size_t n,
                            fl_coll_part *out);

#endif
