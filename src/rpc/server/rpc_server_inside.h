/* rpc_server_inside.h - what the files of a host share.
 *
 *     rpc_server.c     listening, connections of each loop, their limit
 *     server_conn.c     a connection: its handshake and its messages
 *     (server_conn.h) rank_slot.c   who has which rank: sessions and their
 *     handing over session.c  exactly once
 *     reply.c    answers that are owed
 *
 * Lock order: the host's mu, then a session's; neither is held while a callback
 * runs.
 */
#ifndef FL_RPC_SERVER_RPC_SERVER_INSIDE_H
#define FL_RPC_SERVER_RPC_SERVER_INSIDE_H

#include "base/map.h"
#include "base/vec.h"
#include "rpc/server/server_conn.h"

/* Who has a role and a rank; guarded by the host's mu. Processes that were
   given no incarnation yet are members of their own. */
struct fl_rank_slot {
    fl_member_role role;
    uint32_t rank;
    bool is_named;        /* its incarnation is not 0 */
    uint32_t newest;      /* incarnation */
    fl_session *session;  /* of the newest one; NULL before its first */
    fl_server_conn *now;  /* a reference to the connection that has the rank */
    fl_server_conn *next; /* a reference to the one that takes over from it */
    uint64_t left;        /* when, by a count */
};

/* The connections of one loop; loop only, but for the count. */
struct fl_loop_conns {
    fl_rpc_server *host;
    fl_loop *loop;
    fl_server_conn *first; /* those that are gone stay until the next look */
    uint64_t timer, due_ms;
    atomic_int n_members; /* that are up and have an incarnation */
};

struct fl_rpc_server {
    atomic_int refs;
    fl_net *net;
    fl_rpc_server_options o;
    char look_token[FL_LOOK_TOKEN_BYTES];
    fl_rpc_server_events e;
    fl_listener *listener;
    fl_loop_conns *by_loop; /* n_loops */
    int n_loops;
    _Atomic uint64_t step; /* the highest that a client was at */

    fl_mutex mu;
    atomic_bool is_closed; /* written under mu */
    int n_conns;           /* guarded by mu */
    int turn;              /* loop that is next among equals; by who accepts */
    fl_server_conn *shaking, *shaking_last; /* guarded by mu */
    FL_VEC(fl_rank_slot *) members;         /* guarded by mu */
    uint64_t n_left;                        /* guarded by mu */
    fl_map refused;                   /* addresses, logged; guarded by mu */
    FL_VEC(char *) refused_addresses; /* its keys; guarded by mu */
};

/* --- rpc_server.c
   --------------------------------------------------------------- */

void fl_rpc_server_unref(fl_rpc_server *h);
/* Posts fn(arg), or returns false when the host was freed. */
bool fl_rpc_server_post(fl_rpc_server *h, fl_loop *l, fl_loop_fn fn, void *arg);
/* Logs the first time for each address. */
void fl_rpc_server_log_refused(fl_rpc_server *h, const char *peer,
                               const char *why);
/* One that is on the list keeps its place. */
void fl_rpc_server_add_shaking(fl_rpc_server *h, fl_server_conn *p);
/* Of a peer that is up or gone. */
typedef enum fl_conn_end { FL_CONN_STAYS, FL_CONN_ENDS } fl_conn_end;
void fl_rpc_server_end_shaking(fl_rpc_server *h, fl_server_conn *p,
                               fl_conn_end end);
void fl_loop_conns_add(fl_loop_conns *conns, fl_server_conn *p);

/* --- rank_slot.c -------------------------------------------------------------
   */

/* Makes the rank this peer's, at once or when the older one has left it, by
   fl_server_conn_up. Its loop. */
FL_MUST_CHECK
fl_status fl_rank_slot_join(fl_server_conn *p);
void fl_rank_slot_leave(fl_server_conn *p);
/* Its session, with a reference for the caller; a new one for a new
   incarnation. */
fl_session *fl_rank_slot_session(fl_server_conn *p);
void fl_rank_slot_free_all(fl_rpc_server *h);

/* --- reply.c -------------------------------------------------------------- */

fl_reply *fl_reply_new(fl_server_conn *p, const fl_frame *asked);
/* A reply that is remembered, sent again. */
void fl_reply_again(fl_server_conn *p, const fl_frame *asked,
                    const fl_remembered *r);

#endif
