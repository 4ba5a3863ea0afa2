/* mode_collective.c - workers add up their gradients among themselves, and each
 * updates its own copy of the parameters.
 *
 * What workers make together goes by coll/: parts leave by this worker's client
 * and come in by its server. Rows of tables are dealt over those servers and
 * updated in rounds, as in sync (round.h); a round is also where cuts are made
 * and where a lost worker is heard of, so a step has one in any case.
 *
 *     batch_share    all workers say how many samples their batches have, on a
 *                    ring of its own: so each knows what all of them count
 *     c_allreduce    as the program says
 *     send_barrier   the round
 *
 * A worker that has no more batches is not done while others train: it goes on
 * making their steps without a batch (drain), so that its parameters stay the
 * same. Nobody has a batch: all are done, at the same step.
 *
 * Threads of a worker meet in the executor (exec/joint_step), so that this sees one
 * of each call per step.
 *
 * `mu` guards opening; the rest belongs to the one thread that trains, or to the
 * call under way.
 */
#include "mode/mode.h"
#include "mode/round.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "coll/coll.h"

/* Behind those of programs. */
#define SHARE_RING FL_COLLECT_RINGS
_Static_assert(SHARE_RING < FL_COLL_RING_MAX, "rings of programs and one more");

/* What a worker says at the begin of a step. */
typedef struct word {
    int64_t has_batch, samples;
} word;

typedef struct coll_mode {
    fl_lockstep *core;
    fl_round *round;
    fl_cluster *cluster;
    fl_weighing weighing;
    double factor; /* of all weights */
    int rank, n;
    fl_status (*stop)(fl_comm *c); /* of the lockstep, as is the next */
    void (*free)(fl_comm *c);
    atomic_bool is_closing; /* the client goes: nothing is sent any more */

    fl_mutex mu;
    _Atomic(fl_coll *) coll; /* made under mu; NULL: nobody was asked yet */
    bool is_open;            /* all workers have theirs; guarded by mu */
    fl_err err;              /* why it cannot be; guarded by mu */

    /* Of the step that begins or is under way. */
    word mine, *words;     /* by rank */
    fl_comm_share *asking; /* who waits for them */
    bool is_filling;       /* they were exchanged by drain */
    word *said;            /* by rank: the same, at the round */
} coll_mode;

/* --- how parts travel ----------------------------------------------------- */

static fl_status send_part(void *arg, const fl_coll_out *o)
{
    coll_mode *m = arg;
    fl_client_part p = { .head = { o->head, o->head_bytes },
                         .bytes = { o->bytes, o->n } };

    if (atomic_load(&m->is_closing))
        FL_FAIL(FL_ERR_CLOSED, "worker %d has left", m->rank);
    return fl_client_send_part(fl_cluster_client(m->cluster), o->to, &p,
                               (fl_ending){ o->ended, o->arg });
}

static void on_part(void *arg, int from, const void *part, size_t len,
                    struct fl_reply *reply)
{
    coll_mode *m = arg;

    fl_coll_on_part(atomic_load(&m->coll), from, part, len,
                    (fl_coll_receipt){ fl_server_part_taken, reply });
}

/* Without this worker's requests nobody would tell it that a peer is lost. */
static void on_lost(void *arg, fl_status st)
{
    coll_mode *m = arg;
    fl_coll *coll = atomic_load(&m->coll);

    if (coll)
        fl_coll_fail(coll, st);
}

/* Nobody sends a part before all can take it. */
static fl_status meet_all(coll_mode *m)
{
    fl_barrier_request r = { .generation = 0 };

    fl_msg_text(r.name, "collective");
    return fl_client_barrier(fl_cluster_client(m->cluster), &r, NULL, FL_WAIT);
}

/* Under mu. */
static fl_status open_coll(coll_mode *m)
{
    fl_coll_options o = { .engine =
                              fl_cluster_conf(m->cluster)->collective_engine,
                          .rank = m->rank,
                          .n_ranks = m->n,
                          .link = { send_part, m } };
    fl_coll *coll;

    FL_TRY(fl_cluster_ready(m->cluster));
    FL_TRY(fl_coll_new(&coll, &o));
    atomic_store(&m->coll, coll);
    fl_cluster_on_lost(m->cluster, on_lost, m);
    fl_server_on_part(fl_cluster_server(m->cluster), on_part, m);
    return meet_all(m);
}

