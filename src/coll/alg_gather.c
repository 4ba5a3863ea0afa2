/* alg_gather.c - every rank sends what it brings to all others.
 *
 * Each rank has to get n (ranks - 1) elements from others by any way, so the
 * direct one costs no more than a circle and has one step. Ranks begin with the
 * one behind them, so that they do not all send to the same one first.
 *
 * Where ranks bring unequal numbers, the heads of empty parts tell them first
 * (step 0); the memory for all is asked for when they are known.
 */
#include <inttypes.h>
#include <string.h>

#include "coll/builtin.h"

enum { STEP_COUNTS, STEP_VALUES };

/* By rank; behind them the parts that are still to come from each, and how many
   counts are not known. */
static uint64_t *counts_of(const fl_run *r)
{
    return r->scratch.data;
}

static uint64_t *left_of(const fl_run *r)
{
    return counts_of(r) + fl_run_ranks(r);
}

static uint64_t *unknown_of(const fl_run *r)
{
    return left_of(r) + fl_run_ranks(r);
}

static uint64_t sum_before(const fl_run *r, int rank)
{
    uint64_t sum = 0;

    for (int i = 0; i < rank; i++)
        sum += counts_of(r)[i];
    return sum;
}

static fl_coll_span span_of(const fl_run *r, int rank)
{
    return (fl_coll_span){ 0, (size_t)counts_of(r)[rank] };
}

static fl_status ask_for_room(fl_run *r, uint64_t sum)
{
    if (!r->call.room)
        return FL_OK;
    r->call.out = r->call.room(r->call.arg, counts_of(r), sum);
    if (!r->call.out && sum)
        FL_FAIL(FL_ERR_NOMEM,
                "worker %d has no memory for the %" PRIu64
                " elements of all workers",
                r->b->base.rank, sum);
    return FL_OK;
}

static uint8_t *place_of(const fl_run *r, int rank)
{
    return (uint8_t *)r->call.out +
           fl_run_bytes(r, (size_t)sum_before(r, rank));
}

/* All numbers are known. */
static fl_status exchange(fl_run *r)
{
    int n = fl_run_ranks(r), me = fl_run_me(r);

    FL_TRY(ask_for_room(r, sum_before(r, n)));
    if (r->call.n)
        memcpy(place_of(r, me), r->call.in, fl_run_bytes(r, r->call.n));
    for (int i = 0; i < n; i++) {
        left_of(r)[i] = i == me ? 0 : fl_run_chunks(r, span_of(r, i));
        r->n_left += left_of(r)[i];
    }
    for (int i = 1; i < n; i++)
        fl_run_send_all(r, fl_run_rank_at(r, me, i), STEP_VALUES,
                        span_of(r, me), r->call.in);
    return FL_OK;
}

static fl_status start(fl_run *r)
{
    int n = fl_run_ranks(r), me = fl_run_me(r);

    FL_TRY(fl_run_reserve(r, (size_t)(2 * n + 1) * sizeof(uint64_t)));
    for (int i = 0; i < n; i++) {
        counts_of(r)[i] = r->call.n;
        left_of(r)[i] = i != me;
    }
    *unknown_of(r) = r->call.room ? (uint64_t)n - 1 : 0;
    if (!*unknown_of(r))
        return exchange(r);
    r->n_left = (size_t)n - 1;
    for (int i = 1; i < n; i++)
        fl_run_send(r, fl_run_rank_at(r, me, i), STEP_COUNTS, 0,
                    (fl_coll_span){ 0 }, NULL);
    return FL_OK;
}

/* Of numbers that a peer says: all of them together must fit. */
static fl_status take_count(fl_run *r, const fl_coll_part *p)
{
    size_t most = SIZE_MAX / 8 / (size_t)fl_run_ranks(r);

    if (!*unknown_of(r) || !left_of(r)[p->from] || p->n || p->sign.n > most)
        return fl_run_unexpected(r, p);
    counts_of(r)[p->from] = p->sign.n;
    left_of(r)[p->from] = 0;
    r->n_left--;
    return --*unknown_of(r) ? FL_OK : exchange(r);
}

static fl_status take(fl_run *r, const fl_coll_part *p, bool *is_early)
{
    fl_coll_span c;

    if (p->step == STEP_COUNTS)
        return take_count(r, p);
    *is_early = *unknown_of(r) != 0;
    if (*is_early)
        return FL_OK;
    FL_TRY(fl_run_expect(r, p, span_of(r, p->from), &c));
    if (!left_of(r)[p->from])
        return fl_run_unexpected(r, p);
    memcpy(place_of(r, p->from) + fl_run_bytes(r, c.lo), p->bytes, p->n);
    left_of(r)[p->from]--;
    r->n_left--;
    return FL_OK;
}

static int awaits(const fl_run *r)
{
    for (int i = 0; i < fl_run_ranks(r); i++)
        if (left_of(r)[i])
            return i;
    return -1;
}

const fl_coll_alg fl_coll_alg_gather = {
    .name = "gather",
    .start = start,
    .take = take,
    .awaits = awaits,
};
