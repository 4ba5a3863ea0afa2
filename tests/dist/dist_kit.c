/* dist_kit.c - a network that is trained alone and on servers. */
#include "dist_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "dist/job.h"
#include "flotilla/io.h"
#include "ir/program.h"
#include "../make.h"
#include "../ports.h"

/* Nothing takes this long unless it hangs. */
#define HANGS_S 120

/* What is on its way is there by then. */
#define AWAIT_NS (UINT64_C(20) * 1000000000u)

static const char *const feed_names[KIT_FEEDS] = { "s0", "s1", "s2", "dense",
                                                   "label" };

/* --- the network ---------------------------------------------------------- */

static fl_var *embed(fl_ctx *c, int slot, const kit_job *j)
{
    static const int64_t dims[] = { -1, 1 };
    fl_var *ids = fl_layers_data(c, feed_names[slot], FL_DTYPE_I64, 2, dims, 1);

    return fl_layers_sequence_pool(
        fl_layers_embedding(
            ids, KIT_HEIGHT, KIT_DIM, .is_sparse = !j->is_dense,
            .is_distributed = j->is_table,
            .param = { .name = "emb", .init = "uniform(-0.5,0.5)" }),
        "sum");
}

static fl_optimizer *job_optimizer(fl_ctx *c, const kit_job *j)
{
    fl_optimizer *o = make_optimizer(c, j->optimizer ? j->optimizer : "sgd",
                                     j->words ? j->words : "learning_rate=0.1");

    if (o && j->schedule)
        fl_optimizer_set_lr(o, j->schedule(c));
    return o;
}

/* Each of them, and the same under a warm-up. */
#define SCHEDULE(NAME, MAKE)                                                   \
    static fl_var *NAME(fl_ctx *c)                                             \
    {                                                                          \
        return MAKE;                                                           \
    }                                                                          \
    static fl_var *warm_##NAME(fl_ctx *c)                                      \
    {                                                                          \
        return fl_layers_linear_lr_warmup(NAME(c), 7, 0.01, 0.2);              \
    }
SCHEDULE(constant, fl_layers_constant_lr(c, 0.1))
SCHEDULE(exponential, fl_layers_exponential_decay(c, 0.2, 5, 0.7, false))
SCHEDULE(natural_exp, fl_layers_natural_exp_decay(c, 0.2, 5, 0.3, true))
SCHEDULE(inverse_time, fl_layers_inverse_time_decay(c, 0.2, 5, 0.3, false))
SCHEDULE(noam, fl_layers_noam_decay(c, 16, 9, 0.5))
SCHEDULE(polynomial, fl_layers_polynomial_decay(c, 0.2, 9, 0.01, 2, true))
SCHEDULE(cosine, fl_layers_cosine_decay(c, 0.2, 3, 8))
SCHEDULE(piecewise, fl_layers_piecewise_decay(c, (int64_t[]){ 5, 9 },
                                              (double[]){ 0.2, 0.1, 0.05 }, 2))

