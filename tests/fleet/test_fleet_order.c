/* test_fleet_order.c - default programs, and every order of calls that cannot
 * be: what should have come first is told. Nobody connects here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ftw.h>
#include <string.h>

#include "flotilla/fleet.h"
#include "flotilla/flotilla.h"
#include "../make.h"

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

static fl_var *mlp(fl_ctx *c)
{
    fl_var *x =
        fl_layers_data(c, "x", FL_DTYPE_F32, 2, (int64_t[]){ -1, 32 }, 0);
    fl_var *y =
        fl_layers_data(c, "y", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *h =
        fl_layers_fc(fl_layers_fc(x, 16, .act = "tanh"), 16, .act = "tanh");

    return fl_layers_mean(
        fl_layers_cross_entropy(fl_layers_fc(h, 2, .act = "softmax"), y));
}

typedef struct solo {
    fl_ctx *ctx;
    fl_fleet *fleet;
    fl_var *cost;
    fl_optimizer *optimizer;
} solo;

/* A member of a job that nobody else comes to; nothing connects before it
   runs. */
static solo open_solo(fl_role_kind kind)
{
    solo s = { .ctx = make_ctx() };
    fl_role_args role =
        FL_INIT(fl_role_args, .role = kind, .worker_num = 1,
                .server_endpoints = kind ? "127.0.0.1:6170" : "");

    assert_ok(fl_fleet_init(&s.fleet, s.ctx, &role));
    s.cost = mlp(s.ctx);
    s.optimizer = make_optimizer(s.ctx, "sgd", "learning_rate=0.1");
    return s;
}

static void minimize(solo *s)
{
    assert_ok(fl_fleet_distributed_optimizer(s->fleet, s->optimizer, NULL));
    assert_ok(fl_fleet_minimize(s->fleet, s->cost));
}

static void close_solo(solo *s)
{
    fl_fleet_free(s->fleet);
    fl_ctx_free(s->ctx);
}

static void default_programs_are_the_fleets_while_it_lives(void **state)
{
    solo s = open_solo(FL_ROLE_WORKER);
    fl_program *own = fl_default_main_program(s.ctx);
    fl_program *own_startup = fl_default_startup_program(s.ctx);
    fl_program *p;

    (void)state;
    minimize(&s);
    p = fl_fleet_main_program(s.fleet);
    assert_ptr_not_equal(p, own);
    assert_ptr_equal(p, fl_default_main_program(s.ctx));
    assert_ptr_equal(fl_fleet_startup_program(s.fleet),
                     fl_default_startup_program(s.ctx));
    assert_ptr_equal(p, fl_transpiler_trainer(fl_fleet_transpiler(s.fleet)));
    assert_non_null(fl_layers_data(s.ctx, "later", FL_DTYPE_F32, 2,
                                   (int64_t[]){ -1, 1 }, 0));
    assert_non_null(fl_program_var(own, "later"));
    assert_null(fl_program_var(p, "later"));
    fl_fleet_free(s.fleet);
    assert_ptr_equal(fl_default_main_program(s.ctx), own);
    assert_ptr_equal(fl_default_startup_program(s.ctx), own_startup);
    fl_ctx_free(s.ctx);
}

static void default_programs_of_a_single_process_are_its_own(void **state)
{
    solo s = open_solo(0);
    fl_program *own = fl_default_main_program(s.ctx);

    (void)state;
    minimize(&s);
    assert_ptr_equal(fl_fleet_main_program(s.fleet), own);
    assert_ptr_equal(fl_default_main_program(s.ctx), own);
    close_solo(&s);
}

static void refused(fl_status st, const char *part)
{
    assert_int_not_equal(st, FL_OK);
    if (!strstr(fl_last_error(), part))
        fail_msg("'%s' does not say '%s'", fl_last_error(), part);
}

static void programs_that_others_minimized_are_distributed(void **state)
{
    solo s = open_solo(FL_ROLE_WORKER), other = open_solo(FL_ROLE_WORKER);
    fl_program *main = fl_default_main_program(s.ctx);
    fl_program *startup = fl_default_startup_program(s.ctx);

    (void)state;
    assert_ok(fl_minimize(s.optimizer, s.cost));
    refused(fl_fleet_distribute(other.fleet, NULL, main, startup),
            "another context");
    refused(fl_fleet_distribute(s.fleet, make_strategy(other.fleet, "sync"),
                                main, startup),
            "another fleet");
    assert_ok(fl_fleet_distribute(s.fleet, NULL, main, startup));
    assert_ptr_equal(fl_fleet_main_program(s.fleet),
                     fl_transpiler_trainer(fl_fleet_transpiler(s.fleet)));
    refused(fl_fleet_distribute(s.fleet, NULL, main, startup), "made already");
    close_solo(&s);
    close_solo(&other);
}

