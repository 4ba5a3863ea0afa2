/* tiles_by_hand.h - products by tiles, with functions of amx.h in place of the
 * instructions.
 *
 * For machines with AVX512-BF16: no function of it may run elsewhere.
 */
#ifndef FL_TESTS_KERNEL_TILES_BY_HAND_H
#define FL_TESTS_KERNEL_TILES_BY_HAND_H

#include <stdbool.h>

#include "kernel/gemm_bf16.h"

extern const fl_bf16_way tiles_by_hand;

/* Has this thread got any? */
bool tiles_are_configured(void);

#endif
