/* payload.h - the inside of received payloads; for conn.c only.
 *
 * Payloads outlive their connection: what they share is a home, which lives
 * until the connection and the last payload have left it. While the connection
 * is there, freed buffers are kept for the next messages, so steady traffic
 * does not reach the allocator. All in the connection's loop.
 */
#ifndef FL_RPC_WIRE_PAYLOAD_H
#define FL_RPC_WIRE_PAYLOAD_H

#include "rpc/stream/shared_arena.h"
#include "rpc/wire/conn.h"

/* At most so much is allocated on the word of a peer alone. */
#define FL_PAYLOAD_STEP ((uint64_t)16 << 20)

typedef struct fl_payload_home fl_payload_home;

/* A payload in the arena is freed, and its connection is still there. */
typedef void (*fl_give_back_fn)(void *arg, uint64_t place, uint64_t len);

fl_payload_home *fl_payload_home_new(fl_give_back_fn give_back, void *arg);
/* The connection is gone: nothing is given back or kept any more. */
void fl_payload_home_leave(fl_payload_home *h);

/* For a message of len bytes, to be filled; NULL without memory. */
fl_payload *fl_payload_new(fl_payload_home *h, uint64_t len);
/* A block of the arena, checked by the caller. */
fl_payload *fl_payload_of_arena(fl_payload_home *h, fl_arena_in *arena,
                                uint64_t place, uint64_t len);

/* Where byte number `got` goes, and how many fit there (at least 1); NULL
   without memory. got is below the payload's length, and all bytes before it
   are there. */
uint8_t *fl_payload_space(fl_payload *p, uint64_t got, size_t *n);

#endif
