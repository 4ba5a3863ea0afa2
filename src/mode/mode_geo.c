/* mode_geo.c - trainers update parameters of their own and exchange
 * differences.
 *
 * Tables and dense parameters are those of this process, with the optimizer of
 * the program; training runs at the speed of local training. After every
 * geo_need_push_nums batches, over all threads, a thread of the mode publishes
 * what was learned here and brings what others have learned (geo_rows.h,
 * geo_dense.h), while training goes on. When the next exchange is due and the
 * last is under way, the thread that made it due waits for its end.
 *
 * A trainer publishes 1/N of its differences, also in the last exchange, the
 * one of stop. The rest of a row is published by and by, in the exchanges after
 * those batches that train it again; the rest of a dense parameter by every
 * exchange.
 *
 *     free -> busy     an exchange is due, or the startup program runs
 *     busy -> free     it is over; one that became due meanwhile begins
 *
 * What an exchange publishes of rows is what tables list when it begins
 * (table/known.h): rows are listed as they change, so that no change is missed.
 *
 * Lock order: mu, then that of geo_dense.
 */
#include "mode/mode.h"

#include <string.h>

#include "base/alloc.h"
#include "mode/geo_check.h"
#include "mode/geo_dense.h"
#include "mode/geo_rows.h"
#include "mode/mode_local.h"

/* A barrier call that waits, and since when. */
typedef struct waiter {
    fl_comm_answer *answer;
    uint64_t since_ns;
} waiter;

typedef FL_VEC(waiter) waiter_list;

typedef struct geo_comm {
    fl_cluster_port port; /* the first member */
    fl_comm *local;       /* has the tables that are trained */
    fl_geo_line line;
    fl_geo_dense dense;
    uint64_t period; /* batches */
    /* A list that only grows: entries are complete before they are in it. */
    _Atomic(fl_geo_table *) tables;

    fl_mutex begin_mu; /* held while it begins */
    atomic_bool is_begun;
    fl_thread *thread;

    fl_mutex mu;
    fl_cond cond; /* something below has changed */
    /* Guarded by mu. */
    uint64_t n_batches; /* since an exchange became due */
    bool is_busy;       /* somebody uses what is for one exchange at a time, */
    bool is_asked;      /* and the thread has not seen yet that it is due */
    bool is_due;        /* the next one, before this is over */
    bool is_ending, has_stopped;
    waiter_list waiters;
    fl_err err; /* of the first exchange that failed */
} geo_comm;

/* --- one exchange --------------------------------------------------------- */

typedef fl_status (*begin_fn)(geo_comm *g, fl_latch *w);

/* Requests that are begun together end before it returns, whatever happens. */
static fl_status run_all(geo_comm *g, begin_fn begin)
{
    fl_latch w;
    fl_status st;

    fl_latch_init(&w, fl_client_poller(fl_cluster_client(g->port.cluster)));
    st = fl_geo_settle(&w, begin(g, &w));
    fl_latch_release(&w);
    return st;
}

static fl_status begin_pushes(geo_comm *g, fl_latch *w)
{
    for (fl_geo_table *t = atomic_load(&g->tables); t; t = t->next)
        FL_TRY(fl_geo_table_begin_push(t, &g->line, w));
    return fl_geo_dense_begin_push(&g->dense, &g->line, w);
}

static fl_status begin_pulls(geo_comm *g, fl_latch *w)
{
    for (fl_geo_table *t = atomic_load(&g->tables); t; t = t->next)
        FL_TRY(fl_geo_table_begin_pull(t, &g->line, w));
    return fl_geo_dense_begin_pull(&g->dense, &g->line, w);
}

static uint64_t count_pushed(const geo_comm *g)
{
    uint64_t n = 0;

    for (const fl_geo_table *t = atomic_load(&g->tables); t; t = t->next)
        n += t->n_keys;
    for (size_t i = 0; i < g->dense.n; i++)
        n += g->dense.params[i].here != NULL;
    return n;
}

/* What others changed is asked for when the servers have added what was changed
   here: their rows must have it, since the copies here do. */