static fl_status get_coll(coll_mode *m, fl_coll **out)
{
    fl_status st = FL_OK;

    fl_lock(&m->mu);
    if (!m->is_open && !m->err.status) {
        fl_err_save(&m->err, open_coll(m));
        m->is_open = !m->err.status;
    }
    if (m->err.status)
        st = fl_err_restore(&m->err);
    fl_unlock(&m->mu);
    *out = atomic_load(&m->coll);
    return st;
}

/* --- what the program asks for -------------------------------------------- */

static const fl_coll_kind kinds[] = {
    [FL_COLLECT_ALLREDUCE] = FL_COLL_ALLREDUCE,
    [FL_COLLECT_BROADCAST] = FL_COLL_BROADCAST,
    [FL_COLLECT_ALLGATHER] = FL_COLL_ALLGATHER,
    [FL_COLLECT_REDUCE] = FL_COLL_REDUCE,
    [FL_COLLECT_REDUCESCATTER] = FL_COLL_REDUCESCATTER,
    [FL_COLLECT_BARRIER] = FL_COLL_BARRIER,
};

static const fl_coll_op ops_of[] = {
    [FL_COLLECT_SUM] = FL_COLL_SUM,
    [FL_COLLECT_MAX] = FL_COLL_MAX,
    [FL_COLLECT_MIN] = FL_COLL_MIN,
    [FL_COLLECT_PROD] = FL_COLL_PROD,
};

static void *make_room(void *arg, const uint64_t *counts, uint64_t sum)
{
    fl_comm_collect *r = arg;

    return r->room(r, counts, sum);
}

static void on_collected(void *arg, fl_status st)
{
    fl_comm_collect *r = arg;
    coll_mode *m = r->backend;

    if (!st)
        fl_stat_add(&fl_cluster_stats_of(m->cluster)->gradients_applied,
                    r->n_vars);
    fl_comm_finish(&r->answer, st);
}

static fl_status port_collect(fl_comm *c, fl_comm_collect *r)
{
    coll_mode *m = fl_lockstep_mode(c);
    fl_coll *coll;

    FL_TRY(get_coll(m, &coll));
    r->backend = m;
    fl_stat_add(&fl_cluster_stats_of(m->cluster)->gradients_made, r->n_vars);
    fl_coll_begin(coll, &(fl_coll_call){ .kind = kinds[r->kind],
                                         .op = ops_of[r->op],
                                         .dtype = r->dtype,
                                         .in = r->in,
                                         .out = r->out,
                                         .n = r->n,
                                         .root = r->root,
                                         .ring = r->ring,
                                         .room = r->room ? make_room : NULL,
                                         .done = on_collected,
                                         .arg = r });
    return FL_PENDING;
}

/* --- what a batch counts -------------------------------------------------- */

/* A batch without samples counts nothing, unless nobody has any. */
static double weight_of(const coll_mode *m, const word *words, int rank)
{
    size_t n_batches = 0, n_samples = 0;
    double all = 0;

    for (int i = 0; i < m->n; i++) {
        n_batches += words[i].has_batch != 0;
        n_samples += words[i].samples > 0;
        all += (double)words[i].samples;
    }
    if (!words[rank].has_batch || (n_samples && !words[rank].samples))
        return 0;
    return m->factor * fl_weight(m->weighing, (double)words[rank].samples, all,
                                 n_samples ? n_samples : n_batches);
}

static fl_coll_call word_call(coll_mode *m)
{
    return (fl_coll_call){ .kind = FL_COLL_ALLGATHER,
                           .dtype = FL_DTYPE_I64,
                           .in = &m->mine,
                           .out = m->words,
                           .n = sizeof(word) / sizeof(int64_t),
                           .ring = SHARE_RING };
}

static void on_words(void *arg, fl_status st)
{
    coll_mode *m = arg;
    fl_comm_share *r = m->asking;

    if (!st)
        r->share = weight_of(m, m->words, m->rank);
    fl_comm_finish(&r->answer, st);
}

static fl_status port_share(fl_comm *c, fl_comm_share *r)
{
    coll_mode *m = fl_lockstep_mode(c);
    fl_coll_call call;
    fl_coll *coll;

    if (m->is_filling) {
        r->share = 0;
        return FL_OK;
    }
    FL_TRY(get_coll(m, &coll));
    m->mine = (word){ 1, (int64_t)r->samples };
    m->asking = r;
    call = word_call(m);
    call.done = on_words;
    call.arg = m;
    fl_coll_begin(coll, &call);
    return FL_PENDING;
}

