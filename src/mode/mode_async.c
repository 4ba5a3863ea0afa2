/* mode_async.c - nobody waits for anybody.
 *
 *     training threads        push, send: a copy into the queue of its variable
 *         |                   (a table, or a dense parameter)
 *     threads of the queues   several gradients of a variable become one, and
 *         |                   are sent; what is not merged a training thread
 *         |                   sends behind its batch, or its group of batches;
 *         |                   the answer comes in the client's loop
 *     servers                 apply on arrival
 *         |
 *     the client's loop       pulls dense parameters, and puts them into the
 *                             scope, while training goes on; rows are pulled by
 *                             the programs
 *
 * No thread is woken for what another one can do on its way: whoever runs the
 * loop, most often a training thread that waits or flushes, receives. Only behind
 * the first batches training threads wait until all this is done (N_FIRST).
 *
 * Threads of the queues never wait for the network: what is under way ends in the
 * client's loop. So they end at once when training is given up, then the cluster
 * ends what is under way, and then nothing points here any more.
 *
 * Lock order: the queues', then a pool's or a scheduler's. The receiver's lock
 * is held alone.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/timeline.h"
#include "kernel/merge.h"
#include "kernel/rows.h"
#include "mode/gradients.h"
#include "mode/mode.h"

#define NAP_NS UINT64_C(10000000)
#define GROUP_MAX 8 /* batches whose rows are pulled together */

/* Batches of a process that wait until their gradients are applied, and fresh
   parameters are there. The first steps of adagrad and adam are the longest:
   several from one place lead far beyond what they were for, and units that
   never fire again learn nothing for the rest of training. */
#define N_FIRST 16

typedef struct async_comm async_comm;

typedef struct variable variable;

/* What was taken from the queue of a variable, on its way. It is for who works
   on it, handed on from a thread to the loop. */
typedef struct message {
    variable *of;
    struct message *next; /* of those that are free */
    fl_queue_entry *taken;
    size_t n_taken;
    fl_merger merger;
    FL_VEC(fl_rows) batches;
    FL_VEC(const float *) from;
    FL_VEC(double) scales;
    fl_cluster_blocks blocks;
} message;

/* For any thread. */
struct variable {
    async_comm *owner;
    fl_gradient_pool pool;
    const fl_dist_param *param; /* NULL for a table */
    const fl_dist_table *table; /* NULL for a parameter */
    fl_mutex mu;
    message *free; /* guarded by mu */
};

/* A block of a parameter. */
typedef struct spot {
    const fl_dist_param *param;
    uint64_t from, n;
} spot;

/* Pulls all dense parameters, in the client's loop, at its own pace. Blocks are
   copied to where training reads them as they come. */
typedef struct receiver {
    FL_VEC(fl_client_block) blocks;
    FL_VEC(spot) spots; /* of these blocks */
    fl_buf decoded;     /* in the loop */
    uint64_t n_before;  /* a pull follows so many merged gradients */
    fl_mutex mu;
    fl_cond cond;
    uint64_t n_sent;              /* guarded by mu */
    bool is_under_way, is_ending; /* guarded by mu */
} receiver;

struct async_comm {
    fl_cluster_port port; /* the first member */
    fl_cluster_stats *counts;
    const fl_dist *dist;
    bool is_sum, has_receiver;
    size_t max_merge;
    int n_group; /* batches that are trained before their gradients leave */
    variable *variables; /* tables, then parameters */
    size_t n_variables;
    fl_queues *queues;
    receiver receiver;
    atomic_bool is_connected;
    atomic_int n_first; /* batches that are left of them */
    fl_mutex stopping;  /* one at a time */
};

/* --- parameters into the scope -------------------------------------------- */

/* Training threads read these numbers meanwhile: as one row of rows.h, whose loop
   may run beside readers. */
static void overwrite(float *to, const float *from, size_t n)
{
    const uint64_t first = 0;

    fl_rows_f32()->gather(to, n, from, &first, 1, n);
}

/* Numbers [from, from + n) of a parameter. One that the scope does not have is read
   by nobody here. */