static const kit_schedule schedules[] = {
#define BOTH(NAME)                                                             \
    { #NAME, NAME },                                                           \
    {                                                                          \
        "warm-up and " #NAME, warm_##NAME                                      \
    }
    BOTH(constant), BOTH(exponential), BOTH(natural_exp), BOTH(inverse_time),
    BOTH(noam),     BOTH(polynomial),  BOTH(cosine),      BOTH(piecewise),
#undef BOTH
};

const kit_schedule *kit_schedule_at(size_t i)
{
    return i < sizeof(schedules) / sizeof(schedules[0]) ? &schedules[i] : NULL;
}

static const fl_param_attr own = { .name = "fc1_w",
                                   .learning_rate = 0.5,
                                   .regularizer = "l1(0.01)",
                                   .clip = "norm(0.05)" };

fl_var *kit_build(fl_ctx *c, const kit_job *j)
{
    fl_param_attr first = j->has_own ? own : (fl_param_attr){ .name = "fc1_w" };
    fl_var *parts[KIT_SLOTS + 1], *h, *loss;
    fl_optimizer *o;

    for (int i = 0; i < KIT_SLOTS; i++)
        parts[i] = embed(c, i, j);
    parts[KIT_SLOTS] = fl_layers_data(c, "dense", FL_DTYPE_F32, 2,
                                      (int64_t[]){ -1, KIT_DENSE }, 0);
    h = fl_layers_fc(fl_layers_concat(parts, KIT_SLOTS + 1, 1), KIT_HIDDEN,
                     .act = "relu", .param = first,
                     .bias = { .name = "fc1_b" });
    h = fl_layers_fc(h, 2, .act = "softmax", .param = { .name = "fc2_w" },
                     .bias = { .name = "fc2_b" });
    loss =
        fl_layers_cross_entropy(h, fl_layers_data(c, "label", FL_DTYPE_I64, 2,
                                                  (int64_t[]){ -1, 1 }, 0));
    loss = j->is_sum ? fl_layers_reduce_sum(loss) : fl_layers_mean(loss);
    o = loss ? job_optimizer(c, j) : NULL;
    if (!o || fl_minimize(o, loss))
        return NULL;
    return loss;
}

static fl_ctx *job_ctx(const kit_job *j)
{
    fl_ctx *c = make_ctx();
    fl_status st = fl_ctx_set(c, "seed", "7");

    for (int i = 0; !st && i < KIT_SETTINGS && j->settings[i].name; i++)
        st = fl_ctx_set(c, j->settings[i].name, j->settings[i].value);
    if (st) {
        fl_ctx_free(c);
        return NULL;
    }
    return c;
}

/* --- batches -------------------------------------------------------------- */

struct kit_batch {
    fl_feed feeds[KIT_FEEDS];
    int64_t *ids[KIT_SLOTS], *label;
    int64_t *lod[KIT_SLOTS];
    float *dense;
};

static int rows_of(const kit_job *j, int rank)
{
    return j->rows[rank] ? j->rows[rank] : KIT_ROWS;
}

static uint64_t dice(int rank, int step, int row, int what)
{
    uint64_t h = fl_mix64(((uint64_t)rank << 40) + ((uint64_t)step << 20) +
                          (uint64_t)row);

    return fl_mix64(h + (uint64_t)what);
}

/* One sample: up to two ids per slot; the label follows from the first ids. */
static void add_row(kit_batch *b, int at, int rank, int step, int row)
{
    int sum = 0;

    for (int s = 0; s < KIT_SLOTS; s++) {
        int n = 1 + (int)(dice(rank, step, row, 100 + s) % 2);
        int64_t start = b->lod[s][at];

        for (int i = 0; i < n; i++)
            b->ids[s][start + i] =
                (int64_t)(dice(rank, step, row, s * 10 + i) % KIT_HEIGHT);
        b->lod[s][at + 1] = start + n;
        sum += (int)b->ids[s][start];
    }
    for (int i = 0; i < KIT_DENSE; i++)
        b->dense[at * KIT_DENSE + i] =
            (float)(dice(rank, step, row, 50 + i) % 1000) / 1000;
    b->label[at] = sum % 2;
}

static fl_tensor dense_view(void *data, fl_dtype dtype, int64_t rows,
                            int64_t width)
{
    return FL_INIT(fl_tensor, .dtype = dtype,
                   .shape = { .rank = 2, .dim = { rows, width } },
                   .data = data);
}

static void make_feeds(kit_batch *b, int rows)
{
    for (int s = 0; s < KIT_SLOTS; s++) {
        fl_tensor t = dense_view(b->ids[s], FL_DTYPE_I64, b->lod[s][rows], 1);

        t.n_lod = 1;
        t.lod[0] = b->lod[s];
        t.lod_len[0] = (size_t)rows + 1;
        b->feeds[s] = (fl_feed){ feed_names[s], t };
    }
    b->feeds[KIT_SLOTS] = (fl_feed){ "dense", dense_view(b->dense, FL_DTYPE_F32,
                                                         rows, KIT_DENSE) };
    b->feeds[KIT_SLOTS + 1] =
        (fl_feed){ "label", dense_view(b->label, FL_DTYPE_I64, rows, 1) };
}

kit_batch *kit_batch_make(const kit_job *j, int from, int to, int step)
{
    kit_batch *b = calloc(1, sizeof(*b));
    int n = j->joined ? j->joined : 1;
    size_t rows = 0;
    int at = 0;

    for (int r = from; r < to; r++)
        rows += (size_t)(rows_of(j, r) * n);
    for (int s = 0; s < KIT_SLOTS; s++) {
        b->ids[s] = calloc(2 * rows + 1, sizeof(*b->ids[s]));
        b->lod[s] = calloc(rows + 1, sizeof(*b->lod[s]));
    }
    b->dense = calloc(rows * KIT_DENSE + 1, sizeof(*b->dense));
    b->label = calloc(rows + 1, sizeof(*b->label));
    for (int k = step * n; k < (step + 1) * n; k++)
        for (int r = from; r < to; r++)
            for (int i = 0; i < rows_of(j, r); i++)
                add_row(b, at++, r, k, i);
    make_feeds(b, at);
    return b;
}

void kit_batch_free(kit_batch *b)
{
    for (int s = 0; s < KIT_SLOTS; s++) {
        free(b->ids[s]);
        free(b->lod[s]);
    }
    free(b->dense);
    free(b->label);
    free(b);
}

const fl_feed *kit_batch_feeds(const kit_batch *b)
{
    return b->feeds;
}

const char *kit_target(const fl_program *p)
{
    const fl_op_node *n = fl_program_main(p)->first;

    while (n && strcmp(n->def->name, "softmax") != 0)
        n = n->next;
    return n ? n->out[0].vars[0]->name : "";
}

fl_status kit_save_scores(fl_executor *e, fl_program *p, const char *dir)
{
    const char *target = kit_target(p);

    return fl_save_inference_model(e, dir, .feeds = feed_names,
                                   .n_feeds = KIT_INPUTS, .targets = &target,
                                   .n_targets = 1);
}

/* --- models --------------------------------------------------------------- */

typedef struct part {
    const char *name;
    float *data;
    size_t n;
} part;

static void parts_of(kit_model *m, part out[KIT_PARAMS])
{
    out[0] = (part){ "fc1_w", m->fc1_w, sizeof(m->fc1_w) / sizeof(float) };
    out[1] = (part){ "fc1_b", m->fc1_b, sizeof(m->fc1_b) / sizeof(float) };
    out[2] = (part){ "fc2_w", m->fc2_w, sizeof(m->fc2_w) / sizeof(float) };
    out[3] = (part){ "fc2_b", m->fc2_b, sizeof(m->fc2_b) / sizeof(float) };
}

static fl_status take_local(fl_ctx *c, kit_model *m)
{
    part p[KIT_PARAMS];
    fl_tensor t;

    parts_of(m, p);
    for (int i = 0; i < KIT_PARAMS; i++) {
        if (fl_scope_get(fl_current_scope(c), p[i].name, &t))
            return FL_ERR_NOTFOUND;
        memcpy(p[i].data, t.data, p[i].n * sizeof(float));
    }
    if (fl_scope_get(fl_current_scope(c), "emb", &t))
        return FL_ERR_NOTFOUND;
    memcpy(m->emb, t.data, sizeof(m->emb));
    return FL_OK;
}

static double error_of(const float *a, const float *b, size_t n)
{
    double most = 0;

    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]) /
                              fmax(1, fabs((double)b[i])));
    return most;
}

