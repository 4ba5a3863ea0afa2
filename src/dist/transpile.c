/* transpile.c - one program made into those of trainers and servers.
 *
 * A transpiler takes the place of the context's own tables. Which side this
 * process is shows in the programs it asks for: until it asks for the
 * trainer's, what stands behind the port can only serve.
 */
#include <inttypes.h>

#include "dist/transpile.h"
#include "base/args.h"
#include "base/log.h"
#include "mode/mode_own.h"

/* --- the port of a process that serves ------------------------------------ */

static fl_status not_a_trainer(const char *table)
{
    FL_FAIL(FL_ERR_INVAL,
            "table %s: this process has not asked for the trainer's programs; "
            "run fl_transpiler_trainer_startup and fl_transpiler_trainer",
            table);
}

static fl_status serving_declare(fl_comm *c, const char *table,
                                 const char *settings, uint64_t seed)
{
    fl_transpiler *t = (fl_transpiler *)c;

    return fl_contents_add_table(&t->contents, table, settings, seed);
}

static fl_status serving_rows(fl_comm *c, fl_comm_request *r)
{
    (void)c;
    return not_a_trainer(r->table);
}

static fl_status serving_serve(fl_comm *c, const fl_comm_service *s)
{
    fl_transpiler *t = (fl_transpiler *)c;

    t->contents.service = s;
    t->contents.scope = &t->ctx->scope;
    return fl_cluster_serve(t->cluster, &t->contents);
}

/* It is a part of the transpiler, which goes before the context does. */
static void serving_free(fl_comm *c)
{
    (void)c;
}

static const fl_comm_data serving_data = { .pull = serving_rows,
                                           .push = serving_rows };
static const fl_comm_life serving_life = { .declare = serving_declare,
                                           .serve = serving_serve,
                                           .free = serving_free };

static fl_comm make_serving(void)
{
    return (fl_comm){ .name = "servers",
                      .data = &serving_data,
                      .life = &serving_life,
                      .has_own_deadline = true };
}

/* --- making --------------------------------------------------------------- */

static const fl_mode *find_own(const fl_ctx *c, const char *name)
{
    for (size_t i = 0; i < c->modes.len; i++)
        if (!strcmp(c->modes.data[i]->name, name))
            return c->modes.data[i];
    return NULL;
}

fl_status fl_ctx_add_mode(fl_ctx *c, const fl_mode_def *def)
{
    fl_mode_def own;

    FL_TRY(FL_ARGS_READ(fl_mode_def, &own, def));
    FL_TRY(fl_err_ctx(fl_check_name(own.name), "mode"));
    if (fl_mode_find(own.name) || find_own(c, own.name))
        FL_FAIL(FL_ERR_EXISTS, "there is a mode %s already", own.name);
    fl_vec_push(&c->modes, fl_mode_own_new(&own));
    return FL_OK;
}

static fl_status find_mode(const fl_ctx *c, const char *name,
                           const fl_mode **out)
{
    fl_str known = { 0 };
    fl_status st;

    name = name ? name : "sync";
    *out = fl_mode_find(name);
    if (!*out)
        *out = find_own(c, name);
    if (*out)
        return FL_OK;
    for (size_t i = 0; i < c->modes.len; i++)
        fl_str_addf(&known, "%s, ", c->modes.data[i]->name);
    for (size_t i = 0; i < fl_mode_count(); i++)
        fl_str_addf(&known, "%s%s", i ? ", " : "", fl_mode_at(i)->name);
    st = fl_err_set(FL_ERR_NOTFOUND, "no mode is called %s; there are %s", name,
                    fl_str_text(&known));
    fl_str_release(&known);
    return st;
}

static fl_status check_args(const fl_ctx *c, const fl_transpile_args *a)
{
    int n = a->n_trainers ? a->n_trainers : 1;

    if (n < 1 || a->trainer_id < 0 || a->trainer_id >= n)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %d of %d: ranks go from 0 to the number of trainers "
                "less one",
                a->trainer_id, n);
    if (strcmp(c->comm->name, "local"))
        FL_FAIL(FL_ERR_INVAL,
                "this context has been transpiled for a job already; use "
                "another context, or free its transpiler first");
    return FL_OK;
}

