/* session.h - what a host remembers of a client: which requests were applied,
 * and what they were answered.
 *
 *     sequence <= restored   applied before this process; the answer is lost
 *              <= last       one of the last FL_RPC_SERVER_RESULTS: known, or
 *              open
 *              == last + 1   new
 *              above         a gap: requests were lost on the way
 *
 * A result is open from the moment its request is handed out until the reply
 * is given. It knows who asked last, and that one gets the reply. Sessions are
 * counted references; any thread.
 */
#ifndef FL_RPC_SERVER_SESSION_H
#define FL_RPC_SERVER_SESSION_H

#include <stdatomic.h>

#include "base/thread.h"
#include "rpc/server/rpc_server.h"

/* Of the payload of a reply that is remembered. */
#define FL_RESULT_MAX 1024

typedef struct fl_server_conn fl_server_conn; /* rpc_server_inside.h */

typedef struct fl_result {
    uint64_t sequence; /* 0: none yet */
    bool is_open;
    uint16_t flags;
    uint32_t len;
    uint8_t *bytes;
    fl_server_conn *to; /* while it is open: a reference to who asked last */
    fl_frame asked;
} fl_result;

struct fl_session {
    atomic_int refs;
    const fl_loop *clock;
    fl_identity who;           /* as of the last handshake */
    char peer[FL_ADDRESS_MAX]; /* the same */
    void *data;
    void (*release)(void *data);
    _Atomic uint64_t step, heard_ms;

    fl_mutex mu;
    uint64_t last, restored; /* guarded by mu */
    fl_result *results;      /* guarded by mu; NULL before the first one */
};

fl_session *fl_session_new(const fl_identity *who, const fl_loop *clock);
fl_session *fl_session_ref(fl_session *s);
void fl_session_unref(fl_session *s); /* NULL is fine */

/* The last sequence that was applied. */
uint64_t fl_session_last(fl_session *s);
/* Forgets everything but that the numbers up to this one were applied. */
void fl_session_restore(fl_session *s, uint64_t last);

typedef enum fl_once {
    FL_ONCE_NEW,   /* to be applied now; counts as applied */
    FL_ONCE_KNOWN, /* *out is the answer */
    FL_ONCE_OPEN,  /* the reply, when it is given, goes to `from` */
    FL_ONCE_WRONG  /* against the protocol: fl_last_error */
} fl_once;

typedef struct fl_remembered {
    uint16_t flags;
    uint32_t len;
    uint8_t bytes[FL_RESULT_MAX];
} fl_remembered;

fl_once fl_session_take(fl_session *s, fl_server_conn *from, const fl_frame *f,
                        fl_remembered *out);

/* Closes an open result. *to, a reference that is the caller's now, asked for
   it by the frame *asked; NULL when the result was forgotten meanwhile. */
void fl_session_settle(fl_session *s, uint64_t sequence,
                       const fl_remembered *result, fl_server_conn **to,
                       fl_frame *asked);

#endif
