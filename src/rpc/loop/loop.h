/* loop.h - waits for descriptors, timers and posts, in a thread of its own and
 * in threads that wait for it.
 *
 * Everything in rpc/ and above runs in callbacks of a loop and never blocks in
 * one. There are two kinds: a real one (epoll, level-triggered, the monotonic
 * clock), and a simulated one (rpc/sim/sim.h) whose clock and network are under
 * a test's control and which runs in the test's own thread.
 *
 * Posts, hurry, wait, stir, now_ms and is_mine are for any thread, the rest for
 * callbacks of the loop, which run one at a time.
 */
#ifndef FL_RPC_LOOP_LOOP_H
#define FL_RPC_LOOP_LOOP_H

#include <stdint.h>

#include "base/status.h"

typedef struct fl_loop fl_loop;
typedef void (*fl_loop_fn)(void *arg);

/* --- what every kind does ------------------------------------------------ */

/* Milliseconds of the loop's clock. */
uint64_t fl_loop_now_ms(const fl_loop *l);

/* Calls fn(arg) in the loop, soon. Posts made before a stop are still run. */
void fl_loop_post(fl_loop *l, fl_loop_fn fn, void *arg);

/* The same, within a few milliseconds: it need not wake the loop, so that what
   is posted shortly after one another runs together. fl_loop_hurry says that
   nothing more follows. */
void fl_loop_post_patient(fl_loop *l, fl_loop_fn fn, void *arg);
void fl_loop_hurry(fl_loop *l);

/* Waits until is_over(arg), which callbacks of the loop bring about, and runs
   them meanwhile where it can. Whoever else changes what is_over looks at calls
   fl_loop_stir afterwards. Not from the loop's callbacks. */
void fl_loop_wait(fl_loop *l, bool (*is_over)(void *arg), void *arg);
void fl_loop_stir(fl_loop *l);

/* Calls fn(arg) once, after that many milliseconds. The id is never 0. */
uint64_t fl_loop_timer(fl_loop *l, uint64_t delay_ms, fl_loop_fn fn, void *arg);
/* 0 and an id that has fired are fine. */
void fl_loop_cancel(fl_loop *l, uint64_t id);

/* True in callbacks of the loop (always, for a simulated one). */
bool fl_loop_is_mine(const fl_loop *l);

/* --- the real one -------------------------------------------------------- */

/* Starts its thread, called `name`. */
FL_MUST_CHECK
fl_status fl_loop_new(fl_loop **out, const char *name);

/* Ends the thread after the callback it is in, runs what is posted (and what
   that posts) there, and frees. Timers are dropped. Not from the loop itself;
   nobody else may post any more, and watches are to be ended before. NULL is
   fine. */
void fl_loop_free(fl_loop *l);

enum fl_io { FL_IO_READ = 1, FL_IO_WRITE = 2 };
typedef void (*fl_io_fn)(void *arg, unsigned events);

/* Watches a descriptor of the caller's; events may be 0 (errors and hang-ups
   are told all the same, as both events). One watch per descriptor. */
typedef struct fl_watch fl_watch;
FL_MUST_CHECK
fl_status fl_loop_watch(fl_loop *l, int fd, unsigned events, fl_io_fn fn,
                        void *arg, fl_watch **out);
void fl_watch_set(fl_watch *w, unsigned events);
/* Before the descriptor is closed. No callback comes any more. */
void fl_watch_end(fl_watch *w);

#endif