static fl_dist_config config_of(const fl_transpiler *t,
                                const fl_transpile_args *a)
{
    const fl_conf *conf = &t->ctx->conf;

    return (fl_dist_config){
        .mode = t->mode->name,
        .servers = (const char *const *)t->net.servers.data,
        .n_servers = (int)t->net.servers.len,
        .n_trainers = a->n_trainers ? a->n_trainers : 1,
        .rank = a->trainer_id,
        .min_block_size = (uint64_t)conf->min_block_size,
        .slice_var_up = conf->slice_var_up,
        .round_robin = !strcmp(conf->split_method, "round_robin"),
        .server_adds = t->mode->server_adds,
    };
}

static fl_status distribute(fl_transpiler *t, const fl_transpile_args *a)
{
    fl_ctx *c = t->ctx;
    const fl_program *main = a->program ? a->program : fl_ctx_pair(c).main;
    const fl_program *startup =
        a->startup_program ? a->startup_program : fl_ctx_pair(c).startup;
    fl_dist_config config = config_of(t, a);

    if (t->mode->check)
        FL_TRY(t->mode->check(&c->conf, main, startup));
    FL_TRY(fl_dist_new(&t->dist, &config, main, startup, t->mode->passes,
                       *c->conf.dump_ir ? c->conf.dump_ir : NULL));
    if (!t->dist->servers.len)
        FL_FAIL(FL_ERR_INVAL,
                "its passes (%s) make no programs of servers; dist_server must "
                "be among them",
                t->mode->passes);
    t->dist->main->ctx = c;
    t->dist->startup->ctx = c;
    for (size_t i = 0; i < t->dist->servers.len; i++) {
        t->dist->servers.data[i].main->ctx = c;
        t->dist->servers.data[i].startup->ctx = c;
    }
    return FL_OK;
}

static fl_status build(fl_transpiler *t, const fl_transpile_args *a)
{
    fl_cluster_args args = { .conf = &t->ctx->conf, .scope = &t->ctx->scope };

    FL_TRY(fl_endpoints_open(&t->net, &t->ctx->conf, a->pservers));
    FL_TRY(fl_err_ctx(distribute(t, a), "mode %s", t->mode->name));
    args.dist = t->dist;
    args.net = t->net.net;
    t->cluster = fl_cluster_new(&args);
    return FL_OK;
}

fl_status fl_transpile_with(fl_transpiler **out, fl_ctx *c,
                            const fl_transpile_args *args)
{
    fl_transpile_args a;
    const fl_mode *mode;
    fl_transpiler *t;
    fl_status st;
    fl_err why;

    FL_TRY(FL_ARGS_READ(fl_transpile_args, &a, args));
    FL_TRY(check_args(c, &a));
    FL_TRY(find_mode(c, a.mode, &mode));
    t = fl_alloc(sizeof(*t));
    t->serving = make_serving();
    t->ctx = c;
    t->own = c->comm;
    t->mode = mode;
    st = build(t, &a);
    if (st) {
        fl_err_save(&why, st);
        fl_transpiler_free(t);
        return fl_err_restore(&why);
    }
    c->comm = &t->serving;
    c->transpiler = t;
    *out = t;
    return FL_OK;
}

/* One that goes after a failed run has not done its work, and the others hear
   of its loss instead of taking it for done. */
static void leave_job(fl_transpiler *t)
{
    if (!t->backend || t->ctx->run_failed)
        return;
    if (t->backend->life->stop(t->backend))
        FL_WARN("train", "trainer %d did not leave the job in order: %s",
                t->dist->config.rank, fl_last_error());
}

void fl_transpiler_free(fl_transpiler *t)
{
    if (!t)
        return;
    leave_job(t);
    if (t->ctx->comm != t->own)
        t->ctx->comm = t->own;
    if (t->ctx->transpiler == t)
        t->ctx->transpiler = NULL;
    if (t->backend)
        fl_comm_free(t->backend);
    else
        fl_cluster_free(t->cluster);
    fl_contents_release(&t->contents);
    fl_dist_free(t->dist);
    fl_endpoints_close(&t->net);
    fl_deal_names_free(t->deals);
    fl_free(t);
}

/* --- programs ------------------------------------------------------------- */

