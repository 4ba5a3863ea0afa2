/* comm.h - the port between operators and what keeps parameters elsewhere.
 *
 * Operators know no network: they see this port, and behind it stand tables of
 * this process, a cluster or a frozen model. A backend is two tables of functions
 * (data and life) with a struct of its own behind them. Any thread may call.
 *
 * A request is the operator's memory from the call until its completion. A
 * backend that answers at once returns FL_OK; one that needs time returns
 * FL_PENDING and calls fl_comm_finish later, from any thread, exactly once.
 */
#ifndef FL_IR_COMM_H
#define FL_IR_COMM_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/poller.h"
#include "base/status.h"
#include "ir/op.h"
#include "optim/rule.h"
#include "tensor/rows.h"

/* The way back to an operator that waits. */
typedef struct fl_comm_answer {
    fl_waker *waker;
    fl_err error; /* set by fl_comm_finish */
    atomic_bool finished;
} fl_comm_answer;

/* Rows of one table, whose keys are all different. A backend checks the width
   against the table's. */
typedef struct fl_comm_request {
    fl_comm_answer answer; /* the first member: see fl_comm_begin */
    const char *table;
    fl_rows rows;            /* pull: its keys */
    float *out;              /* pull: filled */
    bool create;             /* pull: make rows for new keys */
    bool is_behind;          /* pull: this thread has another batch to train
                                before the one that the rows are for */
    const fl_update *update; /* push: NULL: as the table was made */
    fl_worker_id worker;
    uint64_t step; /* push: parts of one step have one number */
} fl_comm_request;

/* Rows of one table that are read where they lie. */
typedef struct fl_comm_find {
    const char *table;
    uint32_t dim;
    const uint64_t *keys; /* they may repeat */
    size_t n;
    float *room;        /* [n, dim]: for rows that lie nowhere as they are */
    const float **rows; /* filled, and on their way into the cache; they stay
                           until the run ends */
    /* Keys of the find that follows, for whom the memory can be asked
       meanwhile; those of this one came with the one before. */
    const uint64_t *next;
    size_t n_next;
    bool is_asked;
} fl_comm_find;

/* What send, recv and barrier take. */
typedef struct fl_comm_call {
    fl_comm_answer answer; /* the first member */
    fl_param_values *values;
    size_t n;
    fl_worker_id worker;
    uint64_t samples; /* of the batch, over all parts */
} fl_comm_call;

/* --- among workers -------------------------------------------------------- */

typedef enum fl_collect_kind {
    FL_COLLECT_ALLREDUCE,     /* out = op over the workers' in */
    FL_COLLECT_BROADCAST,     /* out = in of the root */
    FL_COLLECT_ALLGATHER,     /* out = in of all, in the order of ranks */
    FL_COLLECT_REDUCE,        /* as all-reduce, at the root alone */
    FL_COLLECT_REDUCESCATTER, /* each worker has its share of the all-reduce */
    FL_COLLECT_BARRIER        /* everybody has come */
} fl_collect_kind;

typedef enum fl_collect_op {
    FL_COLLECT_SUM,
    FL_COLLECT_MAX,
    FL_COLLECT_MIN,
    FL_COLLECT_PROD
} fl_collect_op;

/* Rings that programs may number. */
#define FL_COLLECT_RINGS 16

/* What all workers make together. Calls of one ring begin in the same order
   everywhere. */
typedef struct fl_comm_collect fl_comm_collect;
struct fl_comm_collect {
    fl_comm_answer answer; /* the first member */
    fl_collect_kind kind;
    fl_collect_op op;
    fl_dtype dtype;
    const void *in;
    void *out; /* may be `in`, but for allgather and reducescatter */
    size_t n;  /* elements of in */
    int root, ring;
    size_t n_vars; /* gradients that travel in it; 0: it is none */
    void *backend; /* its own */
    fl_worker_id worker;
    /* Allgather of unequal numbers: memory for all elements, when it is known
       how many each worker brings; NULL: there is none. Once, from any thread,
       before the answer. */
    void *(*room)(fl_comm_collect *r, const uint64_t *counts, uint64_t sum);
};

/* What the batch of this worker counts among those of the same step. */
typedef struct fl_comm_share {
    fl_comm_answer answer; /* the first member */
    uint64_t samples;      /* of the batch, over all parts */
    double share;          /* the answer */
    fl_worker_id worker;
} fl_comm_share;

/* What a server does: each of these blocks of the program updates one dense
   parameter, or a part of it, when its gradient comes; each of the table blocks
   is the update of one table, made for every row that has a gradient. */
typedef struct fl_comm_service {
    const char *endpoint;
    const struct fl_program *program;
    const int64_t *blocks, *table_blocks;
    size_t n_blocks, n_table_blocks;
    /* By dense block: the row of its parameter that it begins with; none: every
       parameter is whole. */
    const int64_t *from_rows;
    size_t n_from_rows;
    bool adds; /* values alone: trainers have the state of the optimizer */
} fl_comm_service;