/* --- orders that cannot be ------------------------------------------------ */

static void a_worker_is_told_what_comes_first(void **state)
{
    fl_optimizer *none = NULL;
    solo s = open_solo(FL_ROLE_WORKER);
    fl_fleet *again = NULL;
    fl_executor *exe;

    (void)state;
    refused(fl_fleet_init(&again, s.ctx, NULL), "has a fleet already");
    refused(fl_fleet_init_worker(s.fleet), "fl_fleet_minimize first");
    refused(fl_fleet_stop_worker(s.fleet), "fl_fleet_minimize first");
    refused(fl_fleet_barrier_worker(s.fleet), "fl_fleet_minimize first");
    assert_null(fl_fleet_main_program(s.fleet));
    refused(FL_ERR_INVAL, "fl_fleet_minimize first");
    assert_null(fl_fleet_startup_program(s.fleet));
    exe = make_executor(s.ctx);
    refused(fl_run(exe, fl_fleet_startup_program(s.fleet), NULL),
            "no program to run");
    fl_executor_free(exe);
    refused(fl_fleet_minimize(s.fleet, s.cost),
            "fl_fleet_distributed_optimizer first");
    refused(fl_fleet_distributed_optimizer(s.fleet, NULL, NULL),
            "fl_optimizer_new first");
    assert_int_not_equal(fl_optimizer_new(&none, s.ctx, "adma", ""), FL_OK);
    refused(fl_fleet_distributed_optimizer(s.fleet, none, NULL),
            "no optimizer is called 'adma'");
    minimize(&s);
    refused(fl_fleet_minimize(s.fleet, s.cost), "made already");
    refused(fl_fleet_distributed_optimizer(s.fleet, s.optimizer, NULL),
            "before that");
    refused(fl_fleet_init_server(s.fleet, NULL), "fl_fleet_is_server is true");
    refused(fl_fleet_run_server(s.fleet), "this process is worker 0");
    close_solo(&s);
}

static void a_server_is_told_what_comes_first(void **state)
{
    solo s = open_solo(FL_ROLE_SERVER);

    (void)state;
    assert_int_equal(fl_fleet_worker_index(s.fleet), -1);
    assert_int_equal(fl_fleet_server_index(s.fleet), 0);
    assert_string_equal(fl_fleet_server_endpoints(s.fleet), "127.0.0.1:6170");
    refused(fl_fleet_init_server(s.fleet, NULL), "fl_fleet_minimize first");
    minimize(&s);
    refused(fl_fleet_run_server(s.fleet), "fl_fleet_init_server first");
    refused(fl_fleet_init_worker(s.fleet), "fl_fleet_is_worker is true");
    refused(fl_fleet_stop_worker(s.fleet), "this process is server 0");
    refused(fl_fleet_barrier_worker(s.fleet), "this process is server 0");
    refused(fl_fleet_init_server(s.fleet, "no-such-model"), "no-such-model");
    assert_ok(fl_fleet_init_server(s.fleet, NULL));
    refused(fl_fleet_init_server(s.fleet, NULL), "fl_fleet_run_server now");
    close_solo(&s);
}

static void a_collective_worker_serves_by_itself(void **state)
{
    solo s = { .ctx = make_ctx() };
    fl_role_args role =
        FL_INIT(fl_role_args, .is_collective = true,
                .worker_endpoints = "127.0.0.1:6170,127.0.0.1:6171");

    (void)state;
    assert_ok(fl_fleet_init(&s.fleet, s.ctx, &role));
    s.cost = mlp(s.ctx);
    s.optimizer = make_optimizer(s.ctx, "sgd", "learning_rate=0.1");
    minimize(&s);
    assert_int_equal(fl_fleet_server_num(s.fleet), 0);
    assert_int_equal(fl_fleet_init_server(s.fleet, NULL), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "workers serve each other"));
    close_solo(&s);
}

static void a_job_with_servers_is_not_collective(void **state)
{
    solo s = open_solo(FL_ROLE_WORKER);

    (void)state;
    assert_ok(fl_fleet_distributed_optimizer(
        s.fleet, s.optimizer, make_strategy(s.fleet, "collective")));
    assert_int_equal(fl_fleet_minimize(s.fleet, s.cost), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "jobs of workers alone"));
    close_solo(&s);
}

static void one_process_merges_gradients_by_accumulating(void **state)
{
    solo s = open_solo(0);
    fl_strategy *merging = make_strategy(s.fleet, "collective");
    char *text;

    (void)state;
    assert_ok(fl_strategy_set(merging, "gradient_merge=true "
                                       "gradient_merge_configs.k_steps=4"));
    assert_ok(fl_fleet_distributed_optimizer(s.fleet, s.optimizer, merging));
    assert_ok(fl_fleet_minimize(s.fleet, s.cost));
    text = fl_program_to_text(fl_fleet_main_program(s.fleet));
    assert_non_null(strstr(text, "accumulate 4"));
    fl_text_free(text);
    close_solo(&s);
}

