/* modes_job.c - servers and trainers, each a process of its own. */
#include "modes_job.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

#define SETTLE_MS 20000

/* --- in the processes ----------------------------------------------------- */

fl_ctx *job_ctx(uint64_t seed)
{
    fl_ctx *c;
    char text[24];

    bench_check(fl_ctx_new(&c), "settings");
    snprintf(text, sizeof text, "%" PRIu64, seed);
    bench_check(fl_ctx_set(c, "seed", text), "settings");
    bench_check(fl_ctx_set(c, "log_level", "warn"), "settings");
    return c;
}

static fl_ctx *make_ctx(const job_spec *s)
{
    fl_ctx *c = job_ctx(s->seed);
    char period[24];

    snprintf(period, sizeof period, "%d", s->geo_period);
    bench_check(fl_ctx_set(c, "geo_need_push_nums", period), "settings");
    /* With more processes than cores some are slow; none is lost. */
    bench_check(fl_ctx_set(c, "suspect_ms", "60000"), "settings");
    bench_check(fl_ctx_set(c, "join_token", "bench"), "settings");
    bench_check(fl_ctx_set(c, "local_transport", s->is_tcp ? "off" : "auto"),
                "settings");
    if (s->wire) {
        bench_check(fl_ctx_set(c, "wire_pull", s->wire), "settings");
        bench_check(fl_ctx_set(c, "wire_push", s->wire), "settings");
    }
    if (s->precision)
        bench_check(fl_ctx_set(c, "precision", s->precision), "settings");
    return c;
}

/* Before there are threads: what is connected from now on is so from there. */
static void enter_host(const job_seat *s)
{
    char path[64];
    int fd;

    if (!s->host)
        return;
    snprintf(path, sizeof path, "/run/netns/%s", s->host);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
        fprintf(stderr, "bench: host %s cannot be entered\n", s->host);
        exit(1);
    }
    close(fd);
}

static fl_transpiler *transpile(fl_ctx *c, const job_seat *s, fl_role_kind role)
{
    fl_transpiler *t = NULL;

    bench_check(fl_transpile(&t, c, .role = role, .trainer_id = s->rank,
                             .pservers = s->servers,
                             .n_trainers = s->job.n_trainers,
                             .mode = s->job.mode),
                "making the programs of a job");
    return t;
}

static void serve(const void *spec)
{
    const job_seat *s = spec;
    fl_ctx *c = make_ctx(&s->job);
    fl_executor *e;
    fl_transpiler *t;

    enter_host(s);
    bench_check(fl_executor_new(&e, c), "an executor");
    s->job.work->build(c, &s->job);
    t = transpile(c, s, FL_ROLE_SERVER);
    bench_check(fl_run(e, fl_transpiler_startup(t, s->address), NULL),
                "a server's start");
    bench_check(fl_run(e, fl_transpiler_server(t, s->address), NULL),
                "serving");
    fl_transpiler_free(t);
    fl_executor_free(e);
    fl_ctx_free(c);
}

typedef struct trainer {
    const job_seat *seat;
    fl_ctx *ctx;
    fl_executor *exe;
    fl_transpiler *transpiler;
    void *state; /* of the work */
} trainer;

static void *begin_trainer(const void *spec)
{
    const job_seat *s = spec;
    trainer *t = bench_alloc(sizeof *t);

    enter_host(s);
    t->seat = s;
    t->ctx = make_ctx(&s->job);
    bench_check(fl_executor_new(&t->exe, t->ctx), "an executor");
    t->state = s->job.work->begin(t->ctx, &s->job, s->rank);
    t->transpiler = transpile(t->ctx, s, FL_ROLE_WORKER);
    bench_check(
        fl_run(t->exe, fl_transpiler_trainer_startup(t->transpiler), NULL),
        "a trainer's start");
    return t;
}

