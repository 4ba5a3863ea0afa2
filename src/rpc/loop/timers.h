/* timers.h - callbacks by their times, for the real loop. Owner thread only.
 *
 * Equal times come in the order in which they were asked for. Adding, removing
 * and taking cost the logarithm of how many there are.
 */
#ifndef FL_RPC_LOOP_TIMERS_H
#define FL_RPC_LOOP_TIMERS_H

#include "base/vec.h"
#include "rpc/loop/loop.h"

typedef struct fl_timer_slot {
    uint64_t at_ms, order;
    fl_loop_fn fn; /* NULL: free */
    void *arg;
    uint32_t place;      /* in the heap; when free, the next free slot */
    uint32_t generation; /* part of the id, so that an old one finds nothing */
} fl_timer_slot;

typedef struct fl_timers {
    FL_VEC(fl_timer_slot) slots;
    FL_VEC(uint32_t) heap; /* slots, the soonest at the top */
    uint32_t first_free;   /* slot + 1; 0: none */
    uint64_t next_order;
} fl_timers;

/* All zeros is empty. */
void fl_timers_release(fl_timers *t);

/* The id is never 0. */
uint64_t fl_timers_add(fl_timers *t, uint64_t at_ms, fl_loop_fn fn, void *arg);
/* An id that is gone, and 0, are fine. */
void fl_timers_remove(fl_timers *t, uint64_t id);

/* When the soonest is due; UINT64_MAX without any. */
uint64_t fl_timers_next_ms(const fl_timers *t);

/* Takes the soonest out when it is due at now_ms and was added before `order`
   (next_order of an earlier moment); false when there is none such. */
bool fl_timers_take(fl_timers *t, uint64_t now_ms, uint64_t order,
                    fl_loop_fn *fn, void **arg);

#endif
