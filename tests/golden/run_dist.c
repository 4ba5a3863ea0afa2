/* run_dist.c - a job of one server and some trainers in sync mode, as the
 * compared system ran it: the same first values and batches must give the same
 * losses and parameters.
 *
 * The network is an embedding that all slots share, summed up per slot, with
 * dense numbers beside it, under fully connected layers. How many trainers,
 * slots and layers there are, and how wide they are, is read from the file:
 *
 *     init.emb, init.fcK_w, init.fcK_b       K from 1
 *     in.trainerR.sI (with lod0), in.trainerR.dense, in.trainerR.label
 *
 * Members are threads with contexts of their own. Only the main thread reports;
 * a member that fails leaves its sentence.
 */
#include "compare.h"
#include "flotilla/flotilla.h"
#include "../make.h"
#include "../ports.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TOLERANCE 1e-5

typedef struct dist_case {
    golden_case *c;
    char address[64];
    int n_trainers, n_slots, n_layers;
    int64_t n_steps, n_rows, height, width, n_dense;
    uint64_t *keys;     /* of all rows of the table */
    const char **names; /* fc1_w, fc1_b, fc2_w, ...: two for each layer */
    double learning_rate;
} dist_case;

typedef struct member {
    const dist_case *d;
    int rank; /* -1: the server */
    fl_ctx *ctx;
    fl_executor *executor;
    fl_var *loss;
    fl_transpiler *transpiler;
    double *losses;
    float **finals;    /* by names, and behind them the table */
    fl_feed *feeds;    /* the slots, dense, label */
    int64_t **offsets; /* of the slots */
    fl_var **inputs;   /* of the first layer */
    pthread_t thread;
    char failure[512];
} member;

static const st_tensor *find(const dist_case *d, const char *what,
                             const char *name)
{
    return st_find(&d->c->file, "%s%s", what, name);
}

/* --- the network ---------------------------------------------------------- */

static int n_params(const dist_case *d)
{
    return 2 * d->n_layers;
}

static fl_var *slot(fl_ctx *c, const dist_case *d, const char *name)
{
    return fl_layers_sequence_pool(
        fl_layers_embedding(
            fl_layers_data(c, name, FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 1),
            d->height, d->width, .is_sparse = true, .param = { .name = "emb" }),
        "sum");
}

static fl_var *join_slots(const member *m)
{
    const dist_case *d = m->d;

    for (int i = 0; i < d->n_slots; i++)
        m->inputs[i] = slot(m->ctx, d, m->feeds[i].name);
    m->inputs[d->n_slots] = fl_layers_data(m->ctx, "dense", FL_DTYPE_F32, 2,
                                           (int64_t[]){ -1, d->n_dense }, 0);
    return fl_layers_concat(m->inputs, (size_t)d->n_slots + 1, 1);
}

static fl_var *build(const member *m)
{
    const dist_case *d = m->d;
    fl_ctx *c = m->ctx;
    fl_var *h = join_slots(m);
    char words[64];
    fl_var *loss;

    for (int i = 0; i < d->n_layers; i++)
        h = fl_layers_fc(h, find(d, "init.", d->names[2 * i])->dims[1],
                         .act = i + 1 < d->n_layers ? "relu" : "softmax",
                         .param = { .name = d->names[2 * i] },
                         .bias = { .name = d->names[2 * i + 1] });
    loss = fl_layers_mean(
        fl_layers_cross_entropy(h, fl_layers_data(c, "label", FL_DTYPE_I64, 2,
                                                  (int64_t[]){ -1, 1 }, 0)));
    snprintf(words, sizeof(words), "learning_rate=%.9g", d->learning_rate);
    if (!loss || fl_minimize(make_optimizer(c, "sgd", words), loss))
        return NULL;
    return loss;
}

static fl_status transpile(member *m)
{
    m->ctx = make_ctx();
    m->executor = make_executor(m->ctx);
    m->loss = build(m);
    if (!m->loss)
        return FL_ERR_INVAL;
    return fl_transpile(&m->transpiler, m->ctx,
                        .role = m->rank < 0 ? FL_ROLE_SERVER : FL_ROLE_WORKER,
                        .trainer_id = m->rank < 0 ? 0 : m->rank,
                        .pservers = m->d->address,
                        .n_trainers = m->d->n_trainers, .mode = "sync");
}

/* --- a trainer ------------------------------------------------------------ */

static fl_status assign_all(member *m)
{
    fl_job *job = fl_transpiler_job(m->transpiler);
    const dist_case *d = m->d;
    fl_status st = FL_OK;
    int number;

    for (int i = 0; !st && i < n_params(d); i++) {
        st = fl_job_find_dense(job, d->names[i], &number);
        if (!st)
            st = fl_job_assign_dense(job, number,
                                     find(d, "init.", d->names[i])->data);
    }
    if (!st)
        st = fl_job_find_table(job, "emb", &number);
    if (!st)
        st = fl_job_assign(job, number, d->keys, (size_t)d->height,
                           find(d, "init.", "emb")->data);
    return st;
}

