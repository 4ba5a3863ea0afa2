/* gathered.h - what trainers bring to a gather, and all of it together.
 *
 * A part lies in memory as it goes into replies: u32 rank, u32 0, u64 length,
 * the bytes, zeros up to a multiple of 8. What was gathered is shared by all
 * its replies and by who remembers it, and goes with the last of them; sharing
 * is for any thread.
 */
#ifndef FL_PS_COORD_GATHERED_H
#define FL_PS_COORD_GATHERED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/status.h"

/* Of one trainer. */
#define FL_GATHER_BYTES_MAX (UINT64_C(64) << 20)

typedef struct fl_gather_part {
    void *data;     /* NULL: nothing is kept of it */
    uint64_t bytes; /* with what is around them */
} fl_gather_part;

/* Copies. Refuses what is too long or has no room in memory. */
FL_MUST_CHECK
fl_status fl_gather_part_make(fl_gather_part *out, uint32_t rank,
                              const void *bytes, uint64_t len);
void fl_gather_part_release(fl_gather_part *p);

typedef struct fl_gathered fl_gathered;

/* For up to n parts, which are added in the order of ranks and taken over. */
fl_gathered *fl_gathered_new(uint32_t n);
void fl_gathered_add(fl_gathered *g, fl_gather_part *p);
void fl_gathered_ref(fl_gathered *g);
void fl_gathered_unref(void *gathered); /* NULL is fine */

/* The pieces of the reply. */
const struct iovec *fl_gathered_pieces(const fl_gathered *g, int *n);

#endif
