/* peer.h - a connection on the server's side.
 *
 * A peer belongs to its loop and is a counted reference: replies, results that
 * are open and posts hold one, too, and find it gone (conn NULL) when they come
 * too late.
 */
#ifndef FL_RPC_PEER_H
#define FL_RPC_PEER_H

#include "rpc/pulse.h"
#include "rpc/session.h"
#include "rpc/shake.h"

typedef struct fl_lane fl_lane;     /* host_inside.h */
typedef struct fl_member fl_member; /* host_inside.h */

typedef enum fl_peer_phase {
    FL_PEER_NEW,     /* not in its loop yet */
    FL_PEER_HELLO,   /* a HELLO is awaited */
    FL_PEER_PROOF,   /* a PROOF is awaited */
    FL_PEER_WAITING, /* for its session's older connection to end */
    FL_PEER_UP,
    FL_PEER_LEAVING, /* it was told why, and should close */
    FL_PEER_GONE
} fl_peer_phase;

struct fl_peer {
    atomic_int refs;
    fl_host *host; /* a reference */
    fl_lane *lane;

    /* Loop only. */
    fl_peer *lane_next;
    fl_stream *stream; /* until it is started */
    fl_conn *conn;     /* NULL: gone */
    fl_peer_phase phase;
    uint64_t since_ms; /* in the handshake, or leaving */
    uint64_t sent_ms;
    fl_pulse pulse;
    fl_pack hello; /* as it came */
    fl_hello said;
    uint8_t nonce[FL_NONCE_BYTES];
    fl_member *member;   /* NULL: none, or no more */
    fl_session *session; /* a reference, while it is up */

    /* Guarded by the host's mu: without a session, the oldest first. */
    fl_peer *shaking_prev, *shaking_next;
    bool is_shaking;
};

fl_peer *fl_peer_new(fl_host *h, fl_lane *lane, fl_stream *s);
fl_peer *fl_peer_ref(fl_peer *p);
void fl_peer_unref(fl_peer *p);
/* Calls fn(p) in its loop, at once when that is this one, with a reference that
   fn gives up. */
void fl_peer_in_loop(fl_peer *p, fl_loop_fn fn);

/* For fl_peer_in_loop. */
void fl_peer_start(void *peer);
void fl_peer_up(void *peer);         /* it has the rank now */
void fl_peer_taken_over(void *peer); /* a newer connection wants the rank */
void fl_peer_set_back(void *peer);   /* its session was restored */
void fl_peer_give_way(void *peer);   /* there are too many */

/* Loop only. */
void fl_peer_look(fl_peer *p, uint64_t excused_ms);
void fl_peer_drop(fl_peer *p); /* without a callback */
/* For one that is up; nothing for others. */
void fl_peer_say(fl_peer *p, uint8_t level, const char *line);
void fl_peer_dismiss(fl_peer *p, const fl_err *why);
/* Head of a reply to a request. */
fl_frame fl_peer_reply_head(const fl_peer *p, const fl_frame *asked,
                            uint16_t flags);
/* Dropped when it is not up. */
void fl_peer_send(fl_peer *p, const fl_message *m);

#endif
