/* sim_stream.c - connections of the simulated network.
 *
 * A connection is two ends and a pipe for each direction. A pipe is a ring of
 * bytes with three marks that only grow,
 *
 *     taken <= arrived <= sent <= taken + RING_BYTES
 *
 * by its reader, by the network and by its writer. The bytes in flight, from
 * `arrived` to `sent`, lie in chunks with a time each; only the first one has
 * an event, which is why their order is kept.
 *
 * A cut lets the bytes in flight vanish at once, but the ends learn of it later
 * and apart, like with TCP: until then reads find nothing and writes fill the
 * ring of a pipe that is lost.
 *
 * The owner may close its end in its own callback; the connection then stays
 * until the callback is back (is_busy).
 */
#include "rpc/sim/sim_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define RING_BYTES ((size_t)64 << 10)
#define MAX_CHUNKS 256

/* One write in so many takes less than it could; a chunk is split likewise. */
#define PARTIAL_ONE_IN 4
#define SPLIT_ONE_IN 2

/* An end learns of a cut within the first time, or within the second. */
#define TOLD_SOON_MS 2
#define TOLD_LATE_MS 1000

enum side { DIALLER, ACCEPTER };

typedef enum gone { GONE_NOT, GONE_CLOSED, GONE_CUT } gone;

typedef struct chunk {
    uint64_t end, tick; /* its last byte, by the pipe's marks; its arrival */
} chunk;

typedef struct channel {
    fl_sim_conn *conn;
    uint8_t *ring;
    uint64_t sent, arrived, taken;
    uint64_t free_tick; /* when a slow stream takes the next byte */
    uint64_t last_tick; /* when the last chunk arrives */
    uint64_t event;     /* the first chunk's arrival */
    chunk chunks[MAX_CHUNKS];
    uint32_t first, n_chunks;
    bool is_lost; /* nothing arrives any more */
} channel;

typedef struct end {
    fl_stream base; /* first: the stream's functions cast back */
    fl_sim_conn *conn;
    struct end *peer;
    channel *in, *out;
    const fl_sim_place *place; /* of its listener; NULL for a dialler */
    unsigned wants;
    uint64_t ready_event, gone_event;
    gone gone;
    bool is_hang_up_told, is_closed;
} end;

/* Where the accepted end stands. */
typedef enum arrival {
    ON_ITS_WAY,
    AT_THE_DOOR, /* of a place that is frozen */
    ACCEPTED
} arrival;

struct fl_sim_conn {
    fl_sim *sim;
    fl_sim_conn *next, **back; /* in the simulation's list */
    end ends[2];
    channel pipes[2]; /* from the end with the same number */
    fl_sim_place *to;
    arrival arrival;
    uint64_t accept_event;
    uint64_t until_cut; /* bytes; UINT64_MAX: never */
    bool is_cut, is_busy;
};

/* --- readiness ----------------------------------------------------------- */

static bool is_frozen(const end *e)
{
    return e->place && e->place->is_frozen;
}

static size_t room_in(const channel *p)
{
    if (p->n_chunks == MAX_CHUNKS)
        return 0;
    return RING_BYTES - (size_t)(p->sent - p->taken);
}

/* A real socket's hang-up is told whether it is wanted or not. Here that is
   done once, for an owner that does not listen would never let time pass. */
static unsigned events_of(const end *e)
{
    unsigned there = 0;

    if (e->is_closed || !e->base.ready || is_frozen(e))
        return 0;
    if (e->gone == GONE_CUT && !e->is_hang_up_told)
        return FL_IO_READ | FL_IO_WRITE;
    if (e->gone || e->in->arrived > e->in->taken)
        there |= FL_IO_READ;
    if (e->gone || room_in(e->out) > 0)
        there |= FL_IO_WRITE;
    return there & e->wants;
}

static void free_if_closed(fl_sim_conn *c);
static void poke(end *e);

