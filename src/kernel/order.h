/* order.h - hashes of keys in ascending order.
 *
 * Tables keep their keys in the order of the hash: who asks for them in that
 * order reads an index from its beginning to its end, and who deals them to
 * servers cuts the list. Any thread.
 */
#ifndef FL_KERNEL_ORDER_H
#define FL_KERNEL_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* Sorts them. It is made for values that are spread evenly, as hashes are; any
   others take longer, as a sort by comparisons does. scratch has room for n. */
void fl_order_hashes(uint64_t *hashes, size_t n, uint64_t *scratch);

/* Leaves one of each run of equal ones; returns how many are left. */
size_t fl_order_unite(uint64_t *sorted, size_t n);

#endif
