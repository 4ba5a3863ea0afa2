/* cluster.c - what the modes share. */
#include "mode/cluster.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/timeline.h"
#include "conf/patience.h"
#include "mode/own_server.h"
#include "ps/options.h"

/* A pause between messages about the step: others need not know it sooner. */
#define TELL_NS UINT64_C(10000000)

typedef enum phase { APART, CONNECTING, TOGETHER, GONE } phase;

struct fl_cluster {
    fl_cluster_args a;
    fl_cluster_stats counts;
    _Atomic uint64_t step;
    _Atomic uint64_t n_begun;  /* batches of this process */
    _Atomic uint64_t n_untold; /* batches that server 0 has not heard of */
    atomic_bool has_no_batch;  /* the last one that began was counted already */
    _Atomic uint64_t told_ns;  /* when it last heard of some */
    uint64_t heard_step;       /* by the last answer; the client's loop only */
    _Atomic(fl_client *) client; /* NULL until it is connected */
    fl_comm *port;               /* of the mode; NULL: this process serves */
    const char *const *texts;    /* see fl_cluster_set_declarations */
    fl_cut *cut;
    fl_status (*bring)(void *arg, fl_pack *out); /* to a cut */
    void *bring_arg;
    void (*lost)(void *arg, fl_status st); /* guarded by mu, as is its arg */
    void *lost_arg;
    fl_server *server;        /* where trainers serve, once it is connected */
    const char *model, *plan; /* that it begins with, or NULL */

    atomic_bool is_ready; /* phase and why, for who is in a loop */

    fl_mutex mu;
    fl_cond cond;
    phase phase; /* guarded by mu */
    fl_err why;  /* of a way to the servers that failed; guarded by mu */
};

/* --- to the cut of a save -------------------------------------------------- */

/* The last batch is over, though no other one has begun. */
static void end_last_batch(fl_cluster *c)
{
    if (!atomic_load(&c->n_begun) || atomic_exchange(&c->has_no_batch, true))
        return;
    atomic_fetch_add(&c->step, 1);
    atomic_fetch_add(&c->n_untold, 1);
}

/* The step of a version is that of its cut, so server 0 hears of all batches. */
static fl_status settle(void *cluster)
{
    fl_cluster *c = cluster;
    uint64_t step, n;

    if (c->port && c->port->life->settle)
        FL_TRY(c->port->life->settle(c->port));
    end_last_batch(c);
    n = atomic_exchange(&c->n_untold, 0);
    return n ? fl_client_step(fl_cluster_client(c), n, &step, FL_WAIT) : FL_OK;
}

static fl_status bring(void *cluster, fl_pack *out)
{
    fl_cluster *c = cluster;

    return c->bring ? c->bring(c->bring_arg, out) : FL_OK;
}

static uint64_t next_round(void *cluster)
{
    return fl_cluster_step(cluster);
}

/* Whoever asks later is told by the requests it makes. */
static void tell_lost(void *cluster, fl_status st)
{
    fl_cluster *c = cluster;
    void (*lost)(void *arg, fl_status st);
    void *arg;

    fl_lock(&c->mu);
    lost = c->lost;
    arg = c->lost_arg;
    fl_unlock(&c->mu);
    if (lost)
        lost(arg, st);
}

void fl_cluster_on_lost(fl_cluster *c, void (*lost)(void *arg, fl_status st),
                        void *arg)
{
    fl_lock(&c->mu);
    c->lost = lost;
    c->lost_arg = arg;
    fl_unlock(&c->mu);
}

fl_cut *fl_cluster_cut(const fl_cluster *c)
{
    return c->cut;
}

void fl_cluster_set_bring(fl_cluster *c,
                          fl_status (*fn)(void *arg, fl_pack *out), void *arg)
{
    c->bring = fn;
    c->bring_arg = arg;
}

fl_cluster *fl_cluster_new(const fl_cluster_args *a)
{
    fl_cluster *c = fl_alloc(sizeof(*c));

    c->a = *a;
    c->cut = fl_cut_new(&(fl_cut_hooks){ .settle = settle,
                                         .bring = bring,
                                         .round = next_round,
                                         .lost = tell_lost,
                                         .arg = c });
    fl_mutex_init(&c->mu);
    fl_cond_init(&c->cond);
    return c;
}

