/* test_strategy.c - what strategies take, refuse, show, and which mode and
 * settings follow from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cjson/cJSON.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "fleet/strategy.h"
#include "flotilla/flotilla.h"
#include "../make.h"

static const char *source_root;

static const char *const kinds[] = {
#define FL_MODE(name) #name,
#include "mode/modes.def"
#undef FL_MODE
    "a_sync",
};

typedef struct world {
    fl_ctx *ctx;
    fl_fleet *fleet;
} world;

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

static world open_world(void)
{
    world w = { .ctx = make_ctx() };
    fl_role_args alone = FL_INIT(fl_role_args, .worker_num = 1);

    assert_non_null(w.ctx);
    assert_ok(fl_fleet_init(&w.fleet, w.ctx, &alone));
    return w;
}

static void close_world(world *w)
{
    fl_fleet_free(w->fleet);
    fl_ctx_free(w->ctx);
}

/* Each test starts from an environment that says nothing. */
static int clear_env(void **state)
{
    (void)state;
    unsetenv("CPU_NUM");
    unsetenv("FLOTILLA_CPU_NUM");
    unsetenv("FLAGS_communicator_send_queue_size");
    unsetenv("FLOTILLA_MIN_BLOCK_SIZE");
    return 0;
}

static void assert_error_has(const char *part)
{
    if (!strstr(fl_last_error(), part))
        fail_msg("'%s' does not say '%s'", fl_last_error(), part);
}

static void refuses(fl_strategy *s, const char *words, const char *part)
{
    if (!fl_strategy_set(s, words))
        fail_msg("%s was taken", words);
    assert_error_has(part);
}

static void shows(fl_strategy *s, const char *line)
{
    char *text = fl_strategy_text(s);
    char *with = NULL;

    assert_true(asprintf(&with, "\n%s\n", line) > 0);
    if (!strstr(text, with))
        fail_msg("'%s' is not in:\n%s", line, text);
    free(with);
    fl_text_free(text);
}

static void shows_not(fl_strategy *s, const char *part)
{
    char *text = fl_strategy_text(s);

    if (strstr(text, part))
        fail_msg("'%s' is in:\n%s", part, text);
    fl_text_free(text);
}

/* --- keys ----------------------------------------------------------------- */

static void every_key_takes_its_value_or_says_who_uses_it(void **state)
{
    world w = open_world();

    (void)state;
    for (size_t k = 1; k < FL_LEN(kinds); k++) /* behind local */
        for (size_t i = 0; i < fl_n_strategy_rows; i++) {
            const fl_strategy_row *row = &fl_strategy_rows[i];
            fl_strategy *s = make_strategy(w.fleet, kinds[k]);
            char words[200], name[FL_STRATEGY_NAME_MAX];
            const char *full = fl_strategy_row_text(row, name);

            if (!(row->kinds & s->kinds)) {
                assert_null(fl_strategy_get(s, full));
                assert_error_has("belongs to");
                continue;
            }
            snprintf(words, sizeof(words), "%s=%s", full,
                     fl_strategy_get(s, full));
            if (fl_strategy_row_is_used(row, s->mode))
                assert_ok(fl_strategy_set(s, words));
            else
                refuses(s, words, "is not used in mode");
        }
    close_world(&w);
}

static void the_page_names_every_key(void **state)
{
    char path[4096], cell[FL_STRATEGY_NAME_MAX];
    char *page = NULL;
    size_t len;

    (void)state;
    snprintf(path, sizeof(path), "%s/docs/fleet.md", source_root);
    assert_ok(fl_file_read(path, 1 << 20, &page, &len));
    for (size_t i = 0; i < fl_n_strategy_rows; i++) {
        snprintf(cell, sizeof(cell), "\n| `%s` | ", fl_strategy_rows[i].name);
        if (!strstr(page, cell))
            fail_msg("%s has no row for %s", path, fl_strategy_rows[i].name);
    }
    fl_free(page);
}

static void unknown_names_get_the_nearest_right_one(void **state)
{
    world w = open_world();
    fl_strategy *s = make_strategy(w.fleet, "async");

    (void)state;
    refuses(s, "min_blok_size=1", "did you mean min_block_size?");
    refuses(s, "program_confg.min_block_size=1",
            "did you mean program_config?");
    refuses(s, "build_strategy.min_block_size=1",
            "no key 'min_block_size' in build_strategy");
    assert_null(fl_strategy_get(s, "send_queue"));
    assert_int_equal(fl_strategy_new(&s, w.fleet, "asynch"), FL_ERR_NOTFOUND);
    assert_error_has("did you mean async?");
    close_world(&w);
}

