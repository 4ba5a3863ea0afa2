/* alg_shared.c - what the ranks of one machine do with a chunk, by kind.
 *
 * Sums are made in the order of ranks. A small one every rank makes for itself
 * from what all have brought: one meeting. Of a large one each makes its share,
 * and takes the others' from them: two meetings per chunk, and every number is
 * read and added once. The chunks are small enough to stay in the cache between
 * those who write and those who read them, so that memory sees `in` and `out` and
 * nothing else.
 */
#include <string.h>

#include "coll/shared.h"

static size_t bytes_of(const fl_shared_chunk *c, size_t n)
{
    return n * fl_dtype_bytes(c->r->call.dtype);
}

static int me_of(const fl_shared_chunk *c)
{
    return c->s->o.me;
}

static uint8_t *own_slot(const fl_shared_chunk *c)
{
    return c->desks[me_of(c)]->in[c->slot];
}

static const uint8_t *in_of(const fl_shared_chunk *c, size_t at)
{
    return (const uint8_t *)c->stage->in + bytes_of(c, c->lo + at);
}

static uint8_t *out_of(const fl_shared_chunk *c, size_t at)
{
    return (uint8_t *)c->r->call.out + bytes_of(c, c->lo + at);
}

/* to = what all have brought at [at, at + n), in the order of ranks. */
static void add_up(const fl_shared_chunk *c, void *to, size_t at, size_t n,
                   const uint8_t *mine)
{
    const void *sum = NULL;

    for (int i = 0; i < c->s->o.n; i++) {
        const uint8_t *x = i == me_of(c) && mine
                               ? mine
                               : c->desks[i]->in[c->slot] + bytes_of(c, at);

        if (sum)
            fl_coll_combine(&c->r->call, to, sum, x, n);
        sum = sum ? to : x;
    }
}

static void bring_all(const fl_shared_chunk *c)
{
    if (c->n)
        memcpy(own_slot(c), in_of(c, 0), bytes_of(c, c->n));
}

/* --- small sums, and barriers ------------------------------------------------ */

static void take_sum(const fl_shared_chunk *c)
{
    if (c->n)
        add_up(c, out_of(c, 0), 0, c->n, NULL);
}

static const fl_shared_way small_sum = {
    .name = "small sum",
    .chunk_bytes = FL_SHARED_SLOT_BYTES,
    .bring = bring_all,
    .take = take_sum,
};

/* --- large sums -------------------------------------------------------------- */

/* The share of a rank in a chunk. */
static fl_coll_span share_of(const fl_shared_chunk *c, int place)
{
    return fl_coll_block(c->n, c->s->o.n, place);
}

/* Its own share it reads where it is. */
static void bring_others(const fl_shared_chunk *c)
{
    fl_coll_span own = share_of(c, me_of(c));

    memcpy(own_slot(c), in_of(c, 0), bytes_of(c, own.lo));
    memcpy(own_slot(c) + bytes_of(c, own.hi), in_of(c, own.hi),
           bytes_of(c, c->n - own.hi));
}

static void add_share(const fl_shared_chunk *c)
{
    fl_coll_span own = share_of(c, me_of(c));
    uint8_t *sums = c->desks[me_of(c)]->sums[c->slot];
    size_t n = own.hi - own.lo;

    add_up(c, sums, own.lo, n, in_of(c, own.lo));
    memcpy(out_of(c, own.lo), sums, bytes_of(c, n));
}

static void take_shares(const fl_shared_chunk *c)
{
    for (int i = 0; i < c->s->o.n; i++) {
        fl_coll_span s = share_of(c, i);

        if (i != me_of(c))
            memcpy(out_of(c, s.lo), c->desks[i]->sums[c->slot],
                   bytes_of(c, s.hi - s.lo));
    }
}

static const fl_shared_way large_sum = {
    .name = "large sum",
    .chunk_bytes = (size_t)128 << 10,
    .bring = bring_others,
    .add = add_share,
    .take = take_shares,
};

/* --- the others --------------------------------------------------------------- */

static void take_sum_of_root(const fl_shared_chunk *c)
{
    if (me_of(c) == c->stage->root)
        take_sum(c);
}

const fl_shared_way fl_shared_way_reduce = {
    .name = "reduce",
    .chunk_bytes = (size_t)64 << 10,
    .bring = bring_all,
    .take = take_sum_of_root,
};

static void bring_of_root(const fl_shared_chunk *c)
{
    if (me_of(c) != c->stage->root || !c->n)
        return;
    bring_all(c);
    if (c->stage->in != c->r->call.out)
        memcpy(out_of(c, 0), in_of(c, 0), bytes_of(c, c->n));
}

static void take_of_root(const fl_shared_chunk *c)
{
    if (me_of(c) != c->stage->root && c->n)
        memcpy(out_of(c, 0), c->desks[c->stage->root]->in[c->slot],
               bytes_of(c, c->n));
}

const fl_shared_way fl_shared_way_broadcast = {
    .name = "broadcast",
    .chunk_bytes = (size_t)64 << 10,
    .bring = bring_of_root,
    .take = take_of_root,
};

static void take_from_each(const fl_shared_chunk *c)
{
    for (int i = 0; i < c->s->o.n && c->n; i++)
        memcpy(out_of(c, (size_t)i * c->r->call.n), c->desks[i]->in[c->slot],
               bytes_of(c, c->n));
}

static const fl_shared_way gather = {
    .name = "gather",
    .chunk_bytes = (size_t)64 << 10,
    .bring = bring_all,
    .take = take_from_each,
};

/* --- the choice ---------------------------------------------------------------- */

const fl_shared_way *fl_shared_choose(const fl_coll_call *call,
                                      size_t small_bytes)
{
    static const fl_shared_way *const ways[] = {
        [FL_COLL_ALLREDUCE] = &large_sum,
        [FL_COLL_BROADCAST] = &fl_shared_way_broadcast,
        [FL_COLL_ALLGATHER] = &gather,
        [FL_COLL_REDUCE] = &fl_shared_way_reduce,
        [FL_COLL_REDUCESCATTER] = NULL,
        [FL_COLL_BARRIER] = &small_sum,
    };

    if (call->ring >= FL_SHARED_CHANNELS || call->room)
        return NULL;
    if (call->kind == FL_COLL_ALLREDUCE &&
        call->n <= small_bytes / fl_dtype_bytes(call->dtype))
        return &small_sum;
    return ways[call->kind];
}
