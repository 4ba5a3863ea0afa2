/* local_cluster_kit.h - servers and trainers of one job as threads of the test, over
 * real sockets; trainers talk to the port of a mode as operators would.
 *
 * cmocka's assertions are for the test's own thread: a trainer that fails
 * leaves its sentence.
 */
#ifndef FL_TESTS_MODE_LOCAL_CLUSTER_KIT_H
#define FL_TESTS_MODE_LOCAL_CLUSTER_KIT_H

#include "lockstep_kit.h"

#include "ops/ops.h"
#include "ps/options.h"
#include "ps/server/server.h"
#include "rpc/stream/socket.h"

#define CREW_SERVERS 3
#define CREW_TRAINERS 3
#define CREW_THREADS 3
#define BATCH_KEYS 6
#define ALL_KEYS 40

typedef struct local_cluster local_cluster;
typedef struct trainer trainer;

/* Gradients of one batch; the frame has the values that were pulled. */
typedef void (*batch_fn)(trainer *t, frame *f, int thread, int batch);

struct trainer {
    local_cluster *local_cluster;
    int rank, n_threads;
    int n_batches[CREW_THREADS]; /* by thread */
    uint64_t samples;            /* of a batch */
    bool leaves_early;           /* does not wait for the others at the end */
    fl_dist dist;
    fl_cluster *cluster;
    fl_comm *comm;
    fl_thread *thread;
    frame frames[CREW_THREADS];
    float w[W_FLOATS], b[B_FLOATS]; /* the parameters of this process */
    uint64_t last_step;             /* of the first thread */
    fl_err errs[CREW_THREADS];      /* of the threads */
    fl_err err;                     /* of the rest */
    uint64_t hash;
};

struct local_cluster {
    const char *mode;
    int n_servers, n_trainers;
    size_t n_keys; /* of a batch */
    char addresses[JOB_ADDRESSES];
    const char *names[CREW_SERVERS];
    fl_conf conf;
    fl_net *net;
    fl_server *servers[CREW_SERVERS];
    trainer trainers[CREW_TRAINERS];
    bool is_good;
    batch_fn batch;
    /* Called after each batch of a thread; may be NULL. */
    fl_status (*after)(trainer *t, int thread, int batch);
    fl_mutex mu;
    fl_cond cond;
    bool
        is_under_way; /* a trainer has called local_cluster_call; guarded by mu */
};

/* --- batches ------------------------------------------------------------ */

static inline uint64_t key_at(uint64_t i)
{
    return fl_mix64(i % ALL_KEYS + 1);
}

static inline uint64_t dice_of(const trainer *t, int thread, int batch)
{
    return fl_mix64((uint64_t)(t->rank * 100 + thread) * 1000 +
                    (uint64_t)batch);
}

/* Keys that differ: 7 and the number of keys have no common divisor. */
static inline void choose_keys(frame *f, uint64_t dice, size_t n)
{
    for (size_t i = 0; i < n; i++)
        f->keys[i] = key_at(dice % ALL_KEYS + 7 * i);
    f->emb.rows.n = f->wide.rows.n = n;
}

/* From -0.5 to 0.5, and no sum of some is exact. */
static inline float noise(uint64_t dice)
{
    return (float)(fl_mix64(dice) % 1000) / 999.f - 0.5f;
}

/* Gradients that depend on all that was pulled, so that one wrong bit stays. */
static inline void noisy_batch(trainer *t, frame *f, int thread, int batch)
{
    uint64_t dice = dice_of(t, thread, batch);

    for (size_t i = 0; i < f->emb.rows.n * EMB_DIM; i++)
        f->emb_rows[i] = 0.3f * f->emb_rows[i] + noise(dice + i);
    for (size_t i = 0; i < f->wide.rows.n; i++)
        f->wide_rows[i] = 0.3f * f->wide_rows[i] + noise(dice + 100 + i);
    for (size_t i = 0; i < W_FLOATS; i++)
        f->w_grad[i] = 0.3f * t->w[i] + noise(dice + 200 + i);
    for (size_t i = 0; i < B_FLOATS; i++)
        f->b_grad[i] = 0.3f * t->b[i] + noise(dice + 300 + i);
}

static inline fl_status pull_rows(frame *f, fl_comm *c)
{
    FL_TRY(do_rows(f, c, c->data->pull, &f->emb));
    return do_rows(f, c, c->data->pull, &f->wide);
}

