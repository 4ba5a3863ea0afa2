/* fuzz_conn.c - bytes as what a peer sends. The first byte says how: bit 0, the
 * stream is local and carries a descriptor; bit 1, the descriptor is a sound
 * arena; bit 2, ours is offered; bit 3, payloads are kept to the end; bit 4,
 * the connection is freed inside of its fifth message. The second byte is the
 * size of a read, 0 for all there is. */
#include "kit.h"

#include <fcntl.h>

#include "ps/msg/message.h"
#include "rpc/stream/shared_arena.h"
#include "rpc/wire/conn.h"
#include "rpc/sim/sim.h"

#define HOW_BYTES 2
#define KEEP_MAX 64
#define REPLY_BYTES 10000

enum how {
    HOW_LOCAL = 1,
    HOW_ARENA = 2,
    HOW_OFFER = 4,
    HOW_KEEP = 8,
    HOW_FREE = 16
};

typedef struct feed {
    fl_stream base;
    const uint8_t *at, *end;
    size_t chunk;
    unsigned wanted;
    bool is_closed;
} feed;

typedef struct owner {
    unsigned how;
    fl_conn *c; /* NULL once it is freed */
    uint64_t n_messages;
    int n_closes;
    fl_payload *kept[KEEP_MAX];
    size_t n_kept;
    uint64_t sum;
} owner;

static fl_arena_out *peer_arena;

static ptrdiff_t feed_read(fl_stream *s, void *to, size_t n)
{
    feed *f = (feed *)s;
    size_t has = (size_t)(f->end - f->at);

    if (!has) {
        (void)fl_err_set(FL_ERR_IO, "the input has ended");
        return FL_STREAM_GONE;
    }
    n = n < has ? n : has;
    n = n < f->chunk ? n : f->chunk;
    memcpy(to, f->at, n);
    f->at += n;
    return (ptrdiff_t)n;
}

/* Takes a part now and then, so that messages wait. */
static ptrdiff_t feed_write(fl_stream *s, const struct iovec *v, int n)
{
    feed *f = (feed *)s;
    size_t bytes = 0;

    for (int i = 0; i < n; i++)
        bytes += v[i].iov_len;
    return (ptrdiff_t)(bytes > f->chunk ? f->chunk : bytes);
}

static void feed_want(fl_stream *s, unsigned events)
{
    ((feed *)s)->wanted = events;
}

static void feed_close(fl_stream *s)
{
    ((feed *)s)->is_closed = true;
}

static fl_status feed_send_fd(fl_stream *s, int fd)
{
    (void)s;
    (void)fd;
    return FL_OK;
}

static fl_status feed_take_sound(fl_stream *s, int *fd)
{
    (void)s;
    *fd = dup(fl_arena_out_fd(peer_arena));
    return FL_OK;
}

static fl_status feed_take_other(fl_stream *s, int *fd)
{
    (void)s;
    *fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return FL_OK;
}

static void take_message(owner *o, fl_conn *c, const fl_frame *f, fl_payload *p)
{
    uint8_t reply[REPLY_BYTES] = { 1 };
    uint64_t place;

    for (uint64_t i = 0; i < f->length; i++)
        o->sum += fl_payload_data(p)[i];
    fl_conn_send_copy(c, f, reply, o->n_messages % 2 ? REPLY_BYTES : 10);
    if (fl_conn_reserve(c, REPLY_BYTES, &place))
        fl_conn_send_reserved(c, f, place, o->n_messages % 3 ? REPLY_BYTES : 0);
}

static void on_message(void *arg, fl_conn *c, const fl_frame *f, fl_payload *p)
{
    owner *o = arg;

    MUST(!o->n_closes && o->c == c);
    MUST(f->length == (p ? fl_payload_len(p) : 0));
    o->n_messages++;
    if (f->type == FL_TYPE_ARENA && fl_conn_accept_arena(c, p))
        MUST(*fl_last_error());
    take_message(o, c, f, p);
    if ((o->how & HOW_KEEP) && o->n_kept < KEEP_MAX)
        o->kept[o->n_kept++] = p;
    else
        fl_payload_free(p);
    if ((o->how & HOW_FREE) && o->n_messages == 5) {
        fl_conn_free(c);
        o->c = NULL;
    }
}

static void on_close(void *arg, fl_conn *c, fl_status why)
{
    owner *o = arg;

    MUST(o->c == c && why && *fl_last_error());
    o->n_closes++;
}

static void run(owner *o, feed *f, fl_sim *sim)
{
    static const fl_conn_events events = { on_message, on_close, NULL };
    fl_conn_options options = { .max_bytes = 1 << 20,
                                .window_bytes = 1 << 16,
                                .names = fl_msg_find_name,
                                .arena_bytes = 1 << 18 };

    f->base.loop = fl_sim_loop(sim);
    o->c = fl_conn_new(&f->base, &options, &events, o);
    if (o->how & HOW_OFFER)
        MUST(!fl_conn_offer_arena(o->c));
    while (!f->is_closed) {
        MUST(f->wanted & FL_IO_READ);
        f->base.ready(f->base.arg, f->wanted);
    }
    MUST(o->c ? o->n_closes == 1 : o->n_closes == 0);
    fl_conn_free(o->c);
    for (size_t i = 0; i < o->n_kept; i++) {
        if (o->kept[i])
            o->sum += *fl_payload_data(o->kept[i]);
        fl_payload_free(o->kept[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fl_sim_faults none = { .seed = 1 };
    size_t before = fl_data_bytes();
    fl_stream_ops ops = { .read = feed_read,
                          .write = feed_write,
                          .want = feed_want,
                          .close = feed_close };
    owner o = { 0 };
    feed f = { .base = { .ops = &ops, .peer = "input" } };
    fl_sim *sim;

    if (size < HOW_BYTES)
        return 0;
    o.how = data[0];
    f.base.is_local = o.how & HOW_LOCAL;
    if (o.how & HOW_LOCAL) {
        ops.send_fd = feed_send_fd;
        ops.take_fd = o.how & HOW_ARENA ? feed_take_sound : feed_take_other;
    }
    f.chunk = data[1] ? data[1] : SIZE_MAX;
    f.at = data + HOW_BYTES;
    f.end = data + size;
    MUST(!fl_arena_out_new(&peer_arena, 1 << 16));
    sim = fl_sim_new(&none);
    run(&o, &f, sim);
    fl_sim_free(sim);
    fl_arena_out_free(peer_arena);
    MUST(fl_data_bytes() == before);
    return 0;
}