static void tell_ready(void *arg)
{
    end *e = arg;
    fl_sim_conn *c = e->conn;
    unsigned events = events_of(e);

    e->ready_event = 0;
    if (!events)
        return;
    e->is_hang_up_told = e->gone == GONE_CUT;
    c->is_busy = true;
    e->base.ready(e->base.arg, events);
    c->is_busy = false;
    poke(e); /* level-triggered: again, while it is there and wanted */
    free_if_closed(c);
}

static void poke(end *e)
{
    fl_sim *s = e->conn->sim;

    if (!e->ready_event && events_of(e))
        e->ready_event = fl_sim_at(s, fl_sim_after(s, 1), tell_ready, e);
}

/* --- ways to end --------------------------------------------------------- */

static void free_if_closed(fl_sim_conn *c)
{
    if (c->is_busy || !c->ends[DIALLER].is_closed ||
        !c->ends[ACCEPTER].is_closed)
        return;
    *c->back = c->next;
    if (c->next)
        c->next->back = c->back;
    fl_data_free(c->pipes[0].ring, 2 * RING_BYTES);
    fl_free(c);
}

static void lose(channel *p)
{
    fl_sim_drop(p->conn->sim, &p->event);
    p->n_chunks = 0;
    p->is_lost = true;
}

static void learn_of_close(void *arg)
{
    end *e = arg;

    e->gone_event = 0;
    e->gone = GONE_CLOSED;
    poke(e);
}

static void learn_of_cut(void *arg)
{
    end *e = arg;

    e->gone_event = 0;
    e->gone = GONE_CUT;
    poke(e);
}

static void cut(fl_sim_conn *c)
{
    fl_sim *s = c->sim;
    uint64_t within;

    if (c->is_cut)
        return;
    c->is_cut = true;
    s->n_cuts++;
    for (int i = 0; i < 2; i++) {
        end *e = &c->ends[i];

        lose(&c->pipes[i]);
        fl_sim_drop(s, &e->gone_event);
        if (e->is_closed || e->gone)
            continue;
        within = fl_sim_draw(s, 2) ? TOLD_SOON_MS : TOLD_LATE_MS;
        within = 1 + fl_sim_draw(s, within * FL_SIM_TICKS_PER_MS);
        e->gone_event = fl_sim_at(s, fl_sim_after(s, within), learn_of_cut, e);
    }
}

/* What was written before still arrives, then the peer sees the end. */
static void stream_close(fl_stream *base)
{
    end *e = (end *)base;
    fl_sim *s = e->conn->sim;
    uint64_t tick = fl_sim_after(s, fl_sim_draw_delay(s));

    FL_ASSERT(!e->is_closed);
    e->is_closed = true;
    fl_sim_drop(s, &e->ready_event);
    fl_sim_drop(s, &e->gone_event);
    lose(e->in);
    if (!e->peer->is_closed && !e->conn->is_cut) {
        if (tick <= e->out->last_tick)
            tick = e->out->last_tick + 1;
        e->peer->gone_event = fl_sim_at(s, tick, learn_of_close, e->peer);
    }
    free_if_closed(e->conn);
}

void fl_sim_cut_all(fl_sim *s)
{
    for (fl_sim_conn *c = s->conns; c; c = c->next)
        cut(c);
}

void fl_sim_redraw_cuts(fl_sim *s)
{
    for (fl_sim_conn *c = s->conns; c; c = c->next)
        c->until_cut = fl_sim_draw_cut(s);
}

/* --- bytes --------------------------------------------------------------- */

static void await_first(channel *p);

static void arrive(void *arg)
{
    channel *p = arg;
    fl_sim_conn *c = p->conn;
    uint64_t n = p->chunks[p->first].end - p->arrived;
    bool is_last = n >= c->until_cut;

    p->event = 0;
    p->first = (p->first + 1) % MAX_CHUNKS;
    p->n_chunks--;
    if (is_last)
        n = c->until_cut;
    p->arrived += n;
    if (c->until_cut != UINT64_MAX)
        c->until_cut -= n;
    if (is_last)
        cut(c);
    else
        await_first(p);
    poke(&c->ends[0]);
    poke(&c->ends[1]);
}

