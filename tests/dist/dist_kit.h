/* dist_kit.h - a network that is trained alone and on servers, so that the two
 * can be compared.
 *
 * Servers and trainers are threads with contexts of their own over real
 * sockets. cmocka's assertions are for the test's own thread: a member that
 * fails leaves its sentence. A test that hangs is ended by its alarm clock.
 */
#ifndef FL_TESTS_DIST_KIT_H
#define FL_TESTS_DIST_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "flotilla/dist.h"
#include "flotilla/flotilla.h"

#define KIT_SLOTS 3
#define KIT_HEIGHT 60 /* ids of the embedding */
#define KIT_DIM 4
#define KIT_DENSE 4
#define KIT_HIDDEN 16
#define KIT_TRAINERS 4
#define KIT_PARAMS 4 /* dense ones: fc1_w fc1_b fc2_w fc2_b */
#define KIT_ROWS 8   /* of a batch, unless a job says otherwise */
#define KIT_SETTINGS 8

/* All parameters after training. */
typedef struct kit_model {
    float emb[KIT_HEIGHT * KIT_DIM];
    float fc1_w[(KIT_SLOTS * KIT_DIM + KIT_DENSE) * KIT_HIDDEN];
    float fc1_b[KIT_HIDDEN];
    float fc2_w[KIT_HIDDEN * 2];
    float fc2_b[2];
} kit_model;

typedef struct kit_setting {
    const char *name, *value;
} kit_setting;

/* Everything that is left 0 has a default. */
typedef struct kit_job kit_job;
struct kit_job {
    const char *mode; /* NULL: sync */
    /* A network of the test's own, with its optimizer; NULL: kit_build. */
    fl_var *(*build)(fl_ctx *c, const kit_job *j);
    int n_servers, n_trainers, n_steps;
    bool workers_serve; /* there are no servers: every trainer is one, too */
    const char *optimizer, *words; /* sgd, learning_rate=0.1 */
    bool is_dense;                 /* the embedding is no table */
    bool is_table;                 /* it is one, in every mode */
    bool is_sum;                   /* the loss is a sum, not a mean */
    bool has_own; /* fc1_w has a rate, a decay and a clip of its own */
    /* The rate follows a schedule, one of kit_schedules; NULL: it stays. */
    fl_var *(*schedule)(fl_ctx *c);
    kit_setting settings[KIT_SETTINGS];
    int rows[KIT_TRAINERS];  /* of the batches of each trainer */
    int joined;              /* a step has the batches of so many, as one */
    int steps[KIT_TRAINERS]; /* of each trainer; 0: n_steps */
    int n_threads;           /* hogwild threads of a trainer; 0: fl_run */
    int n_replicas;          /* instead of threads */
    /* What a server does to its programs before it runs them; NULL: nothing. */
    void (*edit)(fl_program *startup, fl_program *main);
    const char *model; /* that servers begin with, and trainers; NULL: none */
    /* What the servers hold in the end: a mode that exchanges beside training
       is given some time to bring it there. NULL: they are looked at once. */
    const kit_model *awaited;
    double tolerance; /* of what is awaited */
};

/* What became of a job. */
typedef struct kit_end {
    kit_model model;
    uint64_t hash; /* of what the servers held */
    uint64_t step; /* the global step that trainer 0 saw last */
    double first_loss, last_loss;
    fl_job_stats stats[KIT_TRAINERS];
} kit_end;

/* --- the network ---------------------------------------------------------- */

/* Builds it with its optimizer; NULL, with the reason, on failure. */
fl_var *kit_build(fl_ctx *c, const kit_job *j);

/* Every schedule, alone and under a linear warm-up. */
typedef struct kit_schedule {
    const char *name;
    fl_var *(*make)(fl_ctx *c);
} kit_schedule;
const kit_schedule *kit_schedule_at(size_t i); /* NULL after the last */

/* One batch by (rank, step): the same for everybody who asks. Several ranks in
   one: [from, to). */
typedef struct kit_batch kit_batch;
kit_batch *kit_batch_make(const kit_job *j, int from, int to, int step);
void kit_batch_free(kit_batch *b);
#define KIT_FEEDS (KIT_SLOTS + 2)
const fl_feed *kit_batch_feeds(const kit_batch *b);

/* What the network predicts: its probabilities, from all feeds but the last. */
#define KIT_INPUTS (KIT_FEEDS - 1)
const char *kit_target(const fl_program *p);
fl_status kit_save_scores(fl_executor *e, fl_program *p, const char *dir);

/* --- training ------------------------------------------------------------- */

/* Alone, on the batches of all trainers joined. */
void kit_train_alone(const kit_job *j, kit_model *out);

/* With servers; fails the test when a member fails. */
void kit_train(const kit_job *j, kit_end *out);

/* What a trainer does with its programs, in place of n_steps batches. */
typedef struct kit_trainer {
    const kit_job *job;
    int rank;
    fl_ctx *ctx;
    fl_executor *exe;
    fl_transpiler *transpiler;
    fl_var *loss;
    double first_loss, last_loss;
} kit_trainer;
typedef fl_status (*kit_work)(kit_trainer *t, void *arg);

/* The same with work of the test's own; every member's result is left in
   texts[], "" for a good one: servers first. */
#define KIT_MEMBERS 8
typedef char kit_text[512];
void kit_run(const kit_job *j, kit_work work, void *arg, kit_end *out,
             kit_text texts[KIT_MEMBERS]);

/* Work of trainers that only come and leave. */
fl_status kit_do_nothing(kit_trainer *t, void *arg);
/* The values of a job like this one, in another mode and on so many servers, when
   it begins with the model in dir. */
void kit_begin_with(kit_job like, const char *dir, const char *mode,
                    int n_servers, kit_model *out);

/* One member alone, for tests that put it into a process of its own: server
   `rank` or trainer `rank` of the job with these servers. */
typedef enum kit_role { KIT_SERVER, KIT_TRAINER } kit_role;
void kit_member(const kit_job *j, const char *addresses, kit_role role,
                int rank, kit_work work, void *arg, kit_text text);

/* One training step of a trainer, by fl_run or as replicas. */
fl_status kit_step(kit_trainer *t, int step);

/* All steps of a trainer on its hogwild threads. */
fl_status kit_threads(kit_trainer *t);

/* |a - b| / max(1, |b|), the largest over all parameters. */
double kit_error(const kit_model *a, const kit_model *b);

/* Addresses of n servers that nobody uses, apart by commas. */
void kit_addresses(char *out, size_t cap, int n);

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#endif
