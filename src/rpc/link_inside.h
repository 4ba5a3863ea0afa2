/* link_inside.h - what the files of a link share: link.c has the connection
 * (dialling, handshakes, signs of life), link_calls.c the requests.
 */
#ifndef FL_RPC_LINK_INSIDE_H
#define FL_RPC_LINK_INSIDE_H

#include <stdatomic.h>

#include "base/thread.h"
#include "rpc/link.h"
#include "rpc/pulse.h"
#include "rpc/shake.h"

/* A request from fl_link_call to its reply. */
typedef struct fl_link_entry {
    struct fl_link_entry *prev, *next;
    fl_call call;
    uint64_t request;
    uint64_t sequence; /* 0: not sent yet, or not to be applied once */
    uint64_t deadline_ms;
    int n_lent;    /* sends whose pieces a connection may still read */
    bool is_sent;  /* on the connection of now */
    bool was_sent; /* on this one or one before */
    bool is_ghost; /* its owner had a timeout; only the number is left */
    bool is_over;  /* answered; freed when nothing is lent */
} fl_link_entry;

typedef struct fl_link_list {
    fl_link_entry *first, *last;
} fl_link_list;

/* Requests in the order of their sending: first those that are sent on the
   connection of now, from `unsent` on those that are not. After a break all are
   unsent, and the order is as it was. Loop only. */
typedef struct fl_link_calls {
    fl_link_list list;
    fl_link_entry *unsent;
    int n_sent;
    uint64_t last_request;
    uint64_t last_sequence; /* given to a request */
    uint64_t answered;      /* the highest sequence with a reply */
    uint64_t step;          /* of the last request */
    uint64_t timer, timer_due_ms;
} fl_link_calls;

typedef enum fl_link_phase {
    FL_LINK_AT_REST,    /* pausing before a dial, or failed */
    FL_LINK_AT_DIAL,    /* a stream is on its way */
    FL_LINK_AT_HELLO,   /* HELLO is sent */
    FL_LINK_AT_PROOF,   /* PROOF is sent */
    FL_LINK_AT_REQUESTS /* welcome */
} fl_link_phase;

struct fl_link {
    fl_loop *loop;
    fl_net *net;
    fl_link_options o;
    fl_link_told told;
    void *arg;
    char address[FL_ADDRESS_MAX];

    /* Loop only, down to the mutex. */
    fl_link_phase phase;
    void *dial;
    fl_conn *conn;
    fl_pack hello; /* as sent */
    uint8_t nonce[FL_NONCE_BYTES], server_nonce[FL_NONCE_BYTES];
    uint64_t timer, timer_due_ms; /* of a pause, an attempt or a look */
    uint64_t give_up_ms;
    unsigned n_attempts; /* since it was up */
    fl_err broke;        /* how the last attempt or connection ended */
    bool was_up;
    uint64_t life; /* of the server, by the first handshake */
    fl_pulse pulse;
    uint64_t sent_ms;
    fl_link_calls calls;
    int depth; /* callbacks that are under way */
    bool is_started, is_freed;

    fl_mutex mu;
    fl_link_list inbox;  /* guarded by mu */
    int n_posted;        /* wake-ups on their way; guarded by mu */
    bool only_patient;   /* the one that is has time; guarded by mu */
    fl_link_state state; /* guarded by mu; written in the loop */
    fl_identity peer;    /* guarded by mu */
    fl_err why;          /* guarded by mu */

    _Atomic uint64_t heard_ms, waiting, sent_again, reconnects, peer_step;
};

/* --- link.c --------------------------------------------------------------- */

/* Every callback of the loop runs between these; the second may free. */
void fl_link_enter(fl_link *l);
void fl_link_leave(fl_link *l);

/* The connection is no good any more: goes on to dial again. The sentence is
   this thread's last error. */
void fl_link_broke(fl_link *l, fl_status st);
/* The link is no good any more. */
void fl_link_fail(fl_link *l, fl_status st);

/* --- link_calls.c --------------------------------------------------------- */

void fl_link_list_add(fl_link_list *list, fl_link_entry *e);
/* New ones from fl_link_call. */
void fl_link_take_calls(fl_link *l, fl_link_list in);
/* Sends what the window lets through. */
void fl_link_pump(fl_link *l);
/* The payload is taken over. */
void fl_link_reply(fl_link *l, const fl_frame *f, fl_payload *payload);
/* Nothing is sent any more: the connection is gone. */
void fl_link_unsend(fl_link *l);
/* Checks what the server has applied, and goes on from there. */
FL_MUST_CHECK
fl_status fl_link_agree(fl_link *l, uint64_t applied, bool is_first);
/* Answers all requests, those in the list `in`, too, with this error. */
void fl_link_answer_all(fl_link *l, fl_link_list in, const fl_err *e);

#endif