static fl_status store_part(async_comm *a, const spot *at, const float *values)
{
    const fl_dist_param *p = at->param;
    fl_tensor t;

    if (!fl_scope_find(fl_cluster_scope(a->port.cluster), p->name, &t))
        return FL_OK;
    if (t.dtype != FL_DTYPE_F32 || (uint64_t)fl_shape_numel(&t.shape) != p->n)
        FL_FAIL(FL_ERR_INVAL,
                "parameter %s: the job has %" PRIu64
                " numbers of type f32, and here it has another size or type; "
                "run the trainer's startup program",
                p->name, p->n);
    overwrite((float *)t.data + at->from, values, (size_t)at->n);
    return FL_OK;
}

static fl_status store_param(async_comm *a, const fl_dist_param *p,
                             const float *values)
{
    return store_part(a, &(spot){ .param = p, .n = p->n }, values);
}

/* --- the receiver --------------------------------------------------------- */

/* Values that travel as they are have the alignment of floats. */
static fl_status store_block(void *arg, size_t i, fl_codec codec,
                             const void *values)
{
    async_comm *a = arg;
    const spot *at = &a->receiver.spots.data[i];
    float *decoded;

    if (codec == FL_CODEC_F32)
        return store_part(a, at, values);
    decoded = fl_buf_reserve(&a->receiver.decoded, at->n * sizeof(*decoded));
    if (!decoded)
        FL_FAIL(FL_ERR_NOMEM,
                "parameter %s: no memory for %" PRIu64 " numbers that came",
                at->param->name, at->n);
    fl_codec_decode(codec, values, (size_t)at->n, decoded);
    return store_part(a, at, decoded);
}

static fl_status begin_pull_all(async_comm *a, fl_codec codec,
                                fl_client_done done, void *arg)
{
    const receiver *r = &a->receiver;

    return fl_client_pull_blocks_into(fl_cluster_client(a->port.cluster), codec,
                                      r->blocks.data, r->blocks.len,
                                      &(fl_client_store){ store_block, a },
                                      (fl_ending){ done, arg });
}

static bool is_due(const receiver *r)
{
    return !r->is_under_way && !r->is_ending && r->n_sent >= r->n_before;
}

/* Whether it is the caller's to pull. Under mu. */
static bool begin_if_due(receiver *r)
{
    if (!is_due(r))
        return false;
    r->n_sent = 0;
    r->is_under_way = true;
    return true;
}

/* In the loop. Whoever waits may free the backend from the unlock on. */
static void on_received(void *arg, fl_status st)
{
    async_comm *a = arg;
    receiver *r = &a->receiver;

    if (st)
        fl_queues_fail(a->queues, fl_err_ctx(st, "pulling parameters"));
    fl_lock(&r->mu);
    r->is_under_way = false;
    fl_cond_wake_all(&r->cond);
    fl_unlock(&r->mu);
}

static void receive(async_comm *a)
{
    fl_status st = begin_pull_all(a, fl_cluster_pull_codec(a->port.cluster),
                                  on_received, a);

    if (st)
        on_received(a, st);
}

/* A merged gradient of a parameter is on its way. */
static void note_sent(async_comm *a)
{
    fl_lock(&a->receiver.mu);
    a->receiver.n_sent++;
    fl_unlock(&a->receiver.mu);
}

/* Servers take requests in their order: what is pulled behind gradients has
   them, and needs no message of its own. */
static void receive_if_due(async_comm *a)
{
    receiver *r = &a->receiver;
    bool is_mine;

    fl_lock(&r->mu);
    is_mine = begin_if_due(r);
    fl_unlock(&r->mu);
    if (is_mine)
        receive(a);
}

static void end_receiver(receiver *r)
{
    fl_lock(&r->mu);
    r->is_ending = true;
    fl_unlock(&r->mu);
}

/* The client ends what is under way. */
static void settle_receiver(receiver *r)
{
    fl_lock(&r->mu);
    while (r->is_under_way)
        fl_cond_wait(&r->cond, &r->mu);
    fl_unlock(&r->mu);
}

