/* conn.c - reading and writing whole messages.
 *
 * Reading. Bytes come into a stage on the stack, from which heads and small
 * payloads are taken, several messages per read; a connection keeps only the
 * part of a head that was cut, so an idle one costs little. What is still
 * missing of a long payload is read straight to its place.
 *
 * Writing. Messages wait in an outbox; one writev gathers as many as fit. The
 * outbox is in order again before a `done` is called, which may send or free.
 *
 * Arena. The sender takes a block, the receiver's payload is that block, and
 * freeing the payload gives it back: its place goes onto a list that travels
 * with the next message that is sent anyway, or alone when the list is long or
 * much of the arena waits in it. Nothing depends on when that is: a sender
 * without room sends through the stream.
 *
 *     ARENA          u64 bytes of the arena, its descriptor beside it
 *     ARENA, REPLY   u64 places that are free again; none at first, which
 *                    says that the arena was accepted
 *
 * Callbacks may free the connection. `depth` counts how many calls are inside
 * it; the memory goes when the last one leaves, and `s` is NULL from the
 * moment the stream is closed. A call that sends never calls on_close: a
 * failure is told by a timer of 0 ms, after a last look at what the peer said.
 */
#include "rpc/wire/conn.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "rpc/stream/shared_arena.h"
#include "rpc/wire/outbox.h"
#include "rpc/wire/payload.h"
#include "base/alloc.h"

#define STAGE_BYTES ((size_t)64 << 10)
/* Missing parts of payloads above this are read without the stage. */
#define DIRECT_BYTES ((size_t)16 << 10)
/* After so much the other connections of the loop have their turn. */
#define ROUND_BYTES ((size_t)4 << 20)

/* Places that one message may give back, and at how many it leaves alone (or
   with an eighth of the arena). */
#define GIVE_MAX 64
#define GIVE_LIST 16
#define PLACE_BYTES 8

#ifndef IOV_MAX
#define IOV_MAX 1024
#endif

struct fl_conn {
    fl_stream *s; /* NULL once it is closed */
    fl_loop *loop;
    fl_conn_options o;
    fl_conn_events e;
    void *arg;
    char peer[FL_ADDRESS_MAX];

    uint8_t head[FL_FRAME_BYTES];
    size_t head_got;
    fl_frame frame;      /* of the payload that is being read */
    fl_payload *payload; /* NULL: a head is being read */
    uint64_t got;
    uint64_t heard_ms;
    fl_payload_home *home;

    fl_outbox out;
    unsigned wanted;
    bool was_full;    /* on_room is owed */
    bool is_deferred; /* what waits leaves with the next message */

    fl_arena_out *arena; /* ours, offered */
    bool is_accepted;
    fl_arena_in *peer_arena;
    uint64_t give[GIVE_LIST];
    size_t n_give;
    uint64_t give_bytes;

    int depth;
    bool is_freed;
    bool is_broken; /* `why` waits to be told by the timer */
    uint64_t timer;
    fl_err why;
    fl_conn_stats stats;
};

/* --- entering and leaving ------------------------------------------------- */

static void enter(fl_conn *c)
{
    c->depth++;
}

static void leave(fl_conn *c)
{
    if (--c->depth || !c->is_freed)
        return;
    fl_arena_out_free(c->arena);
    fl_arena_in_unref(c->peer_arena);
    fl_free(c);
}

/* Ends everything but the memory. */
static void shut(fl_conn *c)
{
    fl_stream *s = c->s;

    if (!s)
        return;
    c->s = NULL;
    s->ops->close(s);
    fl_loop_cancel(c->loop, c->timer);
    fl_payload_free(c->payload);
    c->payload = NULL;
    fl_payload_home_leave(c->home);
    fl_out_finish(fl_outbox_clear(&c->out));
}

static void close_by(fl_conn *c, fl_status st)
{
    fl_err why;

    fl_err_save(&why, st);
    shut(c);
    if (!c->is_freed)
        c->e.on_close(c->arg, c, fl_err_restore(&why));
}

static void peer_is_gone(fl_conn *c)
{
    fl_status st = FL_ERR_IO;

    if (c->is_broken)
        st = fl_err_restore(&c->why);
    else if (c->payload)
        st = fl_err_ctx(st,
                        "%s left after %" PRIu64 " of %" PRIu64
                        " bytes of a message (%s)",
                        c->peer, c->got, c->frame.length,
                        fl_frame_type_name(c->frame.type, c->o.names));
    else if (c->head_got)
        st = fl_err_ctx(st, "%s left in the head of a message", c->peer);
    close_by(c, st);
}

