/* arena.h - memory that dies all at once.
 *
 * An arena hands out pieces and frees them together, with the thing whose
 * lifetime they share: a program, a step, a parse. Owner thread only.
 */
#ifndef FL_BASE_ARENA_H
#define FL_BASE_ARENA_H

#include <stddef.h>

#include "base/status.h"

typedef struct fl_arena_chunk fl_arena_chunk;

typedef struct fl_arena {
    fl_arena_chunk *head; /* newest chunk; older ones hang behind it */
    size_t chunk_bytes;
    size_t used_bytes;
} fl_arena;

void fl_arena_init(fl_arena *a, size_t chunk_bytes);
void fl_arena_release(fl_arena *a);

/* Empties it and keeps one chunk as large as the largest use seen, so that a
   repeated use of the same size asks the system for nothing. */
void fl_arena_clear(fl_arena *a);

/* Zeroed, 64-byte aligned; aborts without memory: for metadata. */
void *fl_arena_alloc(fl_arena *a, size_t bytes);
char *fl_arena_strdup(fl_arena *a, const char *s);
char *fl_arena_printf(fl_arena *a, const char *fmt, ...) FL_PRINTF(2, 3);

/* The same for sizes that come from data: NULL without memory, not zeroed. */
void *fl_arena_try_alloc(fl_arena *a, size_t bytes);

#endif
