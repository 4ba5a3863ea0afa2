/* test_fleet.c - whole jobs in the orders that users know. Members are threads
 * with contexts of their own; roles come from an environment per member, or
 * from the user. */
#include "../dist/dist_kit.h"
#include "../dist/mode_list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/fleet.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "../make.h"

#define WIDTH 32
#define ROWS 16
#define STEPS 60
#define MEMBERS 4
#define HANGS_S 120

typedef struct local_fleet local_fleet;
typedef struct member {
    const local_fleet *local_fleet;
    bool is_server;
    int rank;
    fl_ctx *ctx;
    fl_executor *exe;
    fl_fleet *fleet;
    fl_var *cost;
    const char *mode; /* that the strategy came to */
    double first_loss, last_loss;
    kit_text text; /* "" for a good end */
    fl_thread *thread;
} member;

/* What every member of a job does. */
struct local_fleet {
    fl_status (*live)(member *m);
    int n_servers, n_workers;
    const char *kind, *words; /* of the strategy */
    char addresses[256];
    member *members;
};

/* --- the network of the examples ------------------------------------------ */

static fl_var *mlp(fl_ctx *c)
{
    fl_var *x =
        fl_layers_data(c, "x", FL_DTYPE_F32, 2, (int64_t[]){ -1, WIDTH }, 0);
    fl_var *y =
        fl_layers_data(c, "y", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *h =
        fl_layers_fc(fl_layers_fc(x, 16, .act = "tanh"), 16, .act = "tanh");

    return fl_layers_mean(
        fl_layers_cross_entropy(fl_layers_fc(h, 2, .act = "softmax"), y));
}

typedef struct batch {
    float x[ROWS * WIDTH];
    int64_t y[ROWS];
    fl_feed feeds[2];
} batch;

/* Samples of two kinds that a few numbers tell apart. */
static void gen_data(batch *b, int rank, int step)
{
    for (int i = 0; i < ROWS; i++) {
        uint64_t at = ((uint64_t)rank << 40) + ((uint64_t)step << 20) +
                      (uint64_t)i * WIDTH;

        for (uint64_t k = 0; k < WIDTH; k++)
            b->x[i * WIDTH + (int)k] =
                (float)(fl_mix64(at + k + 1) % 1000) / 1000;
        b->y[i] = b->x[i * WIDTH] > 0.5F;
        b->x[i * WIDTH + 1] = (float)b->y[i];
    }
    b->feeds[0] =
        (fl_feed){ "x", FL_INIT(fl_tensor, .dtype = FL_DTYPE_F32,
                                .shape = { .rank = 2, .dim = { ROWS, WIDTH } },
                                .data = b->x) };
    b->feeds[1] =
        (fl_feed){ "y", FL_INIT(fl_tensor, .dtype = FL_DTYPE_I64,
                                .shape = { .rank = 2, .dim = { ROWS, 1 } },
                                .data = b->y) };
}

/* One way to run a batch of a program. */
typedef fl_status (*run_fn)(void *how, const fl_run_args *args);

static fl_status train_by(member *m, run_fn run, void *how)
{
    const char *name = fl_var_name(m->cost);
    batch *b = calloc(1, sizeof(*b));
    fl_tensor out[MEMBERS];
    fl_run_args args = FL_INIT(fl_run_args, .feeds = b->feeds, .n_feeds = 2,
                               .fetches = &name, .n_fetches = 1, .out = out);
    fl_status st = FL_OK;

    for (int i = 0; !st && i < STEPS; i++) {
        gen_data(b, m->rank, i);
        st = run(how, &args);
        if (!st)
            m->last_loss = (double)*(const float *)out[0].data;
        if (i == 0)
            m->first_loss = m->last_loss;
    }
    free(b);
    return st;
}

typedef struct plain {
    fl_executor *exe;
    fl_program *program;
} plain;

static fl_status run_plain(void *how, const fl_run_args *args)
{
    const plain *p = how;

    return fl_run(p->exe, p->program, args);
}

static fl_status train(member *m, fl_program *program)
{
    plain p = { m->exe, program };

    return train_by(m, run_plain, &p);
}

/* --- a job ---------------------------------------------------------------- */

/* The variables that a launcher gives to a member. */
static const char *get_variable(void *arg, const char *name)
{
    static const char *const numbers[] = { "0", "1", "2", "3" };
    const member *m = arg;

    if (!strcmp(name, "PADDLE_PSERVERS_IP_PORT_LIST"))
        return m->local_fleet->addresses;
    if (!strcmp(name, "TRAINING_ROLE"))
        return m->is_server ? "PSERVER" : "TRAINER";
    if (!strcmp(name, "PADDLE_TRAINERS_NUM"))
        return numbers[m->local_fleet->n_workers];
    if (!strcmp(name, m->is_server ? "PADDLE_PSERVER_ID" : "PADDLE_TRAINER_ID"))
        return numbers[m->rank];
    return NULL;
}

static fl_status init_by_environment(member *m)
{
    return fl_fleet_init_from(&m->fleet, m->ctx, get_variable, m);
}

static fl_status init_by_user(member *m)
{
    fl_role_args role =
        FL_INIT(fl_role_args, .current_id = m->rank,
                .role = m->is_server ? FL_ROLE_SERVER : FL_ROLE_WORKER,
                .worker_num = m->local_fleet->n_workers,
                .server_endpoints = m->local_fleet->addresses);

    return fl_fleet_init(&m->fleet, m->ctx, &role);
}

/* strategy, distributed_optimizer, minimize. */
static fl_status distribute(member *m)
{
    fl_strategy *s = make_strategy(m->fleet, m->local_fleet->kind);
    fl_optimizer *o = make_optimizer(m->ctx, "sgd", "learning_rate=0.1");

    if (!s || !o ||
        fl_strategy_set(s,
                        m->local_fleet->words ? m->local_fleet->words : "") ||
        fl_fleet_distributed_optimizer(m->fleet, o, s))
        return FL_ERR_INVAL;
    if (fl_fleet_minimize(m->fleet, m->cost))
        return FL_ERR_INVAL;
    m->mode = s->mode->name;
    return FL_OK;
}

static fl_status serve(member *m)
{
    fl_status st = fl_fleet_init_server(m->fleet, NULL);

    return st ? st : fl_fleet_run_server(m->fleet);
}

static void be_member(void *arg)
{
    member *m = arg;
    fl_status st = FL_ERR_INVAL;

    m->ctx = make_ctx();
    if (m->ctx && !fl_ctx_set(m->ctx, "seed", "7")) {
        m->exe = make_executor(m->ctx);
        st = m->local_fleet->live(m);
    }
    (void)snprintf(m->text, sizeof(m->text), "%s", st ? fl_last_error() : "");
    fl_fleet_free(m->fleet);
    fl_executor_free(m->exe);
    fl_ctx_free(m->ctx);
}

static void hear_nothing(void *arg, fl_log_level level, const char *area,
                         const char *text)
{
    (void)arg;
    (void)level;
    (void)area;
    (void)text;
}

static void run_job(local_fleet *t, member members[MEMBERS])
{
    int n = t->n_servers + t->n_workers;

    assert_true(n <= MEMBERS);
    memset(members, 0, sizeof(*members) * MEMBERS);
    alarm(HANGS_S);
    kit_addresses(t->addresses, sizeof(t->addresses), t->n_servers);
    for (int i = 0; i < n; i++) {
        members[i].local_fleet = t;
        members[i].is_server = i < t->n_servers;
        members[i].rank = i < t->n_servers ? i : i - t->n_servers;
        assert_ok(fl_thread_start(&members[i].thread, "member", be_member,
                                  &members[i]));
    }
    for (int i = 0; i < n; i++)
        fl_thread_join(members[i].thread);
    alarm(0);
    for (int i = 0; i < n; i++)
        if (members[i].text[0])
            fail_msg("%s %d (%s): %s",
                     members[i].is_server ? "server"
                                          : "work"
                                            "er",
                     members[i].rank, t->kind, members[i].text);
}

/* Batches here take less time than a message: async workers run far ahead of
   their parameters, so of their loss no more is promised than a number. */
static void expect_learnt(const member *m)
{
    bool is_stale = !strcmp(m->mode, "async");

    if (!isfinite(m->last_loss) ||
        (!is_stale && !(m->last_loss < m->first_loss)))
        fail_msg("%s: the loss went from %g to %g", m->mode, m->first_loss,
                 m->last_loss);
}

static void run_and_expect_learnt(local_fleet *t)
{
    member members[MEMBERS];

    run_job(t, members);
    for (int i = 0; i < t->n_workers; i++)
        expect_learnt(&members[t->n_servers + i]);
}

/* --- the orders of the examples ------------------------------------------- */

/* Strategy and role, minimize; init_worker, startup, train, stop_worker. */
static fl_status live_by_factory(member *m)
{
    fl_status st = init_by_environment(m);

    m->cost = mlp(m->ctx);
    if (!st)
        st = distribute(m);
    if (st)
        return st;
    if (fl_fleet_is_server(m->fleet))
        return serve(m);
    st = fl_fleet_init_worker(m->fleet);
    if (!st)
        st = fl_run(m->exe, fl_fleet_startup_program(m->fleet), NULL);
    if (!st)
        st = train(m, fl_fleet_main_program(m->fleet));
    return st ? st : fl_fleet_stop_worker(m->fleet);
}

static void all_factories_train_with_init_worker_first(void **state)
{
    (void)state;
    for (size_t i = 0; mode_name(i); i++) {
        local_fleet t = { .live = live_by_factory,
                          .n_servers = 2,
                          .n_workers = 2,
                          .kind = mode_name(i),
                          .words = i == 3 ? "update_frequency=4" : "" };

        run_and_expect_learnt(&t);
    }
}

/* The network first, then the role; the default programs; no init_worker and
   no stop_worker. */
static fl_status live_after_the_network(member *m, fl_status (*init)(member *))
{
    fl_status st;

    m->cost = mlp(m->ctx);
    st = init(m);
    if (!st)
        st = distribute(m);
    if (st)
        return st;
    if (fl_fleet_is_server(m->fleet))
        return serve(m);
    st = fl_run(m->exe, fl_default_startup_program(m->ctx), NULL);
    return st ? st : train(m, fl_default_main_program(m->ctx));
}

static fl_status live_by_environment(member *m)
{
    return live_after_the_network(m, init_by_environment);
}

static fl_status live_by_user(member *m)
{
    return live_after_the_network(m, init_by_user);
}

static void default_programs_train_without_init_and_stop(void **state)
{
    local_fleet t = { .live = live_by_environment,
                      .n_servers = 1,
                      .n_workers = 2,
                      .kind = "a_sync",
                      .words = "a_sync=true" };

    (void)state;
    run_and_expect_learnt(&t);
    t.live = live_by_user;
    t.n_servers = 2;
    run_and_expect_learnt(&t);
}

static void a_sync_reaches_every_mode(void **state)
{
    static const char *const words[] = { "a_sync=false",
                                         "a_sync_configs.half_async=true",
                                         "a_sync=true k_steps=4", "auto=true" };

    (void)state;
    for (size_t i = 0; i < FL_LEN(words); i++) {
        local_fleet t = { .live = live_by_environment,
                          .n_servers = 1,
                          .n_workers = 2,
                          .kind = "a_sync",
                          .words = words[i] };

        run_and_expect_learnt(&t);
    }
}

/* init, the model, a_sync=false; init_worker, fit. */
static fl_status live_with_fit(member *m)
{
    fl_status st = init_by_environment(m);

    m->cost = mlp(m->ctx);
    if (!st)
        st = distribute(m);
    if (st)
        return st;
    if (fl_fleet_is_server(m->fleet))
        return serve(m);
    st = fl_fleet_init_worker(m->fleet);
    if (!st)
        st = fl_run(m->exe, fl_fleet_startup_program(m->fleet), NULL);
    return st ? st : train(m, fl_fleet_main_program(m->fleet));
}

static void a_job_that_is_only_freed_ends_well(void **state)
{
    local_fleet t = { .live = live_with_fit,
                      .n_servers = 1,
                      .n_workers = 2,
                      .kind = "a_sync",
                      .words = "a_sync=false" };

    (void)state;
    run_and_expect_learnt(&t);
}

/* --- one process ---------------------------------------------------------- */

static const char *get_nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static fl_status init_alone(member *m)
{
    return fl_fleet_init_from(&m->fleet, m->ctx, get_nothing, NULL);
}

static fl_status live_alone(member *m)
{
    fl_status st = live_after_the_network(m, init_alone);

    if (!st)
        st = fl_fleet_init_worker(m->fleet);
    if (!st)
        st = fl_fleet_barrier_worker(m->fleet);
    if (!st &&
        (!fl_fleet_is_worker(m->fleet) || fl_fleet_is_server(m->fleet) ||
         !fl_fleet_is_first_worker(m->fleet) ||
         fl_fleet_worker_num(m->fleet) != 1 ||
         fl_fleet_worker_index(m->fleet) != 0 ||
         fl_fleet_server_num(m->fleet) != 0 || fl_fleet_transpiler(m->fleet)))
        st = fl_err_set(FL_ERR_INVAL, "it is not worker 0 of 1");
    return st ? st : fl_fleet_stop_worker(m->fleet);
}

static void a_single_process_trains_with_the_same_calls(void **state)
{
    (void)state;
    for (size_t i = 0; mode_name(i); i++) {
        local_fleet t = { .live = live_alone,
                          .n_workers = 1,
                          .kind = mode_name(i) };

        run_and_expect_learnt(&t);
    }
}

/* --- replicas ------------------------------------------------------------- */

static fl_status run_pe(void *how, const fl_run_args *args)
{
    return fl_parallel_executor_run(how, args);
}

typedef struct compiled {
    fl_executor *exe;
    fl_compiled_program *program;
} compiled;

static fl_status run_compiled(void *how, const fl_run_args *args)
{
    const compiled *c = how;

    return fl_run_compiled(c->exe, c->program, args);
}

static fl_status train_compiled(member *m, const fl_build_strategy *b,
                                const fl_exec_strategy *e)
{
    compiled c = { m->exe, make_compiled(fl_fleet_main_program(m->fleet)) };
    fl_status st = fl_compiled_program_with_data_parallel(
        c.program, fl_var_name(m->cost), b, e);

    if (!st && fl_compiled_program_replicas(c.program) != 2)
        st = fl_err_set(FL_ERR_INVAL, "there are not two replicas");
    if (!st)
        st = train_by(m, run_compiled, &c);
    fl_compiled_program_free(c.program);
    return st;
}

/* The default main program, which is the fleet's. */
static fl_status train_parallel(member *m, const fl_build_strategy *b,
                                const fl_exec_strategy *e)
{
    fl_parallel_executor *pe = NULL;
    fl_status st =
        fl_parallel_executor_new(&pe, m->ctx, fl_var_name(m->cost), NULL, b, e);

    if (!st)
        st = train_by(m, run_pe, pe);
    fl_parallel_executor_free(pe);
    return st;
}

/* Worker 0 has a CompiledProgram, worker 1 a ParallelExecutor. */
static fl_status live_in_replicas(member *m)
{
    fl_build_strategy b = FL_INIT(fl_build_strategy);
    fl_exec_strategy e = FL_INIT(fl_exec_strategy);
    fl_status st = fl_ctx_set(m->ctx, "cpu_num", "2");

    if (!st)
        st = init_by_environment(m);
    m->cost = mlp(m->ctx);
    if (!st)
        st = distribute(m);
    if (st)
        return st;
    if (fl_fleet_is_server(m->fleet))
        return serve(m);
    st = fl_run(m->exe, fl_fleet_startup_program(m->fleet), NULL);
    must(fl_strategy_get_build_strategy(m->fleet->strategy, &b));
    must(fl_strategy_get_execute_strategy(m->fleet->strategy, &e));
    if (!st)
        st = m->rank ? train_parallel(m, &b, &e) : train_compiled(m, &b, &e);
    return st ? st : fl_fleet_stop_worker(m->fleet);
}

static void replicas_train_in_every_mode(void **state)
{
    (void)state;
    for (size_t i = 0; mode_name(i); i++) {
        local_fleet t = { .live = live_in_replicas,
                          .n_servers = 1,
                          .n_workers = 2,
                          .kind = mode_name(i),
                          .words = i == 3 ? "geo_sgd_need_push_nums=4" : "" };

        run_and_expect_learnt(&t);
    }
}

/* --- the ends of a worker ------------------------------------------------- */

static fl_status expect_closed(member *m)
{
    if (fl_fleet_barrier_worker(m->fleet) != FL_ERR_CLOSED ||
        fl_fleet_init_worker(m->fleet) != FL_ERR_CLOSED)
        return fl_err_set(FL_ERR_INVAL, "a worker that left is still there");
    return FL_OK;
}

/* Worker 1 has nothing to do and says so at once. */
static fl_status live_unequally(member *m)
{
    fl_status st = init_by_environment(m);

    m->cost = mlp(m->ctx);
    if (!st)
        st = distribute(m);
    if (st)
        return st;
    if (fl_fleet_is_server(m->fleet))
        return serve(m);
    if (m->rank == 0) {
        st = fl_run(m->exe, fl_fleet_startup_program(m->fleet), NULL);
        if (!st)
            st = train(m, fl_fleet_main_program(m->fleet));
    }
    if (!st)
        st = fl_fleet_stop_worker(m->fleet);
    if (!st)
        st = fl_fleet_stop_worker(m->fleet); /* twice is fine */
    return st ? st : expect_closed(m);
}

static void a_worker_without_data_leaves_and_the_job_goes_on(void **state)
{
    local_fleet t = {
        .live = live_unequally, .n_servers = 1, .n_workers = 2, .kind = "async"
    };
    member members[MEMBERS];

    (void)state;
    run_job(&t, members);
    expect_learnt(&members[1]);
}

/* --- shrink --------------------------------------------------------------- */

static fl_var *table_net(fl_ctx *c)
{
    static const int64_t dims[] = { -1, 1 };
    fl_var *ids = fl_layers_data(c, "ids", FL_DTYPE_I64, 2, dims, 1);

    return fl_layers_mean(fl_layers_sequence_pool(
        fl_layers_sparse_embedding(ids, 4, .param = { .name = "emb" }), "sum"));
}

/* Ids 10 * rank .. 10 * rank + 2. */
static fl_status train_ids(member *m)
{
    int64_t ids[] = { m->rank * 10, m->rank * 10 + 1, m->rank * 10 + 2 };
    int64_t lod[] = { 0, 3 };
    fl_feed feed = { "ids", FL_INIT(fl_tensor, .dtype = FL_DTYPE_I64,
                                    .shape = { .rank = 2, .dim = { 3, 1 } },
                                    .data = ids, .n_lod = 1, .lod = { lod },
                                    .lod_len = { 2 }) };
    fl_run_args args = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1);
    fl_status st = fl_run(m->exe, fl_fleet_startup_program(m->fleet), NULL);

    return st ? st : fl_run(m->exe, fl_fleet_main_program(m->fleet), &args);
}