static void a_name_of_two_groups_wants_its_group(void **state)
{
    world w = open_world();
    fl_strategy *s = make_strategy(w.fleet, "collective");

    (void)state;
    refuses(s, "k_steps=2",
            "say gradient_merge_configs.k_steps or localsgd_configs.k_steps");
    assert_ok(fl_strategy_set(s, "gradient_merge_configs.k_steps=2 "
                                 "localsgd_configs.k_steps=3 avg=false"));
    assert_string_equal(fl_strategy_get(s, "gradient_merge_configs.k_steps"),
                        "2");
    refuses(s, "localsgd_configs.begin_step=2", "begin with the first one");
    refuses(s, "amp=true", "set precision=bf16 or auto");
    close_world(&w);
}

/* Where every worker has all dense parameters nothing is put on servers. */
static void workers_alone_refuse_what_places_blocks_on_servers(void **state)
{
    static const char *const words[] = { "min_block_size=81920",
                                         "slice_var_up=false",
                                         "split_method=round_robin" };
    fl_program_config c = FL_INIT(fl_program_config);
    world w = open_world();
    fl_strategy *s = make_strategy(w.fleet, "collective");

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        refuses(s, words[i], "is not used in mode collective, only in sync");
    assert_ok(fl_strategy_get_program_config(s, &c));
    c.gradient_weight = "samples";
    assert_ok(fl_strategy_set_program_config(s, &c));
    assert_string_equal(fl_strategy_get(s, "gradient_weight"), "samples");
    close_world(&w);
}

static void words_that_are_no_words_are_refused(void **state)
{
    world w = open_world();
    fl_strategy *s = make_strategy(w.fleet, "async");

    (void)state;
    refuses(s, "min_block_size", "name=value");
    refuses(s, "=3", "name=value");
    refuses(s, "min_block_size=", "''");
    refuses(s, "min_block_size=x", "'x'");
    refuses(s, "split_method=hsah", "did you mean hash?");
    refuses(s, "communicator_thread_pool_size=0", "1..256");
    close_world(&w);
}

static void several_words_are_set_together_or_not_at_all(void **state)
{
    world w = open_world();
    fl_strategy *s = make_strategy(w.fleet, "async");

    (void)state;
    assert_ok(fl_strategy_set(
        s, "min_block_size=81920, split_method=round_robin prefetch=false"));
    assert_string_equal(fl_strategy_get(s, "min_block_size"), "81920");
    assert_string_equal(fl_strategy_get(s, "split_method"), "round_robin");
    assert_string_equal(fl_strategy_get(s, "prefetch"), "false");
    refuses(s, "min_block_size=7 split_method=wrong", "split_method");
    assert_string_equal(fl_strategy_get(s, "min_block_size"), "81920");
    assert_ok(fl_strategy_set(s, ""));
    close_world(&w);
}

static void keys_without_a_meaning_are_refused_with_the_reason(void **state)
{
    world w = open_world();
    fl_strategy *s = make_strategy(w.fleet, "a_sync");

    (void)state;
    refuses(s, "use_ps_gpu=1", "CPUs");
    refuses(s, "a_sync_configs.heter_worker_device_guard=cpu", "CPUs");
    refuses(s, "program_config.half_async=true", "kind of the strategy");
    refuses(s, "build_strategy.fuse_bn_act_ops=true", "passes");
    refuses(s, "rpc_get_thread_num=12", "server_threads");
    refuses(s, "launch_barrier=false", "always wait");
    assert_ok(fl_strategy_set(s, "launch_barrier=true"));
    s = make_strategy(w.fleet, "sync");
    refuses(s, "use_thread_barrier=true", "the mode says");
    refuses(s, "communicator_send_queue_size=3", "only in async");
    refuses(s, "send_queue_size=3", "communicator_send_queue_size");
    close_world(&w);
}

/* --- defaults and where values come from ---------------------------------- */