/* What operators ask, once per batch and variable.
 *
 * Memory is borrowed until the answer; but what push and send hand over may be
 * kept until the answer to the next barrier of that thread, in programs that
 * have one (it lists what must live so long). Of several parts that make one
 * step (worker.n_parts > 1) all but the last to come are answered at once.
 * find, send, recv and barrier may be NULL, where a backend has no use for them. */
typedef struct fl_comm_data {
    fl_status (*pull)(fl_comm *c, fl_comm_request *r);
    /* Answered at once. NULL: rows change, or they are not in this process. */
    fl_status (*find)(fl_comm *c, fl_comm_find *f);
    fl_status (*push)(fl_comm *c, fl_comm_request *r);
    /* The gradient of a parameter; where the update is made here (geo), the
       parameter itself. */
    fl_status (*send)(fl_comm *c, fl_comm_call *r);
    /* Fresh values of parameters, before the next batch. */
    fl_status (*recv)(fl_comm *c, fl_comm_call *r);
    /* All of this batch has been pushed and sent: answered when the mode lets
       this thread go on. */
    fl_status (*barrier)(fl_comm *c, fl_comm_call *r);
    /* Among workers; NULL, both: there is one. */
    fl_status (*collect)(fl_comm *c, fl_comm_collect *r);
    fl_status (*share)(fl_comm *c, fl_comm_share *r);
} fl_comm_data;

/* What a backend lives through. All but declare and free may be NULL. */
typedef struct fl_comm_life {
    /* Makes the table, or empties it when one of that name and the same
       settings exists; other settings are an error. The notation of the
       settings is that of fl_table_new. */
    fl_status (*declare)(fl_comm *c, const char *table, const char *settings,
                         uint64_t seed);
    /* Serves by a program until the job is over. */
    fl_status (*serve)(fl_comm *c, const fl_comm_service *s);
    /* The number of the training step that a thread begins; NULL: steps are
       counted in the scope. */
    uint64_t (*step)(fl_comm *c);
    /* n_threads are going to train, each with batches of its own; later each
       of them, once, has no more data or has failed. Without: one thread. */
    void (*enter)(fl_comm *c, int n_threads);
    void (*leave)(fl_comm *c, int thread);
    /* A thread begins a batch that trains, and is through with it, for better or
       worse: with whatever its caller has counted of it. Between two batches the
       job may hold it, to make a cut. */
    void (*begin_batch)(fl_comm *c);
    void (*end_batch)(fl_comm *c);
    /* A thread is through with the batches that were asked for together: what
       they have handed over may leave together. It flushes afterwards. */
    void (*end_group)(fl_comm *c);
    /* This process has no batch for now: takes part in the steps of the others
       until nobody has one. By the thread that trains. */
    fl_status (*drain)(fl_comm *c);
    /* All that was handed over is applied; no batch is under way. */
    fl_status (*settle)(fl_comm *c);
    /* Everything is on its way and applied, and this process leaves the job.
       Done twice is fine. */
    fl_status (*stop)(fl_comm *c);
    void (*free)(fl_comm *c);
} fl_comm_life;

struct fl_comm {
    const char *name; /* for messages: "local" */
    const fl_comm_data *data;
    const fl_comm_life *life;
    /* Waits end by themselves, with the reason: the executor sets no limit. */
    bool has_own_deadline;
    /* Pulls and pushes are answered at once. */
    bool is_synchronous;
    /* Parameters of this process change beside its runs, until stop. */
    bool writes_params;
    /* Rows of so many batches may be asked for together, before those in front
       of them are trained; 0: of none. A backend that owes them what these do
       (is_behind) sees to it. */
    int n_ahead;
    /* Of workers that collect; 0: there is one. */
    int rank, n_workers;
    /* Rows are elsewhere, where keys in the order of their hashes (fl_hash_key)
       are dealt, found and added up with less work than others. */
    bool by_hash;
    /* Threads of a run meet after what they compute, and update once. */
    bool threads_meet;
    /* How this process makes a step without a batch of its own, as others have
       one: by the program that it trained last. Set by who trains; for the
       thread that does. */
    struct {
        fl_status (*run)(void *arg);
        void *arg; /* NULL: nothing was trained */
    } filler;
    /* Where threads wait for answers, and flush what was coalesced with what
       may follow before they do something else. NULL as long as nothing is
       under way; threads sleep then. */
    _Atomic(fl_poller *) poller;
};

static inline int fl_comm_n_workers(const fl_comm *c)
{
    return c && c->n_workers ? c->n_workers : 1;
}

/* Makes an answer ready for a call. */
void fl_comm_begin(fl_comm_answer *a, fl_waker *waker);

/* What a call gave: FL_PENDING, FL_OK or the error, as this thread's last. */
fl_status fl_comm_result(const fl_comm_answer *a);

/* Ends a pending request: stores the error of this thread for `st` and wakes
   the operator. */
void fl_comm_finish(fl_comm_answer *a, fl_status st);

/* Sends what the backend has coalesced. NULL is fine, here and below. */
void fl_comm_flush(fl_comm *c);

void fl_comm_free(fl_comm *c);

#endif
