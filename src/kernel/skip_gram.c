/* skip_gram.c - picks the loops of skip-gram for this machine. */
#include "kernel/skip_gram.h"

#include <math.h>

#define DECLARE(t, isa)                                                        \
    extern const fl_skip_gram_##t##_table fl_skip_gram_##t##_table_of_##isa;
#define ADDR(t, isa) &fl_skip_gram_##t##_table_of_##isa,

FL_ISA_MAP(DECLARE, f32)
FL_ISA_MAP(DECLARE, f64)

const fl_skip_gram_f32_table *fl_skip_gram_f32(void)
{
    static const fl_skip_gram_f32_table *const sets[] = { FL_ISA_MAP(ADDR,
                                                                     f32) };

    return sets[fl_isa()];
}

const fl_skip_gram_f64_table *fl_skip_gram_f64(void)
{
    static const fl_skip_gram_f64_table *const sets[] = { FL_ISA_MAP(ADDR,
                                                                     f64) };

    return sets[fl_isa()];
}

/* A row for targets that are not there, sums of the inputs, and slopes, which
   are made for two inputs at a time. */
size_t fl_skip_gram_room(size_t dim, size_t n_in, size_t n_targets)
{
    size_t n_blocks = (n_targets + FL_SKIP_GRAM_BLOCK - 1) / FL_SKIP_GRAM_BLOCK;

    return dim * (1 + n_in) + (n_blocks * n_in + 1) * FL_SKIP_GRAM_STRIDE;
}

double fl_skip_gram_sum(const fl_skip_gram_loss *loss)
{
    return loss->sum + log(loss->product);
}