static void a_strategy_is_told_to_programs_with_types(void **state)
{
    world w = open_world();
    fl_strategy *s = make_strategy(w.fleet, "async");
    const cJSON *item;
    bool has_it = false;
    char *text;
    cJSON *root;

    (void)state;
    assert_ok(fl_strategy_set(s, "communicator_thread_pool_size=7"));
    text = fl_strategy_json(s);
    root = cJSON_ParseWithOpts(text, NULL, 1);
    assert_non_null(root);
    assert_string_equal(cJSON_GetObjectItem(root, "mode")->valuestring,
                        "async");
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(root, "error")));
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(root, "values"))
    {
        if (strcmp(cJSON_GetObjectItem(item, "name")->valuestring,
                   "communicator_thread_pool_size"))
            continue;
        has_it = true;
        assert_int_equal(cJSON_GetObjectItem(item, "value")->valueint, 7);
        assert_string_equal(cJSON_GetObjectItem(item, "from")->valuestring,
                            "call");
    }
    assert_true(has_it);
    cJSON_Delete(root);
    fl_text_free(text);
    close_world(&w);
}

static void factories_follow_cpu_num(void **state)
{
    fl_exec_strategy exec = FL_INIT(fl_exec_strategy);
    fl_build_strategy build = FL_INIT(fl_build_strategy);
    fl_strategy *s;
    world w;

    (void)state;
    setenv("CPU_NUM", "3", 1);
    w = open_world();
    s = make_strategy(w.fleet, "async");
    shows(s, "mode async");
    shows(s, "trainer_runtime_config.communicator_send_queue_size = 3 "
             "(environment)");
    shows(s, "trainer_runtime_config.communicator_max_merge_var_num = 3 "
             "(environment)");
    shows(s, "trainer_runtime_config.communicator_thread_pool_size = 5 "
             "(default)");
    shows(s, "execute_strategy.num_threads = 3 (environment)");
    shows(s, "execute_strategy.num_replicas = 3 (environment)");
    shows(s, "build_strategy.reduce_strategy = reduce (environment)");
    must(fl_strategy_get_execute_strategy(s, &exec));
    assert_int_equal(exec.n_threads, 3);
    assert_int_equal(exec.n_replicas, 3);
    must(fl_strategy_get_build_strategy(s, &build));
    assert_int_equal(build.reduce_strategy, FL_REPLICA_REDUCE);
    assert_int_equal(build.gradient_scale_strategy, FL_SCALE_COEFF_NUM_DEVICE);
    assert_ok(fl_strategy_set(s, "reduce_strategy=all_reduce"));
    must(fl_strategy_get_build_strategy(s, &build));
    assert_int_equal(build.reduce_strategy, FL_REPLICA_ALL_REDUCE);
    shows(s, "build_strategy.reduce_strategy = all_reduce (call)");
    close_world(&w);
}

static void one_replica_needs_no_reduce(void **state)
{
    world w = open_world();
    fl_strategy *s = make_strategy(w.fleet, "sync");

    (void)state;
    shows(s, "build_strategy.reduce_strategy = all_reduce (default)");
    shows(s, "execute_strategy.num_threads = 1 (default)");
    assert_ok(fl_strategy_set(s, "num_replicas=4"));
    shows(s, "build_strategy.reduce_strategy = reduce (call)");
    shows(s, "execute_strategy.num_threads = 4 (call)");
    close_world(&w);
}

static void a_sync_has_defaults_of_its_own(void **state)
{
    world w = open_world();
    fl_strategy *s = make_strategy(w.fleet, "a_sync");

    (void)state;
    shows(s, "mode async");
    shows(s, "a_sync = true (default)");
    shows(s, "a_sync_configs.k_steps = 0 (default)");
    shows(s, "a_sync_configs.max_merge_var_num = 1 (default)");
    shows(s, "a_sync_configs.send_queue_size = 16 (default)");
    shows(s, "a_sync_configs.independent_recv_thread = false (default)");
    shows(s, "a_sync_configs.min_send_grad_num_before_recv = 1 (default)");
    shows(s, "a_sync_configs.thread_pool_size = 1 (default)");
    shows(s, "a_sync_configs.send_wait_times = 1 (default)");
    shows(s, "a_sync_configs.launch_barrier = true (default)");
    shows_not(s, "communicator_send_queue_size");
    assert_string_equal(fl_strategy_get(s, "communicator_send_queue_size"),
                        "16");
    close_world(&w);
}

