/* run_dist.c - a job of one server and two trainers in sync mode, as the
 * compared system ran it: the same first values and batches must give the same
 * losses and parameters.
 *
 * Members are threads with contexts of their own. Only the main thread reports;
 * a member that fails leaves its sentence.
 */
#include "compare.h"
#include "flotilla/flotilla.h"
#include "../make.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_SLOTS 6
#define N_TRAINERS 2
#define N_FEEDS (N_SLOTS + 2)
#define TOLERANCE 1e-5
#define ROWS_MAX 255

static const char *const dense_params[] = { "fc1_w", "fc1_b", "fc2_w",
                                            "fc2_b", "fc3_w", "fc3_b" };
#define N_DENSE (sizeof(dense_params) / sizeof(*dense_params))

typedef struct dist_case {
    golden_case *c;
    char address[64];
    int64_t n_steps, n_rows, height, width, n_dense, hidden;
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
    float *finals[N_DENSE + 1]; /* the table behind the dense ones */
    pthread_t thread;
    char failure[512];
} member;

static const st_tensor *find(const dist_case *d, const char *what,
                             const char *name)
{
    return st_find(&d->c->file, "%s%s", what, name);
}

/* --- the network ---------------------------------------------------------- */

static fl_var *slot(fl_ctx *c, const dist_case *d, int i)
{
    char name[8];

    snprintf(name, sizeof(name), "s%d", i);
    return fl_layers_sequence_pool(
        fl_layers_embedding(
            fl_layers_data(c, name, FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 1),
            d->height, d->width, .is_sparse = true, .param = { .name = "emb" }),
        "sum");
}

static fl_var *build(fl_ctx *c, const dist_case *d)
{
    fl_var *x[N_SLOTS + 1], *h;
    char words[64];
    fl_var *loss;

    for (int i = 0; i < N_SLOTS; i++)
        x[i] = slot(c, d, i);
    x[N_SLOTS] = fl_layers_data(c, "dense", FL_DTYPE_F32, 2,
                                (int64_t[]){ -1, d->n_dense }, 0);
    h = fl_layers_concat(x, N_SLOTS + 1, 1);
    h = fl_layers_fc(h, d->hidden, .act = "relu", .param = { .name = "fc1_w" },
                     .bias = { .name = "fc1_b" });
    h = fl_layers_fc(h, d->hidden, .act = "relu", .param = { .name = "fc2_w" },
                     .bias = { .name = "fc2_b" });
    h = fl_layers_fc(h, 2, .act = "softmax", .param = { .name = "fc3_w" },
                     .bias = { .name = "fc3_b" });
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
    m->loss = build(m->ctx, m->d);
    if (!m->loss)
        return FL_ERR_INVAL;
    return fl_transpile(
        &m->transpiler, m->ctx, .trainer_id = m->rank < 0 ? 0 : m->rank,
        .pservers = m->d->address, .trainers = N_TRAINERS, .mode = "sync");
}

/* --- a trainer ------------------------------------------------------------ */

static fl_status assign_all(member *m, const uint64_t *keys)
{
    fl_status st = FL_OK;

    for (size_t i = 0; !st && i < N_DENSE; i++) {
        const st_tensor *v = find(m->d, "init.", dense_params[i]);

        st = fl_transpiler_assign(m->transpiler, dense_params[i], NULL,
                                  (size_t)v->numel, v->data);
    }
    if (!st)
        st = fl_transpiler_assign(m->transpiler, "emb", keys,
                                  (size_t)m->d->height,
                                  find(m->d, "init.", "emb")->data);
    return st;
}

static fl_status fetch_all(member *m, const uint64_t *keys)
{
    fl_status st = FL_OK;

    for (size_t i = 0; !st && i < N_DENSE; i++)
        st = fl_transpiler_fetch(
            m->transpiler, dense_params[i], NULL,
            (size_t)find(m->d, "init.", dense_params[i])->numel, m->finals[i]);
    if (!st)
        st = fl_transpiler_fetch(m->transpiler, "emb", keys,
                                 (size_t)m->d->height, m->finals[N_DENSE]);
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
    static const char *const names[N_FEEDS] = { "s0", "s1", "s2",    "s3",
                                                "s4", "s5", "dense", "label" };
    const dist_case *d = m->d;
    const char *loss = fl_var_name(m->loss);
    int64_t offsets[N_SLOTS][ROWS_MAX + 1];
    fl_feed feeds[N_FEEDS];
    fl_tensor out;
    fl_run_args args = { .feeds = feeds,
                         .n_feeds = N_FEEDS,
                         .fetches = &loss,
                         .n_fetches = 1,
                         .out = &out };
    fl_status st;

    for (int i = 0; i < N_SLOTS; i++)
        feeds[i].value = slot_batch(m, i, step, offsets[i]);
    feeds[N_SLOTS].value =
        rows_of(st_find(&d->c->file, "in.trainer%d.dense", m->rank),
                step * d->n_rows, d->n_rows, d->n_dense);
    feeds[N_SLOTS + 1].value =
        rows_of(st_find(&d->c->file, "in.trainer%d.label", m->rank),
                step * d->n_rows, d->n_rows, 1);
    for (int i = 0; i < N_FEEDS; i++)
        feeds[i].name = names[i];
    st = fl_run(m->executor, fl_transpiler_trainer(m->transpiler), &args);
    if (!st)
        m->losses[step] = (double)*(const float *)out.data;
    return st;
}