/* --- reading -------------------------------------------------------------- */

static bool is_give_back(const fl_frame *f)
{
    return f->type == FL_TYPE_ARENA && (f->flags & FL_FRAME_REPLY);
}

static fl_status check_give_back(const fl_conn *c)
{
    const fl_frame *f = &c->frame;

    if (!c->arena || f->flags != FL_FRAME_REPLY || f->length % PLACE_BYTES ||
        f->length > GIVE_MAX * PLACE_BYTES)
        FL_FAIL(FL_ERR_CORRUPT,
                "an answer about the shared arena (%" PRIu64 " bytes, flags "
                "0x%04x) does not fit what was offered",
                f->length, f->flags);
    return FL_OK;
}

static fl_status find_in_arena(fl_conn *c)
{
    const fl_frame *f = &c->frame;

    if (!c->peer_arena)
        FL_FAIL(FL_ERR_CORRUPT,
                "a message (%s) lies in a shared arena, and none was accepted",
                fl_frame_type_name(f->type, c->o.names));
    if (!f->length || !fl_arena_in_at(c->peer_arena, f->arena, f->length))
        FL_FAIL(FL_ERR_CORRUPT,
                "a message (%s) of %" PRIu64 " bytes at %" PRIu64
                " is not within the shared arena of %" PRIu64,
                fl_frame_type_name(f->type, c->o.names), f->length, f->arena,
                fl_arena_in_bytes(c->peer_arena));
    c->payload =
        fl_payload_of_arena(c->home, c->peer_arena, f->arena, f->length);
    return FL_OK;
}

static fl_status no_memory(uint64_t len)
{
    FL_FAIL(FL_ERR_NOMEM,
            "no memory for a message of %" PRIu64 " bytes; the process is at "
            "its limit, or max_bytes is too high for this machine",
            len);
}

/* Checks the head and makes the payload's memory ready. */
static fl_status start_message(fl_conn *c)
{
    fl_frame *f = &c->frame;

    FL_TRY(fl_frame_read(c->head, c->o.max_bytes, c->o.names, f));
    if (is_give_back(f))
        FL_TRY(check_give_back(c));
    if (f->flags & FL_FRAME_ARENA)
        return find_in_arena(c);
    if (!f->length)
        return FL_OK;
    c->payload = fl_payload_new(c->home, f->length);
    return c->payload ? FL_OK : no_memory(f->length);
}

static fl_status take_back(fl_conn *c, const fl_payload *p)
{
    fl_unpack u = { 0 };

    c->is_accepted = true;
    if (!p)
        return FL_OK;
    u.at = fl_payload_data(p);
    u.end = u.at + fl_payload_len(p);
    while (u.at < u.end) {
        uint64_t place = fl_unpack_u64(&u);

        if (!fl_arena_out_give(c->arena, place))
            FL_FAIL(FL_ERR_CORRUPT,
                    "place %" PRIu64 " of the shared arena is given back and "
                    "is not in use",
                    place);
    }
    return FL_OK;
}

static void fail(fl_conn *c, fl_status st)
{
    close_by(c, fl_err_ctx(st, "connection with %s", c->peer));
}

static void end_message(fl_conn *c)
{
    fl_frame f = c->frame;
    fl_payload *p = c->payload;
    fl_status st;

    c->payload = NULL;
    c->stats.in_messages++;
    c->stats.in_bytes += FL_FRAME_BYTES + f.length;
    if (is_give_back(&f)) {
        st = take_back(c, p);
        fl_payload_free(p);
        if (st)
            fail(c, st);
        return;
    }
    /* Where the payload lies is no business of the receiver. */
    f.flags &= (uint16_t)~FL_FRAME_ARENA;
    f.arena = 0;
    c->e.on_message(c->arg, c, &f, p);
}

/* Both take bytes from the stage and return how many. */
static size_t take_head(fl_conn *c, const uint8_t *from, size_t n)
{
    size_t missing = FL_FRAME_BYTES - c->head_got;
    size_t taken = n < missing ? n : missing;
    fl_status st;

    memcpy(c->head + c->head_got, from, taken);
    c->head_got += taken;
    if (taken < missing)
        return taken;
    c->head_got = 0;
    c->got = 0;
    st = start_message(c);
    if (st)
        fail(c, st);
    else if (!c->payload || (c->frame.flags & FL_FRAME_ARENA))
        end_message(c);
    return taken;
}