static fl_status fetch_all(member *m)
{
    fl_job *job = fl_transpiler_job(m->transpiler);
    const dist_case *d = m->d;
    fl_status st = FL_OK;
    int number;

    for (int i = 0; !st && i < n_params(d); i++) {
        st = fl_job_find_dense(job, d->names[i], &number);
        if (!st)
            st = fl_job_pull_dense(job, number, m->finals[i]);
    }
    if (!st)
        st = fl_job_find_table(job, "emb", &number);
    if (!st)
        st = fl_job_pull(job, number, d->keys, (size_t)d->height, FL_PULL_ONLY,
                         m->finals[n_params(d)]);
    return st;
}

static fl_tensor rows_of(const st_tensor *t, int64_t from, int64_t n,
                         int64_t width)
{
    size_t size = t->dtype == FL_DTYPE_F32 ? sizeof(float) : sizeof(int64_t);

    return FL_INIT(fl_tensor, .dtype = t->dtype,
                   .shape = { .rank = 2, .dim = { n, width } },
                   .data = (char *)t->data + (size_t)(from * width) * size);
}

/* Batch `step` of one slot: its offsets begin at 0 again. */
static fl_tensor slot_batch(const member *m, int i, int64_t step,
                            int64_t *offsets)
{
    const dist_case *d = m->d;
    const st_tensor *ids = st_find(&d->c->file, "in.trainer%d.s%d", m->rank, i);
    const int64_t *all =
        st_find(&d->c->file, "in.trainer%d.s%d.lod0", m->rank, i)->data;
    int64_t first = step * d->n_rows;
    fl_tensor t;

    for (int64_t k = 0; k <= d->n_rows; k++)
        offsets[k] = all[first + k] - all[first];
    t = rows_of(ids, all[first], offsets[d->n_rows], 1);
    t.n_lod = 1;
    t.lod[0] = offsets;
    t.lod_len[0] = d->n_rows + 1;
    return t;
}

static fl_status run_step(member *m, int64_t step)
{
    const dist_case *d = m->d;
    const char *loss = fl_var_name(m->loss);
    fl_tensor out;
    fl_run_args args = FL_INIT(fl_run_args, .feeds = m->feeds,
                               .n_feeds = (size_t)d->n_slots + 2,
                               .fetches = &loss, .n_fetches = 1, .out = &out);
    fl_status st;

    for (int i = 0; i < d->n_slots; i++)
        m->feeds[i].value = slot_batch(m, i, step, m->offsets[i]);
    m->feeds[d->n_slots].value =
        rows_of(st_find(&d->c->file, "in.trainer%d.dense", m->rank),
                step * d->n_rows, d->n_rows, d->n_dense);
    m->feeds[d->n_slots + 1].value =
        rows_of(st_find(&d->c->file, "in.trainer%d.label", m->rank),
                step * d->n_rows, d->n_rows, 1);
    st = fl_run(m->executor, fl_transpiler_trainer(m->transpiler), &args);
    if (!st)
        m->losses[step] = (double)*(const float *)out.data;
    return st;
}

static fl_status train(member *m)
{
    fl_status st = transpile(m);

    if (!st && m->rank == 0)
        st = assign_all(m);
    if (!st)
        st = fl_job_barrier(fl_transpiler_job(m->transpiler));
    if (!st)
        st = fl_run(m->executor, fl_transpiler_trainer_startup(m->transpiler),
                    NULL);
    for (int64_t step = 0; !st && step < m->d->n_steps; step++)
        st = run_step(m, step);
    if (!st && m->rank == 0)
        st = fetch_all(m);
    return st ? st : fl_job_stop(fl_transpiler_job(m->transpiler));
}

/* --- the server ----------------------------------------------------------- */

static fl_status serve(member *m)
{
    fl_status st = transpile(m);

    if (!st)
        st = fl_run(m->executor,
                    fl_transpiler_startup(m->transpiler, m->d->address), NULL);
    if (!st)
        st = fl_run(m->executor,
                    fl_transpiler_server(m->transpiler, m->d->address), NULL);
    return st;
}

static void *live(void *arg)
{
    member *m = arg;

    if (m->rank < 0 ? serve(m) : train(m))
        snprintf(m->failure, sizeof(m->failure), "%s", fl_last_error());
    fl_transpiler_free(m->transpiler);
    fl_executor_free(m->executor);
    fl_ctx_free(m->ctx);
    return NULL;
}

/* --- the case ------------------------------------------------------------- */

/* How many tensors there are whose names follow the format from `first` on. */
static int count(const dist_case *d, const char *fmt, int first)
{
    int n = 0;

    while (st_find(&d->c->file, fmt, first + n))
        n++;
    return n;
}

/* What every trainer must have for every slot. */
static bool has_all_slots(const dist_case *d)
{
    for (int r = 0; r < d->n_trainers; r++)
        for (int i = 0; i < d->n_slots; i++)
            if (!st_find(&d->c->file, "in.trainer%d.s%d", r, i) ||
                !st_find(&d->c->file, "in.trainer%d.s%d.lod0", r, i))
                return false;
    return true;
}

