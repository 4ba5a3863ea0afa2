/* test_online.c - saves for prediction that are deltas: of all that changed, and
 * of the rows that have gained enough. */
#include "delta_kit.h"

#include "ckpt/version.h"

/* A row has a score of 0.1 for each time that it is pushed. */
static const fl_layers_embedding_args counted = {
    .size = sizeof(fl_layers_embedding_args),
    .is_sparse = true,
    .is_distributed = true,
    .accessor = "ctr",
    .table = "embedx_threshold=0 base_threshold=0.15 delta_threshold=0.25",
    .param = { .name = "emb" },
};

typedef struct saved {
    fl_manifest_kind kind;
    uint64_t rows;
} saved;

static saved save(kit_net *n, const char *dir, bool by_score)
{
    const char *feeds[] = { "s0", "s1", "x" };
    const char *targets[] = { fl_var_name(n->score) };
    fl_model_version *v;
    saved s;

    assert_ok(fl_save_inference_model(n->e, dir, .feeds = feeds, .n_feeds = 3,
                                      .targets = targets, .n_targets = 1,
                                      .by_score = by_score, .delta = true));
    assert_ok(fl_version_open(&v, dir));
    assert_ok(fl_version_verify(v));
    s = (saved){ v->manifest.kind, v->manifest.tables.data[0].rows };
    fl_version_close(v);
    return s;
}

/* What is in the folder scores as the program does, for ids of some batches. */
static void expect_scores(kit_net *n, const char *dir)
{
    float expected[KIT_BATCH];
    fl_predictor *p;
    fl_model *m;

    assert_ok(fl_model_open(&m, dir));
    assert_ok(fl_predictor_new(&p, m));
    for (uint32_t seed = 0; seed < 10; seed++) {
        kit_batch b;
        fl_tensor t;

        kit_batch_draw(&b, seed);
        kit_expect(n, &b, expected);
        assert_ok(fl_predictor_run(p, b.feeds, 3, &t, 1));
        assert_memory_equal(t.data, expected, sizeof(expected));
    }
    fl_predictor_free(p);
    fl_model_close(m);
}

static void a_delta_has_what_changed_and_is_the_whole_model(void **state)
{
    kit_net n = kit_net_new(&kit_in_table);
    saved first, next;
    char dir[256];

    (void)state;
    kit_path("changed", dir);
    kit_train(&n, 1, 20);
    first = save(&n, dir, false);
    assert_int_equal(first.kind, FL_MANIFEST_INFERENCE);
    for (uint32_t i = 0; i < 3; i++) {
        kit_train(&n, 50 + i, 1);
        next = save(&n, dir, false);
        assert_int_equal(next.kind, FL_MANIFEST_DELTA);
        assert_true(next.rows > 0 && next.rows < first.rows);
        expect_scores(&n, dir);
    }
    assert_int_equal(save(&n, dir, false).rows, 0);
    kit_net_free(&n);
}

static void a_delta_by_score_has_rows_that_gained_enough_once(void **state)
{
    kit_net n = kit_net_new(&counted);
    saved base, delta;
    char dir[256];

    (void)state;
    kit_path("score", dir);
    kit_train(&n, 1, 20);
    base = save(&n, dir, true);
    assert_int_equal(base.kind, FL_MANIFEST_INFERENCE);
    kit_train(&n, 1, 2); /* below the threshold, most of them */
    delta = save(&n, dir, true);
    assert_int_equal(delta.kind, FL_MANIFEST_DELTA);
    assert_true(delta.rows < base.rows);
    kit_train(&n, 1, 2); /* the same again: together they reach it */
    assert_true(save(&n, dir, true).rows > delta.rows);
    assert_int_equal(save(&n, dir, true).rows, 0); /* scores are spent */
    kit_net_free(&n);
}

