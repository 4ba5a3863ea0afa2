/* shared.c - channels, chunks, and who works on them. */
#include "coll/shared.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

/* How far a rank brings ahead of what it takes. */
#define AHEAD 2
/* How long a thread looks before it sleeps: one that waits, and one that works
   while others compute. */
#define HELP_NS 50000
#define WORK_NS 5000
/* A bell that nobody rang: then it looks for itself. */
#define SLEEP_NS 100000000
/* Looks between two looks at the clock. */
#define LOOKS 64

/* --- counters of others ------------------------------------------------------ */

enum counter { BROUGHT, ADDED, TAKEN };

static _Atomic uint64_t *counter_of(fl_shared_desk *d, enum counter which)
{
    return which == BROUGHT ? &d->brought
           : which == ADDED ? &d->added
                            : &d->taken;
}

/* The place of one whose counter is less; -1: all others have come so far. */
static int behind(fl_shared *s, uint32_t channel, enum counter which,
                  uint64_t value)
{
    for (int i = 0; i < s->o.n; i++) {
        _Atomic uint64_t *at = counter_of(s->desks[channel][i], which);

        if (i != s->o.me &&
            atomic_load_explicit(at, memory_order_acquire) < value)
            return i;
    }
    return -1;
}

static void count(fl_shared *s, uint32_t channel, enum counter which,
                  uint64_t value)
{
    atomic_store_explicit(counter_of(&s->own->desks[channel], which), value,
                          memory_order_release);
    for (int i = 0; i < s->o.n; i++)
        if (i != s->o.me)
            fl_segment_ring(s->segments[i]);
}

/* --- a chunk ------------------------------------------------------------------ */

static size_t chunk_len(const fl_shared_run *r)
{
    const fl_shared_way *w = r->stages[r->stage].way;

    return w->chunk_bytes / fl_dtype_bytes(r->call.dtype);
}

/* Calls func with chunk i of the run's stage. */
static void with_chunk(fl_shared *s, const fl_shared_run *r, size_t i,
                       void (*func)(const fl_shared_chunk *c))
{
    size_t each = chunk_len(r);
    fl_shared_chunk c = { .s = s,
                          .r = r,
                          .stage = &r->stages[r->stage],
                          .desks = s->desks[r->at.ring],
                          .slot = (int)((r->base + i) % FL_SHARED_SLOTS),
                          .lo = i * each };

    c.n = r->call.n - c.lo < each ? r->call.n - c.lo : each;
    func(&c);
}

/* What all others call is what this one calls. */
static fl_status check_signs(fl_shared *s, fl_shared_run *r)
{
    for (int i = 0; i < s->o.n && !r->is_checked; i++) {
        const fl_shared_sign *theirs =
            &s->desks[r->at.ring][i]->signs[r->at.number % FL_SHARED_SIGNS];

        if (i != s->o.me)
            FL_TRY(fl_coll_sign_match(r->at, s->ranks[s->o.me], &r->sign,
                                      s->ranks[i], &theirs->sign));
    }
    r->is_checked = true;
    return FL_OK;
}

static bool bring(fl_shared *s, fl_shared_run *r)
{
    uint64_t number = r->base + r->brought;

    if (r->brought == r->n_chunks || r->brought >= r->taken + AHEAD ||
        (number >= FL_SHARED_SLOTS &&
         behind(s, r->at.ring, TAKEN, number + 1 - FL_SHARED_SLOTS) >= 0))
        return false;
    with_chunk(s, r, r->brought++, r->stages[r->stage].way->bring);
    count(s, r->at.ring, BROUGHT, number + 1);
    return true;
}

static bool add(fl_shared *s, fl_shared_run *r, fl_status *st)
{
    const fl_shared_way *w = r->stages[r->stage].way;
    uint64_t number = r->base + r->added;

    if (!w->add || r->added == r->brought ||
        behind(s, r->at.ring, BROUGHT, number + 1) >= 0)
        return false;
    *st = check_signs(s, r);
    if (*st)
        return false;
    with_chunk(s, r, r->added++, w->add);
    count(s, r->at.ring, ADDED, number + 1);
    return true;
}