static void a_value_comes_from_the_last_who_gave_it(void **state)
{
    fl_strategy *s;
    world w;

    (void)state;
    setenv("FLAGS_communicator_send_queue_size", "7", 1);
    setenv("FLOTILLA_MIN_BLOCK_SIZE", "100", 1);
    w = open_world();
    s = make_strategy(w.fleet, "a_sync");
    shows(s, "a_sync_configs.send_queue_size = 7 (environment)");
    shows(s, "program_config.min_block_size = 100 (environment)");
    assert_ok(fl_ctx_set(w.ctx, "min_block_size", "200"));
    shows(s, "program_config.min_block_size = 200 (call)");
    assert_ok(fl_strategy_set(s, "min_block_size=300 send_queue_size=9"));
    shows(s, "program_config.min_block_size = 300 (call)");
    shows(s, "a_sync_configs.send_queue_size = 9 (call)");
    close_world(&w);
}

/* --- structs -------------------------------------------------------------- */

static void groups_are_set_by_struct(void **state)
{
    world w = open_world();
    fl_strategy *s = make_strategy(w.fleet, "geo");
    fl_server_runtime_config server =
        FL_INIT(fl_server_runtime_config, .server_threads = 6);
    fl_program_config c = FL_INIT(fl_program_config);

    (void)state;
    must(fl_strategy_get_program_config(s, &c));
    assert_int_equal(c.min_block_size, 8192);
    assert_true(c.slice_var_up);
    assert_string_equal(c.split_method, "hash");
    assert_string_equal(c.gradient_weight, "mean");
    assert_int_equal(c.geo_sgd_need_push_nums, 100);
    c.min_block_size = 81920;
    c.geo_sgd_need_push_nums = 400;
    assert_ok(fl_strategy_set_program_config(s, &c));
    shows(s, "program_config.min_block_size = 81920 (call)");
    shows(s, "program_config.geo_sgd_need_push_nums = 400 (call)");
    shows(s, "program_config.slice_var_up = true (default)");
    assert_string_equal(fl_strategy_get(s, "update_frequency"), "400");
    c.gradient_weight = "sum";
    assert_int_equal(fl_strategy_set_program_config(s, &c), FL_ERR_INVAL);
    assert_error_has("gradient_weight is not used in mode geo, only in sync");
    assert_ok(fl_strategy_set_server_runtime_config(s, &server));
    must(fl_strategy_get_server_runtime_config(s, &server));
    assert_int_equal(server.server_threads, 6);
    close_world(&w);
}

static void a_struct_with_few_fields_is_taken(void **state)
{
    world w = open_world();
    fl_strategy *s = make_strategy(w.fleet, "async");
    fl_program_config c = FL_INIT(fl_program_config, .min_block_size = 81920,
                                  .slice_var_up = true);

    (void)state;
    assert_ok(fl_strategy_set_program_config(s, &c));
    shows(s, "program_config.min_block_size = 81920 (call)");
    shows(s, "program_config.split_method = hash (default)");
    close_world(&w);
}

static void the_runtime_of_trainers_is_set_by_struct(void **state)
{
    world w = open_world();
    fl_strategy *s = make_strategy(w.fleet, "async");
    fl_trainer_runtime_config c = FL_INIT(fl_trainer_runtime_config), got = c;

    (void)state;
    must(fl_strategy_get_trainer_runtime_config(s, &c));
    assert_int_equal(c.communicator_send_queue_size, 1);
    assert_true(c.communicator_independent_recv_thread);
    assert_true(c.communicator_is_sgd_optimizer && c.prefetch);
    c.communicator_send_queue_size = 11;
    c.communicator_is_sgd_optimizer = false;
    assert_string_equal(c.wire_pull, "f32");
    c.wire_pull = "bf16";
    c.wire_push = NULL;
    assert_ok(fl_strategy_set_trainer_runtime_config(s, &c));
    must(fl_strategy_get_trainer_runtime_config(s, &got));
    assert_int_equal(got.communicator_send_queue_size, 11);
    assert_int_equal(got.communicator_max_merge_var_num, 1);
    assert_int_equal(got.communicator_thread_pool_size, 5);
    assert_false(got.communicator_is_sgd_optimizer);
    assert_true(got.communicator_independent_recv_thread && got.prefetch);
    assert_string_equal(got.wire_pull, "bf16");
    assert_string_equal(got.wire_push, "f32");
    c.communicator_thread_pool_size = -1;
    assert_int_equal(fl_strategy_set_trainer_runtime_config(s, &c),
                     FL_ERR_INVAL);
    assert_error_has("communicator_thread_pool_size");
    /* A sync strategy takes back what it gave. */
    s = make_strategy(w.fleet, "sync");
    must(fl_strategy_get_trainer_runtime_config(s, &c));
    assert_ok(fl_strategy_set_trainer_runtime_config(s, &c));
    c.communicator_send_queue_size = 5;
    assert_int_equal(fl_strategy_set_trainer_runtime_config(s, &c),
                     FL_ERR_INVAL);
    close_world(&w);
}

