/* binary.c - picks the loops of the functions of two numbers for this
 * machine. */
#include "kernel/binary.h"

#define DECLARE(name, isa) extern const fl_binary name##_of_##isa[];
#define ADDR(name, isa) name##_of_##isa,

FL_ISA_MAP(DECLARE, fl_binary_table)

const fl_binary *fl_binary_of(fl_binary_kind k)
{
    static const fl_binary *const sets[] = { FL_ISA_MAP(ADDR,
                                                        fl_binary_table) };

    return &sets[fl_isa()][k];
}
