/* loop.h - waits for descriptors, timers and posts, in a thread of its own and
 * in threads that wait for it.
 *
 * Everything in rpc/ and above runs in callbacks of a loop and never blocks in
 * one. There are two kinds: a real one (epoll, level-triggered, the monotonic
 * clock), and a simulated one (rpc/sim/sim.h) whose clock and network are under
 * a test's control and which runs in the test's own thread.
 *
 * Posts, the poller, now_ms and is_mine are for any thread, the rest for
 * callbacks of the loop, which run one at a time.
 */
#ifndef FL_RPC_LOOP_LOOP_H
#define FL_RPC_LOOP_LOOP_H

#include <stdint.h>

#include "base/poller.h"
#include "base/status.h"

typedef struct fl_loop fl_loop;
typedef void (*fl_loop_fn)(void *arg);

/* --- what every kind does ------------------------------------------------ */

/* Milliseconds of the loop's clock. */
uint64_t fl_loop_now_ms(const fl_loop *l);

/* Calls fn(arg) in the loop, soon. Posts made before a stop are still run. */
void fl_loop_post(fl_loop *l, fl_loop_fn fn, void *arg);

/* The same, within a few milliseconds: it need not wake the loop, so that what
   is posted shortly after one another runs together. Whoever expects nothing
   more to follow flushes the poller. */
void fl_loop_post_deferred(fl_loop *l, fl_loop_fn fn, void *arg);

/* Calls fn(arg) in the loop and waits for its end, or at once in a callback of
   this loop. */
void fl_loop_call(fl_loop *l, fl_loop_fn fn, void *arg);

/* For threads that wait for what callbacks bring about; lives as long as the
   loop. NULL for a simulated one, which needs no help. */
fl_poller *fl_loop_poller(fl_loop *l);

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
