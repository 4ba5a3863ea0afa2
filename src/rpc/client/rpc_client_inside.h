/* rpc_client_inside.h - what the files of a link share: rpc_client.c has the
 * connection (dialling, handshakes, signs of life), rpc_calls.c the requests.
 */
#ifndef FL_RPC_CLIENT_RPC_CLIENT_INSIDE_H
#define FL_RPC_CLIENT_RPC_CLIENT_INSIDE_H

#include <stdatomic.h>

#include "base/thread.h"
#include "rpc/client/rpc_client.h"
#include "rpc/wire/heartbeat.h"
#include "rpc/wire/handshake.h"

/* A request from fl_rpc_client_call to its reply. */
typedef struct fl_rpc_client_entry {
    struct fl_rpc_client_entry *prev, *next;
    fl_rpc_call call;
    uint64_t request;
    uint64_t sequence; /* 0: not sent yet, or not to be applied once */
    uint64_t deadline_ms;
    int n_borrowed;    /* sends whose pieces a connection may still read */
    bool is_sent;      /* on the connection of now */
    bool was_sent;     /* on this one or one before */
    bool is_tombstone; /* its owner had a timeout; only the number is left */
    bool is_over;      /* answered; freed when nothing is borrowed */
} fl_rpc_client_entry;

typedef struct fl_rpc_client_list {
    fl_rpc_client_entry *first, *last;
} fl_rpc_client_list;

/* Requests in the order of their sending: first those that are sent on the
   connection of now, from `unsent` on those that are not. After a break all are
   unsent, and the order is as it was. Loop only. */
typedef struct fl_rpc_client_calls {
    fl_rpc_client_list list;
    fl_rpc_client_entry *unsent;
    int n_sent;
    uint64_t last_request;
    uint64_t last_sequence; /* given to a request */
    uint64_t answered;      /* the highest sequence with a reply */
    uint64_t step;          /* of the last request */
    uint64_t timer, timer_due_ms;
} fl_rpc_client_calls;

typedef enum fl_rpc_client_phase {
    FL_RPC_CLIENT_AT_REST,    /* pausing before a dial, or failed */
    FL_RPC_CLIENT_AT_DIAL,    /* a stream is on its way */
    FL_RPC_CLIENT_AT_HELLO,   /* HELLO is sent */
    FL_RPC_CLIENT_AT_PROOF,   /* PROOF is sent */
    FL_RPC_CLIENT_AT_REQUESTS /* welcome */
} fl_rpc_client_phase;

struct fl_rpc_client {
    fl_loop *loop;
    fl_net *net;
    fl_rpc_client_options o;
    char address[FL_ADDRESS_MAX];

    /* Loop only, down to the mutex. */
    fl_rpc_client_phase phase;
    void *dial;
    fl_conn *conn;
    fl_pack hello; /* as sent */
    uint8_t nonce[FL_NONCE_BYTES], server_nonce[FL_NONCE_BYTES];
    uint64_t timer, timer_due_ms; /* of a pause, an attempt or a look */
    uint64_t give_up_ms;
    unsigned n_attempts; /* since it was up */
    fl_err broke;        /* how the last attempt or connection ended */
    bool was_up;
    uint64_t boot_id; /* of the server, by the first handshake */
    fl_heartbeat heartbeat;
    uint64_t sent_ms;
    fl_rpc_client_calls calls;
    int depth; /* callbacks that are under way */
    bool is_started, is_freed;

    fl_mutex mu;
    fl_rpc_client_list inbox;  /* guarded by mu */
    int n_posted;              /* wake-ups on their way; guarded by mu */
    bool only_deferred;        /* the one that is; guarded by mu */
    fl_rpc_client_state state; /* guarded by mu; written in the loop */
    fl_identity peer;          /* guarded by mu */
    fl_err why;                /* guarded by mu */

    _Atomic uint64_t heard_ms, peer_step;
    fl_rpc_client_stats stats;
};

/* --- rpc_client.c -------------------------------------------------------- */

/* What people call who answers there, without its rank. */
const char *fl_rpc_client_peer(const fl_rpc_client *l);

/* Every callback of the loop runs between these; the second may free. */
void fl_rpc_client_enter(fl_rpc_client *l);
void fl_rpc_client_leave(fl_rpc_client *l);

/* The connection is no good any more: goes on to dial again. The sentence is
   this thread's last error. */
void fl_rpc_client_broke(fl_rpc_client *l, fl_status st);
/* The link is no good any more. */
void fl_rpc_client_fail(fl_rpc_client *l, fl_status st);

/* --- rpc_calls.c --------------------------------------------------------- */

void fl_rpc_client_list_add(fl_rpc_client_list *list, fl_rpc_client_entry *e);
/* New ones from fl_rpc_client_call. */
void fl_rpc_client_take_calls(fl_rpc_client *l, fl_rpc_client_list in);
/* Sends what the window lets through. */
void fl_rpc_client_pump(fl_rpc_client *l);
/* The payload is taken over. */
void fl_rpc_client_reply(fl_rpc_client *l, const fl_frame *f,
                         fl_payload *payload);
/* Nothing is sent any more: the connection is gone. */
void fl_rpc_client_unsend(fl_rpc_client *l);
/* Checks what the server has applied, and goes on from there. */
FL_MUST_CHECK
fl_status fl_rpc_client_agree(fl_rpc_client *l, uint64_t applied,
                              bool is_first);
/* Answers all requests, those in the list `in`, too, with this error. */
void fl_rpc_client_answer_all(fl_rpc_client *l, fl_rpc_client_list in,
                              const fl_err *e);

#endif