static fl_status push_then_pull(geo_comm *g)
{
    fl_cluster_stats *counts = fl_cluster_stats_of(g->port.cluster);
    fl_status st = run_all(g, begin_pushes);
    uint64_t n = count_pushed(g);

    fl_stat_add(&counts->gradients_made, n);
    FL_TRY(st);
    fl_stat_add(&counts->gradients_applied, n);
    FL_TRY(run_all(g, begin_pulls));
    fl_geo_dense_take_news(&g->dense);
    return FL_OK;
}

static fl_status exchange(geo_comm *g)
{
    fl_status st = push_then_pull(g);

    for (fl_geo_table *t = atomic_load(&g->tables); t; t = t->next)
        fl_geo_table_end(t);
    return fl_err_ctx(st, "mode geo: an exchange with the servers failed");
}

/* --- turns ---------------------------------------------------------------- */

/* What was trained up to here goes into the exchange that is asked for. Under
   mu, free. */
static void ask_exchange(geo_comm *g)
{
    fl_geo_dense_cut(&g->dense, &g->line);
    g->is_busy = g->is_asked = true;
    fl_cond_wake_all(&g->cond);
}

static void finish_waiters(geo_comm *g, waiter_list *list, const fl_err *err)
{
    fl_stat *wait_ns = &fl_cluster_stats_of(g->port.cluster)->wait;

    for (size_t i = 0; i < list->len; i++) {
        const waiter *w = &list->data[i];

        atomic_fetch_add(wait_ns, fl_now_ns() - w->since_ns);
        fl_comm_finish(w->answer, err->status ? fl_err_restore(err) : FL_OK);
    }
    fl_vec_release(list);
}

static void take_turn(geo_comm *g)
{
    fl_lock(&g->mu);
    while (g->is_busy)
        fl_cond_wait(&g->cond, &g->mu);
    g->is_busy = true;
    fl_unlock(&g->mu);
}

/* The result is that of an exchange; it is remembered when it is bad. */
static void end_turn(geo_comm *g, fl_status st)
{
    waiter_list list;
    fl_err err;

    fl_lock(&g->mu);
    if (st && !g->err.status)
        fl_err_save(&g->err, st);
    err = g->err;
    g->is_busy = false;
    if (g->is_due && !err.status)
        ask_exchange(g);
    g->is_due = false;
    list = g->waiters;
    g->waiters = (waiter_list){ 0 };
    fl_cond_wake_all(&g->cond);
    fl_unlock(&g->mu);
    finish_waiters(g, &list, &err);
}

static void run_exchanges(void *arg)
{
    geo_comm *g = arg;

    for (;;) {
        fl_lock(&g->mu);
        while (!g->is_asked && !g->is_ending)
            fl_cond_wait(&g->cond, &g->mu);
        if (!g->is_asked) {
            fl_unlock(&g->mu);
            return;
        }
        g->is_asked = false;
        fl_unlock(&g->mu);
        end_turn(g, exchange(g));
    }
}

/* --- beginning ------------------------------------------------------------ */

/* Servers have this backend, too, and need none of it. Under begin_mu. */
static fl_status begin_now(geo_comm *g)
{
    fl_geo_needs needs;

    FL_TRY(fl_geo_needs_of(fl_cluster_dist(g->port.cluster), &needs));
    FL_TRY(fl_geo_check_memory(&needs, fl_geo_available()));
    FL_TRY(fl_cluster_ready(g->port.cluster));
    FL_TRY(fl_thread_start(&g->thread, "geo", run_exchanges, g));
    atomic_store(&g->is_begun, true);
    return FL_OK;
}

static fl_status begin(geo_comm *g)
{
    fl_status st = FL_OK;

    if (atomic_load(&g->is_begun))
        return FL_OK;
    fl_lock(&g->begin_mu);
    if (!atomic_load(&g->is_begun))
        st = begin_now(g);
    fl_unlock(&g->begin_mu);
    return st;
}

/* --- tables --------------------------------------------------------------- */

static fl_geo_table *look_up(const geo_comm *g, const char *name)
{
    fl_geo_table *t = atomic_load(&g->tables);

    while (t && strcmp(fl_table_name(t->here), name))
        t = t->next;
    return t;
}

