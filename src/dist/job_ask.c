/* job_ask.c - what all servers, or server 0, are asked. */
#include "base/args.h"
#include "dist/job.h"

/* Waits for what a call of the client has begun. */
#define ASK(j, call)                                                           \
    do {                                                                       \
        fl_status st_;                                                         \
                                                                               \
        FL_TRY(fl_job_ready(j));                                               \
        fl_job_open_request(j);                                                \
        st_ = (call);                                                          \
        fl_job_close_request(j);                                               \
        FL_TRY(st_);                                                           \
    } while (0)

static fl_client *client_of(const fl_job *j)
{
    return fl_cluster_client(j->cluster);
}

/* --- whole tables --------------------------------------------------------- */

fl_status fl_job_clear(fl_job *j, int table)
{
    uint32_t dim;

    FL_TRY(fl_job_dim_of(j, table, &dim));
    ASK(j, fl_client_clear(client_of(j), (uint32_t)table, FL_WAIT));
    return FL_OK;
}

static fl_status check_shrink(const fl_job *j, int table, int unseen_days)
{
    uint32_t dim;

    FL_TRY(fl_job_dim_of(j, table, &dim));
    if (unseen_days < 0)
        FL_FAIL(FL_ERR_INVAL, "table %s: %d unseen days are below 0",
                j->dist->tables.data[table].name, unseen_days);
    if (j->dist->config.server_adds)
        FL_FAIL(FL_ERR_INVAL,
                "table %s: in mode %s every worker trains copies of the rows, "
                "and rows that servers drop would come back wrong; take "
                "another mode, or do without",
                j->dist->tables.data[table].name, j->mode->name);
    return FL_OK;
}

fl_status fl_job_shrink(fl_job *j, int table, int unseen_days,
                        uint64_t *n_removed)
{
    uint64_t sum = 0;

    FL_TRY(check_shrink(j, table, unseen_days));
    ASK(j, fl_client_shrink(client_of(j), (uint32_t)table,
                            (uint32_t)unseen_days, &sum, FL_WAIT));
    if (n_removed)
        *n_removed = sum;
    return FL_OK;
}

fl_status fl_job_hash(fl_job *j, uint64_t *hash)
{
    uint64_t sum = 0;

    ASK(j, fl_client_hash(client_of(j), &sum, FL_WAIT));
    *hash = sum;
    return FL_OK;
}

/* --- together ------------------------------------------------------------- */

/* While this trainer waits, others may make rounds without it. */
fl_status fl_job_barrier(fl_job *j)
{
    ASK(j, fl_cluster_barrier(j->cluster, "user",
                              atomic_fetch_add(&j->n_barriers, 1) + 1));
    return FL_OK;
}

fl_status fl_job_step(fl_job *j, uint64_t add, uint64_t *step)
{
    uint64_t now = 0;

    ASK(j, fl_client_step(client_of(j), add, &now, FL_WAIT));
    fl_cluster_set_step(j->cluster, now);
    if (step)
        *step = now;
    return FL_OK;
}

/* --- reports -------------------------------------------------------------- */

fl_status fl_job_report(fl_job *j, const char *phase, uint64_t samples,
                        double loss, double auc)
{
    fl_report_request r = { .samples = samples, .loss = loss, .auc = auc };
    fl_report_reply of_job;

    fl_msg_text(r.phase, phase);
    fl_lock(&j->reports.mu);
    j->reports.next = r;
    j->reports.has_any = true;
    fl_unlock(&j->reports.mu);
    ASK(j, fl_client_report(client_of(j), &r, &of_job, FL_WAIT));
    return FL_OK;
}

static void report_done(void *arg, fl_status st);

/* Under mu, so that none begins once the reports have ended. A report that is
   lost is no matter: the next one comes soon. */
static void send_next(fl_job *j)
{
    fl_job_reports *r = &j->reports;

    if (!r->has_next || r->is_over)
        return;
    r->has_next = false;
    r->is_under_way = !fl_client_report(client_of(j), &r->next, &r->reply,
                                        (fl_ending){ report_done, j });
}

static void report_done(void *arg, fl_status st)
{
    fl_job *j = arg;

    fl_lock(&j->reports.mu);
    j->reports.is_under_way = false;
    if (!st) {
        atomic_store(&j->reports.rate, j->reports.reply.rate);
        send_next(j);
    }
    fl_unlock(&j->reports.mu);
}

