/* mode_sync.c - all trainers make one step together.
 *
 *     ROUND_PUSH, ROUND_DENSE   to all servers, which keep them
 *     BARRIER "round"           at server 0: who takes part, and how many
 *                               samples each of them had
 *     APPLY                     to all servers: the weights of those; the reply
 *                               has the dense parameters
 *
 * Every trainer asks for APPLY and the first one is enough: all of them got the
 * same answer at the barrier, so they ask for the same. When a trainer's own
 * has been answered by all servers, what it pulls next is of the new round.
 *
 * The number of the round is the global step.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "mode/lockstep.h"
#include "mode/mode.h"
#include "base/latch.h"

typedef struct sync_mode {
    fl_lockstep *core;
    fl_cluster *cluster;
    fl_weighing weighing;
    fl_latch latch;

    /* Of the exchange under way. */
    uint64_t round, samples;
    FL_VEC(fl_client_member) members;
    fl_err came; /* what was wrong with the answer of the barrier */
} sync_mode;

static void end_round(sync_mode *m, fl_status st)
{
    fl_lockstep_end(m->core, fl_err_ctx(st, "round %" PRIu64, m->round));
}

/* --- applying ----------------------------------------------------------- */

static void on_applied(void *arg, fl_status st)
{
    sync_mode *m = arg;

    if (!st)
        fl_cluster_set_step(m->cluster, m->round + 1);
    end_round(m, st);
}

static void apply(sync_mode *m)
{
    const fl_cluster_blocks *p = fl_lockstep_params(m->core);
    fl_status st =
        fl_client_apply(fl_cluster_client(m->cluster), m->round,
                        m->members.data, m->members.len, p->blocks.data,
                        p->data.data, p->blocks.len, on_applied, m);

    if (st)
        end_round(m, st);
}

/* --- who takes part ----------------------------------------------------- */

/* Weights are their shares until all are known. */
static fl_status read_members(sync_mode *m, fl_unpack *u)
{
    const fl_dist_config *d = &fl_cluster_dist(m->cluster)->config;
    uint64_t len = (uint64_t)(u->end - u->at);
    uint32_t n = fl_unpack_u32(u), next = 0;
    bool has_me = false;

    (void)fl_unpack_u32(u);
    m->members.len = 0;
    for (uint32_t i = 0; i < n && !u->bad; i++) {
        fl_client_member who = { .rank = fl_unpack_u32(u) };

        (void)fl_unpack_u32(u);
        who.weight = (double)fl_unpack_u64(u);
        u->bad |= who.rank < next || who.rank >= (uint32_t)d->n_trainers;
        next = who.rank + 1;
        has_me |= who.rank == (uint32_t)d->rank;
        fl_vec_push(&m->members, who);
    }
    if (u->bad || u->at != u->end)
        FL_FAIL(FL_ERR_CORRUPT,
                "server 0 answers a barrier with %" PRIu64
                " bytes that do not say who came",
                len);
    if (!has_me)
        FL_FAIL(FL_ERR_CLOSED,
                "it was made without trainer %d, which has joined since: start "
                "it again",
                d->rank);
    return FL_OK;
}

static void weigh(sync_mode *m)
{
    size_t n = m->members.len;
    double all = 0;

    for (size_t i = 0; i < n; i++)
        all += m->members.data[i].weight;
    for (size_t i = 0; i < n; i++) {
        double *w = &m->members.data[i].weight;

        *w = fl_weight(m->weighing, *w, all, n);
    }
}

static void on_came(void *arg, int server, const void *payload, uint64_t len)
{
    sync_mode *m = arg;
    fl_unpack u = { .at = payload };

    (void)server;
    u.end = len ? u.at + len : u.at;
    fl_err_save(&m->came, read_members(m, &u));
}

static void on_barrier(void *arg, fl_status st)
{
    sync_mode *m = arg;

    if (!st && m->came.status)
        st = fl_err_restore(&m->came);
    if (st) {
        end_round(m, st);
        return;
    }
    weigh(m);
    apply(m);
}

/* All servers have this trainer's gradients. */
static void on_kept(void *arg, fl_status st)
{
    sync_mode *m = arg;
    fl_pack p = { 0 };

    if (!st) {
        fl_pack_text(&p, "round");
        fl_pack_u64(&p, m->round);
        fl_pack_u64(&p, m->samples);
        st = fl_client_ask(fl_cluster_client(m->cluster), 0, FL_TYPE_BARRIER,
                           false, p.data, p.len, on_came, on_barrier, m);
        fl_pack_release(&p);
    }
    if (st)
        end_round(m, st);
}

/* --- the way of the mode ------------------------------------------------ */

static void send_rows(sync_mode *m, const fl_merged *g)
{
    fl_status st;

    if (!g->n_items)
        return;
    fl_latch_add(&m->latch);
    st = fl_client_round_push(fl_cluster_client(m->cluster), m->round, g->items,
                              g->dims, g->n_items, fl_latch_done, &m->latch);
    if (st)
        fl_latch_done(&m->latch, st);
}

static void send_blocks(sync_mode *m, const fl_merged *g)
{
    fl_status st;

    if (!g->grads->blocks.len)
        return;
    fl_latch_add(&m->latch);
    st = fl_client_round_blocks(fl_cluster_client(m->cluster), m->round,
                                g->grads->blocks.data,
                                (const float *const *)g->grads->data.data,
                                g->grads->blocks.len, fl_latch_done, &m->latch);
    if (st)
        fl_latch_done(&m->latch, st);
}

static void sync_exchange(void *mode, const fl_merged *g)
{
    sync_mode *m = mode;
    fl_status st = fl_cluster_ready(m->cluster);

    m->round = fl_cluster_step(m->cluster);
    m->samples = g->samples;
    if (st) {
        end_round(m, st);
        return;
    }
    fl_latch_open(&m->latch, on_kept, m);
    send_rows(m, g);
    send_blocks(m, g);
    fl_latch_done(&m->latch, FL_OK);
}

/* A trainer that comes back learns the step when it connects. If it cannot, the
   requests of this step say why. */
static uint64_t sync_step(void *mode)
{
    const sync_mode *m = mode;

    if (fl_cluster_ready(m->cluster))
        return 0;
    return fl_cluster_step(m->cluster);
}

static void sync_free(void *mode)
{
    sync_mode *m = mode;

    fl_vec_release(&m->members);
    fl_latch_release(&m->latch);
    fl_free(m);
}

static fl_weighing weighing_of(const fl_conf *conf)
{
    return !strcmp(conf->gradient_weight, "samples") ? FL_WEIGH_BY_SAMPLES
           : !strcmp(conf->gradient_weight, "sum")   ? FL_WEIGH_SUM
                                                     : FL_WEIGH_EQUALLY;
}

static fl_comm *sync_open(fl_cluster *cluster)
{
    static const fl_lockstep_ops ops = { .name = "sync",
                                         .exchange = sync_exchange,
                                         .step = sync_step,
                                         .free = sync_free };
    sync_mode *m = fl_alloc(sizeof(*m));

    m->cluster = cluster;
    m->weighing = weighing_of(fl_cluster_conf(cluster));
    fl_latch_init(&m->latch, NULL);
    m->core = fl_lockstep_new(cluster, &ops, m, m->weighing);
    return fl_lockstep_port(m->core);
}

const fl_mode fl_mode_sync = {
    .name = "sync",
    .doc = "all trainers make one step together, on the mean of their "
           "gradients: equal to one process on the joined batches",
    .passes = "dist_sparse dist_pull dist_place dist_server dist_send "
              "dist_recv dist_startup",
    .open = sync_open,
};
