/* mode_sync.c - all trainers make one step together (round.h): servers keep what
 * they send until all have sent, and apply it as one. Rows of the next batch are
 * asked for behind that, without waiting for its answer. */
#include "mode/mode.h"
#include "mode/round.h"

#include "base/alloc.h"

typedef struct sync_mode {
    fl_lockstep *core;
    fl_round *round;
} sync_mode;

static void sync_exchange(void *mode, const fl_merged *g)
{
    const sync_mode *m = mode;

    fl_round_begin(m->round, m->core, g);
}

static uint64_t sync_step(void *mode)
{
    const sync_mode *m = mode;

    return fl_round_step(m->round);
}

static void sync_free(void *mode)
{
    sync_mode *m = mode;

    fl_round_free(m->round);
    fl_free(m);
}

static fl_comm *sync_open(fl_cluster *cluster)
{
    static const fl_lockstep_ops ops = { .name = "sync",
                                         .held_bytes = UINT64_MAX,
                                         .exchange = sync_exchange,
                                         .step = sync_step,
                                         .free = sync_free };
    fl_round_ops round_ops = {
        .weighing = fl_weighing_of(fl_cluster_conf(cluster)),
    };
    sync_mode *m = fl_alloc(sizeof(*m));
    fl_comm *port;

    m->round = fl_round_new(cluster, &round_ops, m);
    m->core = fl_lockstep_new(cluster, &ops, m, round_ops.weighing);
    port = fl_lockstep_port(m->core);
    port->n_ahead = fl_cluster_conf(cluster)->prefetch;
    return port;
}

const fl_mode fl_mode_sync = {
    .name = "sync",
    .doc = "all trainers make one step together, on the mean of their "
           "gradients: equal to one process on the joined batches",
    .needs_servers = true,
    .trainers_meet = true,
    .settings = "gradient_weight prefetch " FL_MODE_WIRE " " FL_MODE_PLACES,
    .passes =
        "canon_decay canon_clip canon_lr canon_power dist_sparse dist_pull "
        "dist_place dist_server dist_send "
        "dist_recv dist_startup",
    .open = sync_open,
};