static void build_and_execute_strategies_are_set_by_struct(void **state)
{
    world w = open_world();
    fl_strategy *s = make_strategy(w.fleet, "a_sync");
    fl_build_strategy b =
        FL_INIT(fl_build_strategy, .reduce_strategy = FL_REPLICA_REDUCE,
                .gradient_scale_strategy = FL_SCALE_ONE);
    fl_exec_strategy e =
        FL_INIT(fl_exec_strategy, .n_threads = 5, .n_replicas = 2);

    (void)state;
    assert_ok(fl_strategy_set_build_strategy(s, &b));
    assert_ok(fl_strategy_set_execute_strategy(s, &e));
    b = FL_INIT(fl_build_strategy);
    e = FL_INIT(fl_exec_strategy);
    must(fl_strategy_get_build_strategy(s, &b));
    must(fl_strategy_get_execute_strategy(s, &e));
    assert_int_equal(b.reduce_strategy, FL_REPLICA_REDUCE);
    assert_int_equal(b.gradient_scale_strategy, FL_SCALE_ONE);
    assert_int_equal(e.n_threads, 5);
    assert_int_equal(e.n_replicas, 2);
    b.reduce_strategy = (fl_reduce_strategy)9;
    assert_int_equal(fl_strategy_set_build_strategy(s, &b), FL_ERR_INVAL);
    close_world(&w);
}

/* --- modes ---------------------------------------------------------------- */

