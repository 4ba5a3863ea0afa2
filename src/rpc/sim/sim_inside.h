/* sim_inside.h - what the files of the simulated network share: sim.c has the
 * clock, the loop and the dice, sim_stream.c connections, sim_net.c listeners
 * and dials. Owner thread only.
 */
#ifndef FL_RPC_SIM_SIM_INSIDE_H
#define FL_RPC_SIM_SIM_INSIDE_H

#include "rpc/loop/loop_inside.h"
#include "rpc/sim/sim.h"
#include "rpc/loop/timers.h"

/* The clock counts ticks. Whatever follows from something happens at least one
   tick later, so that the clock always comes to fl_sim_run's end. */
#define FL_SIM_TICKS_PER_MS 1000u

typedef struct fl_sim_network {
    fl_net base;
    fl_sim *sim;
} fl_sim_network;

typedef struct fl_sim_listener fl_sim_listener;

/* An address that was listened on or frozen once; kept until the end. */
typedef struct fl_sim_place {
    struct fl_sim_place *next;
    fl_sim_listener *listener; /* NULL: nobody listens now */
    bool is_frozen;
    char name[FL_ADDRESS_MAX];
} fl_sim_place;

typedef struct fl_sim_post {
    struct fl_sim_post *next;
    fl_loop_fn fn;
    void *arg;
} fl_sim_post;

typedef struct fl_sim_conn fl_sim_conn;

struct fl_sim {
    fl_loop loop; /* first: the loop's functions cast back */
    fl_sim_network net;
    fl_timers queue; /* of all that will happen, by ticks */
    fl_sim_post *first_post, **last_post;
    uint64_t tick;
    fl_sim_faults faults;
    uint64_t dice, n_drawn; /* a stream of base/rng.h and its counter */
    fl_sim_place *places;
    fl_sim_conn *conns;
    uint64_t n_conns_made, n_cuts, n_dials; /* dials that are under way */
    uint32_t next_port;
    bool is_running;
};

/* --- sim.c --------------------------------------------------------------- */

/* A number in [0, n). */
uint64_t fl_sim_draw(fl_sim *s, uint64_t n);
/* A time on the wire, in ticks, at least one. */
uint64_t fl_sim_draw_delay(fl_sim *s);
/* Bytes until the next cut; UINT64_MAX: never. */
uint64_t fl_sim_draw_cut(fl_sim *s);

/* The tick that many ticks from now on; never overflows. */
uint64_t fl_sim_after(const fl_sim *s, uint64_t ticks);
/* Calls fn(arg) at that tick. The id is never 0. */
uint64_t fl_sim_at(fl_sim *s, uint64_t tick, fl_loop_fn fn, void *arg);
/* Takes an event back, and clears its id. */
void fl_sim_drop(fl_sim *s, uint64_t *id);

/* --- sim_net.c ----------------------------------------------------------- */

extern const fl_net_ops fl_sim_net_ops;

fl_sim_place *fl_sim_place_get(fl_sim *s, const char *name);
/* Called when a connection comes out at its listener's end. */
void fl_sim_accept(fl_sim_place *p, fl_stream *s);

/* --- sim_stream.c -------------------------------------------------------- */

/* A connection to a place that is listened on. *out is the dialler's end; the
   other waits to be accepted. */
FL_MUST_CHECK
fl_status fl_sim_connect(fl_sim *s, fl_sim_place *to, fl_stream **out);
/* Closes what the place has not accepted yet. */
void fl_sim_refuse_waiting(fl_sim *s, const fl_sim_place *p);
/* The place goes on: looks again at all that has happened meanwhile. */
void fl_sim_wake(fl_sim *s, const fl_sim_place *p);
/* The faults have changed: draws again when each connection is cut. */
void fl_sim_redraw_cuts(fl_sim *s);

#endif
