/* bf16.c - picks the table of bf16 loops for this machine. */
#include "kernel/bf16.h"

#define DECLARE(t, isa) extern const fl_bf16_table fl_bf16_table_of_##isa;
#define ADDR(t, isa) &fl_bf16_table_of_##isa,

FL_ISA_MAP(DECLARE, bf16)

const fl_bf16_table *fl_bf16(void)
{
    static const fl_bf16_table *const sets[] = { FL_ISA_MAP(ADDR, bf16) };

    return sets[fl_isa()];
}

void fl_bf16_narrow(uint16_t *out, const float *x, size_t n)
{
    fl_bf16()->narrow(out, x, n);
}
