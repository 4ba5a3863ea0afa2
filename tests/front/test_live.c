/* test_live.c - rows of a saved model from the servers of a job. */
#include "../api/job_kit.h"
#include "../serve/serve_kit.h"

#include "flotilla/serving.h"

static const fl_layers_embedding_args in_table = {
    .size = sizeof(fl_layers_embedding_args),
    .is_sparse = true,
    .is_distributed = true,
    .param = { .name = "emb" },
};

static kit_net net;
static char model[256];

/* Rows that are neither those of the files nor first values. */
static void make_rows(uint64_t *keys, float *values)
{
    for (int i = 0; i < KIT_HEIGHT; i++) {
        keys[i] = (uint64_t)i;
        for (int d = 0; d < KIT_WIDTH; d++)
            values[i * KIT_WIDTH + d] = (float)((i + d) % 17) / 17;
    }
}

static void score_live_rows(job *j, fl_job *p, int rank)
{
    static uint64_t keys[KIT_HEIGHT];
    static float values[KIT_HEIGHT * KIT_WIDTH];
    float expected[KIT_BATCH];
    fl_row_source *rows;
    fl_predictor *predictor;
    fl_model *m;
    fl_table *t;
    fl_tensor score;
    kit_batch b;
    int table;

    (void)j, (void)rank;
    make_rows(keys, values);
    assert_ok(fl_job_declare_table(p, "emb", "dim=8", &table));
    assert_ok(fl_job_start(p));
    assert_ok(fl_job_assign(p, table, keys, KIT_HEIGHT, values));
    assert_ok(fl_row_source_of_job(&rows, p));
    assert_ok(fl_model_open(&m, model, .rows = rows));
    assert_ok(fl_predictor_new(&predictor, m));
    kit_batch_draw(&b, 4);
    must(fl_ctx_table(net.c, "emb", &t));
    must(fl_table_assign(t, keys, KIT_HEIGHT, values));
    kit_expect(&net, &b, expected);
    assert_ok(fl_predictor_run(predictor, b.feeds, 3, &score, 1));
    assert_memory_equal(score.data, expected, sizeof(expected));
    assert_int_equal(kit_stats(m).missing_rows, 0);
    assert_true(kit_stats(m).rows > 0);
    fl_predictor_free(predictor);
    fl_model_close(m);
}

static void rows_come_from_live_servers(void **state)
{
    job j = { .n_servers = 2, .n_trainers = 1, .train = score_live_rows };

    (void)state;
    net = kit_net_new(&in_table);
    kit_train(&net, 1, 3);
    must(kit_save(&net, kit_path("live", model)));
    name_servers(&j);
    run_job(&j);
    kit_net_free(&net);
}

/* --- by who only looks ---------------------------------------------------- */

/* Half of the ids have a row; the others have what the rule says. */
static void look_at_rows(job *j, fl_job *p, int rank)
{
    static uint64_t keys[KIT_HEIGHT];
    static float values[KIT_HEIGHT * KIT_WIDTH];
    fl_ctx *c = new_ctx(j);
    float expected[KIT_BATCH];
    fl_row_source *rows;
    fl_predictor *predictor;
    fl_model *m;
    fl_table *t;
    fl_tensor score;
    kit_batch b;
    int table;

    (void)rank;
    make_rows(keys, values);
    assert_ok(fl_job_declare_table(p, "emb", "dim=8", &table));
    assert_ok(fl_job_start(p));
    assert_ok(fl_job_assign(p, table, keys, KIT_HEIGHT / 2, values));
    j->servers[strcspn(j->servers, ",")] = '\0'; /* server 0 knows the others */
    assert_ok(fl_row_source_of_servers(&rows, c, j->servers));
    assert_ok(fl_model_open(&m, model, .rows = rows));
    assert_ok(fl_predictor_new(&predictor, m));
    must(fl_ctx_table(net.c, "emb", &t));
    fl_table_clear(t);
    must(fl_table_assign(t, keys, KIT_HEIGHT / 2, values));
    for (uint32_t seed = 1; seed < 5; seed++) {
        kit_batch_draw(&b, seed);
        kit_expect(&net, &b, expected);
        assert_ok(fl_predictor_run(predictor, b.feeds, 3, &score, 1));
        assert_memory_equal(score.data, expected, sizeof(expected));
    }
    assert_in_range(kit_stats(m).missing_rows, 1, kit_stats(m).rows - 1);
    assert_ok(fl_job_hash(p, &j->hash));
    fl_predictor_free(predictor);
    fl_model_close(m);
    fl_ctx_free(c);
}