double kit_error(const kit_model *a, const kit_model *b)
{
    return error_of((const float *)a, (const float *)b,
                    sizeof(*a) / sizeof(float));
}

static fl_status pull_dense(fl_job *job, const char *name, float *out)
{
    int dense;
    fl_status st = fl_job_find_dense(job, name, &dense);

    return st ? st : fl_job_pull_dense(job, dense, out);
}

static fl_status take_remote(kit_trainer *k, kit_model *m)
{
    fl_job *job = fl_transpiler_job(k->transpiler);
    uint64_t keys[KIT_HEIGHT];
    part p[KIT_PARAMS];
    int emb;

    if (k->job->mode && !strcmp(k->job->mode, "collective"))
        return take_local(k->ctx, m);
    parts_of(m, p);
    for (int i = 0; i < KIT_PARAMS; i++)
        if (pull_dense(job, p[i].name, p[i].data))
            return FL_ERR_NOTFOUND;
    if (k->job->is_dense)
        return pull_dense(job, "emb", m->emb);
    for (uint64_t i = 0; i < KIT_HEIGHT; i++)
        keys[i] = i;
    if (fl_job_find_table(job, "emb", &emb))
        return FL_ERR_NOTFOUND;
    return fl_job_pull(job, emb, keys, KIT_HEIGHT, FL_PULL_ONLY, m->emb);
}