void fl_job_report_later(fl_job *j, const char *phase,
                         const fl_report_request *r)
{
    if (!client_of(j))
        return;
    fl_lock(&j->reports.mu);
    j->reports.next = *r;
    fl_msg_text(j->reports.next.phase, phase);
    j->reports.has_next = j->reports.has_any = true;
    if (!j->reports.is_under_way)
        send_next(j);
    fl_unlock(&j->reports.mu);
}

void fl_job_end_reports(fl_job *j)
{
    fl_lock(&j->reports.mu);
    j->reports.is_over = true;
    fl_unlock(&j->reports.mu);
}

double fl_job_rate(const fl_job *j)
{
    return atomic_load(&j->reports.rate);
}

/* --- counters of this trainer --------------------------------------------- */

/* Over all servers. */
static uint64_t count_requests(const fl_job *j, const uint16_t *types,
                               size_t n_types)
{
    fl_client *client = fl_cluster_client(j->cluster);
    uint64_t n = 0;

    for (size_t i = 0; client && i < n_types; i++)
        for (int s = 0; s < j->dist->config.n_servers; s++)
            n += fl_client_requests(client, s, types[i]);
    return n;
}

/* All 0 before it is connected. */
static const fl_client_stats *client_stats(const fl_job *j)
{
    static const fl_client_stats none;
    fl_client *client = fl_cluster_client(j->cluster);

    return client ? fl_client_stats_of(client) : &none;
}

fl_status fl_job_get_stats(fl_job *j, fl_job_stats *out)
{
    static const uint16_t pulls[] = { FL_MSG_PULL, FL_MSG_CHANGED };
    static const uint16_t pushes[] = { FL_MSG_PUSH, FL_MSG_ROUND_PUSH };
    static const uint16_t dense[] = { FL_MSG_PULL_DENSE, FL_MSG_PUSH_DENSE,
                                      FL_MSG_ROUND_DENSE, FL_MSG_APPLY };
    const fl_cluster_stats *s = fl_cluster_stats_of(j->cluster);
    const fl_client_stats *bytes = client_stats(j);
    fl_job_stats all = {
        .sent_bytes = fl_stat_get(&bytes->sent),
        .received_bytes = fl_stat_get(&bytes->received),
        .pulls = count_requests(j, pulls, FL_LEN(pulls)),
        .pushes = count_requests(j, pushes, FL_LEN(pushes)),
        .dense_requests = count_requests(j, dense, FL_LEN(dense)),
        .gradients_made = fl_stat_get(&s->gradients_made),
        .gradients_applied = fl_stat_get(&s->gradients_applied),
        .wait_seconds = 1e-9 * (double)fl_stat_get(&s->wait),
    };

    return FL_ARGS_FILL(fl_job_stats, out, &all);
}

static void add_trainer(fl_json *json, fl_job *j)
{
    fl_job_stats s = FL_INIT(fl_job_stats);
    fl_status st = fl_job_get_stats(j, &s);

    FL_ASSERT(!st);
    fl_json_object(json, "trainer");
    fl_json_i64(json, "rank", fl_job_rank(j));
    fl_json_u64(json, "pulls", s.pulls);
    fl_json_u64(json, "pushes", s.pushes);
    fl_json_u64(json, "dense_requests", s.dense_requests);
    fl_stats_json(json, &fl_client_stats_list, client_stats(j));
    fl_stats_json(json, &fl_cluster_stats_list,
                  fl_cluster_stats_of(j->cluster));
    fl_json_end(json);
}

fl_status fl_job_stats_json(fl_job *j, char **json)
{
    fl_json all = { 0 };
    fl_status st = fl_job_ready(j);

    if (st)
        return st;
    fl_json_object(&all, NULL);
    fl_json_array(&all, "servers");
    fl_job_open_request(j);
    st = fl_client_stats_all(client_of(j), &all, FL_WAIT);
    fl_job_close_request(j);
    fl_json_end(&all);
    add_trainer(&all, j);
    fl_json_end(&all);
    if (st)
        fl_str_release(&all.out);
    else
        *json = fl_json_take(&all);
    return st;
}