static void add_to_payload(fl_conn *c, size_t n)
{
    c->got += n;
    if (c->got == c->frame.length)
        end_message(c);
}

static size_t take_payload(fl_conn *c, const uint8_t *from, size_t n)
{
    size_t room;
    uint8_t *to = fl_payload_space(c->payload, c->got, &room);
    size_t taken = n < room ? n : room;

    if (!to) {
        fail(c, no_memory(c->frame.length));
        return n;
    }
    memcpy(to, from, taken);
    add_to_payload(c, taken);
    return taken;
}

static void take_stage(fl_conn *c, const uint8_t *from, size_t n)
{
    while (n && c->s) {
        size_t taken =
            c->payload ? take_payload(c, from, n) : take_head(c, from, n);

        from += taken;
        n -= taken;
    }
}

/* One call of read; false when there is no more for now. A short read means
   that a socket is empty; below TLS it only means that a record ended. */
static bool read_some(fl_conn *c, uint8_t *stage, size_t *left)
{
    bool is_secret = c->s->is_secret;
    uint8_t *to = stage;
    size_t n = STAGE_BYTES;
    ptrdiff_t r;

    if (c->payload && c->frame.length - c->got >= DIRECT_BYTES) {
        to = fl_payload_space(c->payload, c->got, &n);
        if (!to) {
            fail(c, no_memory(c->frame.length));
            return false;
        }
    }
    if (n > *left)
        n = *left;
    r = c->s->ops->read(c->s, to, n);
    if (r < 0) {
        if (r == FL_STREAM_GONE)
            peer_is_gone(c);
        return false;
    }
    c->heard_ms = fl_loop_now_ms(c->loop);
    *left -= (size_t)r;
    if (to == stage)
        take_stage(c, stage, (size_t)r);
    else
        add_to_payload(c, (size_t)r);
    return is_secret || (size_t)r == n;
}

static void read_round(fl_conn *c)
{
    uint8_t stage[STAGE_BYTES];
    size_t left = ROUND_BYTES;

    while (c->s && left && read_some(c, stage, &left))
        ;
}

/* --- writing -------------------------------------------------------------- */

static void end_broken(void *arg)
{
    fl_conn *c = arg;

    enter(c);
    c->timer = 0;
    read_round(c);
    if (c->s)
        close_by(c, fl_err_restore(&c->why));
    leave(c);
}

static void break_later(fl_conn *c, fl_status st)
{
    if (c->is_broken)
        return;
    c->is_broken = true;
    fl_err_save(&c->why, st);
    c->timer = fl_loop_timer(c->loop, 0, end_broken, c);
}

static bool can_send(const fl_conn *c)
{
    return c->s && !c->is_broken && !c->is_freed;
}

/* Moves the list of places that are free again into a message. */
static void append_give_back(fl_conn *c)
{
    fl_frame f = { .type = FL_TYPE_ARENA, .flags = FL_FRAME_REPLY };
    fl_pack p = { 0 };

    for (size_t i = 0; i < c->n_give; i++)
        fl_pack_u64(&p, c->give[i]);
    fl_outbox_add(&c->out, fl_out_copy(&f, p.data, p.len));
    fl_pack_release(&p);
    c->n_give = 0;
    c->give_bytes = 0;
}

/* One call of write; false when the stream is full or gone. */
static bool write_some(fl_conn *c, size_t *left)
{
    struct iovec v[IOV_MAX];
    bool is_secret = c->s->is_secret;
    int n;
    size_t bytes = fl_outbox_gather(&c->out, v, IOV_MAX, &n);
    ptrdiff_t r = c->s->ops->write(c->s, v, n);

    if (r < 0) {
        if (r == FL_STREAM_GONE)
            break_later(c, FL_ERR_IO);
        return false;
    }
    *left -= (size_t)r < *left ? (size_t)r : *left;
    fl_out_finish(fl_outbox_taken(&c->out, (size_t)r, &c->stats));
    return is_secret || (size_t)r == bytes;
}

static void ask_for_events(fl_conn *c)
{
    unsigned events = FL_IO_READ;

    if (!c->s)
        return;
    if ((c->out.first || c->was_full) && !c->is_broken)
        events |= FL_IO_WRITE;
    if (events != c->wanted)
        c->s->ops->want(c->s, events);
    c->wanted = events;
}

static void note_full(fl_conn *c)
{
    if (c->e.on_room && fl_conn_is_full(c))
        c->was_full = true;
}

