/* loop_inside.h - what the kinds of loops share; for loop.c and sim.c only.
 *
 * A kind embeds an fl_loop as its first member, sets ops, and casts back in its
 * functions. The calls mean what loop.h says of the functions of their names. A
 * kind that never sleeps needs no help and leaves out the poller.
 */
#ifndef FL_RPC_LOOP_LOOP_INSIDE_H
#define FL_RPC_LOOP_LOOP_INSIDE_H

#include "rpc/loop/loop.h"

typedef struct fl_loop_ops {
    uint64_t (*now_ms)(const fl_loop *l);
    void (*post)(fl_loop *l, fl_loop_fn fn, void *arg);
    void (*post_deferred)(fl_loop *l, fl_loop_fn fn, void *arg);
    uint64_t (*timer)(fl_loop *l, uint64_t delay_ms, fl_loop_fn fn, void *arg);
    void (*cancel)(fl_loop *l, uint64_t id);
    bool (*is_mine)(const fl_loop *l);
} fl_loop_ops;

struct fl_loop {
    fl_poller poller; /* the first member */
    const fl_loop_ops *ops;
};

#endif