static fl_status take_awaited(kit_trainer *k, kit_model *m)
{
    const kit_job *j = k->job;
    uint64_t deadline = fl_now_ns() + AWAIT_NS;
    fl_status st;

    do
        st = take_remote(k, m);
    while (!st && j->awaited && !(kit_error(m, j->awaited) <= j->tolerance) &&
           fl_now_ns() < deadline);
    return st;
}

/* --- alone ---------------------------------------------------------------- */

static fl_status run_batch(fl_executor *e, fl_program *p, const fl_feed *feeds,
                           const char *loss, double *value)
{
    fl_tensor out;
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = KIT_FEEDS,
                .fetches = &loss, .n_fetches = 1, .out = &out);
    fl_status st = fl_run(e, p, &args);

    if (!st)
        *value = (double)*(const float *)out.data;
    return st;
}

static int n_steps_of(const kit_job *j, int rank)
{
    return j->steps[rank] ? j->steps[rank] : j->n_steps;
}

/* Workers that add up gradients among themselves have no servers. */
static bool is_collective(const kit_job *j)
{
    return j->mode && !strcmp(j->mode, "collective");
}

static bool serves(const kit_job *j)
{
    return j->workers_serve || is_collective(j);
}

static int n_trainers_of(const kit_job *j)
{
    return j->n_trainers ? j->n_trainers : 1;
}

void kit_train_alone(const kit_job *j, kit_model *out)
{
    fl_ctx *c = job_ctx(j);
    fl_var *loss = kit_build(c, j);
    fl_executor *e = make_executor(c);
    double value;

    if (!loss)
        fail_msg("%s", fl_last_error());
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    for (int step = 0; step < j->n_steps; step++) {
        kit_batch *b = kit_batch_make(j, 0, n_trainers_of(j), step);

        assert_ok(run_batch(e, fl_default_main_program(c), b->feeds,
                            fl_var_name(loss), &value));
        kit_batch_free(b);
    }
    assert_ok(take_local(c, out));
    fl_executor_free(e);
    fl_ctx_free(c);
}

/* --- a trainer ------------------------------------------------------------ */

/* Replicas get batches of their own: rank r, replica i is rank r * n + i. */
static fl_status replica_step(kit_trainer *t, int step)
{
    int n = t->job->n_replicas;
    const char *loss = fl_var_name(t->loss);
    fl_exec_strategy exec = FL_INIT(fl_exec_strategy, .n_replicas = n);
    fl_compiled_program *cp =
        make_compiled(fl_transpiler_trainer(t->transpiler));
    fl_feed *feeds = calloc((size_t)n * KIT_FEEDS, sizeof(*feeds));
    kit_batch *b[KIT_TRAINERS];
    fl_tensor out[KIT_TRAINERS];
    fl_run_args args =
        FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = KIT_FEEDS,
                .fetches = &loss, .n_fetches = 1, .out = out);
    fl_status st;

    for (int i = 0; i < n; i++) {
        int rank = t->rank * n + i;

        b[i] = kit_batch_make(t->job, rank, rank + 1, step);
        memcpy(feeds + i * KIT_FEEDS, b[i]->feeds, sizeof(b[i]->feeds));
    }
    st = fl_compiled_program_with_data_parallel(cp, loss, NULL, &exec);
    if (!st)
        st = fl_run_compiled_each(t->exe, cp, &args);
    if (!st)
        t->last_loss = (double)*(const float *)out[0].data;
    for (int i = 0; i < n; i++)
        kit_batch_free(b[i]);
    free(feeds);
    fl_compiled_program_free(cp);
    return st;
}

fl_status kit_step(kit_trainer *t, int step)
{
    kit_batch *b;
    fl_status st;

    if (t->job->n_replicas)
        return replica_step(t, step);
    b = kit_batch_make(t->job, t->rank, t->rank + 1, step);
    st = run_batch(t->exe, fl_transpiler_trainer(t->transpiler), b->feeds,
                   fl_var_name(t->loss), &t->last_loss);
    if (step == 0)
        t->first_loss = t->last_loss;
    kit_batch_free(b);
    return st;
}

/* Hogwild: thread i of rank r takes the batches of rank r * n + i. */
typedef struct herd {
    kit_trainer *t;
    int step[KIT_TRAINERS];
    kit_batch *now[KIT_TRAINERS];
} herd;