static void who_only_looks_sees_rows_and_makes_none(void **state)
{
    job j = { .n_servers = 2, .n_trainers = 1, .train = look_at_rows };

    (void)state;
    net = kit_net_new(&in_table);
    kit_train(&net, 1, 3);
    must(kit_save(&net, kit_path("looked", model)));
    name_servers(&j);
    run_job(&j);
    assert_all_well(&j);
    kit_net_free(&net);
}

static void look_at_another_model(job *j, fl_job *p, int rank)
{
    fl_ctx *c = new_ctx(j);
    fl_row_source *rows;
    fl_predictor *predictor;
    fl_model *m;
    fl_tensor score;
    kit_batch b;
    int table;

    (void)rank;
    assert_ok(fl_job_declare_table(p, j->n_trainers > 1 ? "other" : "emb",
                                   "dim=4", &table));
    assert_ok(fl_job_start(p));
    assert_ok(fl_row_source_of_servers(&rows, c, j->servers));
    assert_ok(fl_model_open(&m, model, .rows = rows));
    assert_ok(fl_predictor_new(&predictor, m));
    kit_batch_draw(&b, 1);
    assert_int_not_equal(fl_predictor_run(predictor, b.feeds, 3, &score, 1),
                         FL_OK);
    assert_said(j->n_trainers > 1 ? "the job has no table emb"
                                  : "the job trains another model");
    assert_ok(fl_job_barrier(p));
    fl_predictor_free(predictor);
    fl_model_close(m);
    fl_ctx_free(c);
}

static void a_job_that_trains_another_model_is_told_so(void **state)
{
    (void)state;
    net = kit_net_new(&in_table);
    must(kit_save(&net, kit_path("foreign", model)));
    for (int n = 1; n <= 2; n++) {
        job j = { .n_servers = 1,
                  .n_trainers = n,
                  .train = look_at_another_model };

        name_servers(&j);
        run_job(&j);
        assert_all_well(&j);
    }
    kit_net_free(&net);
}

static fl_row_source *left_behind;

static void open_and_leave(job *j, fl_job *p, int rank)
{
    fl_ctx *c = new_ctx(j);
    int table;

    (void)rank;
    assert_ok(fl_job_declare_table(p, "emb", "dim=8", &table));
    assert_ok(fl_job_start(p));
    assert_ok(fl_row_source_of_servers(&left_behind, c, j->servers));
    fl_ctx_free(c);
}

static void who_looks_is_told_that_the_job_is_over(void **state)
{
    job j = { .n_servers = 1,
              .n_trainers = 1,
              .settings = { { "restart_timeout_ms", "100" } },
              .train = open_and_leave };
    fl_predictor *predictor;
    fl_model *m;
    fl_tensor score;
    kit_batch b;

    (void)state;
    net = kit_net_new(&in_table);
    must(kit_save(&net, kit_path("over", model)));
    name_servers(&j);
    run_job(&j);
    assert_all_well(&j);
    assert_ok(fl_model_open(&m, model, .rows = left_behind));
    assert_ok(fl_predictor_new(&predictor, m));
    kit_batch_draw(&b, 1);
    assert_int_not_equal(fl_predictor_run(predictor, b.feeds, 3, &score, 1),
                         FL_OK);
    assert_said("server 0");
    fl_predictor_free(predictor);
    fl_model_close(m);
    kit_net_free(&net);
}

static void where_no_job_is_nothing_can_be_seen(void **state)
{
    fl_ctx *c = make_ctx();
    fl_row_source *rows;

    (void)state;
    assert_ok(fl_ctx_set(c, "connect_timeout_ms", "100"));
    assert_int_not_equal(
        fl_row_source_of_servers(&rows, c, "unix:/nowhere/at/all"), FL_OK);
    assert_said("/nowhere/at/all");
    assert_int_equal(fl_row_source_of_servers(&rows, c, NULL), FL_ERR_INVAL);
    assert_said("which job?");
    fl_ctx_free(c);
}

static void without_a_job_there_are_no_rows(void **state)
{
    fl_row_source *rows;

    (void)state;
    assert_int_equal(fl_row_source_of_job(&rows, NULL), FL_ERR_INVAL);
    assert_said("there is no job to take rows from");
}

static int setup(void **state)
{
    return make_folder(state) || kit_setup(state);
}

static int teardown(void **state)
{
    return remove_folder(state) || kit_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_from_live_servers),
        cmocka_unit_test(who_only_looks_sees_rows_and_makes_none),
        cmocka_unit_test(a_job_that_trains_another_model_is_told_so),
        cmocka_unit_test(who_looks_is_told_that_the_job_is_over),
        cmocka_unit_test(where_no_job_is_nothing_can_be_seen),
        cmocka_unit_test(without_a_job_there_are_no_rows),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