/* --- steps of the others -------------------------------------------------- */

static fl_status ask_others(coll_mode *m, bool *somebody_trains)
{
    fl_coll_call call = word_call(m);
    fl_coll *coll;

    FL_TRY(get_coll(m, &coll));
    m->mine = (word){ 0 };
    FL_TRY(fl_coll_run(coll, &call));
    *somebody_trains = false;
    for (int i = 0; i < m->n; i++)
        *somebody_trains |= m->words[i].has_batch != 0;
    return FL_OK;
}

static fl_status fill_step(coll_mode *m, fl_comm *c)
{
    fl_status st;

    if (!c->filler.arg)
        FL_FAIL(FL_ERR_INVAL,
                "worker %d has trained nothing, and others train: run the same "
                "program on all workers, and free its executor after "
                "fl_job_stop",
                m->rank);
    m->is_filling = true;
    st = c->filler.run(c->filler.arg);
    m->is_filling = false;
    /* The others are in this step, and wait for what does not come. */
    if (st)
        fl_coll_fail(atomic_load(&m->coll), st);
    return st;
}

static fl_status port_drain(fl_comm *c)
{
    coll_mode *m = fl_lockstep_mode(c);
    bool somebody_trains = true;
    fl_status st = FL_OK;

    while (!st && somebody_trains) {
        st = ask_others(m, &somebody_trains);
        if (!st && somebody_trains)
            st = fill_step(m, c);
    }
    return fl_err_ctx(st, "worker %d, which has no batch, among others that do",
                      m->rank);
}

static fl_status port_stop(fl_comm *c)
{
    coll_mode *m = fl_lockstep_mode(c);

    if (atomic_load(&m->coll) && !fl_lockstep_failed(m->core))
        FL_TRY(port_drain(c));
    return m->stop(c);
}

/* --- rounds --------------------------------------------------------------- */

/* The round may be over before the words of the step are here: it has its own,
   in one number. */
static uint64_t say(void *mode, uint64_t samples)
{
    const coll_mode *m = mode;

    return m->is_filling ? 0 : samples + 1;
}

static fl_status weigh(void *mode, const fl_came_list *came,
                       fl_round_members *out)
{
    coll_mode *m = mode;

    if (came->len != (size_t)m->n)
        FL_FAIL(FL_ERR_CLOSED,
                "%zu of %d workers came to it, and a sum over all needs them",
                came->len, m->n);
    for (size_t i = 0; i < came->len; i++) {
        uint64_t said = came->data[i].share;

        m->said[came->data[i].rank] =
            (word){ said != 0, said ? (int64_t)(said - 1) : 0 };
    }
    for (int i = 0; i < m->n; i++) {
        fl_round_member who = { (uint32_t)i, weight_of(m, m->said, i) };

        if (who.weight != 0)
            fl_vec_push(out, who);
    }
    return FL_OK;
}

static void exchange(void *mode, const fl_merged *g)
{
    const coll_mode *m = mode;

    fl_round_begin(m->round, m->core, g);
}

static uint64_t step(void *mode)
{
    const coll_mode *m = mode;

    return fl_round_step(m->round);
}

/* --- life ----------------------------------------------------------------- */

/* Neither parts nor requests are under way any more. */
static void release(void *mode)
{
    coll_mode *m = mode;

    fl_coll_free(atomic_load(&m->coll));
    fl_round_free(m->round);
    fl_free(m->words);
    fl_free(m->said);
    fl_mutex_release(&m->mu);
    fl_free(m);
}

/* Requests that end with the client are no reason to tell others something. */
static void port_free(fl_comm *c)
{
    coll_mode *m = fl_lockstep_mode(c);

    atomic_store(&m->is_closing, true);
    m->free(c);
}

/* Threads have met before they come here. */
static void set_port(coll_mode *m)
{
    fl_comm *port = fl_lockstep_port(m->core);
    fl_comm_data *data = fl_lockstep_data(m->core);
    fl_comm_life *life = fl_lockstep_life(m->core);

    port->threads_meet = true;
    life->enter = NULL;
    life->leave = NULL;
    data->share = port_share;
    data->collect = port_collect;
    life->drain = port_drain;
    m->stop = life->stop;
    life->stop = port_stop;
    m->free = life->free;
    life->free = port_free;
}

