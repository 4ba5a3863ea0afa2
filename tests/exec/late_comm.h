/* late_comm.h - a backend for tests that answers pulls from a thread of its
 * own, and writes down what it is asked.
 *
 * The row of key k is k, k, ...; pushes change nothing. With `holds` the pull
 * number n of a training thread is answered after its push number n - 1: a
 * batch that needs its rows earlier than that would wait for ever. A push that
 * fails does not count, but the thread may leave instead. Any thread.
 *
 * What it is like is chosen before a run; it has a poller once that was asked
 * for.
 */
#ifndef FL_TESTS_EXEC_LATE_COMM_H
#define FL_TESTS_EXEC_LATE_COMM_H

#include "base/thread.h"
#include "base/vec.h"
#include "flotilla/flotilla.h"
#include "ir/comm.h"

#define LATE_THREADS_MAX 4

typedef enum late_kind {
    LATE_PULL,
    LATE_PUSH,
    LATE_BARRIER,
    LATE_PULLED, /* the answer to a pull, where it came late */
    LATE_PASSED, /* the same for a barrier */
    LATE_FLUSH,
    LATE_GROUP /* one was through, where there may be several batches in it */
} late_kind;

/* When a barrier is answered. */
typedef enum late_barrier_answer {
    BARRIER_AT_ONCE,
    BARRIER_LATE,  /* by the thread */
    BARRIER_BEFORE /* the call has returned that it is pending */
} late_barrier_answer;

/* Who answers, and when. */
typedef enum late_answers {
    ANSWER_SOON,      /* the thread */
    ANSWER_WHO_WAITS, /* the thread, while somebody waits at the backend */
    ANSWER_HELPER     /* who waits at the backend */
} late_answers;

typedef struct late_event {
    late_kind kind;
    fl_worker_id worker;
    bool is_behind; /* of a pull */
    uint64_t key;   /* the first one */
    size_t n;       /* keys */
    uint64_t step, samples;
} late_event;

/* A pull or a barrier that waits for its answer. */
typedef struct late_wait {
    fl_comm_request *request; /* NULL: a barrier */
    fl_comm_answer *answer;
    fl_worker_id worker;
    int number;   /* of this thread */
    bool is_kept; /* back, until somebody flushes */
} late_wait;

typedef struct late_comm {
    fl_comm port;
    fl_poller poller;
    bool holds, pulls_at_once, keeps_back;
    late_barrier_answer barrier_answer;
    bool barriers_fail;
    int fails_at;       /* number of the push that fails; -1: none */
    uint64_t delay_ns;  /* before an answer */
    uint64_t next_step; /* what step() gives, and counts on */
    fl_mutex mu;        /* guards what follows */
    fl_cond changed;
    fl_cond notified; /* for those who wait at the backend, and nobody else */
    bool is_closed;
    bool is_silent;
    late_answers answers;
    FL_VEC(late_wait) waits;
    FL_VEC(late_event) events;
    int n_pulls[LATE_THREADS_MAX], n_pushes[LATE_THREADS_MAX];
    int n_entered, n_left[LATE_THREADS_MAX];
    int n_waits, n_inside;    /* at the backend: in all, and now */
    int n_forgotten;          /* of them, whose end nobody told */
    int n_answered, n_helped; /* answers, and those by who waits */
    uint64_t n_notified;
    fl_thread *thread;
} late_comm;

/* Becomes the backend of the context, which frees it. */
late_comm *late_comm_use(fl_ctx *c);

/* From now on its time is its own, and threads that wait help it. */
void late_comm_take_help(late_comm *c);

/* From now on pulls are kept back until somebody flushes. */
void late_comm_keep_back(late_comm *c);

void late_comm_set_answers(late_comm *c, late_answers answers);

/* Answers nothing; and all that it has not answered. */
void late_comm_fall_silent(late_comm *c);
void late_comm_speak(late_comm *c);

/* Until it has given so many answers, and was notified so often; false when
   that hangs. */
bool late_reaches(late_comm *c, int n_answered, uint64_t n_notified);

/* How many events of that kind there were. */
size_t late_count(late_comm *c, late_kind kind);

#endif
