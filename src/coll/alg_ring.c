/* alg_ring.c - sums that travel in a circle, for what is large.
 *
 * The elements are cut into as many blocks as there are ranks. In every step a
 * rank sends one block to the next rank and gets another from the one before,
 * and what it has got is what it sends in the step that follows:
 *
 *     step s of rank r     sends block r - 1 - s, gets block r - 2 - s
 *     s <  ranks - 1       adds its own numbers: after these steps rank r has
 *                          the whole sum of block r (a reducescatter ends here)
 *     s >= ranks - 1       takes it as it is: it is a whole sum
 *
 * Block b is added up from rank b + 1 on, around the circle to rank b, whatever
 * comes first. Each rank sends 2 n (ranks - 1) / ranks elements, which is the
 * least that is possible. Chunks of a block do not wait for each other: one is
 * sent on as soon as it is there, so that all links are busy all the time.
 *
 * A block of `out` may be written while the link still has an older content of
 * it: that one was copied when it left, or is still in the queue only while its
 * successor cannot have come back.
 */
#include <string.h>

#include "coll/builtin.h"

static uint32_t n_summing(const fl_run *r)
{
    return (uint32_t)fl_run_ranks(r) - 1;
}

static uint32_t n_steps(const fl_run *r)
{
    return n_summing(r) * (r->call.kind == FL_COLL_ALLREDUCE ? 2 : 1);
}

/* What is sent in a step, and was got in the one before. */
static fl_coll_span block_of(const fl_run *r, uint32_t step)
{
    int i = fl_run_rank_at(r, fl_run_me(r), -1 - (int)step);

    return fl_coll_block(r->call.n, fl_run_ranks(r), i);
}

static int next_rank(const fl_run *r)
{
    return fl_run_rank_at(r, fl_run_me(r), 1);
}

static int rank_before(const fl_run *r)
{
    return fl_run_rank_at(r, fl_run_me(r), -1);
}

static fl_status start(fl_run *r)
{
    r->acc = r->call.out;
    if (r->call.kind == FL_COLL_REDUCESCATTER) {
        FL_TRY(fl_run_reserve(r, fl_run_bytes(r, r->call.n)));
        r->acc = r->scratch.data;
    }
    for (uint32_t s = 0; s < n_steps(r); s++)
        r->n_left += fl_run_chunks(r, block_of(r, s + 1));
    fl_run_send_all(r, next_rank(r), 0, block_of(r, 0), r->call.in);
    return FL_OK;
}

/* Where chunk c, which comes in this step, belongs. */
static uint8_t *place_of(const fl_run *r, uint32_t step, fl_coll_span c)
{
    if (r->call.kind == FL_COLL_REDUCESCATTER && step + 1 == n_steps(r))
        return (uint8_t *)r->call.out +
               fl_run_bytes(r, c.lo - block_of(r, step + 1).lo);
    return r->acc + fl_run_bytes(r, c.lo);
}

static fl_status take(fl_run *r, const fl_coll_part *p, bool *is_early)
{
    fl_coll_span c;
    uint8_t *to;

    (void)is_early;
    if (p->from != rank_before(r) || p->step >= n_steps(r))
        return fl_run_unexpected(r, p);
    FL_TRY(fl_run_expect(r, p, block_of(r, p->step + 1), &c));
    to = place_of(r, p->step, c);
    if (p->step < n_summing(r))
        fl_coll_combine(&r->call, to, p->bytes, fl_run_in(r, c.lo),
                        c.hi - c.lo);
    else
        memcpy(to, p->bytes, p->n);
    r->n_left--;
    if (p->step + 1 < n_steps(r))
        fl_run_send(r, next_rank(r), p->step + 1, p->chunk, c, r->acc);
    return FL_OK;
}

const fl_coll_alg fl_coll_alg_ring = {
    .name = "ring",
    .start = start,
    .take = take,
    .awaits = rank_before,
};