static bool take(fl_shared *s, fl_shared_run *r, fl_status *st)
{
    const fl_shared_way *w = r->stages[r->stage].way;
    uint64_t number = r->base + r->taken;

    if (r->taken == (w->add ? r->added : r->brought) ||
        behind(s, r->at.ring, w->add ? ADDED : BROUGHT, number + 1) >= 0)
        return false;
    *st = check_signs(s, r);
    if (*st)
        return false;
    with_chunk(s, r, r->taken++, w->take);
    count(s, r->at.ring, TAKEN, number + 1);
    return true;
}

/* --- stages ------------------------------------------------------------------- */

/* The others wait for the first, which is the root of the stage behind. */
static void begin_sending(fl_shared *s, const fl_shared_run *r)
{
    fl_shared_channel *c = &s->channels[r->at.ring];

    atomic_store(&c->is_sent, s->o.me != 0);
    c->sending = (fl_shared_sending){ s->o.me == 0, r->call, r->at };
}

static void begin_stage(fl_shared *s, fl_shared_run *r)
{
    r->has_begun = true;
    if (!r->stages[r->stage].way) {
        begin_sending(s, r);
        return;
    }
    r->base = s->channels[r->at.ring].next;
    r->brought = r->added = r->taken = 0;
    r->n_chunks = (r->call.n + chunk_len(r) - 1) / chunk_len(r);
    if (!r->n_chunks)
        r->n_chunks = 1; /* they meet all the same */
    s->own->desks[r->at.ring].signs[r->at.number % FL_SHARED_SIGNS] =
        (fl_shared_sign){ r->at.number, r->sign };
}

static bool is_stage_over(fl_shared *s, const fl_shared_run *r)
{
    return r->stages[r->stage].way
               ? r->taken == r->n_chunks
               : atomic_load(&s->channels[r->at.ring].is_sent);
}

static void end_stage(fl_shared *s, fl_shared_run *r)
{
    if (r->stages[r->stage].way)
        s->channels[r->at.ring].next = r->base + r->n_chunks;
    r->stage++;
    r->has_begun = false;
}

/* Goes on with the run in front as far as it can; true: it is through. */
static bool advance(fl_shared *s, fl_shared_run *r, bool *has_moved,
                    fl_status *st)
{
    while (r->stage < r->n_stages && !atomic_load(&s->is_failed)) {
        if (!r->has_begun)
            begin_stage(s, r);
        while (r->stages[r->stage].way && !*st && !atomic_load(&s->is_failed) &&
               (bring(s, r) || add(s, r, st) || take(s, r, st)))
            *has_moved = true;
        if (*st || !is_stage_over(s, r))
            return false;
        end_stage(s, r);
    }
    return r->stage == r->n_stages;
}

/* --- queues ------------------------------------------------------------------- */

/* Only who holds mu takes runs out, so that it stays there. */
static fl_shared_run *front(fl_shared *s, int channel)
{
    return atomic_load(&s->channels[channel].first);
}

static void pop(fl_shared *s, int channel)
{
    fl_shared_channel *c = &s->channels[channel];

    fl_lock(&s->queue_mu);
    atomic_store(&c->first, front(s, channel)->next);
    fl_unlock(&s->queue_mu);
}

static void end_run(fl_shared *s, fl_shared_run *r, fl_status st)
{
    fl_coll_call call = r->call;

    atomic_fetch_sub(&s->n_runs, 1);
    fl_free(r);
    call.done(call.arg, st);
}

/* --- who works ---------------------------------------------------------------- */

/* All channels, once; *ended are those that are through. */
static bool work(fl_shared *s, fl_shared_run **ended, fl_status *st)
{
    bool has_moved = false;

    for (int i = 0; i < FL_SHARED_CHANNELS && !*st; i++) {
        fl_shared_run *r = front(s, i);

        if (!r || !advance(s, r, &has_moved, st))
            continue;
        pop(s, i);
        r->next = NULL;
        *ended = r;
        ended = &r->next;
        has_moved = true;
    }
    return has_moved;
}

/* Without the mutex: what is to be sent, and who is told. */
static void go_out(fl_shared *s, const fl_shared_sending *sending,
                   fl_shared_run *ended)
{
    for (int i = 0; i < FL_SHARED_CHANNELS; i++)
        if (sending[i].is_due)
            s->o.send(s->o.arg, &sending[i].call, sending[i].at);
    while (ended) {
        fl_shared_run *r = ended;

        ended = r->next;
        end_run(s, r, FL_OK);
    }
}

