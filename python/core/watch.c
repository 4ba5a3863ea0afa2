/* watch.c - Ctrl-C while the library works.
 *
 * Python only notes a signal and handles it when its main thread runs Python
 * again. While that thread is in the library, the signal also rings here: a
 * thread of our own asks the library to end what it does, first in order, then
 * at all costs, until it has; then Python handles the signal, which raises
 * KeyboardInterrupt.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "core.h"

#define PATIENCE_MS 600 /* for the orderly end */
#define AGAIN_MS 50

static sem_t rang;
static unsigned long main_thread;
static bool has_watcher;
/* The call that the main thread is in, counted from 1 on; 0: none. It ends
   under the lock, under which it is interrupted: no other call is then. */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static atomic_ulong call;
static atomic_ulong rung;     /* the call that a signal came in */
static unsigned long n_calls; /* the main thread's, as is depth */
static int depth;             /* of calls from callbacks */
/* The handlers that ours stands before: Python's, and the last that was set
   over it. Ours stays between calls, since setting it costs as much as a small
   operator; what Python says of its handlers, it says from memory. */
static struct sigaction firsts, lasts;

/* A handler that was set over ours may call it in turn. */
static void on_signal(int number, siginfo_t *info, void *context)
{
    static volatile sig_atomic_t is_within;
    const struct sigaction *next = is_within ? &firsts : &lasts;
    int kept = errno, was_within = is_within;

    is_within = 1;
    atomic_store(&rung, atomic_load(&call));
    sem_post(&rang);
    if (next->sa_flags & SA_SIGINFO)
        next->sa_sigaction(number, info, context);
    else
        next->sa_handler(number);
    is_within = was_within;
    errno = kept;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

/* False when the call is over. */
static bool interrupt(unsigned long number, fl_interrupt_kind kind)
{
    bool is_under_way;

    pthread_mutex_lock(&mu);
    is_under_way = number && atomic_load(&call) == number;
    if (is_under_way)
        fl_interrupt(kind);
    pthread_mutex_unlock(&mu);
    return is_under_way;
}

static void *watch(void *unused)
{
    (void)unused;
    for (;;) {
        unsigned long number;
        int ms = 0;

        while (sem_wait(&rang))
            ;
        number = atomic_load(&rung);
        while (interrupt(number, ms < PATIENCE_MS ? FL_INTERRUPT_SOON
                                                  : FL_INTERRUPT_NOW)) {
            pause_ms(AGAIN_MS);
            ms += AGAIN_MS;
        }
    }
    return NULL;
}

/* Signals are for Python's threads. */
static bool start_watcher(void)
{
    sigset_t all, was;
    pthread_t thread;
    bool is_started;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    is_started = !sem_init(&rang, 0, 0) &&
                 !pthread_create(&thread, NULL, watch, NULL) &&
                 !pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    return is_started;
}

/* One that is ignored, or ends the process, needs nobody to watch it. */
static bool is_handled(const struct sigaction *a)
{
    return (a->sa_flags & SA_SIGINFO) ||
           (a->sa_handler != SIG_IGN && a->sa_handler != SIG_DFL);
}

/* False when the signal is not for us. */
static bool stand_before(void)
{
    struct sigaction now, ours = { .sa_sigaction = on_signal };

    if (sigaction(SIGINT, NULL, &now) || !is_handled(&now))
        return false;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal)
        return true;
    lasts = now;
    if (!is_handled(&firsts))
        firsts = now;
    ours.sa_flags = SA_SIGINFO | (now.sa_flags & SA_RESTART);
    ours.sa_mask = now.sa_mask;
    return !sigaction(SIGINT, &ours, NULL);
}

core_watch core_watch_begin(void)
{
    if (fl_is_cut_off()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "this process was forked from one that ran already, "
                        "and has none of its threads: it may read data; start "
                        "it by multiprocessing's \"spawn\" or \"forkserver\" "
                        "to run anything");
        return CORE_INTERRUPTED;
    }
    if (PyThread_get_thread_ident() != main_thread)
        return CORE_NOT_WATCHED;
    if (depth++)
        return CORE_WATCHED;
    has_watcher = has_watcher || start_watcher();
    if (!has_watcher || !stand_before()) {
        depth = 0;
        return CORE_NOT_WATCHED;
    }
    atomic_store(&call, ++n_calls);
    /* What came before that has rung for no call. */
    if (!PyErr_CheckSignals())
        return CORE_WATCHED;
    core_watch_end(CORE_WATCHED);
    return CORE_INTERRUPTED;
}

void core_watch_end(core_watch begun)
{
    if (begun != CORE_WATCHED || --depth)
        return;
    pthread_mutex_lock(&mu);
    atomic_store(&call, 0);
    pthread_mutex_unlock(&mu);
}

/* A child has no watcher: it is started when it is needed. */
static void forget_watcher(void)
{
    has_watcher = false;
    depth = 0;
    pthread_mutex_init(&mu, NULL);
    atomic_store(&call, 0);
}

int core_add_watch(void)
{
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *thread =
        threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
    PyObject *ident = thread ? PyObject_GetAttrString(thread, "ident") : NULL;

    if (ident)
        main_thread = PyLong_AsUnsignedLong(ident);
    Py_XDECREF(ident);
    Py_XDECREF(thread);
    Py_XDECREF(threading);
    if (PyErr_Occurred())
        return -1;
    return pthread_atfork(NULL, NULL, forget_watcher) ? -1 : 0;
}
