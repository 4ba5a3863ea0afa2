/* loop_kit.h - for tests that talk with the thread of a real loop.
 *
 * cmocka's assertions are for the test's own thread. What runs in a loop
 * counts in a gate, and the test waits for the gate, with a deadline that is
 * only met when something hangs.
 */
#ifndef FL_TESTS_RPC_LOOP_KIT_H
#define FL_TESTS_RPC_LOOP_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"
#include "rpc/loop/loop.h"

#define HANGS_NS (UINT64_C(60) * 1000000000u)

/* Fails the test with the library's own sentence. */
#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define assert_says(said)                                                      \
    do {                                                                       \
        if (!strstr(fl_last_error(), said))                                    \
            fail_msg("'%s' does not say '%s'", fl_last_error(), said);         \
    } while (0)

typedef struct gate {
    fl_mutex mu;
    fl_cond changed;
    size_t count; /* guarded by mu */
} gate;

static inline void gate_init(gate *g)
{
    fl_mutex_init(&g->mu);
    fl_cond_init(&g->changed);
    g->count = 0;
}

static inline void gate_release(gate *g)
{
    fl_cond_release(&g->changed);
    fl_mutex_release(&g->mu);
}

static inline void gate_add(gate *g)
{
    fl_lock(&g->mu);
    g->count++;
    fl_cond_wake_all(&g->changed);
    fl_unlock(&g->mu);
}

static inline size_t gate_count(gate *g)
{
    size_t n;

    fl_lock(&g->mu);
    n = g->count;
    fl_unlock(&g->mu);
    return n;
}

/* Waits until it was added to n times; false when it hangs. */
static inline bool gate_reaches(gate *g, size_t n)
{
    uint64_t deadline = fl_now_ns() + HANGS_NS;
    bool in_time = true;

    fl_lock(&g->mu);
    while (g->count < n && in_time)
        in_time = fl_cond_wait_until(&g->changed, &g->mu, deadline);
    in_time = g->count >= n;
    fl_unlock(&g->mu);
    return in_time;
}

static inline void gate_wait(gate *g, size_t n)
{
    if (!gate_reaches(g, n))
        fail_msg("waited in vain");
}

typedef struct kit_call {
    fl_loop_fn fn;
    void *arg;
    gate done;
} kit_call;

static inline void kit_run_call(void *arg)
{
    kit_call *c = arg;

    c->fn(c->arg);
    gate_add(&c->done);
}

/* Calls fn(arg) in the loop and waits for its end. */
static inline void in_loop(fl_loop *l, fl_loop_fn fn, void *arg)
{
    kit_call c = { .fn = fn, .arg = arg };

    gate_init(&c.done);
    fl_loop_post(l, kit_run_call, &c);
    gate_wait(&c.done, 1);
    gate_release(&c.done);
}

#endif
