/* host_inside.h - what the files of a host share.
 *
 *     host.c     listening, the loops' lanes, the limit of connections
 *     peer.c     a connection: its handshake and its messages (peer.h)
 *     member.c   who has which rank: sessions and their handing over
 *     session.c  exactly once
 *     reply.c    answers that are owed
 *
 * Lock order: the host's mu, then a session's; neither is held while a callback
 * runs.
 */
#ifndef FL_RPC_HOST_INSIDE_H
#define FL_RPC_HOST_INSIDE_H

#include "base/map.h"
#include "base/vec.h"
#include "rpc/peer.h"

/* Who has a role and a rank; guarded by the host's mu. Processes that were
   given no incarnation yet are members of their own. */
struct fl_member {
    fl_member_role role;
    uint32_t rank;
    bool is_named;       /* its incarnation is not 0 */
    uint32_t newest;     /* incarnation */
    fl_session *session; /* of the newest one; NULL before its first */
    fl_peer *now;        /* a reference to the connection that has the rank */
    fl_peer *next;       /* a reference to the one that takes over from it */
    uint64_t left;       /* when, by a count */
};

/* The connections of one loop; loop only. */
struct fl_lane {
    fl_host *host;
    fl_loop *loop;
    fl_peer *first; /* those that are gone stay until the next look */
    uint64_t timer, due_ms;
};

struct fl_host {
    atomic_int refs;
    fl_net *net;
    fl_host_options o;
    fl_host_events e;
    void *arg;
    fl_listener *listener;
    fl_lane *lanes;
    int n_lanes;
    _Atomic uint64_t step; /* the highest that a client was at */

    fl_mutex mu;
    atomic_bool is_closed;            /* written under mu */
    int n_conns;                      /* guarded by mu */
    fl_peer *shaking, *shaking_last;  /* guarded by mu */
    FL_VEC(fl_member *) members;      /* guarded by mu */
    uint64_t n_left;                  /* guarded by mu */
    fl_map refused;                   /* addresses, logged; guarded by mu */
    FL_VEC(char *) refused_addresses; /* its keys; guarded by mu */
};

/* --- host.c --------------------------------------------------------------- */

void fl_host_unref(fl_host *h);
/* Posts fn(arg), or returns false when the host was freed. */
bool fl_host_post(fl_host *h, fl_loop *l, fl_loop_fn fn, void *arg);
/* Logs the first time for each address. */
void fl_host_say_refused(fl_host *h, const char *peer, const char *why);
/* One that is on the list keeps its place. */
void fl_host_add_shaking(fl_host *h, fl_peer *p);
/* Of a peer that is up or gone. */
typedef enum fl_conn_end { FL_CONN_STAYS, FL_CONN_ENDS } fl_conn_end;
void fl_host_end_shaking(fl_host *h, fl_peer *p, fl_conn_end end);
void fl_lane_add(fl_lane *lane, fl_peer *p);

/* --- member.c ------------------------------------------------------------- */

/* Makes the rank this peer's, at once or when the older one has left it, by
   fl_peer_up. Its loop. */
FL_MUST_CHECK
fl_status fl_member_join(fl_peer *p);
void fl_member_leave(fl_peer *p);
/* Its session, with a reference for the caller; a new one for a new
   incarnation. */
fl_session *fl_member_session(fl_peer *p);
void fl_member_free_all(fl_host *h);

/* --- reply.c -------------------------------------------------------------- */

fl_reply *fl_reply_new(fl_peer *p, const fl_frame *asked);
/* A reply that is remembered, sent again. */
void fl_reply_again(fl_peer *p, const fl_frame *asked, const fl_remembered *r);

#endif
