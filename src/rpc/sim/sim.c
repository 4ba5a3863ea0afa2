/* sim.c - the clock of a simulation, its loop and its dice.
 *
 * Everything that ever happens is an event of one queue, and the clock is the
 * time of the event that is happening. All randomness is drawn from one counter
 * in the order of the events; nothing depends on addresses in memory or on real
 * time, which is why equal seeds give equal runs.
 */
#include "rpc/sim/sim.h"

#include <math.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "rpc/sim/sim_inside.h"

#define FIRST_PORT 40000

/* The clock stops here, so that a time and a delay can be added safely. */
#define END_OF_TIME (UINT64_MAX / 2)

/* --- dice ---------------------------------------------------------------- */

uint64_t fl_sim_draw(fl_sim *s, uint64_t n)
{
    return fl_rng_bits(s->dice, s->n_drawn++, 0) % n;
}

uint64_t fl_sim_draw_delay(fl_sim *s)
{
    uint64_t lo = (uint64_t)s->faults.delay_lo_ms * FL_SIM_TICKS_PER_MS;
    uint64_t hi = (uint64_t)s->faults.delay_hi_ms * FL_SIM_TICKS_PER_MS;
    uint64_t delay = lo + fl_sim_draw(s, hi - lo + 1);

    return delay ? delay : 1;
}

uint64_t fl_sim_draw_cut(fl_sim *s)
{
    double bytes;

    if (!s->faults.cut_after_bytes)
        return UINT64_MAX;
    bytes = -log(fl_rng_open(s->dice, s->n_drawn++, 0)) *
            (double)s->faults.cut_after_bytes;
    return bytes < 0x1p63 ? 1 + (uint64_t)bytes : UINT64_MAX;
}

/* --- the clock ----------------------------------------------------------- */

static uint64_t ticks_of(uint64_t ms)
{
    return ms < END_OF_TIME / FL_SIM_TICKS_PER_MS ? ms * FL_SIM_TICKS_PER_MS
                                                  : END_OF_TIME;
}

uint64_t fl_sim_after(const fl_sim *s, uint64_t ticks)
{
    return s->tick + (ticks < END_OF_TIME ? ticks : END_OF_TIME);
}

uint64_t fl_sim_at(fl_sim *s, uint64_t tick, fl_loop_fn fn, void *arg)
{
    return fl_timers_add(&s->queue, tick, fn, arg);
}

void fl_sim_drop(fl_sim *s, uint64_t *id)
{
    fl_timers_remove(&s->queue, *id);
    *id = 0;
}

uint64_t fl_sim_now_ms(const fl_sim *s)
{
    return s->tick / FL_SIM_TICKS_PER_MS;
}

/* Lets the earliest event happen if it is earlier than `until`. */
static bool step(fl_sim *s, uint64_t until)
{
    uint64_t tick = fl_timers_next_ms(&s->queue);
    fl_loop_fn fn;
    void *arg;

    if (tick >= until ||
        !fl_timers_take(&s->queue, tick, UINT64_MAX, &fn, &arg))
        return false;
    s->tick = tick;
    fn(arg);
    return true;
}

void fl_sim_run(fl_sim *s, uint64_t until_ms, const bool *stop)
{
    uint64_t until = ticks_of(until_ms);

    FL_ASSERT(!s->is_running);
    s->is_running = true;
    while (!(stop && *stop)) {
        if (step(s, until))
            continue;
        if (until > s->tick)
            s->tick = until;
        break;
    }
    s->is_running = false;
}

/* --- the loop ------------------------------------------------------------ */

static uint64_t loop_now_ms(const fl_loop *l)
{
    return fl_sim_now_ms((const fl_sim *)l);
}

static void run_first_post(void *arg)
{
    fl_sim *s = arg;
    fl_sim_post *p = s->first_post;
    fl_loop_fn fn = p->fn;
    void *fn_arg = p->arg;

    s->first_post = p->next;
    if (!s->first_post)
        s->last_post = &s->first_post;
    fl_free(p);
    fn(fn_arg);
}

/* A post has an event of its own for its turn among the others, and a place in
   a list because it must run even when the simulation ends before. */
static void loop_post(fl_loop *l, fl_loop_fn fn, void *arg)
{
    fl_sim *s = (fl_sim *)l;
    fl_sim_post *p = fl_alloc(sizeof(*p));

    p->fn = fn;
    p->arg = arg;
    *s->last_post = p;
    s->last_post = &p->next;
    fl_sim_at(s, fl_sim_after(s, 1), run_first_post, s);
}

static uint64_t loop_timer(fl_loop *l, uint64_t delay_ms, fl_loop_fn fn,
                           void *arg)
{
    fl_sim *s = (fl_sim *)l;
    uint64_t ticks = delay_ms ? ticks_of(delay_ms) : 1;

    return fl_sim_at(s, fl_sim_after(s, ticks), fn, arg);
}

static void loop_cancel(fl_loop *l, uint64_t id)
{
    fl_timers_remove(&((fl_sim *)l)->queue, id);
}

static bool loop_is_mine(const fl_loop *l)
{
    (void)l; /* there is only one thread */
    return true;
}

static const fl_loop_ops loop_ops = {
    .now_ms = loop_now_ms,
    .post = loop_post,
    .post_deferred = loop_post,
    .timer = loop_timer,
    .cancel = loop_cancel,
    .is_mine = loop_is_mine,
};

/* --- the simulation ------------------------------------------------------ */

static void take_faults(fl_sim *s, const fl_sim_faults *f)
{
    FL_ASSERT(f->delay_lo_ms <= f->delay_hi_ms);
    FL_ASSERT(f->refuse_share >= 0 && f->refuse_share <= 1);
    s->faults = *f;
    s->dice = fl_rng_stream(f->seed, "simulated network");
}

fl_sim *fl_sim_new(const fl_sim_faults *f)
{
    fl_sim *s = fl_alloc(sizeof(*s));

    s->loop.ops = &loop_ops;
    s->net.base.ops = &fl_sim_net_ops;
    s->net.sim = s;
    s->last_post = &s->first_post;
    s->next_port = FIRST_PORT;
    take_faults(s, f);
    return s;
}

void fl_sim_free(fl_sim *s)
{
    fl_sim_place *next;

    if (!s)
        return;
    FL_ASSERT(!s->is_running);
    while (s->first_post)
        run_first_post(s);
    FL_ASSERT(!s->conns && !s->n_dials);
    for (fl_sim_place *p = s->places; p; p = next) {
        next = p->next;
        FL_ASSERT(!p->listener);
        fl_free(p);
    }
    fl_timers_release(&s->queue);
    fl_free(s);
}

fl_loop *fl_sim_loop(fl_sim *s)
{
    return &s->loop;
}

fl_net *fl_sim_net(fl_sim *s)
{
    return &s->net.base;
}

void fl_sim_set_faults(fl_sim *s, const fl_sim_faults *f)
{
    take_faults(s, f);
    fl_sim_redraw_cuts(s);
}

uint64_t fl_sim_cuts(const fl_sim *s)
{
    return s->n_cuts;
}

void fl_sim_freeze(fl_sim *s, const char *address, bool frozen)
{
    fl_sim_place *p = fl_sim_place_get(s, address);

    p->is_frozen = frozen;
    if (!frozen)
        fl_sim_wake(s, p);
}