/* Writes what the stream takes; the event tells when it takes more. */
static void flush(fl_conn *c)
{
    size_t left = ROUND_BYTES;

    c->is_deferred = false;
    if (c->out.first && c->n_give)
        append_give_back(c);
    while (c->s && c->out.first && !c->is_broken && left &&
           write_some(c, &left))
        ;
    note_full(c);
    ask_for_events(c);
}

/* Inside of a callback messages wait for its end, to leave together; and
   behind others they wait for the stream's event. */
static void submit(fl_conn *c, fl_out *m)
{
    bool must_wait = c->out.first && !c->is_deferred;

    c->is_deferred = false;
    fl_outbox_add(&c->out, m);
    if (c->depth || must_wait) {
        note_full(c);
        return;
    }
    enter(c);
    flush(c);
    leave(c);
}

void fl_conn_hold(fl_conn *c)
{
    enter(c);
}

void fl_conn_defer(fl_conn *c)
{
    c->is_deferred = true;
}

void fl_conn_let_go(fl_conn *c)
{
    if (c->depth == 1 && c->out.first)
        flush(c);
    leave(c);
}

/* Once per event: what the owner then sends may make it full again. */
static void tell_room(fl_conn *c)
{
    if (!c->s || !c->was_full || fl_conn_is_full(c))
        return;
    c->was_full = false;
    c->e.on_room(c->arg, c);
    flush(c);
}

static void on_ready(void *arg, unsigned events)
{
    fl_conn *c = arg;

    enter(c);
    if (events & FL_IO_READ)
        read_round(c);
    if (!c->is_deferred || (events & FL_IO_WRITE))
        flush(c);
    tell_room(c);
    leave(c);
}

/* --- the arena ------------------------------------------------------------ */

static void give_back(void *arg, uint64_t place, uint64_t len)
{
    fl_conn *c = arg;
    bool is_alone = !c->out.first;

    if (!can_send(c))
        return;
    c->give[c->n_give++] = place;
    c->give_bytes += len;
    if (c->n_give < GIVE_LIST &&
        c->give_bytes < fl_arena_in_bytes(c->peer_arena) / 8)
        return;
    append_give_back(c);
    if (!c->depth && is_alone) {
        enter(c);
        flush(c);
        leave(c);
    }
}

fl_status fl_conn_offer_arena(fl_conn *c)
{
    fl_frame f = { .type = FL_TYPE_ARENA };
    fl_arena_out *a = NULL;
    fl_pack p = { 0 };
    fl_status st;

    if (!can_send(c) || c->arena || !c->o.arena_bytes || !c->s->is_local ||
        c->s->is_secret || !c->s->ops->send_fd)
        return FL_OK;
    st = fl_arena_out_new(&a, c->o.arena_bytes);
    if (!st)
        st = c->s->ops->send_fd(c->s, fl_arena_out_fd(a));
    if (st) {
        fl_arena_out_free(a);
        return fl_err_ctx(st, "connection with %s", c->peer);
    }
    c->arena = a;
    fl_pack_u64(&p, fl_arena_out_bytes(a));
    fl_conn_send_copy(c, &f, p.data, p.len);
    fl_pack_release(&p);
    return FL_OK;
}

/* The descriptor is taken off the stream in any case. */
static fl_status map_peer_arena(fl_conn *c, uint64_t bytes)
{
    fl_status st = FL_OK;
    int fd = -1;

    if (!c->s->ops->take_fd)
        FL_FAIL(FL_ERR_CORRUPT, "a shared arena is offered over a stream that "
                                "carries no descriptors");
    FL_TRY(c->s->ops->take_fd(c->s, &fd));
    if (c->peer_arena)
        st = fl_err_set(FL_ERR_CORRUPT, "a second shared arena is offered");
    else if (c->o.arena_bytes)
        st = fl_arena_in_new(&c->peer_arena, fd, bytes);
    close(fd);
    return st;
}

fl_status fl_conn_accept_arena(fl_conn *c, const fl_payload *payload)
{
    fl_frame f = { .type = FL_TYPE_ARENA, .flags = FL_FRAME_REPLY };
    fl_unpack u = { 0 };
    uint64_t bytes;

    if (!can_send(c))
        return FL_OK;
    if (!payload || fl_payload_len(payload) != PLACE_BYTES)
        FL_FAIL(FL_ERR_CORRUPT,
                "connection with %s: the offer of a shared arena has not the "
                "length of one",
                c->peer);
    u.at = fl_payload_data(payload);
    u.end = u.at + PLACE_BYTES;
    bytes = fl_unpack_u64(&u);
    FL_TRY(fl_err_ctx(map_peer_arena(c, bytes), "connection with %s", c->peer));
    if (c->peer_arena)
        fl_conn_send_copy(c, &f, NULL, 0);
    return FL_OK;
}

