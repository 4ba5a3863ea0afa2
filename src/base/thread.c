/* thread.c - threads, clocks and conditions on the monotonic clock. */
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "flotilla/status.h"

#define NS_PER_S 1000000000u

/* What the kernel shows of a thread's name, with the NUL. */
#define NAME_MAX_BYTES 16

/* Room for 16384 cores; a mask smaller than the kernel's is refused by it. */
#define MASK_SETS 16

/* About what it takes to wake a thread on another core of a virtual machine. */
#define BRIEFLY_NS 30000
#define PAUSES_MAX 16

struct fl_thread {
    pthread_t id;
    void (*fn)(void *);
    void *arg;
    char name[NAME_MAX_BYTES];
};

/* Threads that were started and not joined. A child of fork has none of them. */
static atomic_int n_threads;
static atomic_bool is_cut_off;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void be_child(void)
{
    if (atomic_exchange(&n_threads, 0) > 0)
        atomic_store(&is_cut_off, true);
}

static void mind_forks(void)
{
    FL_ASSERT(pthread_atfork(NULL, NULL, be_child) == 0);
}

bool fl_is_cut_off(void)
{
    return atomic_load(&is_cut_off);
}

static void *thread_main(void *arg)
{
    fl_thread *t = arg;

    pthread_setname_np(pthread_self(), t->name);
    t->fn(t->arg);
    return NULL;
}

fl_status fl_thread_start(fl_thread **out, const char *name, void (*fn)(void *),
                          void *arg)
{
    fl_thread *t = fl_alloc(sizeof(*t));
    int err;

    t->fn = fn;
    t->arg = arg;
    memcpy(t->name, name, strnlen(name, NAME_MAX_BYTES - 1));
    pthread_once(&once, mind_forks);
    err = pthread_create(&t->id, NULL, thread_main, t);
    if (err) {
        fl_free(t);
        FL_FAIL(FL_ERR_NOMEM,
                "cannot start thread %s: %s; use fewer threads or raise the "
                "limit on them (ulimit -u)",
                name, strerror(err));
    }
    atomic_fetch_add(&n_threads, 1);
    *out = t;
    return FL_OK;
}

void fl_thread_join(fl_thread *t)
{
    if (!t)
        return;
    FL_ASSERT(pthread_join(t->id, NULL) == 0);
    atomic_fetch_sub(&n_threads, 1);
    fl_free(t);
}

void fl_mutex_init(fl_mutex *m)
{
    FL_ASSERT(pthread_mutex_init(m, NULL) == 0);
}

void fl_mutex_release(fl_mutex *m)
{
    FL_ASSERT(pthread_mutex_destroy(m) == 0);
}

void fl_cond_init(fl_cond *c)
{
    pthread_condattr_t attr;

    FL_ASSERT(pthread_condattr_init(&attr) == 0);
    FL_ASSERT(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    FL_ASSERT(pthread_cond_init(c, &attr) == 0);
    pthread_condattr_destroy(&attr);
}

void fl_cond_release(fl_cond *c)
{
    FL_ASSERT(pthread_cond_destroy(c) == 0);
}

bool fl_cond_wait_until(fl_cond *c, fl_mutex *m, uint64_t deadline_ns)
{
    struct timespec ts = {
        .tv_sec = (time_t)(deadline_ns / NS_PER_S),
        .tv_nsec = (long)(deadline_ns % NS_PER_S),
    };

    return pthread_cond_timedwait(c, m, &ts) != ETIMEDOUT;
}

/* On one core nothing that is waited for goes on meanwhile. */
static bool may_look(void)
{
    static atomic_int n_cores;
    int n = atomic_load_explicit(&n_cores, memory_order_relaxed);

    if (!n) {
        n = fl_cpu_count();
        atomic_store_explicit(&n_cores, n, memory_order_relaxed);
    }
    return n > 1;
}

static void pause_often(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        fl_pause();
}

/* Looks come ever later: each of a lock takes its memory from who has it. */
void fl_lock_soon(fl_mutex *m)
{
    uint64_t since;
    unsigned n = 1;

    if (fl_try_lock(m))
        return;
    since = fl_now_ns();
    while (may_look() && fl_now_ns() - since < BRIEFLY_NS) {
        pause_often(n);
        n += n < PAUSES_MAX ? n : 0;
        if (fl_try_lock(m))
            return;
    }
    fl_lock(m);
}

static void look_for_zero(const atomic_uint *n)
{
    uint64_t since = fl_now_ns();

    while (atomic_load(n) && may_look() && fl_now_ns() - since < BRIEFLY_NS)
        fl_pause();
}

void fl_wait_for_zero(fl_cond *c, fl_mutex *m, const atomic_uint *n)
{
    if (atomic_load(n)) {
        fl_unlock(m);
        look_for_zero(n);
        fl_lock_soon(m);
    }
    while (atomic_load(n))
        fl_cond_wait(c, m);
}

int fl_cpu_count(void)
{
    cpu_set_t mask[MASK_SETS];
    int n;

    if (sched_getaffinity(0, sizeof(mask), mask) != 0)
        return 1;
    n = CPU_COUNT_S(sizeof(mask), mask);
    return n > 0 ? n : 1;
}

static uint64_t read_clock(clockid_t clock)
{
    struct timespec ts;

    FL_ASSERT(clock_gettime(clock, &ts) == 0);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t fl_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t fl_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