/* What the servers have now, as it is. */
static fl_status receive_and_wait(async_comm *a)
{
    fl_latch w;
    fl_status st;

    if (!a->dist->params.len || !atomic_load(&a->is_connected))
        return FL_OK;
    fl_latch_init(&w, fl_client_poller(fl_cluster_client(a->port.cluster)));
    fl_latch_add(&w);
    st = begin_pull_all(a, FL_CODEC_F32, fl_latch_done, &w);
    if (!st)
        st = fl_latch_wait(&w);
    fl_latch_release(&w);
    return st;
}

/* --- sending -------------------------------------------------------------- */

static const char *kind_of(const variable *v)
{
    return v->table ? "table" : "parameter";
}

static const char *name_of(const variable *v)
{
    return v->table ? v->table->name : v->param->name;
}

static message *take_message(variable *v)
{
    message *m;

    fl_lock(&v->mu);
    m = v->free;
    if (m)
        v->free = m->next;
    fl_unlock(&v->mu);
    if (!m)
        m = fl_alloc(sizeof(*m));
    m->of = v;
    return m;
}

static void free_message(message *m)
{
    fl_merger_release(&m->merger);
    fl_vec_release(&m->batches);
    fl_vec_release(&m->from);
    fl_vec_release(&m->scales);
    fl_cluster_blocks_release(&m->blocks);
    fl_free(m);
}

/* What was taken is over, for better or worse. */
static void finish(message *m, fl_status st)
{
    variable *v = m->of;
    async_comm *a = v->owner;
    const size_t n = m->n_taken;

    fl_gradients_give_back(&v->pool, m->taken);
    m->taken = NULL;
    fl_lock(&v->mu);
    m->next = v->free;
    v->free = m;
    fl_unlock(&v->mu);
    fl_queues_done(a->queues, (size_t)(v - a->variables), n,
                   fl_err_ctx(st, "%s %s", kind_of(v), name_of(v)));
}

/* The values lie where the gradient was. */
static void on_pulled(void *arg, fl_status st)
{
    message *m = arg;

    if (!st)
        st = store_param(m->of->owner, m->of->param,
                         ((fl_gradient *)m->taken)->memory.data);
    finish(m, st);
}

/* Fresh values of a parameter whose gradient was applied. */
static void pull_param(message *m)
{
    fl_cluster *c = m->of->owner->port.cluster;
    fl_status st = fl_client_pull_blocks_coded(
        fl_cluster_client(c), fl_cluster_pull_codec(c), m->blocks.blocks.data,
        m->blocks.data.data, m->blocks.blocks.len, (fl_ending){ on_pulled, m });

    if (st)
        finish(m, st);
}

static void on_sent(void *arg, fl_status st)
{
    message *m = arg;
    async_comm *a = m->of->owner;

    if (!st)
        fl_stat_add(&a->counts->gradients_applied, m->n_taken);
    if (st || m->of->table || a->has_receiver)
        finish(m, st);
    else
        pull_param(m);
}

/* How much one of the gradients that were taken counts. */
static double weight(const message *m)
{
    return m->of->owner->is_sum ? 1 : 1 / (double)m->n_taken;
}

static fl_status send_rows(message *m)
{
    async_comm *a = m->of->owner;
    fl_job_push_item item = { .table = (int)(m->of - a->variables) };
    double lr = 0;

    m->batches.len = 0;
    for (fl_queue_entry *e = m->taken; e; e = e->next) {
        const fl_gradient *g = (const fl_gradient *)e;

        lr = g->rows.lr;
        for (; g; g = g->next_part) {
            fl_vec_push(&m->batches, g->rows);
            m->batches.data[m->batches.len - 1].scale *= weight(m);
        }
    }
    FL_TRY(
        fl_merge_rows(&m->merger, m->batches.data, m->batches.len, &item.rows));
    item.rows.lr = lr;
    return fl_client_push(fl_cluster_client(a->port.cluster), &item,
                          &m->of->table->dim, 1, (fl_ending){ on_sent, m });
}

