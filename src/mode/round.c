/* round.c - a step that all trainers make together. */
#include "mode/round.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/latch.h"

struct fl_round {
    fl_cluster *cluster;
    fl_round_ops ops;
    void *mode;
    fl_latch latch;

    /* Of the exchange under way. */
    fl_lockstep *core;
    uint64_t number, said;
    fl_came_list came; /* to the barrier of the round, with what they said */
    fl_round_members members;
};

/* Servers that hold nothing have nothing to apply, */
static bool has_state(const fl_round *r)
{
    const fl_dist *d = fl_cluster_dist(r->cluster);

    return d->tables.len || d->params.len;
}

/* and hear of the step from trainer 0. */
static void count_step(fl_round *r)
{
    const fl_dist_config *d = &fl_cluster_dist(r->cluster)->config;

    fl_cluster_set_step(r->cluster, r->number + 1);
    if (!has_state(r) && d->rank == 0)
        fl_cluster_tell_round(r->cluster);
}

static void end_round(fl_round *r, fl_status st)
{
    if (!st)
        count_step(r);
    fl_lockstep_end(r->core, fl_err_ctx(st, "round %" PRIu64, r->number));
}

/* Of all servers. */
static void on_applied(void *arg, fl_status st)
{
    end_round(arg, st);
}

static fl_client_round request_of(const fl_round *r)
{
    const fl_cluster_blocks *p = fl_lockstep_params(r->core);

    return (fl_client_round){ .number = r->number,
                              .members = r->members.data,
                              .n_members = r->members.len,
                              .share = r->said,
                              .weighing = r->ops.weighing,
                              .blocks = p->blocks.data,
                              .out = p->data.data,
                              .n_blocks = p->blocks.len,
                              .codec = fl_cluster_pull_codec(r->cluster) };
}

/* --- what is sent ------------------------------------------------------- */

static void send_rows(fl_round *r, const fl_merged *g)
{
    fl_status st;

    if (!g->n_items)
        return;
    fl_latch_add(&r->latch);
    st = fl_client_round_push(fl_cluster_client(r->cluster), r->number,
                              g->items, g->dims, g->n_items,
                              (fl_ending){ fl_latch_done, &r->latch });
    if (st)
        fl_latch_done(&r->latch, st);
}

static void send_blocks(fl_round *r, const fl_merged *g)
{
    fl_status st;

    if (!g->grads->blocks.len)
        return;
    fl_latch_add(&r->latch);
    st = fl_client_round_blocks(
        fl_cluster_client(r->cluster), r->number, g->grads->blocks.data,
        (const float *const *)g->grads->data.data, g->grads->blocks.len,
        (fl_ending){ fl_latch_done, &r->latch });
    if (st)
        fl_latch_done(&r->latch, st);
}

/* --- all in one breath -------------------------------------------------- */

/* A server takes the requests of a trainer in their order: who comes to a round
   has brought its gradients, and gets rows that have all of them. */
static void meet(fl_round *r, const fl_merged *g)
{
    fl_pull_list pulls = fl_lockstep_take_pulls(r->core);
    fl_client_round round = request_of(r);
    fl_status st;

    fl_latch_open(&r->latch, on_applied, r);
    send_rows(r, g);
    send_blocks(r, g);
    fl_latch_add(&r->latch);
    st = fl_client_meet(fl_cluster_client(r->cluster), &round,
                        (fl_ending){ fl_latch_done, &r->latch });
    if (st)
        fl_latch_done(&r->latch, st);
    fl_lockstep_send_pulls(r->core, &pulls);
    fl_latch_done(&r->latch, FL_OK);
}

/* --- by the word of the trainers ---------------------------------------- */

/* Rows of the next batches are asked for in the same breath. */
static void apply(fl_round *r)
{
    fl_lockstep *core = r->core;
    fl_client_round round = request_of(r);
    fl_pull_list pulls = fl_lockstep_take_pulls(core);
    fl_status st = fl_client_apply(fl_cluster_client(r->cluster), &round,
                                   (fl_ending){ on_applied, r });

    fl_lockstep_send_pulls(core, &pulls);
    if (st)
        end_round(r, st);
}

static fl_status check_came(const fl_round *r)
{
    const fl_dist_config *d = &fl_cluster_dist(r->cluster)->config;
    bool has_me = false;

    for (size_t i = 0; i < r->came.len; i++) {
        uint32_t rank = r->came.data[i].rank;

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
    fl_round *r = arg;

    if (!st)
        st = check_came(r);
    r->members.len = 0;
    if (!st && r->ops.weigh)
        st = r->ops.weigh(r->mode, &r->came, &r->members);
    if (st || !has_state(r))
        end_round(r, st);
    else
        apply(r);
}

static fl_status come(fl_round *r, fl_ending ending)
{
    return fl_client_barrier(fl_cluster_client(r->cluster),
                             &(fl_barrier_request){ .name = FL_ROUND_BARRIER,
                                                    .generation = r->number,
                                                    .share = r->said,
                                                    .kind = FL_BARRIER_ROUND },
                             &r->came, ending);
}

/* All servers have this trainer's gradients. */
static void on_kept(void *arg, fl_status st)
{
    fl_round *r = arg;

    if (!st)
        st = come(r, (fl_ending){ on_barrier, r });
    if (st)
        end_round(r, st);
}

static void keep_and_come(fl_round *r, const fl_merged *g)
{
    fl_latch_open(&r->latch, on_kept, r);
    send_rows(r, g);
    send_blocks(r, g);
    fl_latch_done(&r->latch, FL_OK);
}

/* --- the way of the mode ------------------------------------------------ */

/* Trainers that weigh have to know who came; servers that hold nothing do not. */
void fl_round_begin(fl_round *r, fl_lockstep *core, const fl_merged *g)
{
    fl_status st = fl_cluster_ready(r->cluster);

    r->core = core;
    r->number = fl_cluster_step(r->cluster);
    r->said = r->ops.say ? r->ops.say(r->mode, g->samples) : g->samples;
    if (st)
        end_round(r, st);
    else if (r->ops.weigh || !has_state(r))
        keep_and_come(r, g);
    else
        meet(r, g);
}

uint64_t fl_round_step(const fl_round *r)
{
    return fl_cluster_ready(r->cluster) ? 0 : fl_cluster_step(r->cluster);
}

/* --- life --------------------------------------------------------------- */

fl_round *fl_round_new(fl_cluster *cluster, const fl_round_ops *ops, void *mode)
{
    fl_round *r = fl_alloc(sizeof(*r));

    r->cluster = cluster;
    r->ops = *ops;
    r->mode = mode;
    fl_latch_init(&r->latch, NULL);
    fl_cut_set_meeting(fl_cluster_cut(cluster), FL_CUT_MEETS_ALL);
    return r;
}

void fl_round_free(fl_round *r)
{
    if (!r)
        return;
    fl_vec_release(&r->members);
    fl_vec_release(&r->came);
    fl_latch_release(&r->latch);
    fl_free(r);
}
