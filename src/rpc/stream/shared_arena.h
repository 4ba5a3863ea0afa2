/* shared_arena.h - memory that two processes of one machine share, one way.
 *
 * The sender makes a memfd that can neither shrink nor grow, writes payloads
 * into it and passes its descriptor; the receiver maps it to read only. Which
 * blocks are in use is known to the sender alone, in memory of its own: the
 * receiver gives blocks back by messages, so a hostile peer on either side can
 * spoil its own payloads and nothing else.
 *
 * What the receiver reads may change under it when the sender is hostile. Who
 * parses a payload copies a number out once and checks the copy; it never
 * checks in place and reads again.
 *
 * Both belong to the loop of their connection.
 */
#ifndef FL_RPC_STREAM_SHARED_ARENA_H
#define FL_RPC_STREAM_SHARED_ARENA_H

#include <stdint.h>

#include "base/status.h"

/* A block starts at a multiple of this, in bytes from the arena's start. */
#define FL_ARENA_UNIT 4096
#define FL_ARENA_MAX (UINT64_C(1) << 36)

/* --- the sender's side --------------------------------------------------- */

typedef struct fl_arena_out fl_arena_out;

/* At least `bytes`, rounded up to whole units; FL_ERR_INVAL for 0 and beyond
   FL_ARENA_MAX. */
FL_MUST_CHECK
fl_status fl_arena_out_new(fl_arena_out **out, uint64_t bytes);
void fl_arena_out_free(fl_arena_out *a); /* NULL is fine */

uint64_t fl_arena_out_bytes(const fl_arena_out *a);
int fl_arena_out_fd(const fl_arena_out *a); /* stays the arena's */

/* The lowest block that will do, so that the same few pages stay in the cache;
   NULL when there is none or len is 0. */
void *fl_arena_out_take(fl_arena_out *a, uint64_t len, uint64_t *place);

/* False, and nothing changed, when no block in use starts there: a peer said
   so. */
bool fl_arena_out_give(fl_arena_out *a, uint64_t place);

/* Bytes of blocks in use, in whole units. */
uint64_t fl_arena_out_used(const fl_arena_out *a);

/* --- the receiver's side ------------------------------------------------- */

/* A mapping, shared by a connection and the payloads that lie in it. */
typedef struct fl_arena_in fl_arena_in;

/* Maps a descriptor that a peer sent, which stays the caller's.
   FL_ERR_CORRUPT: it is no memfd, could shrink, or has not that size. */
FL_MUST_CHECK
fl_status fl_arena_in_new(fl_arena_in **out, int fd, uint64_t bytes);
fl_arena_in *fl_arena_in_ref(fl_arena_in *a);
void fl_arena_in_unref(fl_arena_in *a); /* NULL is fine */

uint64_t fl_arena_in_bytes(const fl_arena_in *a);
/* NULL when [place, place + len) is not a block within the mapping. */
const uint8_t *fl_arena_in_at(const fl_arena_in *a, uint64_t place,
                              uint64_t len);

#endif
