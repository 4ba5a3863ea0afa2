/* unary.c - picks the loops of the functions of one number for this machine. */
#include "kernel/unary.h"

#define DECLARE(name, isa) extern const fl_unary name##_of_##isa[];
#define ADDR(name, isa) name##_of_##isa,

FL_ISA_MAP(DECLARE, fl_unary_table)

const fl_unary *fl_unary_of(fl_unary_kind k)
{
    static const fl_unary *const sets[] = { FL_ISA_MAP(ADDR, fl_unary_table) };

    return &sets[fl_isa()][k];
}
