/* alg_alone.c - one rank: what comes out is what went in. */
#include <string.h>

#include "coll/builtin.h"

static fl_status start(fl_run *r)
{
    size_t bytes = fl_run_bytes(r, r->call.n);

    if (bytes && r->call.in != r->call.out)
        memcpy(r->call.out, r->call.in, bytes);
    return FL_OK;
}

static fl_status take(fl_run *r, const fl_coll_part *p, bool *is_early)
{
    (void)is_early;
    return fl_run_unexpected(r, p);
}

const fl_coll_alg fl_coll_alg_alone = {
    .name = "alone",
    .start = start,
    .take = take,
};