static fl_status live_and_shrink(member *m)
{
    uint64_t n = 9;
    fl_status st = init_by_environment(m);

    m->cost = table_net(m->ctx);
    if (!st)
        st = distribute(m);
    if (st)
        return st;
    if (fl_fleet_is_server(m->fleet))
        return serve(m);
    st = train_ids(m);
    if (!st)
        st = fl_fleet_barrier_worker(m->fleet);
    if (!st)
        st = fl_fleet_shrink(m->fleet, 0, &n);
    if (!strcmp(m->local_fleet->kind, "geo")) {
        if (m->rank == 0 && st == FL_ERR_INVAL)
            st = FL_OK;
        n = 0;
    }
    if (!st && n)
        st = fl_err_set(FL_ERR_INVAL, "%d rows went", (int)n);
    return st ? st : fl_fleet_stop_worker(m->fleet);
}

static void servers_shrink_except_where_workers_have_copies(void **state)
{
    (void)state;
    for (size_t i = 0; mode_name(i); i++) {
        local_fleet t = { .live = live_and_shrink,
                          .n_servers = 2,
                          .n_workers = 2,
                          .kind = mode_name(i) };
        member members[MEMBERS];

        run_job(&t, members);
    }
}

static fl_status forget(member *m)
{
    fl_table *t = NULL;
    uint64_t n = 9;
    fl_status st = fl_fleet_shrink(m->fleet, 1, &n);

    if (!st && n)
        st = fl_err_set(FL_ERR_INVAL, "rows of today went");
    if (!st)
        st = fl_ctx_table(m->ctx, "emb", &t);
    if (!st)
        fl_table_end_day(t);
    if (!st)
        st = fl_fleet_shrink(m->fleet, 1, &n);
    if (!st && n != 3)
        st = fl_err_set(FL_ERR_INVAL, "not three rows went, but %d", (int)n);
    if (!st && fl_fleet_shrink(m->fleet, -1, NULL) != FL_ERR_INVAL)
        st = fl_err_set(FL_ERR_INVAL, "-1 days were taken");
    return st;
}