void *fl_conn_reserve(fl_conn *c, uint64_t len, uint64_t *place)
{
    if (!can_send(c) || !c->is_accepted || len < FL_CONN_ARENA_MIN)
        return NULL;
    return fl_arena_out_take(c->arena, len, place);
}

void fl_conn_drop_reserved(fl_conn *c, uint64_t place)
{
    /* A hostile peer may have given back what it never got; then there is
       nothing to drop, and that is all right. */
    if (c->arena)
        fl_arena_out_give(c->arena, place);
}

void fl_conn_send_reserved(fl_conn *c, const fl_frame *f, uint64_t place,
                           uint64_t len)
{
    fl_frame framed = *f;

    if (!can_send(c))
        return;
    framed.length = len;
    if (len) {
        framed.flags |= FL_FRAME_ARENA;
        framed.arena = place;
    } else {
        fl_conn_drop_reserved(c, place);
    }
    submit(c, fl_out_new(&framed, &(fl_message){ 0 }));
}

/* --- sending -------------------------------------------------------------- */

static void copy_pieces(uint8_t *to, const struct iovec *pieces, int n)
{
    for (int i = 0; i < n; i++) {
        if (pieces[i].iov_len)
            memcpy(to, pieces[i].iov_base, pieces[i].iov_len);
        to += pieces[i].iov_len;
    }
}

void fl_conn_send(fl_conn *c, const fl_message *m)
{
    fl_frame f = m->frame;
    uint64_t place;
    void *room;

    f.length = 0;
    for (int i = 0; i < m->n_pieces; i++)
        f.length += m->pieces[i].iov_len;
    room = fl_conn_reserve(c, f.length, &place);
    if (can_send(c) && !room) {
        submit(c, fl_out_new(&f, m));
        return;
    }
    if (room) {
        copy_pieces(room, m->pieces, m->n_pieces);
        fl_conn_send_reserved(c, &f, place, f.length);
    }
    if (m->done)
        m->done(m->arg);
}

void fl_conn_send_copy(fl_conn *c, const fl_frame *f, const void *payload,
                       size_t len)
{
    uint64_t place;
    void *room = fl_conn_reserve(c, len, &place);
    fl_out *m;

    if (!can_send(c))
        return;
    if (room) {
        memcpy(room, payload, len);
        fl_conn_send_reserved(c, f, place, len);
        return;
    }
    m = fl_out_copy(f, payload, len);
    if (m)
        submit(c, m);
    else
        break_later(c, fl_err_ctx(no_memory(len), "sending to %s", c->peer));
}

/* --- the rest ------------------------------------------------------------- */

fl_conn *fl_conn_new(fl_stream *s, const fl_conn_options *o,
                     const fl_conn_events *e, void *arg)
{
    fl_conn *c = fl_alloc(sizeof(*c));

    c->s = s;
    c->loop = s->loop;
    c->o = *o;
    c->e = *e;
    c->arg = arg;
    memcpy(c->peer, s->peer, sizeof(c->peer));
    fl_outbox_init(&c->out);
    c->heard_ms = fl_loop_now_ms(c->loop);
    c->home = fl_payload_home_new(give_back, c);
    s->ready = on_ready;
    s->arg = c;
    ask_for_events(c);
    return c;
}

void fl_conn_free(fl_conn *c)
{
    if (!c)
        return;
    FL_ASSERT(!c->is_freed);
    c->is_freed = true;
    enter(c);
    if (c->s)
        flush(c);
    shut(c);
    leave(c);
}

void fl_conn_set_max_bytes(fl_conn *c, uint64_t max_bytes)
{
    c->o.max_bytes = max_bytes;
}

bool fl_conn_is_full(const fl_conn *c)
{
    return c->out.waiting_bytes > c->o.window_bytes;
}

const char *fl_conn_peer(const fl_conn *c)
{
    return c->peer;
}

fl_stream *fl_conn_stream(const fl_conn *c)
{
    return c->s;
}

uint64_t fl_conn_heard_ms(const fl_conn *c)
{
    return c->heard_ms;
}

fl_conn_stats fl_conn_stats_get(const fl_conn *c)
{
    return c->stats;
}
