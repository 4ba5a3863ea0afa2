/* vec.c - picks the table of vector loops for this machine. */
#include "kernel/vec.h"

#define DECLARE(t, isa)                                                        \
    extern const fl_vec_##t##_table fl_vec_##t##_table_of_##isa;
#define ADDR(t, isa) &fl_vec_##t##_table_of_##isa,

FL_ISA_MAP(DECLARE, f32)
FL_ISA_MAP(DECLARE, f64)

const fl_vec_f32_table *fl_vec_f32(void)
{
    static const fl_vec_f32_table *const sets[] = { FL_ISA_MAP(ADDR, f32) };

    return sets[fl_isa()];
}

const fl_vec_f64_table *fl_vec_f64(void)
{
    static const fl_vec_f64_table *const sets[] = { FL_ISA_MAP(ADDR, f64) };

    return sets[fl_isa()];
}
