/* server_conn.h - a connection on the server's side.
 *
 * A peer belongs to its loop and is a counted reference: replies, results that
 * are open and posts hold one, too, and find it gone (conn NULL) when they come
 * too late.
 */
#ifndef FL_RPC_SERVER_SERVER_CONN_H
#define FL_RPC_SERVER_SERVER_CONN_H

#include "rpc/wire/heartbeat.h"
#include "rpc/server/session.h"
#include "rpc/wire/handshake.h"

typedef struct fl_loop_conns fl_loop_conns; /* rpc_server_inside.h */
typedef struct fl_rank_slot fl_rank_slot;   /* rpc_server_inside.h */

typedef enum fl_server_conn_phase {
    FL_SERVER_CONN_NEW,     /* not in its loop yet */
    FL_SERVER_CONN_HELLO,   /* a HELLO is awaited */
    FL_SERVER_CONN_PROOF,   /* a PROOF is awaited */
    FL_SERVER_CONN_WAITING, /* for its session's older connection to end */
    FL_SERVER_CONN_UP,
    FL_SERVER_CONN_LEAVING, /* it was told why, and should close */
    FL_SERVER_CONN_GONE
} fl_server_conn_phase;

struct fl_server_conn {
    atomic_int refs;
    fl_rpc_server *host; /* a reference */
    fl_loop_conns *conns;

    /* Loop only. */
    fl_server_conn *conns_next;
    fl_stream *stream; /* until it is started */
    fl_conn *conn;     /* NULL: gone */
    fl_server_conn_phase phase;
    uint64_t since_ms; /* in the handshake, or leaving */
    uint64_t sent_ms;
    fl_heartbeat heartbeat;
    fl_pack hello; /* as it came */
    fl_hello said;
    uint8_t nonce[FL_NONCE_BYTES];
    fl_rank_slot *member; /* NULL: none, or no more */
    fl_session *session;  /* a reference, while it is up */

    /* Guarded by the host's mu: without a session, the oldest first. */
    fl_server_conn *shaking_prev, *shaking_next;
    bool in_handshake;
};

fl_server_conn *fl_server_conn_new(fl_rpc_server *h, fl_loop_conns *conns,
                                   fl_stream *s);
fl_server_conn *fl_server_conn_ref(fl_server_conn *p);
void fl_server_conn_unref(fl_server_conn *p);
/* Calls fn(p) in its loop, at once when that is this one, with a reference that
   fn gives up. */
void fl_server_conn_in_loop(fl_server_conn *p, fl_loop_fn fn);

/* For fl_server_conn_in_loop. */
void fl_server_conn_start(void *peer);
void fl_server_conn_up(void *peer); /* it has the rank now */
void fl_server_conn_taken_over(
    void *peer); /* a newer connection wants the rank */
void fl_server_conn_set_back(void *peer); /* its session was restored */
void fl_server_conn_give_way(void *peer); /* there are too many */

/* Loop only. */
void fl_server_conn_check(fl_server_conn *p, uint64_t paused_ms);
void fl_server_conn_drop(fl_server_conn *p); /* without a callback */
/* For one that is up; nothing for others. */
void fl_server_conn_log(fl_server_conn *p, uint8_t level, const char *line);
void fl_server_conn_dismiss(fl_server_conn *p, const fl_err *why);
/* Head of a reply to a request. */
fl_frame fl_server_conn_reply_head(const fl_server_conn *p,
                                   const fl_frame *asked, uint16_t flags);
/* Dropped when it is not up. */
void fl_server_conn_send(fl_server_conn *p, const fl_message *m);

#endif
