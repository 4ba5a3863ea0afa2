/* tiles_by_hand.c - the code of kernel/gemm_bf16_tiles.c once more, for
 * machines without its instructions.
 */
#include "tiles_by_hand.h"

#include "amx.h"

#define fl_bf16_tiles tiles_by_hand
#include "kernel/gemm_bf16_tiles.c"

bool tiles_are_configured(void)
{
    return amx.palette;
}