void fl_cluster_free(fl_cluster *c)
{
    if (!c)
        return;
    fl_cut_stop(c->cut);
    if (c->server)
        fl_own_server_give_up(c->server, c->a.dist);
    fl_client_free(atomic_load(&c->client));
    fl_own_server_close(c->server);
    fl_cut_free(c->cut);
    fl_cond_release(&c->cond);
    fl_mutex_release(&c->mu);
    fl_free(c);
}

const fl_dist *fl_cluster_dist(const fl_cluster *c)
{
    return c->a.dist;
}

const fl_conf *fl_cluster_conf(const fl_cluster *c)
{
    return c->a.conf;
}

fl_scope *fl_cluster_scope(const fl_cluster *c)
{
    return c->a.scope;
}

fl_cluster_stats *fl_cluster_stats_of(fl_cluster *c)
{
    return &c->counts;
}

/* Names were chosen by the settings, which know no others. */
static fl_codec codec_of(const char *name)
{
    fl_codec c = FL_CODEC_F32;

    FL_ASSERT(!name || fl_codec_find(name, &c));
    return c;
}

fl_codec fl_cluster_pull_codec(const fl_cluster *c)
{
    return codec_of(c->a.dist->config.wire_pull);
}

fl_client *fl_cluster_client(fl_cluster *c)
{
    return atomic_load(&c->client);
}

fl_server *fl_cluster_server(fl_cluster *c)
{
    return c->server;
}

void fl_cluster_set_model(fl_cluster *c, const char *path, const char *plan)
{
    c->model = path;
    c->plan = plan;
}

/* --- the global step ------------------------------------------------------ */

uint64_t fl_cluster_step(const fl_cluster *c)
{
    return atomic_load(&c->step);
}

void fl_cluster_set_step(fl_cluster *c, uint64_t step)
{
    uint64_t known = atomic_load(&c->step);

    while (known < step &&
           !atomic_compare_exchange_weak(&c->step, &known, step))
        ;
    if (fl_cluster_client(c))
        fl_client_set_step(fl_cluster_client(c), atomic_load(&c->step));
}

/* A trainer that was given up while it slept is told so here; from then on it
   is not ready. What else can fail is told by other requests as well. */
static void hear_of_step(void *cluster, fl_status st)
{
    fl_cluster *c = cluster;

    if (!st)
        fl_cluster_set_step(c, c->heard_step);
    if (st != FL_ERR_CLOSED)
        return;
    fl_lock(&c->mu);
    if (!c->why.status)
        fl_err_save(&c->why, st);
    atomic_store(&c->is_ready, false);
    fl_unlock(&c->mu);
}

/* Batches of this process are over. Small ones come by the thousand, so they
   are told at most once in TELL_NS. */
static void tell_steps(fl_cluster *c)
{
    fl_client *client = fl_cluster_client(c);
    uint64_t n = atomic_exchange(&c->n_untold, 0);
    fl_status st;

    atomic_store(&c->told_ns, fl_now_ns());
    if (!client)
        return;
    st = fl_client_step(client, n, &c->heard_step,
                        (fl_ending){ hear_of_step, c });
    if (st)
        hear_of_step(c, st);
}

void fl_cluster_tell_round(fl_cluster *c)
{
    atomic_fetch_add(&c->n_untold, 1);
    if (fl_now_ns() - atomic_load(&c->told_ns) >= TELL_NS)
        tell_steps(c);
}

/* Servers other than 0 hear of the step by the requests of its batch. */
uint64_t fl_cluster_count_step(fl_cluster *c)
{
    uint64_t step = atomic_load(&c->step);

    if (atomic_fetch_add(&c->n_begun, 1) &&
        !atomic_exchange(&c->has_no_batch, false)) {
        step = atomic_fetch_add(&c->step, 1) + 1;
        fl_cluster_tell_round(c);
    }
    fl_cluster_set_step(c, step);
    return step;
}

/* --- coming and going ----------------------------------------------------- */

/* A trainer that comes back goes on with the step of the others. */
static fl_status ask_step(fl_cluster *c, fl_client *client)
{
    uint64_t step;

    FL_TRY(fl_client_step(client, 0, &step, FL_WAIT));
    fl_cluster_set_step(c, step);
    return FL_OK;
}

