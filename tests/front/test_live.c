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
        cmocka_unit_test(without_a_job_there_are_no_rows),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