/* Gradients may wait in queues; those of geo count when they are exchanged. */
static void settle(trainer *t)
{
    fl_job_stats s = FL_INIT(fl_job_stats);

    if (strcmp(t->seat->job.mode, "async"))
        return;
    for (int ms = 0; ms < SETTLE_MS; ms++) {
        bench_check(fl_job_get_stats(fl_transpiler_job(t->transpiler), &s),
                    "counters");
        if (s.gradients_applied >= s.gradients_made)
            return;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    fprintf(stderr, "bench: gradients are not applied\n");
    exit(1);
}

static void end_trainer(trainer *t)
{
    bench_check(fl_job_stop(fl_transpiler_job(t->transpiler)),
                "leaving the job");
    fl_transpiler_free(t->transpiler);
    t->seat->job.work->end(t->state);
    fl_executor_free(t->exe);
    fl_ctx_free(t->ctx);
    free(t);
}

static void be_trainer(void *state, const member_order *o, member_answer *out)
{
    trainer *t = state;
    const job_work *work = t->seat->job.work;

    switch (o->what) {
    case MEMBER_TRAIN:
        out->loss = work->train(t->state, t->exe,
                                fl_transpiler_trainer(t->transpiler), o);
        break;
    case MEMBER_SETTLE:
        settle(t);
        break;
    case MEMBER_JUDGE:
        out->auc = work->judge(t->state, t->transpiler, o);
        break;
    case MEMBER_END:
        end_trainer(t);
        return;
    }
    out->stats = FL_INIT(fl_job_stats);
    bench_check(fl_job_get_stats(fl_transpiler_job(t->transpiler), &out->stats),
                "counters");
}

/* --- in the bench --------------------------------------------------------- */

/* Servers of several jobs share their host. */
static void host_address(char out[ADDRESS_MAX])
{
    static int port = 6170;

    snprintf(out, ADDRESS_MAX, "10.77.0.1:%d", port++);
}

static void take_hosts(job *j)
{
    static const char *const trainers[] = { "first", "second" };

    for (int i = 0; i < j->spec.n_servers; i++)
        j->seats[i].host = "serving";
    for (int i = 0; i < j->spec.n_trainers; i++)
        j->seats[j->spec.n_servers + i].host = trainers[i % 2];
}

static void take_seats(job *j)
{
    const job_spec *s = &j->spec;
    const int n_serving = s->n_servers ? s->n_servers : s->n_trainers;
    char *all = j->servers_text;
    size_t len = 0;

    for (int i = 0; i < n_serving; i++) {
        if (s->is_on_hosts)
            host_address(j->seats[i].address);
        else
            process_free_address(j->seats[i].address);
        len += (size_t)snprintf(all + len, sizeof j->servers_text - len, "%s%s",
                                i ? "," : "", j->seats[i].address);
    }
    for (int i = 0; i < s->n_servers + s->n_trainers; i++) {
        job_seat *seat = &j->seats[i];

        seat->job = *s;
        seat->rank = i < s->n_servers ? 0 : i - s->n_servers;
        seat->servers = all;
    }
}

void job_start(job *j, const job_spec *spec)
{
    *j = (job){ .spec = *spec };
    snprintf(j->name, sizeof j->name, "%s.%ds%dt%s%s%s", spec->mode,
             spec->n_servers, spec->n_trainers,
             spec->is_on_hosts ? ".link"
             : spec->is_tcp    ? ".tcp"
                               : "",
             spec->wire ? "." : "", spec->wire ? spec->wire : "");
    take_seats(j);
    if (spec->is_on_hosts)
        take_hosts(j);
    for (int i = 0; i < spec->n_servers; i++)
        j->servers[i] = member_start_alone(j->name, serve, &j->seats[i]);
    for (int i = 0; i < spec->n_trainers; i++)
        j->trainers[i] = member_start(j->name, begin_trainer, be_trainer,
                                      &j->seats[spec->n_servers + i]);
    for (int i = 0; i < spec->n_trainers; i++)
        (void)member_hear(&j->trainers[i]);
}

/* Trainers leave together: where they serve, each waits for the others. */
void job_end(job *j)
{
    for (int i = 0; i < j->spec.n_trainers; i++)
        member_tell_end(&j->trainers[i]);
    for (int i = 0; i < j->spec.n_trainers; i++)
        member_end(&j->trainers[i]);
    for (int i = 0; i < j->spec.n_servers; i++)
        member_end(&j->servers[i]);
}

static void order_some(const member *trainers, int n, member_order o,
                       member_answer answers[JOB_TRAINERS_MAX])
{
    for (int i = 0; i < n; i++)
        member_tell(&trainers[i], o);
    for (int i = 0; i < n; i++)
        answers[i] = member_hear(&trainers[i]);
}

/* Adds `sign` times what the processes have used so far. */
static void add_cpu(const job *j, double sign, job_run *r)
{
    for (int i = 0; i < j->spec.n_trainers; i++)
        r->trainer_cpu[i] += sign * member_cpu_seconds(&j->trainers[i]);
    for (int i = 0; i < j->spec.n_servers; i++)
        r->server_cpu[i] += sign * member_cpu_seconds(&j->servers[i]);
}

static void add_stats(const fl_job_stats *s, double sign, job_run *r)
{
    r->bytes += sign * (double)(s->sent_bytes + s->received_bytes);
    r->n_requests += sign * (double)(s->pulls + s->pushes + s->dense_requests);
    r->wait_seconds += sign * s->wait_seconds;
}

job_run job_train_some(job *j, int first, int n, size_t n_each)
{
    const member *trainers = &j->trainers[first];
    member_answer before[JOB_TRAINERS_MAX], after[JOB_TRAINERS_MAX];
    job_run r = { 0 };

    order_some(trainers, n, (member_order){ .what = MEMBER_SETTLE }, before);
    add_cpu(j, -1, &r);
    r.seconds = -member_now();
    order_some(trainers, n, (member_order){ MEMBER_TRAIN, j->next, n_each },
               after);
    r.seconds += member_now();
    for (int i = 0; i < n; i++) {
        j->losses[first + i] = after[i].loss;
        r.loss += after[i].loss / n;
    }
    order_some(trainers, n, (member_order){ .what = MEMBER_SETTLE }, after);
    add_cpu(j, 1, &r);
    for (int i = 0; i < n; i++) {
        add_stats(&before[i].stats, -1, &r);
        add_stats(&after[i].stats, 1, &r);
        r.cpu_seconds += r.trainer_cpu[first + i];
    }
    for (int i = 0; i < j->spec.n_servers; i++)
        r.server_cpu_seconds += r.server_cpu[i];
    r.cpu_seconds += r.server_cpu_seconds;
    j->next += n_each * (size_t)n;
    return r;
}

job_run job_train(job *j, size_t n_each)
{
    return job_train_some(j, 0, j->spec.n_trainers, n_each);
}

double job_judge(job *j, size_t which)
{
    member_tell(&j->trainers[0],
                (member_order){ .what = MEMBER_JUDGE, .n = which });
    return member_hear(&j->trainers[0]).auc;
}