static inline fl_status one_batch(trainer *t, int thread, int batch)
{
    frame *f = &t->frames[thread];
    fl_comm *c = t->comm;
    uint64_t step = c->life->step(c);

    if (thread == 0)
        t->last_step = step;
    choose_keys(f, dice_of(t, thread, batch), t->local_cluster->n_keys);
    FL_TRY(pull_rows(f, c));
    t->local_cluster->batch(t, f, thread, batch);
    FL_TRY(hand_over(f, c));
    FL_TRY(do_call(f, c, c->data->barrier, &f->barrier));
    FL_TRY(do_call(f, c, c->data->recv, &f->recv));
    return t->local_cluster->after ? t->local_cluster->after(t, thread, batch)
                                   : FL_OK;
}

/* --- trainers ----------------------------------------------------------- */

typedef struct seat_work {
    trainer *trainer;
    int thread;
} seat_work;

static inline void run_seat(void *arg)
{
    const seat_work *s = arg;
    trainer *t = s->trainer;
    fl_status st = FL_OK;

    for (int i = 0; i < t->n_batches[s->thread] && !st; i++)
        st = one_batch(t, s->thread, i);
    fl_err_save(&t->errs[s->thread], st);
    if (t->n_threads > 1)
        t->comm->life->leave(t->comm, s->thread);
}

static inline fl_status run_seats(trainer *t)
{
    seat_work work[CREW_THREADS];
    fl_thread *threads[CREW_THREADS] = { 0 };

    if (t->n_threads > 1)
        t->comm->life->enter(t->comm, t->n_threads);
    for (int i = 0; i < t->n_threads; i++)
        work[i] = (seat_work){ t, i };
    for (int i = 1; i < t->n_threads; i++)
        FL_TRY(fl_thread_start(&threads[i], "seat", run_seat, &work[i]));
    run_seat(&work[0]);
    for (int i = 1; i < t->n_threads; i++)
        fl_thread_join(threads[i]);
    for (int i = 0; i < t->n_threads; i++)
        if (t->errs[i].status)
            return fl_err_restore(&t->errs[i]);
    return FL_OK;
}

/* What is on the servers when all are done. */
static inline fl_status learn_hash(trainer *t)
{
    FL_TRY(fl_cluster_barrier(t->cluster, "done", 1));
    FL_TRY(fl_client_hash(fl_cluster_client(t->cluster), &t->hash, FL_WAIT));
    return fl_cluster_barrier(t->cluster, "hashed", 1);
}

static inline fl_status train_all(trainer *t)
{
    fl_comm *c = t->comm;

    FL_TRY(do_call(&t->frames[0], c, c->data->recv, &t->frames[0].recv));
    FL_TRY(run_seats(t));
    if (!t->leaves_early)
        FL_TRY(learn_hash(t));
    FL_TRY(c->life->stop(c));
    return c->life->stop(c);
}

static inline void run_trainer(void *arg)
{
    trainer *t = arg;
    const fl_mode *mode = fl_mode_find(t->local_cluster->mode);

    t->cluster =
        fl_cluster_new(&(fl_cluster_args){ .dist = &t->dist,
                                           .net = t->local_cluster->net,
                                           .conf = &t->local_cluster->conf,
                                           .may_coalesce = true });
    t->comm = mode->open(t->cluster);
    fl_err_save(&t->err, train_all(t));
}

/* --- the local_cluster ----------------------------------------------------------- */

static inline void local_cluster_name_servers(local_cluster *c)
{
    char *at = c->addresses;

    free_addresses(c->addresses, c->n_servers);
    for (int i = 0; i < c->n_servers; i++) {
        c->names[i] = at;
        at += strcspn(at, ",");
        *at++ = '\0';
    }
}

static inline void local_cluster_serve(local_cluster *c, int rank)
{
    fl_server_options o = fl_server_options_of(&c->conf);

    o.servers = c->names;
    o.n_servers = c->n_servers;
    o.n_trainers = c->n_trainers;
    o.rank = rank;
    o.n_loops = 2;
    o.ops = &fl_ops;
    assert_ok(fl_server_new(&c->servers[rank], c->net, NULL, &o));
}

