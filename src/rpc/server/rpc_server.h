/* rpc_server.h - a server's side: listening, handshakes, requests, exactly
 * once.
 *
 * A connection stays in one loop, and a request is worked on to its end there.
 * A client is a session: role, rank and incarnation. A session outlives its
 * connections. Requests with a sequence number are applied in order and once:
 * the session remembers the last number it applied and the results of the last
 * FL_RPC_SERVER_RESULTS of them; a repeated one gets the remembered result. A
 * new connection of a session ends its older one first, and the two never run
 * at the same time. An older incarnation of a rank is refused once a newer one
 * was seen. Incarnation 0 (none given yet) is not compared: it has a session of
 * its own.
 *
 * A session lives until a newer incarnation has taken its place (or, of tools,
 * until many others have come and gone), its connection is down and its last
 * reply was given; then `release` of fl_session_set is called, by any thread.
 */
#ifndef FL_RPC_SERVER_RPC_SERVER_H
#define FL_RPC_SERVER_RPC_SERVER_H

#include "rpc/wire/conn.h"
#include "rpc/wire/hello.h"

#define FL_RPC_SERVER_RESULTS 128

typedef struct fl_rpc_server fl_rpc_server;
typedef struct fl_session fl_session;

/* An answer that is owed. Give exactly one, from any loop or thread; a reply to
   a session whose connection is gone is dropped (it will ask again), as is one
   that is given after fl_rpc_server_free. The reply to a request with a
   sequence number is remembered: at most 1 KB. */
typedef struct fl_reply fl_reply;
/* Copies. */
void fl_reply_send(fl_reply *r, const void *payload, size_t len);
/* Borrowed until done, as fl_conn_send. */
void fl_reply_send_pieces(fl_reply *r, const struct iovec *pieces, int n,
                          void (*done)(void *arg), void *arg);
/* Room in the connection's arena, or NULL; then send it, or give another
   answer instead. In the loop. */
void *fl_reply_reserve(fl_reply *r, uint64_t len);
void fl_reply_send_reserved(fl_reply *r);
/* This thread's last error. */
void fl_reply_error(fl_reply *r, fl_status st);
fl_session *fl_reply_session(const fl_reply *r);
/* What is answered to its connection from now on leaves together, when that is let
   go (fl_conn_let_go); NULL: the connection is gone. In the loop. */
fl_conn *fl_reply_hold(const fl_reply *r);
/* What was answered to its connection in this callback leaves with the next
   answer. In the loop. */
void fl_reply_defer_others(const fl_reply *r);
/* Calls fn(arg) in the loop of its connection, soon; false when the server has
   been freed. Any thread. */
bool fl_reply_post(const fl_reply *r, fl_loop_fn fn, void *arg);

typedef struct fl_rpc_server_events {
    /* A request, in the connection's loop. The payload is the receiver's. */
    void (*on_request)(void *arg, fl_session *s, const fl_frame *f,
                       fl_payload *payload, fl_reply *r);
    /* A session's connection came or went; `why` is FL_OK for a BYE, else
       fl_last_error says it. In its loop. May be NULL. */
    void (*on_up)(void *arg, fl_session *s);
    void (*on_down)(void *arg, fl_session *s, fl_status why);
    /* Nothing was heard for suspect_ms, or it is heard again. May be NULL. */
    void (*on_silent)(void *arg, fl_session *s, bool silent);
    /* Whether this one may come in; an error is sent to it. May be NULL. */
    fl_status (*admit)(void *arg, const fl_identity *id);
} fl_rpc_server_events;

/* State that a saved cut needs, and its way back: the last sequence number of
   each session. */
typedef struct fl_session_mark {
    fl_member_role role;
    uint32_t rank, incarnation;
    uint64_t sequence;
} fl_session_mark;

typedef struct fl_rpc_server_options {
    const char *listen; /* borrowed for the call, as are loops and events */
    fl_loop **loops;
    int n_loops;
    const fl_rpc_server_events *events;
    void *arg; /* of the events */
    fl_identity me;
    const char *token; /* borrowed */
    fl_conn_options conn;
    uint64_t ping_ms, suspect_ms;
    uint64_t handshake_ms; /* a connection that takes longer is closed */
    int max_connections;   /* the oldest one without a handshake gives way,
                              else a newcomer is refused */
    /* As fl_rpc_server_set_marks, before anybody can come in; borrowed for the
       call. */
    const fl_session_mark *marks;
    size_t n_marks;
} fl_rpc_server_options;

/* Listens; *address is what clients dial. */
FL_MUST_CHECK
fl_status fl_rpc_server_new(fl_rpc_server **out, fl_net *net,
                            const fl_rpc_server_options *o,
                            char address[FL_ADDRESS_MAX]);
/* Closes everything; no callback comes afterwards. Not from a callback. */
void fl_rpc_server_free(fl_rpc_server *h);

/* A line for people at every member that is connected, tools left out; level is
   that of base/log.h. Any thread. */
void fl_rpc_server_log(fl_rpc_server *h, uint8_t level, const char *line);

/* Ends the connections of all members of a role with this thread's last error;
   their links give up. Any thread. */
void fl_rpc_server_dismiss(fl_rpc_server *h, fl_member_role role,
                           fl_status why);

/* In callbacks about this session, as of its last handshake. */
const fl_identity *fl_session_who(const fl_session *s);
const char *fl_session_peer(const fl_session *s);
/* Any thread, while the session lives. */
uint64_t fl_session_step(const fl_session *s); /* last one seen */
uint64_t fl_session_heard_ms_ago(const fl_session *s);
/* What the owner keeps with a session, until its release. */
void fl_session_set(fl_session *s, void *data, void (*release)(void *data));
void *fl_session_data(const fl_session *s);

/* How many there are; at most `cap` are stored. */
size_t fl_rpc_server_marks(fl_rpc_server *h, fl_session_mark *out, size_t cap);
/* A session that is connected has to come in again, and sees what was lost. */
void fl_rpc_server_set_marks(fl_rpc_server *h, const fl_session_mark *marks,
                             size_t n);

#endif