fl_status fl_cluster_learn_step(fl_cluster *c)
{
    FL_TRY(fl_cluster_ready(c));
    return ask_step(c, fl_cluster_client(c));
}

/* Others may still train, and need this trainer for that. */
static fl_status ready_to_meet(fl_cluster *c)
{
    FL_TRY(fl_cluster_ready(c));
    return c->port && c->port->life->drain ? c->port->life->drain(c->port)
                                           : FL_OK;
}

/* While this trainer waited, others may have made rounds without it. */
static fl_status meet(fl_client *client, const fl_barrier_request *r)
{
    uint64_t since = fl_timeline_now();
    fl_status st = fl_client_barrier(client, r, NULL, FL_WAIT);

    fl_timeline_add("wait", "wait: barrier", r->name, since);
    return st;
}

fl_status fl_cluster_barrier(fl_cluster *c, const char *name,
                             uint64_t generation)
{
    fl_barrier_request r = { .generation = generation };
    fl_client *client;
    fl_status st;

    FL_TRY(ready_to_meet(c));
    client = fl_cluster_client(c);
    if (atomic_load(&c->n_untold))
        tell_steps(c);
    fl_msg_text(r.name, name);
    fl_cut_begin_call(c->cut);
    st = meet(client, &r);
    fl_cut_end_call(c->cut);
    return st ? st : ask_step(c, client);
}

void fl_cluster_set_declarations(fl_cluster *c, const char *const *texts)
{
    c->texts = texts;
}

/* The programs of the servers as they are now. */
static fl_status declare(const fl_cluster *c, fl_client *client)
{
    const fl_dist *d = c->a.dist;
    size_t n = d->servers.len;
    char **texts;
    fl_status st = FL_OK;

    if (c->texts)
        return fl_client_declare_all(client, c->texts, d->config.n_servers);
    texts = fl_alloc(n * sizeof(*texts));
    for (size_t i = 0; i < n && !st; i++)
        st = fl_dist_print_server(d, (int)i, &texts[i]);
    if (!st)
        st = fl_client_declare_all(client, (const char *const *)texts, (int)n);
    for (size_t i = 0; i < n; i++)
        fl_free(texts[i]);
    fl_free(texts);
    return st;
}

/* Before anybody may ask this trainer for something. */
static fl_status open_server(fl_cluster *c)
{
    fl_own_server_args a = { .dist = c->a.dist,
                             .conf = c->a.conf,
                             .net = c->a.net,
                             .model = c->model,
                             .plan = c->plan };

    if (!c->a.dist->config.workers_serve)
        return FL_OK;
    return fl_own_server_open(&c->server, &a);
}

/* Where trainers serve nobody can go on without the one that is lost: who waits
   at this one's server learns it at once, and so does the mode. */
static void on_peer_lost(void *cluster, fl_status why)
{
    fl_cluster *c = cluster;
    fl_err e;

    fl_err_save(&e, why);
    fl_server_give_up(c->server, e.text);
    tell_lost(c, fl_err_restore(&e));
}

static void be_worker(fl_cluster *c, fl_client_options *o)
{
    o->are_workers = true;
    o->restart_timeout_ms = fl_patience_ms(c->a.conf, FL_JOB_OF_WORKERS);
    o->on_lost = on_peer_lost;
    o->arg = c;
}

fl_status fl_cluster_connect(fl_cluster *c)
{
    const fl_dist_config *d = &c->a.dist->config;
    fl_client_options o = fl_client_options_of(c->a.conf);
    fl_client *client = NULL;
    fl_status st;

    FL_TRY(open_server(c));
    o.servers = d->servers;
    o.n_servers = d->n_servers;
    o.n_trainers = d->n_trainers;
    o.rank = d->rank;
    o.may_coalesce = c->a.may_coalesce;
    o.push = codec_of(d->wire_push);
    if (c->server)
        be_worker(c, &o);
    fl_timeline_name("worker", d->rank, o.job);
    st = fl_client_new(&client, c->a.net, NULL, &o);
    /* It stays until the cluster goes: requests may be under way. */
    atomic_store(&c->client, client);
    if (client && c->port)
        atomic_store(&c->port->poller, fl_client_poller(client));
    return fl_err_ctx(st, "%s %d", c->server ? "worker" : "trainer", d->rank);
}

