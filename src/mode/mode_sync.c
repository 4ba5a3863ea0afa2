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
    fl_came_list came; /* to the barrier of the round, with their samples */
    FL_VEC(fl_round_member) members;
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
    fl_client_round round = { .number = m->round,
                              .members = m->members.data,
                              .n_members = m->members.len,
                              .blocks = p->blocks.data,
                              .out = p->data.data,
                              .n_blocks = p->blocks.len };
    fl_status st = fl_client_apply(fl_cluster_client(m->cluster), &round,
                                   (fl_ending){ on_applied, m });

    if (st)
        end_round(m, st);
}

/* --- who takes part ----------------------------------------------------- */

/* By their samples. */
static void weigh(sync_mode *m)
{
    size_t n = m->came.len;
    double all = 0;

    for (size_t i = 0; i < n; i++)
        all += (double)m->came.data[i].share;
    m->members.len = 0;
    for (size_t i = 0; i < n; i++) {
        const fl_came *who = &m->came.data[i];
        double w = fl_weight(m->weighing, (double)who->share, all, n);

        fl_vec_push(&m->members, ((fl_round_member){ who->rank, w }));
    }
}

static fl_status check_came(const sync_mode *m)
{
    const fl_dist_config *d = &fl_cluster_dist(m->cluster)->config;
    bool has_me = false;

    for (size_t i = 0; i < m->came.len; i++) {
        uint32_t rank = m->came.data[i].rank;

        if (rank >= (uint32_t)d->n_trainers)
            FL_FAIL(FL_ERR_CORRUPT,
                    "server 0 says that trainer %" PRIu32
                    " came to a barrier, and the job has %d",
                    rank, d->n_trainers);
        has_me |= rank == (uint32_t)d->rank;
    }
    if (!has_me)
        FL_FAIL(FL_ERR_CLOSED,
                "it was made without trainer %d, which has joined since: start "
                "it again",
                d->rank);
    return FL_OK;
}

static void on_barrier(void *arg, fl_status st)
{
    sync_mode *m = arg;

    if (!st)
        st = check_came(m);
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

    if (!st)
        st =
            fl_client_barrier(fl_cluster_client(m->cluster),
                              &(fl_barrier_request){ .name = "round",
                                                     .generation = m->round,
                                                     .share = m->samples,
                                                     .kind = FL_BARRIER_ROUND },
                              &m->came, (fl_ending){ on_barrier, m });
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
                              g->dims, g->n_items,
                              (fl_ending){ fl_latch_done, &m->latch });
    if (st)
        fl_latch_done(&m->latch, st);
}

static void send_blocks(sync_mode *m, const fl_merged *g)
{
    fl_status st;

    if (!g->grads->blocks.len)
        return;
    fl_latch_add(&m->latch);
    st = fl_client_round_blocks(
        fl_cluster_client(m->cluster), m->round, g->grads->blocks.data,
        (const float *const *)g->grads->data.data, g->grads->blocks.len,
        (fl_ending){ fl_latch_done, &m->latch });
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
    fl_vec_release(&m->came);
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
    fl_cut_set_meeting(fl_cluster_cut(cluster), FL_CUT_MEETS_ALL);
    m->core = fl_lockstep_new(cluster, &ops, m, m->weighing);
    return fl_lockstep_port(m->core);
}

const fl_mode fl_mode_sync = {
    .name = "sync",
    .doc = "all trainers make one step together, on the mean of their "
           "gradients: equal to one process on the joined batches",
    .needs_servers = true,
    .trainers_meet = true,
    .settings = "gradient_weight",
    .passes = "dist_sparse dist_pull dist_place dist_server dist_send "
              "dist_recv dist_startup",
    .open = sync_open,
};
