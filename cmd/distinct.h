/* distinct.h - how many different numbers were there? HyperLogLog.
 *
 * 2^14 bytes, whatever is counted. The standard error is 1.04 / sqrt(2^14),
 * 0.8 %; below about a thousand the answer is nearly always exact. Owner
 * thread only; counts of several threads are put together.
 */
#ifndef FL_CMD_DISTINCT_H
#define FL_CMD_DISTINCT_H

#include <stdint.h>

#define DISTINCT_BITS 14
#define DISTINCT_REGISTERS (1 << DISTINCT_BITS)

/* All zero: none yet. */
typedef struct distinct {
    uint8_t registers[DISTINCT_REGISTERS];
} distinct;

void distinct_add(distinct *d, uint64_t x);
void distinct_merge(distinct *into, const distinct *from);
double distinct_estimate(const distinct *d);

#endif