static fl_comm *collective_open(fl_cluster *cluster)
{
    static const fl_lockstep_ops ops = { .name = "collective",
                                         .exchange = exchange,
                                         .step = step,
                                         .free = release };
    static const fl_round_ops round_ops = { .say = say, .weigh = weigh };
    const fl_dist_config *d = &fl_cluster_dist(cluster)->config;
    const fl_conf *conf = fl_cluster_conf(cluster);
    coll_mode *m = fl_alloc(sizeof(*m));

    m->cluster = cluster;
    m->rank = d->rank;
    m->n = d->n_trainers;
    m->words = fl_alloc((size_t)m->n * sizeof(*m->words));
    m->said = fl_alloc((size_t)m->n * sizeof(*m->said));
    m->weighing = fl_weighing_of(conf);
    m->factor = conf->gradient_merge && !conf->gradient_merge_avg
                    ? (double)conf->gradient_merge_k_steps
                    : 1;
    fl_mutex_init(&m->mu);
    atomic_init(&m->coll, NULL);
    m->round = fl_round_new(cluster, &round_ops, m);
    m->core = fl_lockstep_new(cluster, &ops, m, m->weighing);
    set_port(m);
    return fl_lockstep_port(m->core);
}

/* Numbers without what they are for would be ignored. */
static fl_status check_merging(const fl_conf *conf, const fl_program *main)
{
    if (!conf->gradient_merge &&
        (conf->gradient_merge_k_steps != 1 || !conf->gradient_merge_avg))
        FL_FAIL(FL_ERR_INVAL,
                "gradient_merge_k_steps=%" PRId64 " gradient_merge_avg=%s, but "
                "gradient_merge is false",
                conf->gradient_merge_k_steps,
                conf->gradient_merge_avg ? "true" : "false");
    if (conf->gradient_merge && main->accumulate > 1)
        FL_FAIL(FL_ERR_INVAL,
                "gradient_merge=true, and the optimizer has accumulate=%" PRIu64
                ", which is the same; leave one out",
                main->accumulate);
    if (conf->gradient_merge && fl_weighing_of(conf) == FL_WEIGH_SUM)
        FL_FAIL(FL_ERR_INVAL,
                "gradient_merge=true and gradient_weight=sum: a sum is over "
                "batches, too; use accumulate of the optimizer");
    return FL_OK;
}

static fl_status check_local(const fl_conf *conf)
{
    if (!conf->localsgd && conf->localsgd_k_steps != 1)
        FL_FAIL(FL_ERR_INVAL,
                "localsgd_k_steps=%" PRId64 ", but localsgd is false",
                conf->localsgd_k_steps);
    if (conf->localsgd && conf->gradient_merge)
        FL_FAIL(FL_ERR_INVAL,
                "localsgd=true and gradient_merge=true: the one exchanges "
                "parameters, the other gradients; leave one out");
    if (conf->localsgd && fl_weighing_of(conf) == FL_WEIGH_SUM)
        FL_FAIL(FL_ERR_INVAL,
                "localsgd=true and gradient_weight=sum: parameters are "
                "averaged, not added up");
    return FL_OK;
}

static fl_status check(const fl_conf *conf, const fl_program *main,
                       const fl_program *startup)
{
    (void)startup;
    FL_TRY(check_merging(conf, main));
    FL_TRY(check_local(conf));
    if (conf->go_on_without_lost_trainers)
        FL_FAIL(FL_ERR_INVAL,
                "go_on_without_lost_trainers=true: a sum over all workers "
                "needs all of them; leave it out, or train with servers");
    return FL_OK;
}

const fl_mode fl_mode_collective = {
    .name = "collective",
    .doc = "workers without servers add up their gradients and update copies "
           "of their own; rows of tables are dealt over them",
    .workers_serve = true,
    .trainers_meet = true,
    .settings = "gradient_weight fuse_all_reduce_ops fuse_grad_size_in_MB "
                "last_comm_group_size_MB gradient_merge "
                "gradient_merge_k_steps gradient_merge_avg localsgd "
                "localsgd_k_steps collective_engine",
    .passes = "canon_decay canon_clip canon_lr canon_power dist_pull "
              "dist_server dist_collective",
    .check = check,
    .open = collective_open,
};