/* Under the mutex, which is let go; true: something has moved. */
static bool work_and_unlock(fl_shared *s, fl_status *st)
{
    fl_shared_sending sending[FL_SHARED_CHANNELS];
    fl_shared_run *ended = NULL;
    bool has_moved = work(s, &ended, st);

    for (int i = 0; i < FL_SHARED_CHANNELS; i++) {
        fl_shared_sending *due = &s->channels[i].sending;

        sending[i].is_due = due->is_due;
        if (due->is_due)
            sending[i] = *due;
        due->is_due = false;
    }
    fl_unlock(&s->mu);
    if (*st)
        s->o.fail(s->o.arg, *st);
    go_out(s, sending, ended);
    return has_moved;
}

/* Unless somebody else is at it, who then looks once more. */
static bool look(fl_shared *s)
{
    fl_status st = FL_OK;
    bool has_moved;
    uint64_t asked;

    atomic_fetch_add(&s->n_asked, 1);
    if (!fl_try_lock(&s->mu))
        return false;
    do {
        asked = atomic_load(&s->n_asked);
        has_moved = work_and_unlock(s, &st);
    } while (!st && atomic_load(&s->n_asked) != asked && fl_try_lock(&s->mu));
    return has_moved;
}

void fl_shared_enter(fl_shared *s)
{
    atomic_fetch_add(&s->n_inside, 1);
}

void fl_shared_leave(fl_shared *s)
{
    atomic_fetch_sub(&s->n_inside, 1);
}

/* Looks for so long; true: something has moved. */
static bool look_for(fl_shared *s, uint64_t ns, bool (*is_over)(void *arg),
                     void *arg)
{
    uint64_t end = 0;

    for (unsigned i = 1;; i++) {
        if (is_over(arg) || look(s))
            return true;
        fl_pause();
        if (i % LOOKS)
            continue;
        if (!end)
            end = fl_now_ns() + ns;
        else if (fl_now_ns() > end)
            return false;
    }
}

/* The owner's word that it sleeps comes before its last look: who counts after
   that look sees it. */