/* Gradients are added up where the first of them is. */
static fl_status send_param(message *m)
{
    float *sum = ((fl_gradient *)m->taken)->memory.data;
    const fl_dist_param *p = m->of->param;
    fl_cluster *c = m->of->owner->port.cluster;

    m->from.len = m->scales.len = 0;
    for (fl_queue_entry *e = m->taken; e; e = e->next) {
        fl_vec_push(&m->from, ((const fl_gradient *)e)->rows.values);
        fl_vec_push(&m->scales, weight(m));
    }
    fl_merge_dense(sum, m->from.data, m->scales.data, m->n_taken, (size_t)p->n);
    fl_cluster_blocks_clear(&m->blocks);
    fl_cluster_blocks_add(&m->blocks, c, p, sum);
    return fl_client_send_blocks(
        fl_cluster_client(c), FL_MSG_PUSH_DENSE, m->blocks.blocks.data,
        (const float *const *)m->blocks.data.data, m->blocks.blocks.len,
        (fl_ending){ on_sent, m });
}

/* For the queues. */
static void work(void *arg, size_t queue, fl_queue_entry *list, size_t n)
{
    async_comm *a = arg;
    variable *v = &a->variables[queue];
    uint64_t since = fl_timeline_now();
    message *m = take_message(v);
    fl_status st;

    m->taken = list;
    m->n_taken = n;
    st = v->table ? send_rows(m) : send_param(m);
    /* The answer may be here already, and the message under way again. */
    fl_timeline_add("queue", "merge and send", name_of(v), since);
    if (st)
        finish(m, st);
    else if (v->param && a->has_receiver)
        note_sent(a);
}

/* What the threads of the queues have begun leaves. */
static void pause(void *arg)
{
    async_comm *a = arg;

    receive_if_due(a);
    fl_comm_flush(&a->port.comm);
}

static void drop(void *arg, size_t queue, fl_queue_entry *list)
{
    async_comm *a = arg;

    fl_gradients_give_back(&a->variables[queue].pool, list);
}

/* --- the port ------------------------------------------------------------- */

static fl_status connect(async_comm *a)
{
    FL_TRY(fl_cluster_ready(a->port.cluster));
    atomic_store(&a->is_connected, true);
    return FL_OK;
}

static fl_status hand_over(variable *v, fl_gradient *g, fl_comm_answer *answer)
{
    async_comm *a = v->owner;
    fl_status st;

    fl_stat_add(&a->counts->gradients_made, 1);
    st =
        fl_queues_put(a->queues, (size_t)(v - a->variables), &g->entry, answer);
    if (st && st != FL_PENDING) {
        fl_stat_add(&a->counts->gradients_made, (uint64_t)-1);
        fl_gradients_give_back(&v->pool, &g->entry);
    }
    return st;
}

static fl_status async_push(fl_comm *c, fl_comm_request *r)
{
    async_comm *a = (async_comm *)c;
    fl_gradient *g;
    variable *v;
    int table;

    FL_TRY(connect(a));
    FL_TRY(fl_cluster_table(a->port.cluster, r->table, r->rows.dim, &table));
    v = &a->variables[table];
    FL_TRY(fl_gradient_of_rows(&v->pool, r, &g));
    if (r->worker.n_parts > 1)
        g = fl_gradient_collect(&v->pool, &r->worker, g);
    return g ? hand_over(v, g, &r->answer) : FL_OK;
}

static fl_status async_send(fl_comm *c, fl_comm_call *r)
{
    async_comm *a = (async_comm *)c;
    const fl_dist_param *p;
    fl_gradient *g;
    variable *v;

    if (r->n != 1)
        FL_FAIL(FL_ERR_INVAL,
                "mode async: an operator sends %zu gradients; each parameter "
                "needs a send of its own",
                r->n);
    FL_TRY(connect(a));
    FL_TRY(
        fl_cluster_param(a->port.cluster, r->values->param, r->values->n, &p));
    v = &a->variables[a->dist->tables.len + (size_t)(p - a->dist->params.data)];
    FL_TRY(fl_gradient_of_param(&v->pool, r->values, &g));
    return hand_over(v, g, &r->answer);
}

static fl_status async_recv(fl_comm *c, fl_comm_call *r)
{
    async_comm *a = (async_comm *)c;

    FL_TRY(connect(a));
    return fl_cluster_port_recv(c, r);
}