static fl_status live_and_forget(member *m)
{
    fl_status st = init_alone(m);

    m->cost = table_net(m->ctx);
    if (!st)
        st = distribute(m);
    if (!st)
        st = train_ids(m);
    return st ? st : forget(m);
}

static void a_single_process_forgets_rows_that_it_does_not_see(void **state)
{
    local_fleet t = { .live = live_and_forget,
                      .n_workers = 1,
                      .kind = "async" };
    member members[MEMBERS];

    (void)state;
    run_job(&t, members);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_factories_train_with_init_worker_first),
        cmocka_unit_test(default_programs_train_without_init_and_stop),
        cmocka_unit_test(a_sync_reaches_every_mode),
        cmocka_unit_test(a_job_that_is_only_freed_ends_well),
        cmocka_unit_test(a_single_process_trains_with_the_same_calls),
        cmocka_unit_test(replicas_train_in_every_mode),
        cmocka_unit_test(a_worker_without_data_leaves_and_the_job_goes_on),
        cmocka_unit_test(servers_shrink_except_where_workers_have_copies),
        cmocka_unit_test(a_single_process_forgets_rows_that_it_does_not_see),
    };

    if (!getenv("FL_TEST_LOUD"))
        fl_log_set(hear_nothing, NULL, FL_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