static fl_status join(fl_cluster *c)
{
    fl_client *client;
    fl_status st;

    if (!fl_cluster_client(c))
        FL_TRY(fl_cluster_connect(c));
    client = fl_cluster_client(c);
    st = declare(c, client);
    if (!st)
        st = meet(client,
                  &(fl_barrier_request){ .name = "start", .generation = 1 });
    if (!st && fl_timeline_now())
        st = fl_client_ask_clock(client);
    if (!st)
        st = ask_step(c, client);
    if (!st)
        fl_cluster_set_step(c, fl_cluster_step(c));
    if (!st)
        st = fl_cut_start(c->cut, client);
    return fl_err_ctx(st, "%s %d", c->server ? "worker" : "trainer",
                      c->a.dist->config.rank);
}

static fl_status result(fl_cluster *c)
{
    if (c->phase == GONE)
        FL_FAIL(FL_ERR_CLOSED,
                "trainer %d has left the job; transpile again to come back",
                c->a.dist->config.rank);
    return c->why.status ? fl_err_restore(&c->why) : FL_OK;
}

fl_status fl_cluster_ready(fl_cluster *c)
{
    fl_status st;

    if (atomic_load(&c->is_ready))
        return FL_OK;
    fl_lock(&c->mu);
    while (c->phase == CONNECTING)
        fl_cond_wait(&c->cond, &c->mu);
    if (c->phase == APART) {
        c->phase = CONNECTING;
        fl_unlock(&c->mu);
        st = join(c);
        fl_lock(&c->mu);
        fl_err_save(&c->why, st);
        c->phase = TOGETHER;
        atomic_store(&c->is_ready, !st);
        fl_cond_wake_all(&c->cond);
    }
    st = result(c);
    fl_unlock(&c->mu);
    return st;
}

static fl_status leave(fl_cluster *c)
{
    end_last_batch(c);
    if (atomic_load(&c->n_untold))
        tell_steps(c);
    if (c->server)
        FL_INFO("mode", "worker %d is done, and serves until all of the %d are",
                c->a.dist->config.rank, c->a.dist->config.n_trainers);
    FL_TRY(fl_client_leave(fl_cluster_client(c), FL_WAIT));
    return c->server ? fl_own_server_serve_out(c->server, c->a.dist) : FL_OK;
}

fl_status fl_cluster_leave(fl_cluster *c)
{
    bool is_here;

    fl_lock(&c->mu);
    is_here = fl_cluster_client(c) && c->phase != GONE && !c->why.status;
    if (is_here)
        c->phase = GONE;
    atomic_store(&c->is_ready, false);
    fl_unlock(&c->mu);
    fl_cut_stop(c->cut);
    return is_here ? leave(c) : FL_OK;
}

fl_status fl_cluster_save(fl_cluster *c, const fl_save_request *r,
                          fl_save_reply *out)
{
    fl_status st;

    FL_TRY(fl_cluster_ready(c));
    if (atomic_load(&c->n_untold))
        tell_steps(c);
    fl_cut_begin_call(c->cut);
    st = fl_client_save(fl_cluster_client(c), r, out, FL_WAIT);
    fl_cut_end_call(c->cut);
    return st ? st : ask_step(c, fl_cluster_client(c));
}

/* --- gathering ------------------------------------------------------------ */

/* As after a barrier, the step of the others may have moved on. */
fl_status fl_cluster_gather(fl_cluster *c, const char *name,
                            uint64_t generation, fl_msg_bytes bytes,
                            fl_client_gathered *out)
{
    fl_client_gathered g = { 0 };
    fl_client *client;
    fl_status st;

    FL_TRY(ready_to_meet(c));
    client = fl_cluster_client(c);
    fl_cut_begin_call(c->cut);
    st = fl_client_gather(client, name, generation, bytes, &g, FL_WAIT);
    fl_cut_end_call(c->cut);
    if (!st)
        st = ask_step(c, client);
    if (st)
        fl_client_gathered_release(&g);
    else
        *out = g;
    return st;
}

/* --- serving -------------------------------------------------------------- */

/* Trainers find tables and blocks by their numbers: the program that serves
   may have been edited, but what it holds must be what they expect. */
