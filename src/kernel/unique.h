/* unique.h - de-duplicate ids of a batch: which are different, and for each id
 * where its first like stands.
 *
 * A small hash of u32 indices, cleared per batch (measured faster than sorting
 * and than stamped slots). The table is the caller's and grows to the largest
 * batch it has seen. Owner thread only.
 */
#ifndef FL_KERNEL_UNIQUE_H
#define FL_KERNEL_UNIQUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"

typedef struct fl_unique {
    uint32_t *slots; /* 1 + index into keys; 0 is free */
    size_t cap;
    /* Different ids come in the order of their hashes (fl_hash_key), as tables
       have them. For ids whose hashes are of one part of all it takes long. */
    bool by_hash;
    fl_buf room; /* for that */
} fl_unique;

void fl_unique_release(fl_unique *u);

/* Writes the different ids, in order of first appearance unless it is by_hash, to
   keys[0, *n_keys) and, for each id, its index in keys to index[i]. keys and index
   have room for n. Fails with FL_ERR_NOMEM, or
   FL_ERR_INVAL when n does not fit in 31 bits. */
FL_MUST_CHECK
fl_status fl_unique_run(fl_unique *u, const uint64_t *ids, size_t n,
                        uint64_t *keys, uint32_t *index, size_t *n_keys);

#endif