static void become_trainer(fl_transpiler *t)
{
    if (t->backend)
        return;
    t->backend = t->mode->own
                     ? fl_mode_own_open(t->mode->own, t->cluster, t->ctx)
                     : t->mode->open(t->cluster);
    t->ctx->comm = t->backend;
}

fl_program *fl_transpiler_trainer(fl_transpiler *t)
{
    become_trainer(t);
    return t->dist->main;
}

fl_program *fl_transpiler_trainer_startup(fl_transpiler *t)
{
    become_trainer(t);
    return t->dist->startup;
}

static const fl_dist_server *find_server(fl_transpiler *t, const char *endpoint)
{
    int i;

    if (fl_dist_find_server(t->dist, endpoint, &i))
        return NULL;
    return &t->dist->servers.data[i];
}

fl_program *fl_transpiler_server(fl_transpiler *t, const char *endpoint)
{
    const fl_dist_server *s = find_server(t, endpoint);

    return s ? s->main : NULL;
}

fl_program *fl_transpiler_startup(fl_transpiler *t, const char *endpoint)
{
    const fl_dist_server *s = find_server(t, endpoint);

    return s ? s->startup : NULL;
}

/* --- a trainer ------------------------------------------------------------ */

fl_status fl_transpiler_start(fl_transpiler *t)
{
    become_trainer(t);
    return fl_cluster_ready(t->cluster);
}

fl_status fl_transpiler_stop(fl_transpiler *t)
{
    if (!t->backend)
        return FL_OK;
    return t->backend->life->stop(t->backend);
}

fl_status fl_transpiler_barrier(fl_transpiler *t)
{
    become_trainer(t);
    return fl_cluster_barrier(t->cluster, "user", ++t->barrier);
}

/* A table or a dense parameter by name, and the caller's values for it. */
typedef struct what {
    const uint64_t *keys;
    size_t n;
    float *values;
    int table;           /* -1: a dense parameter */
    uint32_t dim;        /* of the table */
    fl_cluster_blocks b; /* of the parameter */
} what;

static fl_status find_what(const fl_transpiler *t, const char *name, what *w)
{
    const fl_dist_param *p;

    w->table = w->keys ? fl_dist_find_table(t->dist, name) : -1;
    if (w->keys && w->table < 0)
        FL_FAIL(FL_ERR_NOTFOUND, "the job has no table %s", name);
    if (w->keys) {
        w->dim = t->dist->tables.data[w->table].dim;
        return FL_OK;
    }
    FL_TRY(fl_cluster_param(t->cluster, name, w->n, &p));
    fl_cluster_blocks_add(&w->b, t->cluster, p, w->values);
    return FL_OK;
}

typedef fl_status (*begin_fn)(fl_client *client, const what *w,
                              fl_latch *latch);

static fl_status begin_fetch(fl_client *client, const what *w, fl_latch *latch)
{
    fl_job_pull_item item = { w->table, w->keys, w->n, FL_PULL_ONLY,
                              w->values };

    if (w->keys)
        return fl_client_pull(client, &item, &w->dim, 1,
                              (fl_ending){ fl_latch_done, latch });
    return fl_client_pull_blocks(client, w->b.blocks.data, w->b.data.data,
                                 w->b.blocks.len,
                                 (fl_ending){ fl_latch_done, latch });
}

static fl_status begin_assign(fl_client *client, const what *w, fl_latch *latch)
{
    if (w->keys)
        return fl_client_assign(
            client,
            &(fl_client_values){ w->table, w->dim, w->keys, w->n, w->values },
            (fl_ending){ fl_latch_done, latch });
    return fl_client_send_blocks(client, FL_MSG_ASSIGN_DENSE, w->b.blocks.data,
                                 (const float *const *)w->b.data.data,
                                 w->b.blocks.len,
                                 (fl_ending){ fl_latch_done, latch });
}

static fl_status ask_and_wait(fl_transpiler *t, const char *name, what *w,
                              begin_fn begin)
{
    fl_latch latch;
    fl_status st;

    FL_TRY(fl_transpiler_start(t));
    FL_TRY(find_what(t, name, w));
    fl_latch_init(&latch, fl_client_poller(fl_cluster_client(t->cluster)));
    fl_latch_add(&latch);
    st = begin(fl_cluster_client(t->cluster), w, &latch);
    if (!st)
        st = fl_latch_wait(&latch);
    fl_latch_release(&latch);
    fl_cluster_blocks_release(&w->b);
    return st;
}