/* Rows that the servers have already: this trainer may have come late. */
static fl_status catch_up(const geo_comm *g, fl_geo_table *t)
{
    fl_latch w;
    fl_status st;

    fl_latch_init(&w, fl_client_poller(fl_cluster_client(g->port.cluster)));
    st = fl_geo_settle(&w, fl_geo_table_begin_pull(t, &g->line, &w));
    fl_latch_release(&w);
    fl_geo_table_end(t);
    return st;
}

/* In a turn. */
static fl_status declare_now(geo_comm *g, const char *table,
                             const char *settings, uint64_t seed)
{
    fl_geo_table *t;
    fl_table *here;
    int number;

    FL_TRY(g->local->life->declare(g->local, table, settings, seed));
    FL_TRY(fl_mode_local_find(g->local, table, &here));
    t = look_up(g, table);
    if (t) {
        fl_geo_table_clear(t);
        return catch_up(g, t);
    }
    FL_TRY(
        fl_cluster_table(g->port.cluster, table, fl_table_dim(here), &number));
    t = fl_geo_table_new(&g->line, here, number);
    t->next = atomic_load(&g->tables);
    atomic_store(&g->tables, t);
    return catch_up(g, t);
}

static fl_status geo_declare(fl_comm *c, const char *table,
                             const char *settings, uint64_t seed)
{
    geo_comm *g = (geo_comm *)c;
    fl_status st;

    FL_TRY(begin(g));
    take_turn(g);
    st = declare_now(g, table, settings, seed);
    end_turn(g, FL_OK);
    return st;
}

static fl_status geo_pull(fl_comm *c, fl_comm_request *r)
{
    geo_comm *g = (geo_comm *)c;

    return g->local->data->pull(g->local, r);
}

/* Local requests are answered at once. */
static fl_status geo_push(fl_comm *c, fl_comm_request *r)
{
    geo_comm *g = (geo_comm *)c;

    if (!look_up(g, r->table))
        FL_FAIL(FL_ERR_NOTFOUND,
                "there is no table %s; run the startup program of the trainer "
                "first",
                r->table);
    return g->local->data->push(g->local, r);
}

/* --- dense parameters ----------------------------------------------------- */

static fl_status geo_send(fl_comm *c, fl_comm_call *r)
{
    geo_comm *g = (geo_comm *)c;

    return fl_geo_dense_hand_over(&g->dense, &g->line, r->values, r->n);
}

/* Only the startup program asks for parameters, and does nothing meanwhile. */
static fl_status geo_recv(fl_comm *c, fl_comm_call *r)
{
    geo_comm *g = (geo_comm *)c;
    fl_status st;

    FL_TRY(begin(g));
    take_turn(g);
    st = fl_geo_dense_start(&g->dense, &g->line, r->values, r->n);
    end_turn(g, FL_OK);
    return st;
}

/* --- batches -------------------------------------------------------------- */

/* Under mu. */
static fl_status count_batch(geo_comm *g, fl_comm_call *r)
{
    waiter w = { &r->answer, fl_now_ns() };

    if (g->err.status)
        return fl_err_restore(&g->err);
    if (g->has_stopped)
        FL_FAIL(FL_ERR_CLOSED,
                "mode geo: a batch after the trainer has left the job");
    if (++g->n_batches < g->period)
        return FL_OK;
    g->n_batches = 0;
    if (!g->is_busy) {
        ask_exchange(g);
        return FL_OK;
    }
    g->is_due = true;
    fl_vec_push(&g->waiters, w);
    return FL_PENDING;
}

static fl_status geo_barrier(fl_comm *c, fl_comm_call *r)
{
    geo_comm *g = (geo_comm *)c;
    fl_status st;

    FL_TRY(begin(g));
    fl_lock(&g->mu);
    st = count_batch(g, r);
    fl_unlock(&g->mu);
    return st;
}

/* --- the end -------------------------------------------------------------- */

static void end_thread(geo_comm *g)
{
    fl_lock(&g->mu);
    g->is_ending = true;
    fl_cond_wake_all(&g->cond);
    fl_unlock(&g->mu);
    fl_thread_join(g->thread);
    g->thread = NULL;
}

