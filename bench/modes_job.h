/* modes_job.h - a job of servers and trainers, and the same work without
 * servers. One thread, the bench's.
 */
#ifndef BENCH_MODES_JOB_H
#define BENCH_MODES_JOB_H

#include "ctr_net.h"
#include "modes_members.h"
#include "ps_process.h"

#define JOB_SERVERS_MAX 8
#define JOB_TRAINERS_MAX 256
#define JOB_SERVING_MAX 8 /* servers, or workers that serve */

typedef struct job_spec job_spec;

/* What a job trains. */
typedef struct job_work {
    /* Adds the network to the default programs of the context. */
    void (*build)(fl_ctx *c, const job_spec *s);
    /* In a trainer: the same, and its state. */
    void *(*begin)(fl_ctx *c, const job_spec *s, int rank);
    /* Trains as ordered, with that program; the mean loss. */
    double (*train)(void *state, fl_executor *e, fl_program *p,
                    const member_order *o);
    /* What the servers hold is worth. */
    double (*judge)(void *state, fl_transpiler *t, const member_order *o);
    void (*end)(void *state);
} job_work;

struct job_spec {
    const char *mode;
    int n_servers, n_trainers; /* no servers: workers serve */
    bool is_tcp;               /* local_transport=off */
    const char *wire;          /* wire_pull and wire_push; NULL: f32 */
    const char *precision;     /* of products; NULL: f32 */
    bool is_on_hosts;          /* of the network that modes_link.sh has made */
    int geo_period;
    uint64_t seed;
    const job_work *work;
    const void *task; /* for the work */
};

/* The click network. */
typedef struct ctr_task {
    const ctr_net_spec *net; /* NULL: modes_net */
    const ctr_data *data, *test;
} ctr_task;
extern const job_work ctr_work;

/* One process of a job. */
typedef struct job_seat {
    job_spec job;
    int rank;
    const char *servers;       /* of the job */
    const char *host;          /* that it runs on; NULL: this one */
    char address[ADDRESS_MAX]; /* of a server */
} job_seat;

typedef struct job {
    job_spec spec;
    char name[32]; /* sync.1s2t.tcp, sync.1s2t.link.bf16 */
    char servers_text[JOB_SERVING_MAX * ADDRESS_MAX];
    job_seat seats[JOB_SERVERS_MAX + JOB_TRAINERS_MAX];
    member servers[JOB_SERVERS_MAX], trainers[JOB_TRAINERS_MAX];
    size_t next;                     /* batch to train */
    double losses[JOB_TRAINERS_MAX]; /* what each trainer answered last */
} job;

/* A context for one thread per run, quiet unless something is wrong. */
fl_ctx *job_ctx(uint64_t seed);

/* Returns when all have met. The job must stay where it is. */
void job_start(job *j, const job_spec *spec);
void job_end(job *j);

/* What a run took, over all processes. CPU times go on until everything that
   was computed has been applied, the seconds until the last trainer is done
   with its batches. */
typedef struct job_run {
    double seconds, loss;
    double cpu_seconds, server_cpu_seconds;
    double trainer_cpu[JOB_TRAINERS_MAX], server_cpu[JOB_SERVERS_MAX];
    double wait_seconds;      /* of all training threads together */
    double bytes, n_requests; /* of all trainers */
} job_run;

/* Each trainer trains n_each of the next batches. */
job_run job_train(job *j, size_t n_each);
/* The same for n of them, from number `first` on; the others are there and have
   nothing to do. */
job_run job_train_some(job *j, int first, int n, size_t n_each);

/* Judges what the servers hold; `which` is for the work. */
double job_judge(job *j, size_t which);

/* --- without servers ------------------------------------------------------ */

typedef enum alone_kind {
    ALONE_HOGWILD, /* threads with rows in an array */
    ALONE_TABLE,   /* threads with rows in the hashed table */
    ALONE_REDUCE,  /* replicas whose gradients are reduced, rows in an array */
    ALONE_JOINED,  /* one thread, n_threads batches fed as one */
    ALONE_FLOOR,   /* straight C */
    ALONE_WORK     /* work of a job, by threads of its own */
} alone_kind;

typedef struct alone_spec {
    const char *name;
    alone_kind kind;
    int n_threads;
    uint64_t seed;
    ctr_task task;
    const job_work *work; /* of ALONE_WORK */
    const void *job_task;
} alone_spec;

typedef struct alone {
    alone_spec spec;
    member member;
    size_t next;
} alone;

void alone_start(alone *a, const alone_spec *spec);
void alone_end(alone *a);
job_run alone_train(alone *a, size_t n_batches);
double alone_auc(alone *a); /* not of the floor or the hashed table */

/* The rule of modes_net and of the floor. */
#define JOB_RATE 0.3

#endif