static fl_status train(member *m)
{
    uint64_t keys[4096];
    fl_status st = transpile(m);

    for (uint64_t i = 0; i < (uint64_t)m->d->height; i++)
        keys[i] = i;
    if (!st && m->rank == 0)
        st = assign_all(m, keys);
    if (!st)
        st = fl_transpiler_barrier(m->transpiler);
    if (!st)
        st = fl_run(m->executor, fl_transpiler_trainer_startup(m->transpiler),
                    NULL);
    for (int64_t step = 0; !st && step < m->d->n_steps; step++)
        st = run_step(m, step);
    if (!st && m->rank == 0)
        st = fetch_all(m, keys);
    return st ? st : fl_transpiler_stop(m->transpiler);
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

static void find_address(char out[64])
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) ||
        getsockname(fd, (struct sockaddr *)&at, &len))
        perror("golden: a port");
    close(fd);
    snprintf(out, 64, "127.0.0.1:%u", ntohs(at.sin_port));
}

static bool read_case(dist_case *d)
{
    const st_tensor *emb = find(d, "init.", "emb");
    const st_tensor *w = find(d, "init.", "fc1_w");
    const st_tensor *dense = find(d, "in.trainer0.", "dense");
    cJSON *hyper = case_json(d->c, "hyper");

    if (!hyper)
        return false;
    d->learning_rate = json_number(hyper, "learning_rate", 0.1);
    cJSON_Delete(hyper);
    if (!emb || !w || !dense || dense->rank != 3 || emb->dims[0] > 4096 ||
        dense->dims[1] > ROWS_MAX) {
        case_fail(d->c, "it is no job that this runner knows");
        return false;
    }
    d->height = emb->dims[0];
    d->width = emb->dims[1];
    d->hidden = w->dims[1];
    d->n_steps = dense->dims[0];
    d->n_rows = dense->dims[1];
    d->n_dense = dense->dims[2];
    return true;
}

static void run_members(const dist_case *d, member m[N_TRAINERS + 1])
{
    pool *p = &d->c->pool;

    for (int i = 0; i <= N_TRAINERS; i++) {
        m[i] = (member){ .d = d, .rank = i - 1 };
        m[i].losses = pool_alloc(p, (size_t)d->n_steps * sizeof(double));
        for (size_t k = 0; k < N_DENSE; k++)
            m[i].finals[k] =
                pool_alloc(p, (size_t)find(d, "init.", dense_params[k])->numel *
                                  sizeof(float));
        m[i].finals[N_DENSE] =
            pool_alloc(p, (size_t)(d->height * d->width) * sizeof(float));
        if (pthread_create(&m[i].thread, NULL, live, &m[i]))
            case_fail(d->c, "there can be no thread");
    }
    for (int i = 0; i <= N_TRAINERS; i++)
        pthread_join(m[i].thread, NULL);
}

static void compare_all(const dist_case *d, const member *m)
{
    fl_tensor got;

    for (size_t i = 0; i <= N_DENSE; i++) {
        const char *name = i < N_DENSE ? dense_params[i] : "emb";
        const st_tensor *want = find(d, "fleet_sync.server.final.", name);

        got = st_view(want);
        got.data = m[1].finals[i];
        compare_tensor(d->c, name, &got, want, TOLERANCE);
    }
    for (int r = 0; r < N_TRAINERS; r++) {
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
    member m[N_TRAINERS + 1];

    if (!read_case(&d))
        return;
    find_address(d.address);
    run_members(&d, m);
    for (int i = 0; i <= N_TRAINERS; i++)
        if (m[i].failure[0])
            case_fail(c, "%s %d: %s", i ? "trainer" : "server", m[i].rank,
                      m[i].failure);
    if (!c->n_failures)
        compare_all(&d, m);
}
