/* sequences.h - what the operators over ragged rows share. Sequences are those
 * of the innermost level of offsets. */
#ifndef FL_OPS_SEQUENCES_H
#define FL_OPS_SEQUENCES_H

#include "ops/kit.h"

typedef struct fl_seqs {
    const int64_t *off; /* n + 1 */
    size_t n;
} fl_seqs;

/* Of a tensor that has offsets. */
fl_seqs fl_seqs_of(const fl_tensor *t);

static inline size_t fl_seqs_len(const fl_seqs *q, size_t s)
{
    return (size_t)(q->off[s + 1] - q->off[s]);
}

/* The sequence that holds a row; there is one. */
size_t fl_seqs_find(const fl_seqs *q, int64_t row);

size_t fl_seqs_longest(const fl_seqs *q);

/* Bytes of one row: all dimensions but the first. */
size_t fl_row_bytes(const fl_tensor *t);

/* Fails unless the slot has offsets. */
FL_MUST_CHECK
fl_status fl_infer_seqs(const fl_infer *c, int slot);

/* Fails unless the slot has exactly one level of offsets. */
FL_MUST_CHECK
fl_status fl_infer_one_level(const fl_infer *c, int slot);

/* Makes output `slot` ragged with one level of n sequences, whose n + 1
   offsets are to be filled in. While building there are none: *off is NULL. */
FL_MUST_CHECK
fl_status fl_infer_new_seqs(const fl_infer *c, int slot, size_t n,
                            int64_t **off);

#endif
