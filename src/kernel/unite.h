/* unite.h - keys of several batches, each in the order of its hashes (as those of a
 * pull are), as one list in that order. It takes no hash table. Any thread.
 */
#ifndef FL_KERNEL_UNITE_H
#define FL_KERNEL_UNITE_H

#include <stdbool.h>

#include "tensor/rows.h"

/* What a united list of n keys needs to be made. */
size_t fl_unite_room(size_t n);

/* Writes the different keys of all batches to keys[0, *n_keys), and of each key,
   batch by batch, its place there to index. False, as soon as it is seen, when some
   batch is not in that order. There are at most INT32_MAX keys in all, and keys
   and index have room for them. */
bool fl_unite_ordered(const fl_rows *batches, size_t n_batches, void *room,
                      uint64_t *keys, uint32_t *index, size_t *n_keys);

#endif