/* A save that fails spends nothing. */
static void scores_stay_when_the_save_does_not_stand(void **state)
{
    const char *feeds[] = { "s0", "s1", "x" };
    kit_net n = kit_net_new(&counted);
    const char *targets[] = { fl_var_name(n.score) };
    char dir[256], file[256];
    saved first, second;
    FILE *f;

    (void)state;
    f = fopen(kit_path("file", file), "w");
    assert_non_null(f);
    fclose(f);
    kit_train(&n, 1, 20);
    kit_path("stays", dir);
    first = save(&n, dir, true);
    kit_train(&n, 1, 20);
    assert_int_not_equal(
        fl_save_inference_model(n.e, file, .feeds = feeds, .n_feeds = 3,
                                .targets = targets, .n_targets = 1,
                                .by_score = true, .delta = true),
        FL_OK);
    second = save(&n, dir, true);
    assert_int_equal(second.kind, FL_MANIFEST_DELTA);
    assert_true(second.rows > first.rows / 2);
    kit_net_free(&n);
}

/* The rows have their scores with them. */
static void another_process_goes_on_by_score(void **state)
{
    kit_net a = kit_net_new(&counted), b = kit_net_new(&counted);
    char online[256], model[256];
    saved base, delta;

    (void)state;
    kit_path("online", online);
    kit_path("model", model);
    kit_train(&a, 1, 20);
    base = save(&a, online, true);
    kit_train(&a, 1, 4);
    assert_ok(fl_save_persistables(a.e, model, NULL));
    assert_ok(fl_load_persistables(b.e, model, NULL));
    delta = save(&b, online, true);
    assert_int_equal(delta.kind, FL_MANIFEST_DELTA);
    assert_true(delta.rows > 0 && delta.rows < base.rows);
    assert_int_equal(save(&b, online, true).rows, 0);
    kit_net_free(&b);
    kit_net_free(&a);
}

static void what_cannot_be_a_delta_is_a_whole_save(void **state)
{
    kit_net a = kit_net_new(&kit_in_table), b = kit_net_new(&kit_in_table);
    char dir[256], trained[256];

    (void)state;
    kit_path("whole", dir);
    kit_path("trained", trained);
    kit_train(&a, 1, 5);
    kit_train(&b, 1, 5);
    (void)save(&a, dir, false);
    /* Another context, which does not know what changed. */
    assert_int_equal(save(&b, dir, false).kind, FL_MANIFEST_INFERENCE);
    /* That is no longer what the first one has saved. */
    assert_int_equal(save(&a, dir, false).kind, FL_MANIFEST_INFERENCE);
    /* A model to train on. */
    assert_ok(fl_save_persistables(a.e, trained, NULL));
    assert_int_equal(save(&a, trained, false).kind, FL_MANIFEST_INFERENCE);
    kit_net_free(&b);
    kit_net_free(&a);
}

static void a_predictor_takes_deltas_by_score(void **state)
{
    kit_net n = kit_net_new(&counted);
    fl_predictor *p;
    fl_model *m;
    char dir[256];
    kit_batch b;
    fl_tensor t;

    (void)state;
    kit_path("taken", dir);
    kit_train(&n, 1, 20);
    (void)save(&n, dir, true);
    assert_ok(fl_model_open(&m, dir));
    assert_ok(fl_predictor_new(&p, m));
    for (uint32_t i = 0; i < 3; i++) {
        kit_train(&n, 1, 4);
        (void)save(&n, dir, true);
        assert_ok(fl_model_refresh(m));
        assert_int_equal(kit_stats(m).versions, i + 1);
    }
    kit_batch_draw(&b, 1);
    assert_ok(fl_predictor_run(p, b.feeds, 3, &t, 1));
    fl_predictor_free(p);
    fl_model_close(m);
    kit_net_free(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delta_has_what_changed_and_is_the_whole_model),
        cmocka_unit_test(a_delta_by_score_has_rows_that_gained_enough_once),
        cmocka_unit_test(scores_stay_when_the_save_does_not_stand),
        cmocka_unit_test(another_process_goes_on_by_score),
        cmocka_unit_test(what_cannot_be_a_delta_is_a_whole_save),
        cmocka_unit_test(a_predictor_takes_deltas_by_score),
    };

    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