/* Pulls of parameters may be under way: they change nothing. */
static fl_status async_settle(fl_comm *c)
{
    async_comm *a = (async_comm *)c;

    fl_comm_flush(c);
    return fl_queues_drain(a->queues);
}

static bool is_among_first(async_comm *a)
{
    return atomic_load(&a->n_first) > 0 && atomic_fetch_sub(&a->n_first, 1) > 0;
}

/* Until the servers have applied what this process made, and their parameters
   are here. */
static fl_status catch_up(async_comm *a)
{
    FL_TRY(async_settle(&a->port.comm));
    /* Without a receiver each parameter has followed its gradient. */
    return a->has_receiver ? receive_and_wait(a) : FL_OK;
}

static void async_end_group(fl_comm *c)
{
    async_comm *a = (async_comm *)c;
    fl_status st;

    /* What is to be merged waits for more. */
    if (a->max_merge == 1)
        fl_queues_release(a->queues);
    if (!is_among_first(a)) {
        receive_if_due(a);
        return;
    }
    st = catch_up(a);
    if (st)
        fl_queues_fail(a->queues, st);
}

/* A trainer that failed leaves, too: the others do not wait for it. */
static fl_status stop_all(async_comm *a)
{
    fl_status st = fl_queues_close(a->queues), left;
    fl_err why;

    end_receiver(&a->receiver);
    settle_receiver(&a->receiver);
    if (!st)
        st = receive_and_wait(a);
    atomic_store(&a->is_connected, false);
    fl_err_save(&why, st);
    left = fl_cluster_leave(a->port.cluster);
    return st ? fl_err_restore(&why) : left;
}

static fl_status async_stop(fl_comm *c)
{
    async_comm *a = (async_comm *)c;
    fl_status st;

    fl_lock(&a->stopping);
    st = stop_all(a);
    c->writes_params = false;
    fl_unlock(&a->stopping);
    return st;
}

/* --- life ----------------------------------------------------------------- */

static void release_variable(variable *v)
{
    message *next;

    for (message *m = v->free; m; m = next) {
        next = m->next;
        free_message(m);
    }
    fl_mutex_release(&v->mu);
    fl_gradient_pool_release(&v->pool);
}

static void release_receiver(receiver *r)
{
    fl_vec_release(&r->blocks);
    fl_vec_release(&r->spots);
    fl_buf_release(&r->decoded);
    fl_cond_release(&r->cond);
    fl_mutex_release(&r->mu);
}

static void async_free(fl_comm *c)
{
    async_comm *a = (async_comm *)c;

    fl_queues_cancel(a->queues);
    end_receiver(&a->receiver);
    fl_cluster_free(a->port.cluster);
    fl_queues_free(a->queues);
    for (size_t i = 0; i < a->n_variables; i++)
        release_variable(&a->variables[i]);
    fl_free(a->variables);
    release_receiver(&a->receiver);
    fl_mutex_release(&a->stopping);
    fl_free(a);
}

/* A setting of 0 stands for cpu_num. */
static uint64_t or_cpu_num(const fl_conf *conf, fl_conf_int value)
{
    return (uint64_t)(value ? value : conf->cpu_num);
}

static void init_variables(async_comm *a)
{
    size_t n_tables = a->dist->tables.len;

    a->n_variables = n_tables + a->dist->params.len;
    a->variables = fl_alloc((a->n_variables + 1) * sizeof(*a->variables));
    for (size_t i = 0; i < a->n_variables; i++) {
        variable *v = &a->variables[i];

        v->owner = a;
        fl_gradient_pool_init(&v->pool);
        fl_mutex_init(&v->mu);
        if (i < n_tables)
            v->table = &a->dist->tables.data[i];
        else
            v->param = &a->dist->params.data[i - n_tables];
    }
}

static void list_blocks(receiver *r, const fl_dist *d, const fl_dist_param *p)
{
    const fl_dist_block *from = d->blocks.data + p->first_block;

    for (size_t i = 0; i < p->n_blocks; i++) {
        fl_client_block block = { from[i].number, from[i].server, from[i].n };

        fl_vec_push(&r->blocks, block);
        fl_vec_push(&r->spots, ((spot){ p, from[i].from, from[i].n }));
    }
}

