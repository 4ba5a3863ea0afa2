/* choose.c - which algorithm for which call. The order of additions follows
 * from the algorithm, so the choice depends on nothing but kind, size and number
 * of ranks, which are the same everywhere. */
#include "coll/builtin.h"

static const fl_coll_alg *const for_small[] = {
    [FL_COLL_ALLREDUCE] = &fl_coll_alg_doubling,
    [FL_COLL_BROADCAST] = &fl_coll_alg_broadcast,
    [FL_COLL_ALLGATHER] = &fl_coll_alg_gather,
    [FL_COLL_REDUCE] = &fl_coll_alg_reduce,
    [FL_COLL_REDUCESCATTER] = &fl_coll_alg_ring,
    [FL_COLL_BARRIER] = &fl_coll_alg_doubling,
};

static const fl_coll_alg *const for_large[] = {
    [FL_COLL_ALLREDUCE] = &fl_coll_alg_ring,
    [FL_COLL_BROADCAST] = &fl_coll_alg_broadcast,
    [FL_COLL_ALLGATHER] = &fl_coll_alg_gather,
    [FL_COLL_REDUCE] = &fl_coll_alg_reduce,
    [FL_COLL_REDUCESCATTER] = &fl_coll_alg_ring,
    [FL_COLL_BARRIER] = &fl_coll_alg_doubling,
};

const fl_coll_alg *fl_coll_choose(const fl_run *r)
{
    /* One rank gathers, too: it may have to ask for room. */
    if (fl_run_ranks(r) == 1 && r->call.kind != FL_COLL_ALLGATHER)
        return &fl_coll_alg_alone;
    return fl_run_bytes(r, r->call.n) <= r->b->small_sent_bytes
               ? for_small[r->call.kind]
               : for_large[r->call.kind];
}