static inline void trainer_init(local_cluster *c, int rank)
{
    trainer *t = &c->trainers[rank];

    t->local_cluster = c;
    t->rank = rank;
    t->n_threads = 1;
    t->samples = 10;
    dist_init(&t->dist, c->mode, c->names, c->n_servers, c->n_trainers, rank);
    for (int i = 0; i < CREW_THREADS; i++) {
        frame_init(&t->frames[i], i);
        frame_params(&t->frames[i], t->w, t->b);
    }
}

static inline void local_cluster_init(local_cluster *c, const char *mode,
                                      int n_servers, int n_trainers,
                                      batch_fn batch)
{
    alarm(JOB_HANGS_S);
    *c = (local_cluster){ .mode = mode,
                          .n_servers = n_servers,
                          .n_trainers = n_trainers,
                          .n_keys = BATCH_KEYS,
                          .batch = batch };
    fl_mutex_init(&c->mu);
    fl_cond_init(&c->cond);
    assert_ok(fl_conf_init(&c->conf));
    assert_ok(fl_net_sockets(&c->net, &(fl_socket_options){ 0 }));
    local_cluster_name_servers(c);
    for (int i = 0; i < n_trainers; i++)
        trainer_init(c, i);
}

static inline void local_cluster_batches(local_cluster *c, int rank,
                                         int n_threads, int n_batches)
{
    c->trainers[rank].n_threads = n_threads;
    for (int i = 0; i < n_threads; i++)
        c->trainers[rank].n_batches[i] = n_batches;
}

static inline void local_cluster_start(local_cluster *c)
{
    for (int i = 0; i < c->n_servers; i++)
        local_cluster_serve(c, i);
    for (int i = 0; i < c->n_trainers; i++) {
        trainer *t = &c->trainers[i];

        for (int k = 0; k < CREW_THREADS; k++)
            t->frames[k].barrier.samples = t->samples;
        assert_ok(fl_thread_start(&t->thread, "trainer", run_trainer, t));
    }
}

/* The job comes to its end, whatever that is. */
static inline void local_cluster_join(local_cluster *c)
{
    for (int i = 0; i < c->n_trainers; i++)
        fl_thread_join(c->trainers[i].thread);
}

static inline void local_cluster_run(local_cluster *c)
{
    local_cluster_start(c);
    local_cluster_join(c);
}

/* A trainer tells the test's own thread, which waits for it. */
static inline fl_status local_cluster_call(trainer *t, int thread, int batch)
{
    local_cluster *c = t->local_cluster;

    if (thread || batch != 2)
        return FL_OK;
    fl_lock(&c->mu);
    c->is_under_way = true;
    fl_cond_wake_all(&c->cond);
    fl_unlock(&c->mu);
    return FL_OK;
}

/* Ends the servers in the middle of training. */
static inline void local_cluster_run_to_early_end(local_cluster *c)
{
    c->after = local_cluster_call;
    local_cluster_start(c);
    fl_lock(&c->mu);
    while (!c->is_under_way)
        fl_cond_wait(&c->cond, &c->mu);
    fl_unlock(&c->mu);
    for (int i = 0; i < c->n_servers; i++)
        fl_server_stop(c->servers[i]);
    local_cluster_join(c);
}

/* All trainers came to a good end; then the servers do, too. */
static inline void local_cluster_check(local_cluster *c)
{
    for (int i = 0; i < c->n_trainers; i++)
        if (c->trainers[i].err.status)
            fail_msg("trainer %d: %s", i, c->trainers[i].err.text);
    c->is_good = true;
}

/* Servers stay a while for trainers that are connected. */
static inline void local_cluster_release(local_cluster *c)
{
    for (int i = 0; i < c->n_trainers; i++) {
        trainer *t = &c->trainers[i];

        fl_comm_free(t->comm);
        dist_release(&t->dist);
        for (int k = 0; k < CREW_THREADS; k++)
            frame_release(&t->frames[k]);
    }
    for (int i = 0; i < c->n_servers && c->is_good; i++)
        assert_ok(fl_server_wait(c->servers[i]));
    for (int i = 0; i < c->n_servers; i++)
        fl_server_free(c->servers[i]);
    fl_net_free_sockets(c->net);
    fl_conf_release(&c->conf);
    fl_cond_release(&c->cond);
    fl_mutex_release(&c->mu);
    alarm(0);
}

static inline fl_cluster_stats *counts_of(local_cluster *c, int rank)
{
    return fl_cluster_stats_of(c->trainers[rank].cluster);
}

#endif