fl_status fl_transpiler_fetch(fl_transpiler *t, const char *name,
                              const uint64_t *keys, size_t n, float *out)
{
    what w = { .keys = keys, .n = n, .values = out };

    return ask_and_wait(t, name, &w, begin_fetch);
}

fl_status fl_transpiler_assign(fl_transpiler *t, const char *name,
                               const uint64_t *keys, size_t n,
                               const float *values)
{
    what w = { .keys = keys, .n = n, .values = (float *)(uintptr_t)values };

    return ask_and_wait(t, name, &w, begin_assign);
}

/* --- telling -------------------------------------------------------------- */

/* A report that is lost is no matter: the next one comes soon. */
static void report_done(void *arg, fl_status st)
{
    fl_transpiler *t = arg;

    (void)st;
    atomic_store(&t->is_reporting, false);
}

void fl_transpiler_report(fl_transpiler *t, const char *phase, uint64_t samples,
                          double loss, double auc)
{
    fl_client *client = fl_cluster_client(t->cluster);
    fl_report_request r = { .samples = samples, .loss = loss, .auc = auc };

    if (!client || atomic_exchange(&t->is_reporting, true))
        return;
    fl_msg_text(r.phase, phase);
    if (fl_client_report(client, &r, (fl_ending){ report_done, t }))
        atomic_store(&t->is_reporting, false);
}

/* --- looking -------------------------------------------------------------- */

fl_status fl_transpiler_hash(fl_transpiler *t, uint64_t *hash)
{
    uint64_t sum = 0;

    become_trainer(t);
    FL_TRY(fl_cluster_ready(t->cluster));
    FL_TRY(fl_client_hash(fl_cluster_client(t->cluster), &sum, FL_WAIT));
    *hash = sum;
    return FL_OK;
}

/* Over all servers. */
static uint64_t count_requests(const fl_transpiler *t, const uint16_t *types,
                               size_t n_types)
{
    fl_client *client = fl_cluster_client(t->cluster);
    uint64_t n = 0;

    for (size_t i = 0; client && i < n_types; i++)
        for (int s = 0; s < t->dist->config.n_servers; s++)
            n += fl_client_requests(client, s, types[i]);
    return n;
}

fl_status fl_transpiler_stats(fl_transpiler *t, fl_dist_stats *out)
{
    static const uint16_t pulls[] = { FL_MSG_PULL, FL_MSG_CHANGED };
    static const uint16_t pushes[] = { FL_MSG_PUSH, FL_MSG_ROUND_PUSH };
    static const uint16_t dense[] = { FL_MSG_PULL_DENSE, FL_MSG_PUSH_DENSE,
                                      FL_MSG_ROUND_DENSE, FL_MSG_APPLY };
    fl_cluster_counts *counts = fl_cluster_counts_of(t->cluster);
    fl_client *client = fl_cluster_client(t->cluster);
    fl_client_traffic bytes = { 0 };
    fl_dist_stats s;

    if (client)
        bytes = fl_client_traffic_of(client);
    s = (fl_dist_stats){
        .sent_bytes = bytes.sent_bytes,
        .received_bytes = bytes.received_bytes,
        .pulls = count_requests(t, pulls, FL_LEN(pulls)),
        .pushes = count_requests(t, pushes, FL_LEN(pushes)),
        .dense_requests = count_requests(t, dense, FL_LEN(dense)),
        .gradients_made = atomic_load(&counts->made),
        .gradients_applied = atomic_load(&counts->applied),
        .wait_seconds = 1e-9 * (double)atomic_load(&counts->wait_ns),
    };
    return FL_ARGS_FILL(fl_dist_stats, out, &s);
}

fl_status fl_transpiler_server_stats(fl_transpiler *t, char **text)
{
    fl_str s = { 0 };
    fl_status st;

    become_trainer(t);
    st = fl_cluster_ready(t->cluster);
    if (!st)
        st = fl_client_stats(fl_cluster_client(t->cluster), &s, FL_WAIT);
    if (st)
        fl_str_release(&s);
    else
        *text = fl_str_take(&s);
    return st;
}
