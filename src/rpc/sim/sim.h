/* sim.h - a network in one thread, with a clock and faults under control.
 *
 * A simulation has one loop, one clock and any number of listeners and
 * streams. Nothing happens until fl_sim_run; then events happen in the order
 * of their times, and equal seeds give equal runs, byte for byte. Everything
 * is for one thread, fl_loop_post included. Faults:
 *
 *     delay    each chunk of bytes takes from lo to hi milliseconds
 *     split    chunks are cut at random places, so reads come in pieces
 *     cut      a connection breaks after a random number of bytes; what was
 *              under way is lost, both ends are told (one maybe later)
 *     refuse   a share of dials fails
 *     slow     a stream takes at most so many bytes per millisecond
 *     order    chunks of one connection keep their order, those of different
 *              connections need not
 */
#ifndef FL_RPC_SIM_SIM_H
#define FL_RPC_SIM_SIM_H

#include "rpc/stream/stream.h"

typedef struct fl_sim fl_sim;

typedef struct fl_sim_faults {
    uint64_t seed;
    uint32_t delay_lo_ms, delay_hi_ms;
    uint64_t cut_after_bytes; /* on average; 0: never */
    double refuse_share;
    uint64_t bytes_per_ms; /* 0: no limit */
} fl_sim_faults;

fl_sim *fl_sim_new(const fl_sim_faults *f);
/* Runs what is posted, then frees. By then every stream is closed, every
   listener ended and every dial over or cancelled. NULL is fine. */
void fl_sim_free(fl_sim *s);
fl_loop *fl_sim_loop(fl_sim *s);
fl_net *fl_sim_net(fl_sim *s);

/* Runs events until nothing is left to happen before `until_ms`, then sets the
   clock to it; or until *stop is true (may be NULL). Not from a callback. */
void fl_sim_run(fl_sim *s, uint64_t until_ms, const bool *stop);
uint64_t fl_sim_now_ms(const fl_sim *s);

/* Cuts every connection now; changes the faults from now on, the seed, too. */
void fl_sim_cut_all(fl_sim *s);
void fl_sim_set_faults(fl_sim *s, const fl_sim_faults *f);
uint64_t fl_sim_cuts(const fl_sim *s);

/* An address that stops taking and giving bytes without closing (a stopped
   process), and goes on. Dials still come through, and wait to be accepted. */
void fl_sim_freeze(fl_sim *s, const char *address, bool frozen);

#endif