static void a_sync_and_k_steps_make_the_mode(void **state)
{
    static const struct {
        const char *words, *mode;
    } cases[] = {
        { "", "mode async" },
        { "a_sync=true", "mode async" },
        { "a_sync=false", "mode sync" },
        { "a_sync=true k_steps=100", "mode geo" },
        { "k_steps=100 a_sync=true", "mode geo" },
        { "a_sync_configs.half_async=true", "mode half_async" },
        { "a_sync=true half_async=true", "mode half_async" },
        { "auto=true", "mode chosen by fl_fleet_minimize" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++) {
        world w = open_world();
        fl_strategy *s = make_strategy(w.fleet, "a_sync");

        assert_ok(fl_strategy_set(s, cases[i].words));
        shows(s, cases[i].mode);
        close_world(&w);
    }
}

/* A network with one embedding of `height` rows; 0: of any id. */
static fl_status minimize(const world *w, fl_strategy *s, const char *optimizer,
                          int64_t height)
{
    static const int64_t dims[] = { -1, 1 };
    fl_var *ids = fl_layers_data(w->ctx, "ids", FL_DTYPE_I64, 2, dims, 1);
    fl_var *emb = height
                      ? fl_layers_embedding(ids, height, 8, .is_sparse = true)
                      : fl_layers_sparse_embedding(ids, 8);
    fl_var *loss =
        fl_layers_mean(fl_layers_fc(fl_layers_sequence_pool(emb, "sum"), 1));
    fl_optimizer *o = make_optimizer(w->ctx, optimizer, "learning_rate=0.1");

    assert_non_null(loss);
    assert_ok(fl_fleet_distributed_optimizer(w->fleet, o, s));
    return fl_fleet_minimize(w->fleet, loss);
}

static void contradictions_are_told_by_minimize(void **state)
{
    static const struct {
        const char *words, *says;
    } cases[] = {
        { "a_sync=false k_steps=10", "contradicts k_steps=10" },
        { "half_async=true k_steps=10", "half_async=true contradicts k_steps" },
        { "half_async=true a_sync=false",
          "half_async=true contradicts a_sync=false" },
        { "auto=true a_sync=true", "auto=true chooses the mode" },
        { "auto=true k_steps=3", "contradicts k_steps=3" },
        { "a_sync=false send_queue_size=3",
          "send_queue_size=3 is not used in mode sync" },
        { "k_steps=3 gradient_weight=sum",
          "gradient_weight=sum is not used in mode geo" },
        { "auto=true thread_pool_size=2",
          "thread_pool_size=2 is not used in mode geo" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++) {
        world w = open_world();
        fl_strategy *s = make_strategy(w.fleet, "a_sync");

        assert_ok(fl_strategy_set(s, cases[i].words));
        assert_int_equal(minimize(&w, s, "sgd", 1000), FL_ERR_INVAL);
        assert_error_has(cases[i].says);
        close_world(&w);
    }
}

static void auto_takes_geo_where_it_is_safe_and_small(void **state)
{
    static const struct {
        const char *optimizer;
        int64_t height;
        const char *mode;
    } cases[] = {
        { "sgd", 1000, "mode geo" },
        { "adam", 1000, "mode async" },
        { "sgd", INT64_C(1) << 25, "mode async" }, /* 1 GB of rows */
        { "sgd", (INT64_C(1) << 25) - 100, "mode geo" },
        { "sgd", 0, "mode async" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++) {
        world w = open_world();
        fl_strategy *s = make_strategy(w.fleet, "a_sync");

        assert_ok(fl_strategy_set(s, "auto=true"));
        assert_ok(minimize(&w, s, cases[i].optimizer, cases[i].height));
        shows(s, cases[i].mode);
        if (strstr(cases[i].mode, "geo")) {
            shows(s, "a_sync_configs.k_steps = 800 (default)");
            assert_string_equal(fl_ctx_get(w.ctx, "geo_need_push_nums"), "800");
        }
        close_world(&w);
    }
}

static void minimize_puts_the_values_into_the_settings(void **state)
{
    world w = open_world();
    fl_strategy *s = make_strategy(w.fleet, "a_sync");

    (void)state;
    assert_ok(fl_strategy_set(s, "a_sync=true min_block_size=50"));
    assert_ok(minimize(&w, s, "sgd", 10));
    assert_string_equal(fl_ctx_get(w.ctx, "min_block_size"), "50");
    assert_string_equal(fl_ctx_get(w.ctx, "communicator_send_queue_size"),
                        "16");
    /* What it printed before is what it prints now. */
    shows(s, "a_sync_configs.send_queue_size = 16 (default)");
    shows(s, "program_config.min_block_size = 50 (call)");
    refuses(s, "min_block_size=7", "fl_fleet_minimize has made the programs");
    close_world(&w);
}

static void hear_nothing(void *arg, fl_log_level level, const char *area,
                         const char *text)
{
    (void)arg;
    (void)level;
    (void)area;
    (void)text;
}

#define TEST(name) cmocka_unit_test_setup(name, clear_env)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(every_key_takes_its_value_or_says_who_uses_it),
        TEST(the_page_names_every_key),
        TEST(unknown_names_get_the_nearest_right_one),
        TEST(a_name_of_two_groups_wants_its_group),
        TEST(workers_alone_refuse_what_places_blocks_on_servers),
        TEST(words_that_are_no_words_are_refused),
        TEST(several_words_are_set_together_or_not_at_all),
        TEST(keys_without_a_meaning_are_refused_with_the_reason),
        TEST(a_strategy_is_told_to_programs_with_types),
        TEST(factories_follow_cpu_num),
        TEST(one_replica_needs_no_reduce),
        TEST(a_sync_has_defaults_of_its_own),
        TEST(a_value_comes_from_the_last_who_gave_it),
        TEST(groups_are_set_by_struct),
        TEST(a_struct_with_few_fields_is_taken),
        TEST(the_runtime_of_trainers_is_set_by_struct),
        TEST(build_and_execute_strategies_are_set_by_struct),
        TEST(a_sync_and_k_steps_make_the_mode),
        TEST(contradictions_are_told_by_minimize),
        TEST(auto_takes_geo_where_it_is_safe_and_small),
        TEST(minimize_puts_the_values_into_the_settings),
    };

    if (argc != 2) {
        fprintf(stderr, "usage: %s SOURCE_ROOT\n", argv[0]);
        return 2;
    }
    source_root = argv[1];
    fl_log_set(hear_nothing, NULL, FL_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
