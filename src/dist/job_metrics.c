/* job_metrics.c - a worker's numbers for Prometheus (docs/formats/metrics.md). */
#include <math.h>

#include "base/log.h"
#include "base/prom.h"
#include "dist/job.h"

/* Of a worker since it began. */
typedef struct worker_counts {
    fl_job_stats stats;
    fl_report_request report; /* all zeros: it has reported nothing */
    bool has_report;
} worker_counts;

typedef struct worker_metric {
    fl_prom_def def;
    double (*value)(const worker_counts *c); /* NaN: not known */
} worker_metric;

#define COUNT(name)                                                            \
    static double get_##name(const worker_counts *c)                           \
    {                                                                          \
        return (double)c->stats.name;                                          \
    }
COUNT(pulls)
COUNT(pushes)
COUNT(dense_requests)
COUNT(sent_bytes)
COUNT(received_bytes)
COUNT(gradients_made)
COUNT(gradients_applied)
COUNT(wait_seconds)
#undef COUNT

static double get_samples(const worker_counts *c)
{
    return (double)c->report.samples;
}

static double get_loss(const worker_counts *c)
{
    return c->has_report ? c->report.loss : NAN;
}

static double get_auc(const worker_counts *c)
{
    return c->has_report ? c->report.auc : NAN;
}

#define COUNTER(name, get, help)                                               \
    {                                                                          \
        { name, FL_PROM_COUNTER, help }, get                                   \
    }
#define GAUGE(name, get, help)                                                 \
    {                                                                          \
        { name, FL_PROM_GAUGE, help }, get                                     \
    }
static const worker_metric all[] = {
    COUNTER("worker_samples_total", get_samples,
            "Samples that it has trained."),
    COUNTER("worker_pulls_total", get_pulls,
            "Requests for rows, over servers."),
    COUNTER("worker_pushes_total", get_pushes,
            "Requests with gradients of rows, over servers."),
    COUNTER("worker_dense_requests_total", get_dense_requests,
            "Requests for dense parameters."),
    COUNTER("worker_sent_bytes_total", get_sent_bytes, "Payloads of requests."),
    COUNTER("worker_received_bytes_total", get_received_bytes,
            "Payloads of replies."),
    COUNTER("worker_gradients_made_total", get_gradients_made,
            "Gradients that it has made, over variables."),
    COUNTER("worker_gradients_applied_total", get_gradients_applied,
            "Gradients of it that were applied, over variables."),
    COUNTER("worker_wait_seconds_total", get_wait_seconds,
            "What training threads have waited for the mode."),
    GAUGE("worker_loss", get_loss, "Loss that it has reported last."),
    GAUGE("worker_auc", get_auc, "AUC that it has reported last."),
};
#undef COUNTER
#undef GAUGE

static void write_all(void *arg, fl_str *out)
{
    fl_job *j = arg;
    worker_counts c = { .stats = { .size = sizeof(c.stats) } };
    fl_status st = fl_job_get_stats(j, &c.stats);

    FL_ASSERT(!st);
    fl_lock(&j->reports.mu);
    c.report = j->reports.next;
    c.has_report = j->reports.has_any;
    fl_unlock(&j->reports.mu);
    fl_prom_process(out, j->ctx->conf.job, "worker", fl_job_rank(j));
    for (size_t i = 0; i < FL_LEN(all); i++)
        if (!isnan(all[i].value(&c)))
            fl_prom_one(out, &all[i].def, all[i].value(&c));
}

void fl_job_open_metrics(fl_job *j)
{
    const fl_dist_config *d = &j->dist->config;
    const fl_exporter_args a = { .conf = &j->ctx->conf,
                                 .place = d->n_servers + d->rank,
                                 .write = write_all,
                                 .arg = j };

    if (fl_exporter_open(&j->exporter, &a))
        FL_WARN("metrics", "worker %d is not seen by Prometheus: %s", d->rank,
                fl_last_error());
}
