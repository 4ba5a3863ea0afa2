/* alg_doubling.c - recursive doubling, for what is small: in step s the ranks
 * whose numbers differ in bit s exchange what they have and add it up, so that
 * after log2(ranks) steps all have the sum.
 *
 * The largest power of two of ranks takes part. Of the first 2 k ranks, where k
 * are too many, the odd ones are guests: each brings its numbers to the one
 * before it (step 0) and gets the sum from there (the last step):
 *
 *     rank      0   1   2   3   4      ranks 5: k = 1
 *     place     0   -   1   2   3
 *
 * Of two that are added the one with the lower ranks stands left, so that even
 * the bits of a NaN are the same on all. What was sent is not written to: every
 * sum has memory of its own.
 */
#include <string.h>

#include "coll/builtin.h"

typedef struct seat {
    int place;   /* among those that take part */
    int partner; /* a guest's host, a host's guest; -1: none */
    bool is_guest;
} seat;

static int n_places(const fl_run *r)
{
    int n = 1;

    while (2 * n <= fl_run_ranks(r))
        n *= 2;
    return n;
}

static uint32_t last_step(const fl_run *r)
{
    uint32_t steps = 1;

    for (int n = n_places(r); n > 1; n /= 2)
        steps++;
    return steps;
}

static seat seat_of(const fl_run *r)
{
    int me = fl_run_me(r), n_guests = fl_run_ranks(r) - n_places(r);

    if (me >= 2 * n_guests)
        return (seat){ .place = me - n_guests, .partner = -1 };
    if (me % 2)
        return (seat){ .partner = me - 1, .is_guest = true };
    return (seat){ .place = me / 2, .partner = me + 1 };
}

static int rank_of(const fl_run *r, int place)
{
    int n_guests = fl_run_ranks(r) - n_places(r);

    return place < n_guests ? 2 * place : place + n_guests;
}

/* From whom a part is to come in the step of now. */
static int awaits(const fl_run *r)
{
    seat me = seat_of(r);

    if (me.is_guest || r->step == 0)
        return me.partner;
    return rank_of(r, me.place ^ (1 << (r->step - 1)));
}

static fl_coll_span all_of(const fl_run *r)
{
    return (fl_coll_span){ 0, r->call.n };
}

/* One chunk, even when there is nothing in it. */
static void send_sum(fl_run *r, int to, uint32_t step)
{
    fl_run_send(r, to, step, 0, all_of(r), r->acc);
}

static void finish(fl_run *r, const void *sum)
{
    if (r->call.n)
        memcpy(r->call.out, sum, fl_run_bytes(r, r->call.n));
}

/* What follows when everything before r->step has come. */
static void enter(fl_run *r)
{
    seat me = seat_of(r);

    if (r->step < last_step(r)) {
        send_sum(r, awaits(r), r->step);
        return;
    }
    finish(r, r->acc);
    if (me.partner >= 0)
        send_sum(r, me.partner, r->step);
}

static fl_status start(fl_run *r)
{
    size_t bytes = fl_run_bytes(r, r->call.n);
    seat me = seat_of(r);

    FL_TRY(fl_run_reserve(r, bytes * (last_step(r) + 1)));
    r->acc = r->scratch.data;
    if (bytes)
        memcpy(r->acc, r->call.in, bytes);
    if (me.is_guest) {
        r->n_left = 1;
        r->step = last_step(r);
        send_sum(r, me.partner, 0);
        return FL_OK;
    }
    r->n_left = last_step(r) - 1 + (me.partner >= 0);
    r->step = me.partner < 0;
    if (r->step)
        enter(r);
    return FL_OK;
}

static void add(fl_run *r, const fl_coll_part *p)
{
    uint8_t *sum = r->acc + fl_run_bytes(r, r->call.n);

    if (!r->call.n)
        return;
    if (p->from < fl_run_me(r))
        fl_coll_combine(&r->call, sum, p->bytes, r->acc, r->call.n);
    else
        fl_coll_combine(&r->call, sum, r->acc, p->bytes, r->call.n);
    r->acc = sum;
}

static fl_status take(fl_run *r, const fl_coll_part *p, bool *is_early)
{
    if (p->step > r->step && p->step < last_step(r)) {
        *is_early = true;
        return FL_OK;
    }
    if (!r->n_left || p->step != r->step || p->from != awaits(r) || p->chunk ||
        p->n != fl_run_bytes(r, r->call.n))
        return fl_run_unexpected(r, p);
    r->n_left--;
    if (seat_of(r).is_guest) {
        finish(r, p->bytes);
        return FL_OK;
    }
    add(r, p);
    r->step++;
    enter(r);
    return FL_OK;
}

const fl_coll_alg fl_coll_alg_doubling = {
    .name = "doubling",
    .start = start,
    .take = take,
    .awaits = awaits,
};