static void init_receiver(async_comm *a, const fl_conf *conf)
{
    receiver *r = &a->receiver;

    fl_mutex_init(&r->mu);
    fl_cond_init(&r->cond);
    for (size_t i = 0; i < a->dist->params.len; i++)
        list_blocks(r, a->dist, &a->dist->params.data[i]);
    r->n_before =
        or_cpu_num(conf, conf->communicator_min_send_grad_num_before_recv) *
        a->dist->params.len;
}

/* Gradients of a group are of the same age. Rows bear it: few of them are in
   several batches. Dense parameters do not: each is in all of them, and so many
   steps from one place lead astray. */
static int group_of(const fl_dist *d, const fl_conf *conf)
{
    int64_t most = conf->communicator_send_queue_size;

    if (d->params.len)
        return 1;
    return most && most < GROUP_MAX ? (int)most : GROUP_MAX;
}

static size_t capacity(const async_comm *a, const fl_conf *conf)
{
    fl_conf_int n = conf->communicator_send_queue_size;

    return (size_t)(n ? n : conf->cpu_num * a->n_group);
}

static fl_queues *make_queues(async_comm *a, const fl_conf *conf)
{
    fl_queues_config o = {
        .n_queues = a->n_variables,
        .capacity = capacity(a, conf),
        .max_take = a->max_merge,
        /* Two groups: the answer to one comes while the next is trained. */
        .max_under_way = a->has_receiver ? 2 * (size_t)a->n_group : 1,
        .enough = a->max_merge > 1 ? a->max_merge : SIZE_MAX,
        .linger_ns = (uint64_t)conf->communicator_send_wait_times * NAP_NS,
        .n_threads = (int)conf->communicator_thread_pool_size,
        .wait_ns = &a->counts->wait,
        .arg = a,
        .work = work,
        .pause = pause,
        .drop = drop,
    };

    return fl_queues_new(&o);
}

static const fl_comm_data data = {
    .pull = fl_cluster_port_pull,
    .push = async_push,
    .send = async_send,
    .recv = async_recv,
};

static const fl_comm_life life = {
    .declare = fl_cluster_port_declare,
    .step = fl_cluster_port_step,
    .begin_batch = fl_cluster_port_begin_batch,
    .end_batch = fl_cluster_port_end_batch,
    .end_group = async_end_group,
    .settle = async_settle,
    .stop = async_stop,
    .free = async_free,
};

static fl_comm *async_open(fl_cluster *cluster)
{
    const fl_conf *conf = fl_cluster_conf(cluster);
    async_comm *a = fl_alloc(sizeof(*a));

    fl_cluster_port_init(&a->port, cluster, "async", &data, &life);
    a->port.comm.writes_params = true;
    a->counts = fl_cluster_stats_of(cluster);
    a->dist = fl_cluster_dist(cluster);
    a->max_merge =
        (size_t)or_cpu_num(conf, conf->communicator_max_merge_var_num);
    a->n_group = group_of(a->dist, conf);
    /* Rows bear age. */
    a->n_first = a->dist->params.len ? N_FIRST : 0;
    a->port.comm.n_ahead = conf->prefetch ? a->n_group : 0;
    a->is_sum = conf->communicator_is_sgd_optimizer;
    a->has_receiver = conf->communicator_independent_recv_thread;
    fl_mutex_init(&a->stopping);
    init_variables(a);
    init_receiver(a, conf);
    a->queues = make_queues(a, conf);
    return &a->port.comm;
}

const fl_mode fl_mode_async = {
    .name = "async",
    .doc = "gradients go through queues, nobody waits",
    .needs_servers = true,
    .settings = "communicator_max_merge_var_num communicator_send_queue_size "
                "communicator_independent_recv_thread "
                "communicator_min_send_grad_num_before_recv "
                "communicator_thread_pool_size communicator_send_wait_times "
                "communicator_is_sgd_optimizer prefetch " FL_MODE_WIRE
                " " FL_MODE_PLACES,
    .passes =
        "canon_decay canon_clip canon_lr canon_power dist_sparse dist_pull "
        "dist_place dist_server dist_send "
        "dist_startup",
    .open = async_open,
};
