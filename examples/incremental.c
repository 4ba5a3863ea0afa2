/* incremental.c - incremental training: a job goes on from what an earlier one has
 * saved, on as many servers and trainers as it likes.
 *
 *     incremental PSERVER|TRAINER ID HOST:PORT,... TRAINERS STEPS PATH [parallel]
 *
 * Trainer 0 saves the persistent variables to PATH when it is done. A server
 * loads what is there, after its startup program and before it serves. With
 * `parallel` trainers run a ParallelExecutor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flotilla/dist.h>
#include <flotilla/flotilla.h>
#include <flotilla/io.h>

enum { BATCH = 16, X_DIM = 8, SERVERS_MAX = 16 };

static float x[BATCH][X_DIM], y[BATCH][1];

typedef struct member {
    const char *training_role, *pserver_endpoints, *path;
    int id, trainers, steps;
    bool is_parallel;
    char current_endpoint[128]; /* of a server */
    fl_ctx *ctx;
    fl_executor *exe;
    fl_transpiler *t;
    fl_var *cost;
} member;

static void check(bool is_good)
{
    if (!is_good)
        fprintf(stderr, "incremental: %s\n", fl_last_error()), exit(1);
}

static void define_network(member *m)
{
    fl_optimizer *adam = NULL;
    fl_var *in = fl_layers_data(m->ctx, "x", FL_DTYPE_F32, 2,
                                (int64_t[]){ -1, X_DIM }, 0);
    fl_var *label =
        fl_layers_data(m->ctx, "y", FL_DTYPE_F32, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *h = fl_layers_fc(in, 16, .act = "tanh");

    m->cost =
        fl_layers_mean(fl_layers_square_error_cost(fl_layers_fc(h, 1), label));
    check(!fl_optimizer_new(&adam, m->ctx, "adam", "learning_rate=0.01") &&
          !fl_minimize(adam, m->cost));
}

/* The servers of the job are numbered in the order of the list. */
static void find_endpoint(member *m)
{
    const char *at = m->pserver_endpoints;

    for (int i = 0; i < m->id && at; i++)
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    if (!at)
        fprintf(stderr, "incremental: there is no server %d\n", m->id), exit(1);
    snprintf(m->current_endpoint, sizeof(m->current_endpoint), "%.*s",
             (int)strcspn(at, ","), at);
}

static void serve(member *m)
{
    fl_program *pserver_prog, *pserver_startup;
    char current[4200];

    find_endpoint(m);
    check(!fl_transpile(&m->t, m->ctx, .role = FL_ROLE_SERVER,
                        .pservers = m->pserver_endpoints,
                        .n_trainers = m->trainers, .mode = "sync"));
    pserver_prog = fl_transpiler_server(m->t, m->current_endpoint);
    pserver_startup = fl_transpiler_startup(m->t, m->current_endpoint);
    check(pserver_prog && pserver_startup);
    check(!fl_run(m->exe, pserver_startup, NULL));
    snprintf(current, sizeof(current), "%s/CURRENT", m->path);
    if (!access(current, R_OK))
        check(!fl_load_persistables(m->exe, m->path, pserver_prog));
    check(!fl_run(m->exe, pserver_prog, NULL));
}

/* The same for every step of a trainer, whenever it is made: y = sin of a sum. */
static void gen_data(const member *m, uint64_t step)
{
    unsigned seed = (unsigned)(step * 64 + (uint64_t)m->id + 1);

    for (int i = 0; i < BATCH; i++) {
        y[i][0] = 0;
        for (int j = 0; j < X_DIM; j++) {
            x[i][j] = (float)rand_r(&seed) / (float)RAND_MAX - 0.5f;
            y[i][0] += x[i][j] * (float)(j % 3 - 1);
        }
    }
}

static float train_step(member *m, fl_parallel_executor *pe, uint64_t step)
{
    fl_feed feeds[] = {
        { "x", fl_tensor_of(FL_DTYPE_F32, x, 2, (int64_t[]){ BATCH, X_DIM }) },
        { "y", fl_tensor_of(FL_DTYPE_F32, y, 2, (int64_t[]){ BATCH, 1 }) },
    };
    const char *cost = fl_var_name(m->cost);
    fl_tensor val[SERVERS_MAX];
    fl_run_args args = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2,
                               .fetches = &cost, .n_fetches = 1, .out = val);

    gen_data(m, step);
    check(!(pe ? fl_parallel_executor_run(pe, &args)
               : fl_run(m->exe, fl_transpiler_trainer(m->t), &args)));
    return *(float *)val[0].data;
}

static void train(member *m)
{
    fl_exec_strategy two = FL_INIT(fl_exec_strategy, .n_replicas = 2);
    fl_parallel_executor *pe = NULL;
    uint64_t first = 0;
    float cost = 0;

    check(!fl_transpile(&m->t, m->ctx, .trainer_id = m->id,
                        .pservers = m->pserver_endpoints,
                        .n_trainers = m->trainers, .mode = "sync"));
    check(!fl_run(m->exe, fl_transpiler_trainer_startup(m->t), NULL));
    check(!fl_job_step(fl_transpiler_job(m->t), 0, &first));
    if (m->is_parallel)
        check(!fl_parallel_executor_new(&pe, m->ctx, fl_var_name(m->cost),
                                        fl_transpiler_trainer(m->t), NULL,
                                        &two));
    for (int i = 0; i < m->steps; i++)
        cost = train_step(m, pe, first + (uint64_t)i);
    printf("trainer %d steps %d to %d cost %.9g\n", m->id, (int)first,
           (int)first + m->steps, cost);
    if (m->id == 0)
        check(!fl_save_persistables(m->exe, m->path, NULL));
    fl_parallel_executor_free(pe);
    check(!fl_job_stop(fl_transpiler_job(m->t)));
}

int main(int argc, char **argv)
{
    member m = { 0 };

    if (argc < 7) {
        fprintf(stderr, "usage: incremental PSERVER|TRAINER ID HOST:PORT,... "
                        "TRAINERS STEPS PATH [parallel]\n");
        return 2;
    }
    m.training_role = argv[1];
    m.id = (int)strtol(argv[2], NULL, 10);
    m.pserver_endpoints = argv[3];
    m.trainers = (int)strtol(argv[4], NULL, 10);
    m.steps = (int)strtol(argv[5], NULL, 10);
    m.path = argv[6];
    m.is_parallel = argc > 7 && !strcmp(argv[7], "parallel");
    check(!fl_ctx_new(&m.ctx) && !fl_executor_new(&m.exe, m.ctx));
    define_network(&m);
    if (!strcmp(m.training_role, "PSERVER"))
        serve(&m);
    else
        train(&m);
    fl_transpiler_free(m.t);
    fl_executor_free(m.exe);
    fl_ctx_free(m.ctx);
    return 0;
}
