/* thread.h - the only place that creates threads.
 *
 * Mutexes and conditions are thin names over pthreads; every timed wait takes
 * a deadline on the monotonic clock. FL_RACY marks a function whose unlocked
 * reads or writes of float weights are wanted (hogwild), for the reader and
 * for ThreadSanitizer alike.
 */
#ifndef FL_BASE_THREAD_H
#define FL_BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#if defined(__clang__)
#define FL_RACY __attribute__((no_sanitize("thread"), noinline))
#else
#define FL_RACY __attribute__((no_sanitize_thread, noinline))
#endif

typedef struct fl_thread fl_thread;
typedef pthread_mutex_t fl_mutex;
typedef pthread_cond_t fl_cond;

/* Starts fn(arg) on a new thread called `name` (15 characters show). */
FL_MUST_CHECK
fl_status fl_thread_start(fl_thread **out, const char *name, void (*fn)(void *),
                          void *arg);

/* Waits for its end and frees it; NULL is fine. */
void fl_thread_join(fl_thread *t);

void fl_mutex_init(fl_mutex *m);
void fl_mutex_release(fl_mutex *m);
void fl_cond_init(fl_cond *c);
void fl_cond_release(fl_cond *c);

static inline void fl_lock(fl_mutex *m)
{
    pthread_mutex_lock(m);
}

/* False when somebody else has it. */
static inline bool fl_try_lock(fl_mutex *m)
{
    return pthread_mutex_trylock(m) == 0;
}

static inline void fl_unlock(fl_mutex *m)
{
    pthread_mutex_unlock(m);
}

static inline void fl_cond_wait(fl_cond *c, fl_mutex *m)
{
    pthread_cond_wait(c, m);
}

/* False when the deadline (fl_now_ns time) passed first. */
bool fl_cond_wait_until(fl_cond *c, fl_mutex *m, uint64_t deadline_ns);

static inline void fl_cond_wake_all(fl_cond *c)
{
    pthread_cond_broadcast(c);
}

static inline void fl_cond_wake_one(fl_cond *c)
{
    pthread_cond_signal(c);
}

/* Says to the core that this thread waits for another one. */
static inline void fl_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Of a lock that nobody has for longer than some microseconds: looks a moment
   before it sleeps, which would take longer. */
void fl_lock_soon(fl_mutex *m);

/* Under m: until *n is 0, which c tells then. Looks a moment, without m, before
   it sleeps: who waits for the last of work that others are at mostly need not. */
void fl_wait_for_zero(fl_cond *c, fl_mutex *m, const atomic_uint *n);

/* Cores this process may run on. */
int fl_cpu_count(void);

/* Monotonic time, and the CPU time of the calling thread. */
uint64_t fl_now_ns(void);
uint64_t fl_thread_cpu_ns(void);

#endif
