/* rpc_client.h - a client's way to one server: requests, replies, and what
 * happens when the connection breaks.
 *
 * Requests are answered in any order; several are under way at once, up to a
 * window. When the connection breaks, the link dials again with growing pauses,
 * shakes hands and sends every unanswered request again, in order; requests
 * marked `once` carry a sequence number by which the server knows those it has
 * applied. A server that comes back with another boot id (without its state) is
 * not accepted: every request fails with FL_ERR_CLOSED and says so.
 *
 * Signs of life go both ways; silence beyond suspect_ms is told to the owner,
 * and its end, too. A request has a deadline; without one it waits as long as
 * the link hopes for the server's return (restart_timeout_ms).
 *
 * fl_rpc_client_call is for any thread, callbacks come in the loop.
 */
#ifndef FL_RPC_CLIENT_RPC_CLIENT_H
#define FL_RPC_CLIENT_RPC_CLIENT_H

#include "base/stats.h"
#include "rpc/wire/conn.h"
#include "rpc/wire/hello.h"

typedef struct fl_rpc_client fl_rpc_client;

typedef enum fl_rpc_client_state {
    FL_RPC_CLIENT_DIALLING, /* never connected yet, or again */
    FL_RPC_CLIENT_UP,
    FL_RPC_CLIENT_SILENT, /* connected, but nothing is heard */
    FL_RPC_CLIENT_DOWN,   /* was up; dialling again */
    FL_RPC_CLIENT_FAILED  /* given up: fl_rpc_client_why */
} fl_rpc_client_state;

typedef struct fl_rpc_client_options {
    fl_identity me;
    fl_member_role peer_role; /* who must answer */
    uint32_t peer_rank;
    const char *peer_name; /* for people, with its rank; NULL: its role */
    const char *token;     /* borrowed */
    fl_conn_options conn;
    int window; /* requests under way; the others wait. At most 64 */
    uint64_t ping_ms, suspect_ms; /* 500, 2000 */
    uint64_t connect_timeout_ms;  /* for the first time */
    uint64_t restart_timeout_ms;  /* for its return */
    bool no_return;   /* a peer that has ended cannot return: it is lost as soon
                       as nobody listens there */
    bool must_listen; /* from the start: the first dial that nobody takes is the
                         last */
    /* In the loop; both may be NULL. The state has changed; since_ms is how long
       ago the peer was heard last. */
    void (*on_state)(void *arg, fl_rpc_client *l, fl_rpc_client_state state,
                     uint64_t since_ms);
    /* A line for people that the server sends. */
    void (*on_log)(void *arg, fl_rpc_client *l, uint8_t level,
                   const char *line);
    void *arg; /* of both */
} fl_rpc_client_options;

/* Any thread; dials at once. */
FL_MUST_CHECK
fl_status fl_rpc_client_new(fl_rpc_client **out, fl_loop *loop, fl_net *net,
                            const char *address,
                            const fl_rpc_client_options *o);
/* In the loop, and there from anywhere, the link's own callbacks included.
   Says BYE. Requests that wait fail with FL_ERR_CLOSED first. NULL is fine. */
void fl_rpc_client_free(fl_rpc_client *l);

/* Gives the peer up: requests fail with FL_ERR_CLOSED, and so do later ones. In
   the loop. */
void fl_rpc_client_give_up(fl_rpc_client *l);

/* A request. Pieces are borrowed until on_reply, which is called exactly once:
   with FL_OK and the reply (payload may be NULL and is the receiver's), or with
   an error as this thread's last one: the server's own, FL_ERR_TIMEOUT,
   FL_ERR_CLOSED, or why the link has failed. Never from inside
   fl_rpc_client_call. */
typedef struct fl_rpc_call {
    uint16_t type;
    bool once;
    bool may_coalesce; /* leaves with others, when the loop is flushed */
    uint64_t trace, step;
    const struct iovec *pieces;
    int n_pieces;
    uint64_t timeout_ms; /* 0: none of its own. Whether a request that ran out
                            of time was applied is not known */
    void (*on_reply)(void *arg, fl_status st, const fl_frame *f,
                     fl_payload *payload);
    void *arg;
} fl_rpc_call;
void fl_rpc_client_call(fl_rpc_client *l, const fl_rpc_call *c);

/* Why the link has failed, as this thread's last error; FL_OK while it has not.
   Any thread. */
fl_status fl_rpc_client_why(fl_rpc_client *l);

/* Any thread; what may be told to people. */
typedef struct fl_rpc_client_info {
    fl_rpc_client_state state;
    fl_identity peer; /* as of the last handshake */
    char address[FL_ADDRESS_MAX];
    uint64_t heard_ms_ago;
    uint64_t peer_step; /* last one seen */
} fl_rpc_client_info;
void fl_rpc_client_get(fl_rpc_client *l, fl_rpc_client_info *out);

/* Requests that have no answer yet, those that were sent once more, and
   connections after the first. */
#define FL_RPC_CLIENT_STATS(X)                                                 \
    X(waiting, GAUGE)                                                          \
    X(sent_again, COUNT)                                                       \
    X(reconnects, COUNT)
FL_STATS(fl_rpc_client_stats, FL_RPC_CLIENT_STATS);
const fl_rpc_client_stats *fl_rpc_client_stats_of(const fl_rpc_client *l);

#endif
