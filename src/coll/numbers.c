/* numbers.c - pieces and sums. */
#include "coll/numbers.h"

#include "kernel/binary.h"

fl_coll_span fl_coll_block(size_t n, int n_blocks, int i)
{
    size_t each = n / (size_t)n_blocks, more = n % (size_t)n_blocks;
    size_t k = (size_t)i, lo = each * k + (k < more ? k : more);

    return (fl_coll_span){ lo, lo + each + (k < more) };
}

void fl_coll_combine(const fl_coll_call *call, void *to, const void *x,
                     const void *y, size_t n)
{
    static const fl_binary_kind kinds[] = {
        [FL_COLL_SUM] = FL_BINARY_add,
        [FL_COLL_MAX] = FL_BINARY_max,
        [FL_COLL_MIN] = FL_BINARY_min,
        [FL_COLL_PROD] = FL_BINARY_mul,
    };
    const fl_binary *b = fl_binary_of(kinds[call->op]);

    b->value[call->dtype][FL_BINARY_BOTH](to, x, y, NULL, NULL, n);
}