static void await_first(channel *p)
{
    if (!p->event && p->n_chunks)
        p->event = fl_sim_at(p->conn->sim, p->chunks[p->first].tick, arrive, p);
}

/* A chunk leaves when those before it have left, at the stream's speed. */
static void add_chunk(channel *p, size_t n)
{
    fl_sim *s = p->conn->sim;
    uint64_t rate = s->faults.bytes_per_ms;
    uint64_t tick = s->tick;

    if (rate) {
        if (p->free_tick > tick)
            tick = p->free_tick;
        tick += (n * FL_SIM_TICKS_PER_MS - 1) / rate + 1;
        p->free_tick = tick;
    }
    tick += fl_sim_draw_delay(s);
    if (tick > p->last_tick)
        p->last_tick = tick;
    p->sent += n;
    p->chunks[(p->first + p->n_chunks) % MAX_CHUNKS] =
        (chunk){ .end = p->sent, .tick = p->last_tick };
    p->n_chunks++;
}

static void send_off(channel *p, size_t n)
{
    fl_sim *s = p->conn->sim;

    if (p->is_lost) {
        p->sent += n; /* into the void, which has an end, too */
        return;
    }
    while (n > 0) {
        size_t piece = n;

        if (p->n_chunks < MAX_CHUNKS - 1 && fl_sim_draw(s, SPLIT_ONE_IN) == 0)
            piece = 1 + (size_t)fl_sim_draw(s, n);
        add_chunk(p, piece);
        n -= piece;
    }
    await_first(p);
}

static void copy_in(channel *p, const struct iovec *v, size_t n)
{
    size_t at = (size_t)(p->sent % RING_BYTES);

    for (; n > 0; v++) {
        size_t len = v->iov_len < n ? v->iov_len : n;
        size_t head = len < RING_BYTES - at ? len : RING_BYTES - at;

        if (len == 0)
            continue; /* its base may be NULL */
        memcpy(p->ring + at, v->iov_base, head);
        memcpy(p->ring, (const uint8_t *)v->iov_base + head, len - head);
        at = (at + len) % RING_BYTES;
        n -= len;
    }
}

static ptrdiff_t fail_gone(const end *e)
{
    if (e->gone == GONE_CLOSED)
        (void)fl_err_set(FL_ERR_IO, "%s: the peer closed the connection",
                         e->base.peer);
    else
        (void)fl_err_set(FL_ERR_IO, "%s: the connection broke", e->base.peer);
    return FL_STREAM_GONE;
}

static ptrdiff_t stream_write(fl_stream *base, const struct iovec *v, int n)
{
    end *e = (end *)base;
    fl_sim *s = e->conn->sim;
    size_t len = 0, room = room_in(e->out);

    FL_ASSERT(!e->is_closed);
    if (is_frozen(e))
        return FL_STREAM_AGAIN;
    if (e->gone)
        return fail_gone(e);
    for (int i = 0; i < n; i++)
        len += v[i].iov_len;
    if (len == 0)
        return 0;
    if (room == 0)
        return FL_STREAM_AGAIN;
    if (len > room)
        len = room;
    if (fl_sim_draw(s, PARTIAL_ONE_IN) == 0)
        len = 1 + (size_t)fl_sim_draw(s, len);
    copy_in(e->out, v, len);
    send_off(e->out, len);
    return (ptrdiff_t)len;
}