static fl_status check_tables(const fl_dist *d, const fl_contents *c)
{
    for (size_t i = 0; i < d->tables.len; i++)
        if (i >= c->tables.len ||
            strcmp(c->tables.data[i]->name, d->tables.data[i].name))
            FL_FAIL(FL_ERR_INVAL,
                    "table %s, number %zu of the job, was not made; run the "
                    "server's startup program before it serves, with an "
                    "init_table for every table, in the order of the job",
                    d->tables.data[i].name, i);
    return FL_OK;
}

static fl_status check_blocks(const fl_dist *d, int rank, const fl_store *s)
{
    size_t number = 0;
    uint64_t n;

    for (size_t i = 0; i < d->blocks.len; i++) {
        const fl_dist_block *b = &d->blocks.data[i];
        const char *name;

        if (b->server != rank)
            continue;
        name = fl_store_block_name(s, number++, &n);
        if (!name || strcmp(name, b->name) || n != b->n)
            FL_FAIL(FL_ERR_INVAL,
                    "the program that serves has %s where the job has block "
                    "%s of %" PRIu64 " floats; optimize_blocks must have a "
                    "block for each, in the order of the job",
                    name ? name : "nothing", b->name, b->n);
    }
    return FL_OK;
}

static fl_status serve_by(const fl_cluster *c, const fl_server_options *o)
{
    fl_server *s;
    fl_status st;
    fl_err why;

    FL_TRY(fl_server_check_door(o));
    FL_TRY(fl_server_new(&s, c->a.net, NULL, o));
    st = check_blocks(c->a.dist, o->rank, fl_server_store(s));
    if (!st)
        st = fl_server_serve(s);
    fl_err_save(&why, fl_err_ctx(st, "server %d", o->rank));
    fl_server_free(s);
    return st ? fl_err_restore(&why) : FL_OK;
}

fl_status fl_cluster_serve(fl_cluster *c, const fl_contents *contents)
{
    const fl_dist *d = c->a.dist;
    fl_server_options o = fl_server_options_of(c->a.conf);
    char *edited;
    fl_status st;

    FL_TRY(fl_dist_find_server(d, contents->service->endpoint, &o.rank));
    FL_TRY(check_tables(d, contents));
    FL_TRY(fl_dist_print_server(d, o.rank, &edited));
    o.servers = d->config.servers;
    o.n_servers = d->config.n_servers;
    o.n_trainers = d->config.n_trainers;
    o.ops = d->main->ops;
    o.contents = contents;
    o.model = contents->model;
    o.plan = contents->plan;
    o.declared = d->servers.data[o.rank].declared;
    o.edited = edited;
    st = serve_by(c, &o);
    fl_free(edited);
    return st;
}

/* --- names ---------------------------------------------------------------- */

fl_status fl_cluster_table(const fl_cluster *c, const char *name, uint32_t dim,
                           int *number)
{
    const fl_dist *d = c->a.dist;
    uint32_t width;

    *number = fl_dist_find_table(d, name);
    if (*number < 0)
        FL_FAIL(FL_ERR_NOTFOUND,
                "the job has no table %s; is it in the program that was "
                "transpiled?",
                name);
    width = d->tables.data[*number].dim;
    if (width != dim)
        FL_FAIL(FL_ERR_INVAL,
                "table %s has rows of %" PRIu32 ", not of %" PRIu32, name,
                width, dim);
    return FL_OK;
}

fl_status fl_cluster_param(const fl_cluster *c, const char *name, uint64_t n,
                           const fl_dist_param **out)
{
    *out = fl_dist_find_param(c->a.dist, name);
    if (!*out)
        FL_FAIL(FL_ERR_NOTFOUND,
                "the job has no dense parameter %s; is it trained by the "
                "program that was transpiled?",
                name);
    if ((*out)->n != n)
        FL_FAIL(FL_ERR_INVAL,
                "parameter %s has %" PRIu64 " numbers, not %" PRIu64, name,
                (*out)->n, n);
    return FL_OK;
}

void fl_cluster_blocks_clear(fl_cluster_blocks *b)
{
    b->blocks.len = 0;
    b->data.len = 0;
}

