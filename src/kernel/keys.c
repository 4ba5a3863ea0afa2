/* keys.c - picks the table of loops over keys for this machine. */
#include "kernel/keys.h"

#define DECLARE(t, isa)                                                        \
    extern const fl_key_loops_table fl_key_loops_table_of_##isa;
#define ADDR(t, isa) &fl_key_loops_table_of_##isa,

FL_ISA_MAP(DECLARE, keys)

const fl_key_loops_table *fl_key_loops(void)
{
    static const fl_key_loops_table *const sets[] = { FL_ISA_MAP(ADDR, keys) };

    return sets[fl_isa()];
}