static bool next_batch(void *arg, int thread, fl_feed *feeds)
{
    herd *h = arg;
    int rank = h->t->rank * h->t->job->n_threads + thread;

    if (h->now[thread])
        kit_batch_free(h->now[thread]);
    h->now[thread] = NULL;
    if (h->step[thread] >= n_steps_of(h->t->job, rank))
        return false;
    h->now[thread] =
        kit_batch_make(h->t->job, rank, rank + 1, h->step[thread]++);
    memcpy(feeds, h->now[thread]->feeds, sizeof(h->now[thread]->feeds));
    return true;
}

fl_status kit_threads(kit_trainer *t)
{
    herd h = { .t = t };
    fl_hogwild_args args =
        FL_INIT(fl_hogwild_args, .n_threads = t->job->n_threads,
                .feed_names = feed_names, .n_feeds = KIT_FEEDS,
                .next = next_batch, .arg = &h);
    fl_status st =
        fl_run_hogwild(t->exe, fl_transpiler_trainer(t->transpiler), &args);

    for (int i = 0; i < KIT_TRAINERS; i++)
        if (h.now[i])
            kit_batch_free(h.now[i]);
    return st;
}

static fl_status train_steps(kit_trainer *t, void *arg)
{
    (void)arg;
    if (t->job->n_threads)
        return kit_threads(t);
    for (int step = 0; step < n_steps_of(t->job, t->rank); step++) {
        fl_status st = kit_step(t, step);

        if (st)
            return st;
    }
    return FL_OK;
}

/* --- a job ---------------------------------------------------------------- */

typedef struct local_cluster {
    const kit_job *job;
    char addresses[512];
    kit_work work;
    void *arg;
    kit_end *end;
    kit_text *texts;
} local_cluster;

typedef struct member {
    local_cluster *local_cluster;
    int rank;
    bool is_server;
    char *text;
    fl_thread *thread;
} member;

static void leave_text(const member *m, fl_status st)
{
    snprintf(m->text, sizeof(kit_text), "%s", st ? fl_last_error() : "");
}

static fl_status transpile(const local_cluster *w, kit_trainer *k,
                           fl_role_kind role)
{
    k->ctx = job_ctx(w->job);
    if (!k->ctx)
        return FL_ERR_INVAL;
    k->exe = make_executor(k->ctx);
    k->loss = (w->job->build ? w->job->build : kit_build)(k->ctx, w->job);
    if (!k->loss)
        return FL_ERR_INVAL;
    return fl_transpile(&k->transpiler, k->ctx, .role = role,
                        .trainer_id = k->rank, .pservers = w->addresses,
                        .n_trainers = n_trainers_of(w->job),
                        .mode = w->job->mode, .workers_serve = serves(w->job));
}

static void address_of(const local_cluster *w, int server, char out[64])
{
    const char *at = w->addresses;

    while (server--)
        at = strchr(at, ',') + 1;
    snprintf(out, 64, "%.*s", (int)strcspn(at, ","), at);
}

static fl_status be_server(const local_cluster *w, kit_trainer *k, int rank)
{
    char address[64];
    fl_program *startup, *main;

    address_of(w, rank, address);
    k->rank = 0;
    FL_TRY(transpile(w, k, FL_ROLE_SERVER));
    startup = fl_transpiler_startup(k->transpiler, address);
    main = fl_transpiler_server(k->transpiler, address);
    if (!startup || !main)
        return FL_ERR_INVAL;
    if (w->job->edit)
        w->job->edit(startup, main);
    if (w->job->model)
        FL_TRY(fl_job_begin_with(fl_transpiler_job(k->transpiler),
                                 w->job->model, &(fl_load_wish){ 0 }));
    FL_TRY(fl_run(k->exe, startup, NULL));
    return fl_run(k->exe, main, NULL);
}

