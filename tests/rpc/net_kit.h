/* net_kit.h - two ends that talk by sockets, each in a loop of its own. */
#ifndef FL_TESTS_RPC_NET_KIT_H
#define FL_TESTS_RPC_NET_KIT_H

#include "loop_kit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "rpc/stream/socket.h"

#define KIT_TIMEOUT_MS 30000
#define KIT_STREAMS 64

/* A net, a loop that listens and one that dials, and what came of it. */
typedef struct net_pair {
    fl_net *net;
    fl_loop *loops[2]; /* the first one accepts, the second one dials */
    fl_listener *door;
    char address[FL_ADDRESS_MAX];
    fl_stream *accepted[KIT_STREAMS]; /* by the first loop, until `came` */
    bool accepted_elsewhere;          /* not in the first loop */
    gate came;
    fl_stream *dialled; /* by the second loop, until `done` */
    fl_err failed;
    gate done;
    void *handle;
    /* what the next dial does */
    const char *to;
    uint64_t timeout_ms;
    fl_status dial_st;
} net_pair;

static inline void net_pair_accept(void *arg, fl_stream *s)
{
    net_pair *t = arg;
    size_t n = gate_count(&t->came);

    FL_ASSERT(n < KIT_STREAMS);
    t->accepted[n] = s;
    if (!fl_loop_is_mine(t->loops[0]))
        t->accepted_elsewhere = true;
    gate_add(&t->came);
}

static inline void net_pair_init(net_pair *t, const fl_socket_options *o)
{
    *t = (net_pair){ .timeout_ms = KIT_TIMEOUT_MS };
    gate_init(&t->came);
    gate_init(&t->done);
    assert_ok(fl_net_sockets(&t->net, o));
    assert_ok(fl_loop_new(&t->loops[0], "accepts"));
    assert_ok(fl_loop_new(&t->loops[1], "dials"));
}

static inline void kit_close(void *arg)
{
    fl_stream *s = arg;

    s->ops->close(s);
}

/* NULL is fine. */
static inline void net_pair_close(fl_stream *s)
{
    if (s)
        in_loop(s->loop, kit_close, s);
}

static inline void net_pair_release(net_pair *t)
{
    t->net->ops->unlisten(t->door);
    net_pair_close(t->dialled);
    for (size_t i = 0; i < KIT_STREAMS; i++)
        net_pair_close(t->accepted[i]);
    fl_loop_free(t->loops[1]);
    fl_loop_free(t->loops[0]);
    fl_net_free_sockets(t->net);
    gate_release(&t->came);
    gate_release(&t->done);
}

/* Accepts for the first loop alone. */
static inline void net_pair_listen(net_pair *t, const char *address)
{
    assert_ok(t->net->ops->listen(
        t->net,
        &(fl_listen_args){ address, t->loops[0], NULL, net_pair_accept, t },
        &t->door, t->address));
}

static inline void net_pair_dialled(void *arg, fl_stream *s)
{
    net_pair *t = arg;

    t->dialled = s;
    t->failed.status = FL_OK;
    if (!s)
        snprintf(t->failed.text, sizeof(t->failed.text), "%s", fl_last_error());
    gate_add(&t->done);
}

static inline void net_pair_dial_inside(void *arg)
{
    net_pair *t = arg;

    t->dial_st =
        t->net->ops->dial(t->net,
                          &(fl_dial_args){ t->loops[1], t->to, t->timeout_ms,
                                           net_pair_dialled, t },
                          &t->handle);
    if (t->dial_st)
        fl_err_save(&t->failed, t->dial_st);
}

/* Dials and waits for what comes of it. */
static inline void net_pair_dial(net_pair *t, const char *address)
{
    size_t before = gate_count(&t->done);

    t->to = address;
    in_loop(t->loops[1], net_pair_dial_inside, t);
    if (t->dial_st)
        fail_msg("%s", t->failed.text);
    gate_wait(&t->done, before + 1);
}

/* Both ends are there. */
static inline void net_pair_connect(net_pair *t, const char *address)
{
    size_t before = gate_count(&t->came);

    net_pair_dial(t, address);
    if (!t->dialled)
        fail_msg("%s", t->failed.text);
    gate_wait(&t->came, before + 1);
}

static inline void net_pair_fails(net_pair *t, const char *address,
                                  const char *said)
{
    net_pair_dial(t, address);
    assert_null(t->dialled);
    if (!strstr(t->failed.text, said))
        fail_msg("'%s' does not say '%s'", t->failed.text, said);
}

#endif
