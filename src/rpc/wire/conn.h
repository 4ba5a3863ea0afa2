/* conn.h - whole messages over a stream.
 *
 * Reading goes straight into a payload buffer of its own size, writing gathers
 * head and payload without copying them. A message's length is checked against
 * max_bytes before anything is allocated. Bytes that are no message close the
 * connection with an error that names it, and touch nothing else.
 *
 * With an arena (local streams), payloads of FL_CONN_ARENA_MIN bytes and more
 * are placed into shared memory and only their heads travel. Its bytes may
 * change while they are read if the peer is hostile: who parses a payload
 * copies a number out once and checks the copy.
 *
 * A connection belongs to its stream's loop; all calls and callbacks are made
 * there. A callback may make every call, fl_conn_free included. What is sent
 * from inside a callback leaves together when the event ends; otherwise at
 * once, as far as the stream takes it.
 */
#ifndef FL_RPC_WIRE_CONN_H
#define FL_RPC_WIRE_CONN_H

#include "rpc/wire/frame.h"
#include "rpc/stream/stream.h"

#define FL_CONN_ARENA_MIN 8192

typedef struct fl_conn fl_conn;

/* Memory of a message that was received, 64-byte aligned. Whoever keeps it
   frees it, in the connection's loop; in an arena this gives the room back to
   the sender. It stays readable when the connection is closed or freed. */
typedef struct fl_payload fl_payload;
const uint8_t *fl_payload_data(const fl_payload *p);
uint64_t fl_payload_len(const fl_payload *p);
void fl_payload_free(fl_payload *p); /* NULL is fine */

typedef struct fl_conn_events {
    /* A whole message. payload is NULL when it is empty, and the receiver's. */
    void (*on_message)(void *arg, fl_conn *c, const fl_frame *f,
                       fl_payload *payload);
    /* The peer is gone or sent nonsense, or there was no memory for a message;
       the last callback, never from inside a call that sends. fl_last_error
       says why. */
    void (*on_close)(void *arg, fl_conn *c, fl_status why);
    /* What waits to be sent fell below the window again; may be NULL. */
    void (*on_room)(void *arg, fl_conn *c);
} fl_conn_events;

typedef struct fl_conn_options {
    uint64_t max_bytes;    /* of a payload that is received */
    uint64_t window_bytes; /* above this fl_conn_is_full is true */
    uint64_t arena_bytes;  /* 0: no arena even on a local stream */
    fl_type_name_fn names; /* of the messages of who uses it */
} fl_conn_options;

/* Takes the stream over. */
fl_conn *fl_conn_new(fl_stream *s, const fl_conn_options *o,
                     const fl_conn_events *e, void *arg);
/* Closes the stream and frees; on_close is not called. What waits is offered
   to the stream once more, so a last word has a fair chance; then its `done`
   is called, from inside. NULL is fine. */
void fl_conn_free(fl_conn *c);

/* Pieces of a payload, borrowed until `done` is called with the message sent
   or the connection closed; this may be before fl_conn_send returns. The array
   of pieces is not needed after the call. */
typedef struct fl_message {
    fl_frame frame; /* length is set by the call */
    const struct iovec *pieces;
    int n_pieces;
    void (*done)(void *arg); /* may be NULL */
    void *arg;
} fl_message;
void fl_conn_send(fl_conn *c, const fl_message *m);

/* The same with a payload that is copied. */
void fl_conn_send_copy(fl_conn *c, const fl_frame *f, const void *payload,
                       size_t len);

/* What is sent between these two leaves together, at the latest when the last
   one who holds it lets go. */
void fl_conn_hold(fl_conn *c);
void fl_conn_let_go(fl_conn *c);

/* Inside of a callback: what waits need not leave at its end, but with whatever is
   sent next, a sign of life at the latest. For answers of which nobody waits
   for one alone. */
void fl_conn_defer(fl_conn *c);

/* Room for a payload in the arena, to be filled in place and sent by
   fl_conn_send_reserved (with this length or a smaller one) or dropped; NULL when
   there is no arena, no room in it, or len is below FL_CONN_ARENA_MIN. Not to
   be touched after fl_conn_free. */
void *fl_conn_reserve(fl_conn *c, uint64_t len, uint64_t *place);
void fl_conn_send_reserved(fl_conn *c, const fl_frame *f, uint64_t place,
                           uint64_t len);
void fl_conn_drop_reserved(fl_conn *c, uint64_t place);

/* Another limit for payloads that come, from the next message on. */
void fl_conn_set_max_bytes(fl_conn *c, uint64_t max_bytes);

bool fl_conn_is_full(const fl_conn *c);
const char *fl_conn_peer(const fl_conn *c);  /* address, for messages */
fl_stream *fl_conn_stream(const fl_conn *c); /* NULL once it is closed */
/* When the last byte came, by the loop's clock. */
uint64_t fl_conn_heard_ms(const fl_conn *c);
/* Whole messages in and out so far and their bytes, those in the arena
   included. */
typedef struct fl_conn_stats {
    uint64_t in_bytes, out_bytes, in_messages, out_messages;
} fl_conn_stats;
fl_conn_stats fl_conn_stats_get(const fl_conn *c);
/* Both ends offer an arena after their handshake; does nothing where there can
   be none (the stream is not local, arena_bytes is 0). It is used from the
   moment the peer has accepted it. After an error everything goes through the
   stream. */
FL_MUST_CHECK
fl_status fl_conn_offer_arena(fl_conn *c);
/* For the receiver of a message of type ARENA. With arena_bytes of 0 it
   declines. */
FL_MUST_CHECK
fl_status fl_conn_accept_arena(fl_conn *c, const fl_payload *payload);

#endif