/* The last barrier lets everybody look at the model before servers go. */
static fl_status be_trainer(const local_cluster *w, kit_trainer *k)
{
    fl_program *p;
    fl_status st = transpile(w, k, FL_ROLE_WORKER);

    if (!st && w->job->model && serves(w->job))
        st = fl_job_begin_with(fl_transpiler_job(k->transpiler), w->job->model,
                               &(fl_load_wish){ 0 });
    p = st ? NULL : fl_transpiler_trainer_startup(k->transpiler);
    st = p ? fl_run(k->exe, p, NULL) : FL_ERR_INVAL;
    if (!st && w->job->model)
        st = fl_job_load_own(fl_transpiler_job(k->transpiler), w->job->model);
    if (!st)
        st = w->work(k, w->arg);
    if (!st)
        st = fl_job_barrier(fl_transpiler_job(k->transpiler));
    if (!st && k->rank == 0 && w->end) {
        st = take_awaited(k, &w->end->model);
        if (!st)
            st = fl_job_hash(fl_transpiler_job(k->transpiler), &w->end->hash);
        w->end->first_loss = k->first_loss;
        w->end->last_loss = k->last_loss;
        w->end->step = fl_scope_step(fl_current_scope(k->ctx));
    }
    if (!st)
        st = fl_job_stop(fl_transpiler_job(k->transpiler));
    if (w->end && k->transpiler) {
        w->end->stats[k->rank] = FL_INIT(fl_job_stats);
        must(fl_job_get_stats(fl_transpiler_job(k->transpiler),
                              &w->end->stats[k->rank]));
    }
    return st;
}

static void live(void *arg)
{
    member *m = arg;
    kit_trainer k = { .job = m->local_cluster->job, .rank = m->rank };
    fl_status st = m->is_server ? be_server(m->local_cluster, &k, m->rank)
                                : be_trainer(m->local_cluster, &k);

    leave_text(m, st);
    fl_transpiler_free(k.transpiler);
    fl_executor_free(k.exe);
    fl_ctx_free(k.ctx);
}

static void hear_nothing(void *arg, fl_log_level level, const char *area,
                         const char *text)
{
    (void)arg;
    (void)level;
    (void)area;
    (void)text;
}

void kit_member(const kit_job *j, const char *addresses, kit_role role,
                int rank, kit_work work, void *arg, kit_text text)
{
    local_cluster w = { .job = j, .work = work, .arg = arg };
    member m = { .local_cluster = &w,
                 .rank = rank,
                 .is_server = role == KIT_SERVER,
                 .text = text };

    snprintf(w.addresses, sizeof(w.addresses), "%s", addresses);
    live(&m);
}

void kit_run(const kit_job *j, kit_work work, void *arg, kit_end *out,
             kit_text texts[KIT_MEMBERS])
{
    int n_servers = serves(j) ? 0 : j->n_servers ? j->n_servers : 1;
    int n = n_servers + n_trainers_of(j);
    local_cluster w = {
        .job = j, .work = work, .arg = arg, .end = out, .texts = texts
    };
    member members[KIT_MEMBERS] = { 0 };

    assert_true(n <= KIT_MEMBERS);
    alarm(HANGS_S);
    if (!getenv("FL_TEST_LOUD"))
        fl_log_set(hear_nothing, NULL, FL_LOG_WARN);
    kit_addresses(w.addresses, sizeof(w.addresses), n_servers ? n_servers : n);
    for (int i = 0; i < n; i++) {
        members[i] = (member){ .local_cluster = &w,
                               .rank = i < n_servers ? i : i - n_servers,
                               .is_server = i < n_servers,
                               .text = texts[i] };
        assert_ok(
            fl_thread_start(&members[i].thread, "member", live, &members[i]));
    }
    for (int i = 0; i < n; i++)
        fl_thread_join(members[i].thread);
    alarm(0);
}

void kit_train(const kit_job *j, kit_end *out)
{
    kit_text texts[KIT_MEMBERS] = { 0 };

    memset(out, 0, sizeof(*out));
    kit_run(j, train_steps, NULL, out, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("member %d: %s", i, texts[i]);
}

fl_status kit_do_nothing(kit_trainer *t, void *arg)
{
    (void)t;
    (void)arg;
    return FL_OK;
}

void kit_begin_with(kit_job like, const char *dir, const char *mode,
                    int n_servers, kit_model *out)
{
    kit_text texts[KIT_MEMBERS] = { 0 };
    kit_end end;

    memset(&end, 0, sizeof(end));
    like.mode = mode;
    like.n_servers = n_servers;
    like.model = dir;
    kit_run(&like, kit_do_nothing, NULL, &end, texts);
    for (int i = 0; i < KIT_MEMBERS; i++)
        if (texts[i][0])
            fail_msg("member %d: %s", i, texts[i]);
    *out = end.model;
}

/* --- addresses ------------------------------------------------------------ */

void kit_addresses(char *out, size_t cap, int n)
{
    size_t len = 0;

    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(out + len, cap - len, "%s127.0.0.1:%u",
                                i ? "," : "", free_port());
}
