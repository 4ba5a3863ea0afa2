/* late_comm.h - a backend for tests that answers pulls from a thread of its
 * own, and writes down what it is asked.
 *
 * The row of key k is k, k, ...; pushes change nothing. With `holds` the pull
 * number n of a training thread is answered after its push number n - 1: a
 * batch that needs its rows earlier than that would wait for ever. Any thread.
 */
#ifndef FL_TESTS_EXEC_LATE_COMM_H
#define FL_TESTS_EXEC_LATE_COMM_H

#include "base/thread.h"
#include "base/vec.h"
#include "flotilla/flotilla.h"
#include "ir/comm.h"

#define LATE_THREADS_MAX 4

typedef enum late_kind { LATE_PULL, LATE_PUSH, LATE_MEET } late_kind;

typedef struct late_event {
    late_kind kind;
    fl_seat seat;
    uint64_t key; /* the first one */
    size_t n;     /* keys */
    uint64_t step, samples;
} late_event;

/* A pull that waits for its answer. */
typedef struct late_wait {
    fl_comm_request *request;
    int number; /* of this thread */
} late_wait;

typedef struct late_comm {
    fl_comm port;
    bool holds;
    int fails_at;       /* number of the push that fails; -1: none */
    uint64_t delay_ns;  /* before an answer */
    uint64_t next_step; /* what step() gives, and counts on */
    fl_mutex mu;        /* guards what follows */
    fl_cond changed;
    bool is_closed;
    FL_VEC(late_wait) waits;
    FL_VEC(late_event) events;
    int n_pulls[LATE_THREADS_MAX], n_pushes[LATE_THREADS_MAX];
    int n_entered, n_left[LATE_THREADS_MAX];
    fl_thread *thread;
} late_comm;

/* Becomes the backend of the context, which frees it. */
late_comm *late_comm_use(fl_ctx *c);

/* How many events of that kind there were. */
size_t late_count(late_comm *c, late_kind kind);

#endif