/* Batches since the last exchange go into one more, unless one has failed. Under
   mu. */
static fl_status exchange_rest(geo_comm *g)
{
    while (g->is_busy)
        fl_cond_wait(&g->cond, &g->mu);
    if (!g->has_stopped && !g->err.status)
        ask_exchange(g);
    while (g->is_busy)
        fl_cond_wait(&g->cond, &g->mu);
    return g->err.status ? fl_err_restore(&g->err) : FL_OK;
}

static fl_status exchange_last(geo_comm *g)
{
    fl_status st;

    fl_lock(&g->mu);
    st = exchange_rest(g);
    g->has_stopped = true;
    fl_unlock(&g->mu);
    return st;
}

/* What this trainer has learned is the servers', too. */
static fl_status geo_settle(fl_comm *c)
{
    geo_comm *g = (geo_comm *)c;
    fl_status st;

    if (!atomic_load(&g->is_begun))
        return FL_OK;
    fl_lock(&g->mu);
    st = exchange_rest(g);
    fl_unlock(&g->mu);
    return st;
}

/* A trainer that failed leaves, too: the others do not wait for it. */
static fl_status geo_stop(fl_comm *c)
{
    geo_comm *g = (geo_comm *)c;
    fl_status st = FL_OK, left;
    fl_err why;

    if (atomic_load(&g->is_begun))
        st = exchange_last(g);
    c->writes_params = false;
    fl_err_save(&why, st);
    left = fl_cluster_leave(g->port.cluster);
    return st ? fl_err_restore(&why) : left;
}

static void geo_free(fl_comm *c)
{
    geo_comm *g = (geo_comm *)c;
    fl_geo_table *next;

    end_thread(g);
    for (fl_geo_table *t = atomic_load(&g->tables); t; t = next) {
        next = t->next;
        fl_geo_table_free(t);
    }
    fl_geo_dense_release(&g->dense);
    fl_comm_free(g->local);
    fl_cluster_free(g->port.cluster);
    fl_vec_release(&g->waiters);
    fl_cond_release(&g->cond);
    fl_mutex_release(&g->mu);
    fl_mutex_release(&g->begin_mu);
    fl_free(g);
}

static const fl_comm_data data = {
    .pull = geo_pull,
    .push = geo_push,
    .send = geo_send,
    .recv = geo_recv,
    .barrier = geo_barrier,
};

static const fl_comm_life life = {
    .declare = geo_declare,
    .step = fl_cluster_port_step,
    .begin_batch = fl_cluster_port_begin_batch,
    .end_batch = fl_cluster_port_end_batch,
    .settle = geo_settle,
    .stop = geo_stop,
    .free = geo_free,
};

static fl_table *geo_find_table(fl_comm *c, const char *name)
{
    const fl_geo_table *t = look_up((geo_comm *)c, name);

    return t ? t->here : NULL;
}

static fl_comm *geo_open(fl_cluster *cluster)
{
    geo_comm *g = fl_alloc(sizeof(*g));

    fl_cluster_port_init(&g->port, cluster, "geo", &data, &life);
    g->port.comm.writes_params = true;
    g->port.comm.is_synchronous = true;
    g->port.comm.by_hash = false; /* training asks tables of this process */
    g->local = fl_mode_local_new_shared();
    g->line = fl_geo_line_of(cluster);
    g->period = (uint64_t)fl_cluster_conf(cluster)->geo_need_push_nums;
    fl_geo_dense_init(&g->dense, &g->line);
    fl_mutex_init(&g->begin_mu);
    fl_mutex_init(&g->mu);
    fl_cond_init(&g->cond);
    return &g->port.comm;
}

const fl_mode fl_mode_geo = {
    .name = "geo",
    .doc = "trainers update their own copies and exchange differences",
    .needs_servers = true,
    .server_adds = true,
    .settings = "geo_need_push_nums " FL_MODE_PLACES,
    .passes =
        "canon_decay canon_clip canon_lr canon_power dist_sparse dist_pull "
        "dist_place dist_server dist_geo "
        "dist_startup",
    .check = fl_geo_check,
    .open = geo_open,
    .find_table = geo_find_table,
};