static void sleep_at_bell(fl_shared *s, bool (*is_over)(void *arg), void *arg)
{
    uint32_t bell = atomic_load(&s->own->bell);

    atomic_fetch_add(&s->own->n_asleep, 1);
    atomic_thread_fence(memory_order_seq_cst);
    if (!look(s) && !is_over(arg) && !atomic_load(&s->is_failed))
        fl_segment_sleep(s->own, bell, SLEEP_NS);
    atomic_fetch_sub(&s->own->n_asleep, 1);
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static bool has_runs(fl_shared *s)
{
    return atomic_load(&s->n_runs) != 0;
}

static void wake_worker(fl_shared *s)
{
    fl_lock(&s->idle_mu);
    fl_cond_wake_one(&s->idle);
    fl_unlock(&s->idle_mu);
}

void fl_shared_help(fl_shared *s, bool (*is_over)(void *arg), void *arg)
{
    atomic_fetch_add(&s->n_helpers, 1);
    while (!is_over(arg) && has_runs(s) && !atomic_load(&s->is_failed))
        if (!look_for(s, HELP_NS, is_over, arg))
            sleep_at_bell(s, is_over, arg);
    atomic_fetch_sub(&s->n_helpers, 1);
    if (has_runs(s))
        wake_worker(s);
}

/* Works where nobody helps. */
static void run_worker(void *shared)
{
    fl_shared *s = shared;
    bool is_closing = false;

    while (!is_closing) {
        fl_lock(&s->idle_mu);
        while (!s->is_closing && (!has_runs(s) || atomic_load(&s->n_helpers) ||
                                  atomic_load(&s->is_failed)))
            fl_cond_wait(&s->idle, &s->idle_mu);
        is_closing = s->is_closing;
        fl_unlock(&s->idle_mu);
        if (!is_closing && !look_for(s, WORK_NS, never, NULL))
            sleep_at_bell(s, never, NULL);
    }
}

/* --- calls -------------------------------------------------------------------- */

void fl_shared_put(fl_shared *s, fl_shared_run *r)
{
    fl_shared_channel *c = &s->channels[r->at.ring];

    fl_stat_add(&s->o.stats->shared, r->call.n * fl_dtype_bytes(r->call.dtype));
    atomic_fetch_add(&s->n_runs, 1);
    fl_lock(&s->queue_mu);
    if (atomic_load(&c->first))
        c->last->next = r;
    else
        atomic_store(&c->first, r);
    c->last = r;
    fl_unlock(&s->queue_mu);
}

void fl_shared_begin(fl_shared *s, bool is_helped)
{
    (void)look(s);
    if (!is_helped && has_runs(s))
        wake_worker(s);
}

void fl_shared_sent(fl_shared *s, uint32_t ring)
{
    atomic_store(&s->channels[ring].is_sent, true);
    fl_segment_ring(s->own);
}

int fl_shared_awaits(fl_shared *s, fl_coll_sign *sign, fl_coll_place *at)
{
    int place = -1;

    fl_lock(&s->queue_mu);
    for (int i = 0; i < FL_SHARED_CHANNELS && place < 0; i++) {
        fl_shared_run *r = front(s, i);

        if (!r)
            continue;
        *sign = r->sign;
        *at = r->at;
        place = behind(s, (uint32_t)i, BROUGHT,
                       atomic_load(&s->own->desks[i].brought));
        place = place < 0 ? 0 : place;
    }
    fl_unlock(&s->queue_mu);
    return place < 0 ? -1 : s->ranks[place];
}

/* --- ends --------------------------------------------------------------------- */

static fl_shared_run *take_all(fl_shared *s)
{
    fl_shared_run *all = NULL;

    for (int i = 0; i < FL_SHARED_CHANNELS; i++)
        while (front(s, i)) {
            fl_shared_run *r = front(s, i);

            pop(s, i);
            r->next = all;
            all = r;
        }
    return all;
}

/* Whoever works stops after the piece it is at. */
void fl_shared_fail(fl_shared *s, const fl_err *why)
{
    fl_shared_run *all;

    atomic_store(&s->is_failed, true);
    fl_lock(&s->mu);
    all = take_all(s);
    fl_unlock(&s->mu);
    fl_segment_ring(s->own);
    while (all) {
        fl_shared_run *r = all;

        all = r->next;
        end_run(s, r, fl_err_restore(why));
    }
}

static void release(fl_shared *s)
{
    for (int i = 0; i < s->o.n; i++)
        fl_segment_unmap(s->segments[i]);
    fl_free(s->segments);
    fl_free(s->ranks);
    for (int i = 0; i < FL_SHARED_CHANNELS; i++)
        fl_free(s->desks[i]);
    fl_cond_release(&s->idle);
    fl_mutex_release(&s->idle_mu);
    fl_mutex_release(&s->queue_mu);
    fl_mutex_release(&s->mu);
    fl_free(s);
}

/* Who has ended the last call may still be about to leave. */
static void wait_until_left(fl_shared *s)
{
    while (atomic_load(&s->n_inside))
        fl_pause();
}

void fl_shared_free(fl_shared *s)
{
    if (!s)
        return;
    fl_lock(&s->idle_mu);
    s->is_closing = true;
    fl_cond_wake_all(&s->idle);
    fl_unlock(&s->idle_mu);
    atomic_store(&s->is_failed, true);
    fl_segment_ring(s->own);
    fl_thread_join(s->thread);
    wait_until_left(s);
    release(s);
}

static void init_channels(fl_shared *s)
{
    for (int i = 0; i < FL_SHARED_CHANNELS; i++) {
        s->desks[i] = fl_alloc((size_t)s->o.n * sizeof(*s->desks[i]));
        for (int p = 0; p < s->o.n; p++)
            s->desks[i][p] = &s->segments[p]->desks[i];
    }
}

fl_status fl_shared_new(fl_shared **out, const fl_shared_options *o)
{
    fl_shared *s = fl_alloc(sizeof(*s));
    size_t n = (size_t)o->n;
    fl_status st;

    s->o = *o;
    s->ranks = fl_alloc(n * sizeof(*s->ranks));
    s->segments = fl_alloc(n * sizeof(*s->segments));
    memcpy(s->ranks, o->ranks, n * sizeof(*s->ranks));
    memcpy(s->segments, o->segments, n * sizeof(*s->segments));
    s->own = s->segments[o->me];
    fl_mutex_init(&s->mu);
    fl_mutex_init(&s->queue_mu);
    fl_mutex_init(&s->idle_mu);
    fl_cond_init(&s->idle);
    init_channels(s);
    st = fl_thread_start(&s->thread, "fl-coll", run_worker, s);
    if (st) {
        release(s);
        return st;
    }
    *out = s;
    return FL_OK;
}