static bool has_all_params(const dist_case *d)
{
    for (int i = 0; i < n_params(d); i++)
        if (!find(d, "init.", d->names[i]))
            return false;
    return d->n_layers > 0;
}

static void read_sizes(dist_case *d, const st_tensor *emb,
                       const st_tensor *dense)
{
    pool *p = &d->c->pool;

    d->height = emb->dims[0];
    d->width = emb->dims[1];
    d->n_steps = dense->dims[0];
    d->n_rows = dense->dims[1];
    d->n_dense = dense->dims[2];
    d->n_trainers = count(d, "in.trainer%d.dense", 0);
    d->n_slots = count(d, "in.trainer0.s%d", 0);
    d->n_layers = count(d, "init.fc%d_w", 1);
    d->names = pool_alloc(p, (size_t)(n_params(d) + 1) * sizeof(*d->names));
    for (int i = 0; i < n_params(d); i++)
        d->names[i] = pool_printf(p, "fc%d_%c", i / 2 + 1, i % 2 ? 'b' : 'w');
    d->keys = pool_alloc(p, (size_t)d->height * sizeof(*d->keys));
    for (int64_t i = 0; i < d->height; i++)
        d->keys[i] = (uint64_t)i;
}

static bool read_case(dist_case *d)
{
    const st_tensor *emb = find(d, "init.", "emb");
    const st_tensor *dense = find(d, "in.trainer0.", "dense");
    cJSON *hyper = case_json(d->c, "hyper");

    if (!hyper)
        return false;
    d->learning_rate = json_number(hyper, "learning_rate", 0.1);
    cJSON_Delete(hyper);
    if (emb && dense && dense->rank == 3)
        read_sizes(d, emb, dense);
    if (has_all_params(d) && has_all_slots(d))
        return true;
    case_fail(d->c, "it is no job that this runner knows");
    return false;
}

/* All memory is made here: the pool is the main thread's. */
static void make_member(const dist_case *d, member *m, int rank)
{
    pool *p = &d->c->pool;
    size_t n_slots = (size_t)d->n_slots;
    int n = n_params(d);

    *m = (member){ .d = d, .rank = rank };
    m->losses = pool_alloc(p, (size_t)d->n_steps * sizeof(double));
    m->finals = pool_alloc(p, (size_t)(n + 1) * sizeof(*m->finals));
    for (int i = 0; i <= n; i++)
        m->finals[i] = pool_alloc(
            p, (size_t)find(d, "init.", i < n ? d->names[i] : "emb")->numel *
                   sizeof(float));
    m->inputs = pool_alloc(p, (n_slots + 1) * sizeof(*m->inputs));
    m->offsets = pool_alloc(p, (n_slots + 1) * sizeof(*m->offsets));
    m->feeds = pool_alloc(p, (n_slots + 2) * sizeof(*m->feeds));
    for (int i = 0; i < d->n_slots; i++) {
        m->offsets[i] =
            pool_alloc(p, (size_t)(d->n_rows + 1) * sizeof(**m->offsets));
        m->feeds[i].name = pool_printf(p, "s%d", i);
    }
    m->feeds[n_slots].name = "dense";
    m->feeds[n_slots + 1].name = "label";
}

static void run_members(const dist_case *d, member *m)
{
    for (int i = 0; i <= d->n_trainers; i++) {
        make_member(d, &m[i], i - 1);
        if (pthread_create(&m[i].thread, NULL, live, &m[i]))
            case_fail(d->c, "there can be no thread");
    }
    for (int i = 0; i <= d->n_trainers; i++)
        pthread_join(m[i].thread, NULL);
}

static void compare_all(const dist_case *d, const member *m)
{
    fl_tensor got;

    for (int i = 0; i <= n_params(d); i++) {
        const char *name = i < n_params(d) ? d->names[i] : "emb";
        const st_tensor *want = find(d, "fleet_sync.server.final.", name);

        got = st_view(want);
        got.data = m[1].finals[i];
        compare_tensor(d->c, name, &got, want, TOLERANCE);
    }
    for (int r = 0; r < d->n_trainers; r++) {
        const st_tensor *want =
            st_find(&d->c->file, "fleet_sync.trainer%d.loss", r);
        double *w =
            pool_alloc(&d->c->pool, (size_t)d->n_steps * sizeof(double));

        for (int64_t i = 0; i < d->n_steps; i++)
            w[i] = st_at(want, i);
        compare_numbers(d->c, want->name, m[r + 1].losses, w, d->n_steps,
                        TOLERANCE);
    }
}

void run_dist(golden_case *c)
{
    dist_case d = { .c = c };
    member *m;

    if (!read_case(&d))
        return;
    m = pool_alloc(&c->pool, (size_t)(d.n_trainers + 1) * sizeof(*m));
    snprintf(d.address, sizeof(d.address), "127.0.0.1:%u", free_port());
    run_members(&d, m);
    for (int i = 0; i <= d.n_trainers; i++)
        if (m[i].failure[0])
            case_fail(c, "%s %d: %s", i ? "trainer" : "server", m[i].rank,
                      m[i].failure);
    if (!c->n_failures)
        compare_all(&d, m);
}
