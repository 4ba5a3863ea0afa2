/* segment.h - memory that the ranks of one machine share.
 *
 * Each rank makes a segment of its own and maps those of the others; it writes
 * to its own, and rings bells in the others'. A segment is a memfd that can
 * neither shrink nor grow: it has no name, and is gone with the last process
 * that has it, however that ends. Others open it as /proc/PID/fd/N, which the
 * system lets processes of the same user do, and know it by a key.
 *
 * A segment has a desk per channel:
 *
 *     counters   how many chunks the owner has brought, added up, and is through
 *                with, from the beginning
 *     signs      what the owner's last calls are
 *     slots      the last chunks that it has brought, and the sums it has made
 */
#ifndef FL_COLL_SEGMENT_H
#define FL_COLL_SEGMENT_H

#include <stdatomic.h>

#include "coll/sign.h"

/* Rings below it have a channel, those of programs and some more; calls of the
   others are sent. Pages of a channel are there when it is used. */
#define FL_SHARED_CHANNELS 20
#define FL_SHARED_SLOTS 4
#define FL_SHARED_SLOT_BYTES ((size_t)256 << 10)
/* More calls than slots can be under way. */
#define FL_SHARED_SIGNS 8

typedef struct fl_shared_sign {
    uint64_t number;
    fl_coll_sign sign;
} fl_shared_sign;

typedef struct fl_shared_desk {
    _Alignas(64) _Atomic uint64_t brought;
    _Atomic uint64_t added, taken;
    _Alignas(64) fl_shared_sign signs[FL_SHARED_SIGNS];
    _Alignas(4096) uint8_t in[FL_SHARED_SLOTS][FL_SHARED_SLOT_BYTES];
    uint8_t sums[FL_SHARED_SLOTS][FL_SHARED_SLOT_BYTES];
} fl_shared_desk;

typedef struct fl_segment {
    uint64_t key[2];
    /* The owner sleeps at its bell, which others ring when it does. */
    _Alignas(64) _Atomic uint32_t bell;
    _Atomic uint32_t n_asleep;
    _Alignas(4096) fl_shared_desk desks[FL_SHARED_CHANNELS];
} fl_segment;

/* How another process finds it. */
typedef struct fl_segment_id {
    uint64_t key[2];
    int32_t process, fd;
} fl_segment_id;

/* FL_ERR_UNSUPPORTED when the system has none. */
FL_MUST_CHECK
fl_status fl_segment_new(fl_segment **out, fl_segment_id *id);
/* NULL when it is not there, or is not that one. */
fl_segment *fl_segment_open(const fl_segment_id *id);
/* When all have opened it. */
void fl_segment_hide(fl_segment_id *id);
void fl_segment_unmap(fl_segment *s); /* NULL is fine */

/* What tells machines apart, and users and containers on them: only where it is
   the same, segments can be opened. */
#define FL_MACHINE_MAX 128
void fl_segment_machine(char out[FL_MACHINE_MAX]);

/* Sleeps at a bell that has this value, at most so long. */
void fl_segment_sleep(fl_segment *s, uint32_t value, uint64_t ns);
/* Wakes the owner if it sleeps. What it is to see was written before. */
void fl_segment_ring(fl_segment *s);

#endif