void fl_cluster_blocks_add(fl_cluster_blocks *b, const fl_cluster *c,
                           const fl_dist_param *p, float *data)
{
    const fl_dist_block *from = c->a.dist->blocks.data + p->first_block;

    for (size_t i = 0; i < p->n_blocks; i++) {
        fl_client_block block = { from[i].number, from[i].server, from[i].n };

        fl_vec_push(&b->blocks, block);
        fl_vec_push(&b->data, data + from[i].from);
    }
}

void fl_cluster_blocks_release(fl_cluster_blocks *b)
{
    fl_vec_release(&b->blocks);
    fl_vec_release(&b->data);
}

/* --- the port of a mode --------------------------------------------------- */

static void finish(void *answer, fl_status st)
{
    fl_comm_finish(answer, st);
}

static fl_cluster *cluster_of(fl_comm *port)
{
    return ((fl_cluster_port *)port)->cluster;
}

/* Links give up a server that is lost in their own time. */
void fl_cluster_port_init(fl_cluster_port *p, fl_cluster *c, const char *name,
                          const fl_comm_data *data, const fl_comm_life *life)
{
    p->comm = (fl_comm){ .name = name,
                         .data = data,
                         .life = life,
                         .has_own_deadline = true,
                         .rank = c->a.dist->config.rank,
                         .n_workers = c->a.dist->config.n_trainers,
                         .by_hash = true };
    p->cluster = c;
    c->port = &p->comm;
}

fl_status fl_cluster_port_pull(fl_comm *port, fl_comm_request *r)
{
    fl_cluster *c = cluster_of(port);
    fl_job_pull_item item = { .keys = r->rows.keys,
                              .n = r->rows.n,
                              .kind = r->create ? FL_PULL_CREATE : FL_PULL_ONLY,
                              .out = r->out };

    FL_TRY(fl_cluster_ready(c));
    FL_TRY(fl_cluster_table(c, r->table, r->rows.dim, &item.table));
    FL_TRY(fl_client_pull_coded(fl_cluster_client(c), fl_cluster_pull_codec(c),
                                &item, &r->rows.dim, 1,
                                (fl_ending){ finish, &r->answer }));
    return FL_PENDING;
}

fl_status fl_cluster_port_recv(fl_comm *port, fl_comm_call *r)
{
    fl_cluster *c = cluster_of(port);
    fl_cluster_blocks b = { 0 };
    const fl_dist_param *p;
    fl_status st = fl_cluster_ready(c);

    for (size_t i = 0; !st && i < r->n; i++) {
        st = fl_cluster_param(c, r->values[i].param, r->values[i].n, &p);
        if (!st)
            fl_cluster_blocks_add(&b, c, p, r->values[i].data);
    }
    if (!st)
        st = fl_client_pull_blocks_coded(
            fl_cluster_client(c), fl_cluster_pull_codec(c), b.blocks.data,
            b.data.data, b.blocks.len, (fl_ending){ finish, &r->answer });
    fl_cluster_blocks_release(&b);
    return st ? st : FL_PENDING;
}

fl_status fl_cluster_port_declare(fl_comm *port, const char *table,
                                  const char *settings, uint64_t seed)
{
    fl_cluster *c = cluster_of(port);
    const fl_dist *d = c->a.dist;
    int number = fl_dist_find_table(d, table);

    if (number < 0)
        FL_FAIL(FL_ERR_NOTFOUND,
                "the job has no table %s; is it in the program that was "
                "transpiled?",
                table);
    if (strcmp(d->tables.data[number].settings, settings) ||
        seed != d->startup->seed)
        FL_FAIL(FL_ERR_INVAL,
                "table %s was transpiled with the settings '%s' and seed "
                "%" PRIu64 ", not with '%s' and %" PRIu64
                ": transpile again after a change",
                table, d->tables.data[number].settings, d->startup->seed,
                settings, seed);
    return fl_cluster_ready(c);
}

uint64_t fl_cluster_port_step(fl_comm *port)
{
    return fl_cluster_count_step(cluster_of(port));
}

void fl_cluster_port_begin_batch(fl_comm *port)
{
    fl_cut_begin_batch(cluster_of(port)->cut);
}

void fl_cluster_port_end_batch(fl_comm *port)
{
    fl_cut_end_batch(cluster_of(port)->cut);
}