static void one_process_does_not_add_gradients_up(void **state)
{
    solo s = open_solo(0);
    fl_strategy *adding = make_strategy(s.fleet, "collective");

    (void)state;
    assert_ok(fl_strategy_set(adding, "gradient_merge=true avg=false "
                                      "gradient_merge_configs.k_steps=4"));
    assert_ok(fl_fleet_distributed_optimizer(s.fleet, s.optimizer, adding));
    assert_int_equal(fl_fleet_minimize(s.fleet, s.cost), FL_ERR_UNSUPPORTED);
    assert_non_null(strstr(fl_last_error(), "fleetrun --worker_num=1"));
    close_solo(&s);
}

static void a_single_process_is_told_how_to_get_servers(void **state)
{
    solo s = open_solo(0);

    (void)state;
    refused(fl_fleet_init_worker(s.fleet), "fl_fleet_minimize first");
    minimize(&s);
    refused(fl_fleet_init_server(s.fleet, NULL), "fleetrun --server_num=1");
    refused(fl_fleet_run_server(s.fleet), "PADDLE_PSERVERS_IP_PORT_LIST");
    close_solo(&s);
}

static void strangers_are_refused(void **state)
{
    solo a = open_solo(FL_ROLE_WORKER), b = open_solo(FL_ROLE_WORKER);
    fl_strategy *s = make_strategy(b.fleet, "sync");

    (void)state;
    refused(fl_fleet_distributed_optimizer(a.fleet, a.optimizer, s),
            "another fleet");
    assert_ok(fl_fleet_distributed_optimizer(a.fleet, a.optimizer, NULL));
    refused(fl_fleet_minimize(a.fleet, NULL), "build the network first");
    refused(fl_fleet_minimize(a.fleet, b.cost), "another context");
    close_solo(&a);
    close_solo(&b);
}

static void a_mode_that_cannot_train_the_program_says_so(void **state)
{
    solo s = open_solo(FL_ROLE_WORKER);
    fl_optimizer *adam = make_optimizer(s.ctx, "adam", NULL);
    fl_strategy *geo = make_strategy(s.fleet, "geo");

    (void)state;
    assert_ok(fl_fleet_distributed_optimizer(s.fleet, adam, geo));
    refused(fl_fleet_minimize(s.fleet, s.cost), "adam");
    refused(fl_fleet_init_worker(s.fleet), "fl_fleet_minimize has failed");
    close_solo(&s);
}

static int remove_one(const char *path, const struct stat *is, int type,
                      struct FTW *walk)
{
    (void)is;
    (void)type;
    (void)walk;
    return remove(path);
}

static void one_process_saves_and_loads_itself(void **state)
{
    char dir[] = "/tmp/fl_test_fleet_XXXXXX", model[64];
    solo s = open_solo(0);
    fl_executor *e = make_executor(s.ctx);

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(model, sizeof(model), "%s/model", dir);
    refused(fl_fleet_save_persistables(s.fleet, model),
            "fl_fleet_save_persistables: call fl_fleet_minimize first");
    minimize(&s);
    assert_ok(fl_run(e, fl_fleet_startup_program(s.fleet), NULL));
    refused(fl_fleet_load_model(s.fleet, dir), "is no model");
    assert_ok(fl_fleet_save_persistables(s.fleet, model));
    assert_ok(fl_fleet_load_model(s.fleet, model));
    refused(fl_fleet_save_inference_model(
                s.fleet, model, (const char *const[]){ "x" }, 1, &s.cost, 1),
            "is not among the feeds");
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    fl_executor_free(e);
    close_solo(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_programs_are_the_fleets_while_it_lives),
        cmocka_unit_test(default_programs_of_a_single_process_are_its_own),
        cmocka_unit_test(programs_that_others_minimized_are_distributed),
        cmocka_unit_test(a_worker_is_told_what_comes_first),
        cmocka_unit_test(a_server_is_told_what_comes_first),
        cmocka_unit_test(a_single_process_is_told_how_to_get_servers),
        cmocka_unit_test(a_collective_worker_serves_by_itself),
        cmocka_unit_test(a_job_with_servers_is_not_collective),
        cmocka_unit_test(one_process_merges_gradients_by_accumulating),
        cmocka_unit_test(one_process_does_not_add_gradients_up),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(a_mode_that_cannot_train_the_program_says_so),
        cmocka_unit_test(one_process_saves_and_loads_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
