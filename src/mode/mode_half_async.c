/* mode_half_async.c - threads of a trainer meet, trainers do not.
 *
 *     PUSH, PUSH_DENSE   the mean of the threads, applied when it arrives
 *     PULL_DENSE         dense parameters, with what others did meanwhile
 *
 * Each once per meeting, and rows are pulled by the batches themselves. All
 * three leave together: a server takes the requests of a trainer in their order,
 * so that what is pulled has what was pushed, and nobody waits in between. Rows of
 * the next batch are pulled behind them where they are few, since a message of
 * their own would cost more than to wait for them; many are pulled while this
 * batch computes.
 */
#include "base/alloc.h"
#include "mode/lockstep.h"
#include "mode/mode.h"
#include "base/latch.h"

/* Of a pull that is not worth a message of its own, with its answer. */
#define HELD_BYTES ((uint64_t)256 << 10)

typedef struct half_mode {
    fl_lockstep *core;
    fl_cluster *cluster;
    fl_latch latch;
} half_mode;

static void on_over(void *arg, fl_status st)
{
    half_mode *m = arg;

    fl_lockstep_end(m->core, st);
}

static void push_rows(half_mode *m, const fl_merged *g)
{
    fl_status st;

    if (!g->n_items)
        return;
    fl_latch_add(&m->latch);
    st = fl_client_push(fl_cluster_client(m->cluster), g->items, g->dims,
                        g->n_items, (fl_ending){ fl_latch_done, &m->latch });
    if (st)
        fl_latch_done(&m->latch, st);
}

static void push_blocks(half_mode *m, const fl_merged *g)
{
    fl_status st;

    if (!g->grads->blocks.len)
        return;
    fl_latch_add(&m->latch);
    st = fl_client_send_blocks(
        fl_cluster_client(m->cluster), FL_MSG_PUSH_DENSE, g->grads->blocks.data,
        (const float *const *)g->grads->data.data, g->grads->blocks.len,
        (fl_ending){ fl_latch_done, &m->latch });
    if (st)
        fl_latch_done(&m->latch, st);
}

static void pull_blocks(half_mode *m)
{
    const fl_cluster_blocks *p = fl_lockstep_params(m->core);
    fl_status st;

    fl_latch_add(&m->latch);
    st = fl_client_pull_blocks_coded(
        fl_cluster_client(m->cluster), fl_cluster_pull_codec(m->cluster),
        p->blocks.data, p->data.data, p->blocks.len,
        (fl_ending){ fl_latch_done, &m->latch });
    if (st)
        fl_latch_done(&m->latch, st);
}

static void half_exchange(void *mode, const fl_merged *g)
{
    half_mode *m = mode;
    fl_status st = fl_cluster_ready(m->cluster);
    fl_pull_list pulls;

    if (st) {
        fl_lockstep_end(m->core, st);
        return;
    }
    pulls = fl_lockstep_take_pulls(m->core);
    fl_latch_open(&m->latch, on_over, m);
    push_rows(m, g);
    push_blocks(m, g);
    pull_blocks(m);
    fl_lockstep_send_pulls(m->core, &pulls);
    fl_latch_done(&m->latch, FL_OK);
}

/* Steps are counted by server 0, so the way there comes first; if there is
   none, the requests of this step say why. */
static uint64_t half_step(void *mode)
{
    const half_mode *m = mode;

    if (fl_cluster_ready(m->cluster))
        return 0;
    return fl_cluster_count_step(m->cluster);
}

static void half_free(void *mode)
{
    half_mode *m = mode;

    fl_latch_release(&m->latch);
    fl_free(m);
}

static fl_comm *half_open(fl_cluster *cluster)
{
    static const fl_lockstep_ops ops = { .name = "half_async",
                                         .held_bytes = HELD_BYTES,
                                         .exchange = half_exchange,
                                         .step = half_step,
                                         .free = half_free };
    half_mode *m = fl_alloc(sizeof(*m));
    fl_comm *port;

    m->cluster = cluster;
    fl_latch_init(&m->latch, NULL);
    fl_cut_set_meeting(fl_cluster_cut(cluster), FL_CUT_MEETS_THREADS);
    m->core = fl_lockstep_new(cluster, &ops, m, FL_WEIGH_EQUALLY);
    port = fl_lockstep_port(m->core);
    port->n_ahead = fl_cluster_conf(cluster)->prefetch;
    return port;
}

const fl_mode fl_mode_half_async = {
    .name = "half_async",
    .doc = "threads of a trainer meet after every batch, trainers do not wait "
           "for one another: gradients are applied when they arrive",
    .needs_servers = true,
    .settings = "prefetch " FL_MODE_WIRE " " FL_MODE_PLACES,
    .passes =
        "canon_decay canon_clip canon_lr canon_power dist_sparse dist_pull "
        "dist_place dist_server dist_send "
        "dist_recv dist_startup",
    .open = half_open,
};
