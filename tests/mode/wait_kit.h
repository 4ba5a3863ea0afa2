/* wait_kit.h - what tests of backends share: a waker to wait on, and sentences
 * of the library in failures. */
#ifndef FL_TESTS_MODE_WAIT_KIT_H
#define FL_TESTS_MODE_WAIT_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/thread.h"
#include "ir/comm.h"

/* Nothing takes this long unless it hangs. */
#define KIT_HANGS_NS (UINT64_C(100) * 1000000000)

#ifndef assert_ok
#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)
#endif

#ifndef assert_says
#define assert_says(said)                                                      \
    do {                                                                       \
        if (!strstr(fl_last_error(), said))                                    \
            fail_msg("'%s' does not say '%s'", fl_last_error(), said);         \
    } while (0)
#endif

/* A waker and who waits for it. */
typedef struct sleeper {
    fl_waker port;
    fl_mutex mu;
    fl_cond cond;
    bool is_woken; /* guarded by mu */
} sleeper;

static inline void sleeper_wake(fl_waker *w)
{
    sleeper *s = (sleeper *)w;

    fl_lock(&s->mu);
    s->is_woken = true;
    fl_cond_wake_all(&s->cond);
    fl_unlock(&s->mu);
}

static inline void sleeper_init(sleeper *s)
{
    *s = (sleeper){ .port = { sleeper_wake } };
    fl_mutex_init(&s->mu);
    fl_cond_init(&s->cond);
}

static inline void sleeper_release(sleeper *s)
{
    fl_cond_release(&s->cond);
    fl_mutex_release(&s->mu);
}

/* Until it is woken, and ready for the next time; FL_ERR_TIMEOUT when it
   hangs. */
static inline fl_status sleeper_wait(sleeper *s)
{
    uint64_t deadline = fl_now_ns() + KIT_HANGS_NS;
    bool is_woken;

    fl_lock(&s->mu);
    while (!s->is_woken && fl_cond_wait_until(&s->cond, &s->mu, deadline))
        ;
    is_woken = s->is_woken;
    s->is_woken = false;
    fl_unlock(&s->mu);
    if (!is_woken)
        FL_FAIL(FL_ERR_TIMEOUT, "nobody has answered");
    return FL_OK;
}

/* The result of a call, if need be after waiting for it. */
static inline fl_status sleeper_result(sleeper *s, const fl_comm_answer *a,
                                       fl_status st)
{
    if (st != FL_PENDING)
        return st;
    FL_TRY(sleeper_wait(s));
    return fl_comm_result(a);
}

#endif
