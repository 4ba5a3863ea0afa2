/* server_metrics.c - a server's numbers for Prometheus
 * (docs/formats/metrics.md). */
#include "ps/server/server_inside.h"

#include <math.h>
#include <string.h>

#include "base/prom.h"
#include "ps/status.h"

static const fl_prom_def step_def = { "job_step", FL_PROM_GAUGE,
                                      "Step of the job as this server knows "
                                      "it." };
static const fl_prom_def members_def = { "job_members", FL_PROM_GAUGE,
                                         "Members of the job by state." };
static const fl_prom_def samples_def = { "job_samples_total", FL_PROM_COUNTER,
                                         "Samples of all trainers." };
static const fl_prom_def rate_def = { "job_samples_per_second", FL_PROM_GAUGE,
                                      "Rate of the trainers that are here." };
static const fl_prom_def running_def = { "job_running_seconds", FL_PROM_GAUGE,
                                         "Since the coordinator began." };

static int count_state(const fl_job_status *status, const char *state)
{
    int n = 0;

    for (size_t i = 0; i < status->members.len; i++)
        n += !strcmp(status->members.data[i].state, state);
    return n;
}

static void add_members(fl_str *out, const fl_job_status *status)
{
    static const char *const states[] = { "absent", "up",   "down",
                                          "silent", "left", "lost" };

    fl_prom_begin(out, &members_def);
    for (size_t i = 0; i < FL_LEN(states); i++)
        fl_prom_add(out, &members_def, "state", states[i],
                    count_state(status, states[i]));
}

/* What the coordinator knows. */
static void add_job(fl_server *s, fl_str *out)
{
    fl_job_status *status;

    fl_lock(&s->mu);
    status = fl_coord_status(s->coord, fl_server_now_ms(s));
    fl_unlock(&s->mu);
    add_members(out, status);
    fl_prom_one(out, &samples_def, (double)status->summary.samples);
    if (!isnan(status->summary.samples_per_second))
        fl_prom_one(out, &rate_def, status->summary.samples_per_second);
    fl_prom_one(out, &running_def, status->summary.running_seconds);
    fl_job_status_free(status);
}

static void write_all(void *arg, fl_str *out)
{
    fl_server *s = arg;

    fl_prom_process(out, s->job, "server", s->o.rank);
    fl_prom_one(out, &step_def, (double)atomic_load(&s->step));
    fl_store_metrics(s->store, out);
    if (!s->o.rank)
        add_job(s, out);
}

void fl_server_open_metrics(fl_server *s)
{
    const fl_exporter_args a = {
        .conf = s->o.conf, .place = s->o.rank, .write = write_all, .arg = s
    };

    if (fl_exporter_open(&s->exporter, &a))
        FL_WARN("metrics", "server %d is not seen by Prometheus: %s", s->o.rank,
                fl_last_error());
}