static ptrdiff_t stream_read(fl_stream *base, void *to, size_t n)
{
    end *e = (end *)base;
    channel *p = e->in;
    size_t there = (size_t)(p->arrived - p->taken);
    size_t at = (size_t)(p->taken % RING_BYTES), head;

    FL_ASSERT(!e->is_closed);
    if (is_frozen(e))
        return FL_STREAM_AGAIN;
    if (there == 0)
        return e->gone ? fail_gone(e) : FL_STREAM_AGAIN;
    if (n > there)
        n = there;
    head = n < RING_BYTES - at ? n : RING_BYTES - at;
    memcpy(to, p->ring + at, head);
    memcpy((uint8_t *)to + head, p->ring, n - head);
    p->taken += n;
    poke(e->peer);
    return (ptrdiff_t)n;
}

static void stream_want(fl_stream *base, unsigned events)
{
    end *e = (end *)base;

    FL_ASSERT(!e->is_closed);
    e->wants = events;
    poke(e);
}

static const fl_stream_ops stream_ops = {
    .read = stream_read,
    .write = stream_write,
    .want = stream_want,
    .close = stream_close,
};

/* --- beginnings ---------------------------------------------------------- */

static void init_end(fl_sim_conn *c, int side)
{
    end *e = &c->ends[side];
    channel *p = &c->pipes[side];

    p->conn = c;
    e->base.ops = &stream_ops;
    e->base.loop = &c->sim->loop;
    e->conn = c;
    e->peer = &c->ends[!side];
    e->out = p;
    e->in = &c->pipes[!side];
    if (side == DIALLER) {
        snprintf(e->base.peer, sizeof(e->base.peer), "%s", c->to->name);
        return;
    }
    e->place = c->to;
    snprintf(e->base.peer, sizeof(e->base.peer), "dialler%" PRIu64 ":1",
             c->sim->n_conns_made);
}

static void come_out(void *arg)
{
    fl_sim_conn *c = arg;

    c->accept_event = 0;
    c->arrival = c->to->is_frozen ? AT_THE_DOOR : ACCEPTED;
    if (c->arrival == ACCEPTED)
        fl_sim_accept(c->to, &c->ends[ACCEPTER].base);
}

/* The dialler's side is there first, as a kernel shakes hands for a process
   that is slow to accept. */
fl_status fl_sim_connect(fl_sim *s, fl_sim_place *to, fl_stream **out)
{
    uint8_t *rings = fl_try_alloc(2 * RING_BYTES);
    fl_sim_conn *c;

    if (!rings)
        FL_FAIL(FL_ERR_NOMEM,
                "%s: no memory for a simulated connection of %zu bytes; keep "
                "fewer of them open",
                to->name, 2 * RING_BYTES);
    c = fl_alloc(sizeof(*c));
    c->sim = s;
    c->to = to;
    c->pipes[0].ring = rings;
    c->pipes[1].ring = rings + RING_BYTES;
    s->n_conns_made++;
    init_end(c, DIALLER);
    init_end(c, ACCEPTER);
    c->until_cut = fl_sim_draw_cut(s);
    c->accept_event =
        fl_sim_at(s, fl_sim_after(s, fl_sim_draw_delay(s)), come_out, c);
    c->next = s->conns;
    c->back = &s->conns;
    if (c->next)
        c->next->back = &c->next;
    s->conns = c;
    *out = &c->ends[DIALLER].base;
    return FL_OK;
}

void fl_sim_refuse_waiting(fl_sim *s, const fl_sim_place *p)
{
    fl_sim_conn *next;

    for (fl_sim_conn *c = s->conns; c; c = next) {
        next = c->next;
        if (c->to != p || c->arrival == ACCEPTED)
            continue;
        fl_sim_drop(s, &c->accept_event);
        c->arrival = ACCEPTED;
        stream_close(&c->ends[ACCEPTER].base);
    }
}

void fl_sim_wake(fl_sim *s, const fl_sim_place *p)
{
    for (fl_sim_conn *c = s->conns; c; c = c->next) {
        if (c->to != p)
            continue;
        if (c->arrival == AT_THE_DOOR && !c->accept_event)
            c->accept_event = fl_sim_at(s, fl_sim_after(s, 1), come_out, c);
        poke(&c->ends[ACCEPTER]);
    }
}
