/* test_predict.c - what is saved for prediction, and its scores. */
#include "serve_kit.h"

#include "base/alloc.h"
#include "base/file.h"
#include "ckpt/version.h"

static const fl_layers_embedding_args in_array = {
    .size = sizeof(fl_layers_embedding_args),
    .is_sparse = true,
    .param = { .name = "emb" },
};
static const fl_layers_embedding_args in_table = {
    .size = sizeof(fl_layers_embedding_args),
    .is_sparse = true,
    .is_distributed = true,
    .param = { .name = "emb" },
};

/* --- memory --------------------------------------------------------------- */

/* Where the allocator is not a sanitizer's, every call of it is counted. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static uint64_t count_calls(void)
{
    return fl_data_calls();
}
#else
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *p, size_t n);

static uint64_t n_calls;

void *malloc(size_t n)
{
    n_calls++;
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t bytes)
{
    n_calls++;
    return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t n)
{
    n_calls++;
    return __libc_realloc(p, n);
}

static uint64_t count_calls(void)
{
    return n_calls + fl_data_calls();
}
#endif

/* --- scores --------------------------------------------------------------- */

static void score(fl_predictor *p, const kit_batch *b, float out[KIT_BATCH])
{
    fl_tensor t;

    assert_ok(fl_predictor_run(p, b->feeds, 3, &t, 1));
    assert_int_equal(t.shape.dim[0], KIT_BATCH);
    memcpy(out, t.data, KIT_BATCH * sizeof(*out));
}

static void compare_scores(const fl_layers_embedding_args *args,
                           const char *name, bool in_memory)
{
    float expected[KIT_BATCH], got[KIT_BATCH];
    kit_net n = kit_net_new(args);
    fl_predictor *p;
    kit_batch b;
    fl_model *m;
    char dir[256];

    kit_train(&n, 1, 20);
    kit_path(name, dir);
    assert_ok(kit_save(&n, dir));
    assert_ok(fl_model_open(&m, dir, .verify = true, .in_memory = in_memory));
    assert_ok(fl_predictor_new(&p, m));
    for (uint32_t seed = 100; seed < 110; seed++) {
        kit_batch_draw(&b, seed);
        kit_expect(&n, &b, expected);
        score(p, &b, got);
        assert_memory_equal(got, expected, sizeof(got));
    }
    assert_int_equal(kit_stats(m).runs, 10);
    assert_int_equal(kit_stats(m).records, 10 * KIT_BATCH);
    fl_predictor_free(p);
    assert_int_equal(kit_stats(m).runs, 10);
    fl_model_close(m);
    kit_net_free(&n);
}

static void a_dense_model_scores_as_its_program_does(void **state)
{
    (void)state;
    compare_scores(&in_array, "dense", false);
}

static void rows_of_tables_score_as_their_program_does(void **state)
{
    (void)state;
    compare_scores(&in_table, "table", false);
}

static void rows_that_were_copied_into_memory_score_the_same(void **state)
{
    (void)state;
    compare_scores(&in_table, "copied", true);
}

/* The first n records of a batch. */
static void cut_batch(kit_batch *b, int64_t n)
{
    for (int s = 0; s < 2; s++) {
        b->feeds[s].value.shape.dim[0] = b->offsets[s][n];
        b->feeds[s].value.lod_len[0] = n + 1;
    }
    b->feeds[2].value.shape.dim[0] = n;
}

/* Batches by seed and records, whose forms come and go. */
static const struct {
    uint32_t seed;
    int64_t n;
} visits[] = { { 1, 12 }, { 1, 12 }, { 1, 12 }, { 2, 12 }, { 1, 12 },
               { 1, 3 },  { 2, 3 },  { 2, 3 },  { 2, 3 },  { 3, 3 },
               { 4, 1 },  { 4, 1 },  { 4, 1 },  { 5, 1 },  { 1, 12 },
               { 6, 0 },  { 6, 0 },  { 6, 0 },  { 7, 12 }, { 7, 12 } };

static void expect_visits(fl_model *m, fl_predictor *p)
{
    for (size_t i = 0; i < sizeof(visits) / sizeof(visits[0]); i++) {
        fl_tensor got, expected;
        fl_predictor *fresh;
        kit_batch b;

        kit_batch_draw(&b, visits[i].seed);
        cut_batch(&b, visits[i].n);
        assert_ok(fl_predictor_new(&fresh, m));
        assert_ok(fl_predictor_run(fresh, b.feeds, 3, &expected, 1));
        assert_ok(fl_predictor_run(p, b.feeds, 3, &got, 1));
        assert_int_equal(got.shape.dim[0], visits[i].n);
        assert_int_equal(expected.shape.dim[0], visits[i].n);
        if (visits[i].n)
            assert_memory_equal(got.data, expected.data,
                                (size_t)visits[i].n * sizeof(float));
        fl_predictor_free(fresh);
    }
}

static void scores_do_not_depend_on_the_runs_before(void **state)
{
    static const fl_layers_embedding_args *const kinds[] = { &in_array,
                                                             &in_table };

    (void)state;
    for (int k = 0; k < 4; k++) {
        kit_net n = kit_net_new(kinds[k / 2]);
        fl_predictor *p;
        fl_model *m;
        char dir[256];

        kit_train(&n, 1, 20);
        assert_ok(kit_save(&n, kit_path("visits", dir)));
        assert_ok(fl_model_open(&m, dir, .in_memory = k % 2 == 1));
        assert_ok(fl_predictor_new(&p, m));
        expect_visits(m, p);
        fl_predictor_free(p);
        fl_model_close(m);
        kit_net_free(&n);
    }
}

/* A form that was seen before does not excuse what it holds now. */
static void offsets_are_checked_in_every_run(void **state)
{
    kit_net n = kit_net_new(&in_table);
    fl_predictor *p;
    kit_batch b;
    fl_model *m;
    fl_tensor t;
    char dir[256];

    (void)state;
    kit_train(&n, 1, 2);
    assert_ok(kit_save(&n, kit_path("offsets", dir)));
    assert_ok(fl_model_open(&m, dir));
    assert_ok(fl_predictor_new(&p, m));
    kit_batch_draw(&b, 5);
    for (int i = 0; i < 3; i++)
        assert_ok(fl_predictor_run(p, b.feeds, 3, &t, 1));
    b.offsets[1][4] = b.offsets[1][KIT_BATCH] + 1;
    assert_int_equal(fl_predictor_run(p, b.feeds, 3, &t, 1), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "feed s1: offset 5 of level 0"));
    kit_batch_draw(&b, 5);
    assert_ok(fl_predictor_run(p, b.feeds, 3, &t, 1));
    fl_predictor_free(p);
    fl_model_close(m);
    kit_net_free(&n);
}

static void a_missing_row_has_its_first_value_and_is_counted(void **state)
{
    float expected[KIT_BATCH], got[KIT_BATCH];
    kit_net n = kit_net_new(&in_table);
    fl_predictor *p;
    kit_batch b;
    fl_model *m;
    char dir[256];

    (void)state;
    kit_train(&n, 1, 2);
    assert_ok(kit_save(&n, kit_path("missing", dir)));
    assert_ok(fl_model_open(&m, dir));
    assert_ok(fl_predictor_new(&p, m));
    kit_batch_draw(&b, 77); /* with ids that two batches did not have */
    kit_expect(&n, &b, expected);
    score(p, &b, got);
    assert_memory_equal(got, expected, sizeof(got));
    assert_true(kit_stats(m).missing_rows > 0);
    assert_true(kit_stats(m).missing_rows < kit_stats(m).rows);
    fl_predictor_free(p);
    fl_model_close(m);
    kit_net_free(&n);
}

static size_t rows_saved(kit_net *n, const char *dir, bool by_score)
{
    const char *feeds[] = { "s0", "s1", "x" };
    const char *targets[] = { fl_var_name(n->score) };
    fl_model_version *v;
    size_t rows;

    assert_ok(fl_save_inference_model(n->e, dir, .feeds = feeds, .n_feeds = 3,
                                      .targets = targets, .n_targets = 1,
                                      .by_score = by_score));
    assert_ok(fl_version_open(&v, dir));
    rows = v->manifest.tables.data[0].rows;
    fl_version_close(v);
    return rows;
}

/* A row has a score of 0.1 for each time that it was pushed: all of them are in
   a save without scores, those that came often in one by score. */
static void a_save_by_score_has_the_rows_that_are_worth_it(void **state)
{
    const fl_layers_embedding_args counted = {
        .size = sizeof(fl_layers_embedding_args),
        .is_sparse = true,
        .is_distributed = true,
        .accessor = "ctr",
        .table = "embedx_threshold=0 base_threshold=0.45",
        .param = { .name = "emb" },
    };
    kit_net n = kit_net_new(&counted);
    size_t all, some;
    char dir[256];

    (void)state;
    kit_train(&n, 1, 20);
    all = rows_saved(&n, kit_path("all", dir), false);
    some = rows_saved(&n, kit_path("some", dir), true);
    assert_true(some > 0 && some < all);
    assert_int_equal(rows_saved(&n, kit_path("again", dir), true), some);
    kit_net_free(&n);
}

static void a_run_asks_for_no_memory(void **state)
{
    kit_net n = kit_net_new(&in_table);
    uint64_t before;
    fl_predictor *p;
    kit_batch b;
    fl_model *m;
    fl_tensor t;
    char dir[256];

    (void)state;
    kit_train(&n, 1, 20);
    assert_ok(kit_save(&n, kit_path("memory", dir)));
    assert_ok(fl_model_open(&m, dir));
    assert_ok(fl_predictor_new(&p, m));
    kit_batch_draw(&b, 3);
    for (int i = 0; i < 3; i++)
        assert_ok(fl_predictor_run(p, b.feeds, 3, &t, 1));
    before = count_calls();
    for (int i = 0; i < 100; i++)
        assert_ok(fl_predictor_run(p, b.feeds, 3, &t, 1));
    assert_int_equal(count_calls(), before);
    assert_ok(fl_predictor_bind(p, b.feeds, 3));
    before = count_calls();
    for (int i = 0; i < 100; i++)
        assert_ok(fl_predictor_run_bound(p, &t, 1));
    assert_int_equal(count_calls(), before);
    fl_predictor_free(p);
    fl_model_close(m);
    kit_net_free(&n);
}

/* --- what is saved -------------------------------------------------------- */

static void a_model_has_the_variables_it_names_and_no_state(void **state)
{
    static const char *const names[] = { "emb", "fc_0.b_0", "fc_0.w_0",
                                         "fc_1.b_0", "fc_1.w_0" };
    kit_net n = kit_net_new(&in_array);
    const fl_manifest_file *f;
    fl_model_version *v;
    char dir[256];

    (void)state;
    kit_train(&n, 1, 3);
    assert_ok(kit_save(&n, kit_path("named", dir)));
    assert_ok(fl_version_open(&v, dir));
    assert_int_equal(v->manifest.kind, FL_MANIFEST_INFERENCE);
    f = fl_manifest_find_file(&v->manifest, "dense.safetensors");
    assert_non_null(f);
    assert_int_equal(f->n_tensors, FL_LEN(names));
    for (size_t i = 0; i < FL_LEN(names); i++) {
        bool is_there = false;

        for (size_t k = 0; k < f->n_tensors; k++)
            is_there |= !strcmp(f->tensors[k].name, names[i]);
        assert_true(is_there);
    }
    assert_int_equal(v->manifest.tables.len, 0);
    fl_version_close(v);
    kit_net_free(&n);
}

static void feeds_that_do_not_fit_the_targets_are_named(void **state)
{
    static const char *const all[] = { "s0", "s1", "x", "y" };
    kit_net n = kit_net_new(&in_array);
    const char *targets[] = { fl_var_name(n.score) };
    char dir[256];

    (void)state;
    kit_path("feeds", dir);
    assert_int_equal(fl_save_inference_model(n.e, dir, .feeds = all,
                                             .n_feeds = 4, .targets = targets,
                                             .n_targets = 1),
                     FL_ERR_INVAL);
    assert_said("the targets do not need the feeds y; leave them out");
    assert_int_equal(fl_save_inference_model(n.e, dir, .feeds = all + 1,
                                             .n_feeds = 1, .targets = targets,
                                             .n_targets = 1),
                     FL_ERR_INVAL);
    assert_said("the targets need s0, x, which is not among the feeds");
    assert_int_equal(
        fl_save_inference_model(n.e, dir, .feeds = all, .n_feeds = 3),
        FL_ERR_INVAL);
    assert_said("needs targets");
    assert_int_equal(access(dir, F_OK), -1); /* nothing was begun */
    kit_net_free(&n);
}

static void a_target_that_changes_a_variable_is_refused(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_var *x = data2(c, "x", 2);
    fl_var *y =
        fl_layers_data(c, "y", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *auc = fl_layers_auc(fl_layers_softmax(x), y, NULL, );
    const char *feeds[] = { "x", "y" };
    const char *targets[] = { fl_var_name(auc) };
    char dir[256];

    (void)state;
    must(fl_run(e, fl_default_startup_program(c), NULL));
    assert_int_equal(fl_save_inference_model(
                         e, kit_path("auc", dir), .feeds = feeds, .n_feeds = 2,
                         .targets = targets, .n_targets = 1),
                     FL_ERR_INVAL);
    assert_said("a model for prediction changes nothing");
    fl_executor_free(e);
    fl_ctx_free(c);
}

/* --- inputs and outputs --------------------------------------------------- */

static void inputs_are_checked_by_name_type_and_shape(void **state)
{
    kit_net n = kit_net_new(&in_array);
    kit_batch b, bad;
    fl_predictor *p;
    fl_model *m;
    fl_tensor t;
    char dir[256];

    (void)state;
    assert_ok(kit_save(&n, kit_path("checked", dir)));
    assert_ok(fl_model_open(&m, dir));
    assert_ok(fl_predictor_new(&p, m));
    kit_batch_draw(&b, 5);
    assert_int_equal(fl_predictor_run(p, b.feeds, 2, &t, 1), FL_ERR_INVAL);
    assert_said("input x is not fed");
    assert_int_equal(fl_predictor_run(p, b.feeds, 4, &t, 1), FL_ERR_NOTFOUND);
    assert_said("the model has no input y");
    bad = b;
    bad.feeds[3] = b.feeds[0];
    assert_int_equal(fl_predictor_run(p, bad.feeds, 4, &t, 1), FL_ERR_INVAL);
    assert_said("s0 is fed twice");
    bad = b;
    bad.feeds[2].value.dtype = FL_DTYPE_F64;
    assert_int_equal(fl_predictor_run(p, bad.feeds, 3, &t, 1), FL_ERR_TYPE);
    assert_said("feed x");
    bad = b;
    bad.feeds[2].value.shape.dim[1] = 2;
    assert_int_equal(fl_predictor_run(p, bad.feeds, 3, &t, 1), FL_ERR_INVAL);
    assert_said("feed x: got shape [12,2]");
    assert_int_equal(fl_predictor_run(p, b.feeds, 3, &t, 2), FL_ERR_INVAL);
    assert_said("the model has 1 output, and there is room for 2");
    fl_predictor_free(p);
    fl_model_close(m);
    kit_net_free(&n);
}

static void feeds_may_come_in_any_order(void **state)
{
    float expected[KIT_BATCH];
    kit_net n = kit_net_new(&in_table);
    kit_batch b;
    fl_feed other[3];
    fl_predictor *p;
    fl_model *m;
    fl_tensor t;
    char dir[256];

    (void)state;
    kit_train(&n, 1, 5);
    assert_ok(kit_save(&n, kit_path("order", dir)));
    assert_ok(fl_model_open(&m, dir));
    assert_ok(fl_predictor_new(&p, m));
    kit_batch_draw(&b, 6);
    kit_expect(&n, &b, expected);
    for (int i = 0; i < 3; i++)
        other[i] = b.feeds[2 - i];
    assert_ok(fl_predictor_run(p, other, 3, &t, 1));
    assert_memory_equal(t.data, expected, sizeof(expected));
    fl_predictor_free(p);
    fl_model_close(m);
    kit_net_free(&n);
}

static void a_model_says_what_goes_in_and_comes_out(void **state)
{
    kit_net n = kit_net_new(&in_table);
    const fl_model_var *v;
    fl_model *m;
    size_t count;
    char dir[256];

    (void)state;
    assert_ok(kit_save(&n, kit_path("ends", dir)));
    assert_ok(fl_model_open(&m, dir));
    v = fl_model_inputs(m, &count);
    assert_int_equal(count, 3);
    assert_string_equal(v[0].name, "s0");
    assert_int_equal(v[0].dtype, FL_DTYPE_I64);
    assert_int_equal(v[0].n_lod, 1);
    assert_string_equal(v[2].name, "x");
    assert_int_equal(v[2].shape.dim[1], KIT_DENSE);
    v = fl_model_outputs(m, &count);
    assert_int_equal(count, 1);
    assert_string_equal(v[0].name, fl_var_name(n.score));
    assert_int_equal(v[0].shape.dim[0], -1);
    fl_model_close(m);
    kit_net_free(&n);
}

/* --- other models --------------------------------------------------------- */

static void a_model_saved_to_train_on_needs_targets(void **state)
{
    float expected[KIT_BATCH], got[KIT_BATCH];
    kit_net n = kit_net_new(&in_array);
    const char *targets[] = { fl_var_name(n.score) };
    fl_predictor *p;
    kit_batch b;
    fl_model *m;
    char dir[256];

    (void)state;
    kit_train(&n, 1, 5);
    assert_ok(fl_save_persistables(n.e, kit_path("full", dir), NULL));
    assert_int_equal(fl_model_open(&m, dir), FL_ERR_INVAL);
    assert_said("was saved to train on");
    assert_ok(fl_model_open(&m, dir, .targets = targets, .n_targets = 1));
    assert_ok(fl_predictor_new(&p, m));
    kit_batch_draw(&b, 8);
    kit_expect(&n, &b, expected);
    score(p, &b, got);
    assert_memory_equal(got, expected, sizeof(got));
    fl_predictor_free(p);
    fl_model_close(m);
    kit_net_free(&n);
}

static void what_is_no_model_is_named(void **state)
{
    char dir[256];
    fl_model *m;

    (void)state;
    assert_int_equal(fl_model_open(&m, kit_path("nothing", dir)),
                     FL_ERR_NOTFOUND);
    assert_said("model ");
    assert_said("nothing");
    assert_int_equal(fl_model_open(&m, ""), FL_ERR_INVAL);
    assert_said("which model?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dense_model_scores_as_its_program_does),
        cmocka_unit_test(rows_of_tables_score_as_their_program_does),
        cmocka_unit_test(rows_that_were_copied_into_memory_score_the_same),
        cmocka_unit_test(scores_do_not_depend_on_the_runs_before),
        cmocka_unit_test(offsets_are_checked_in_every_run),
        cmocka_unit_test(a_missing_row_has_its_first_value_and_is_counted),
        cmocka_unit_test(a_save_by_score_has_the_rows_that_are_worth_it),
        cmocka_unit_test(a_run_asks_for_no_memory),
        cmocka_unit_test(a_model_has_the_variables_it_names_and_no_state),
        cmocka_unit_test(feeds_that_do_not_fit_the_targets_are_named),
        cmocka_unit_test(a_target_that_changes_a_variable_is_refused),
        cmocka_unit_test(inputs_are_checked_by_name_type_and_shape),
        cmocka_unit_test(feeds_may_come_in_any_order),
        cmocka_unit_test(a_model_says_what_goes_in_and_comes_out),
        cmocka_unit_test(a_model_saved_to_train_on_needs_targets),
        cmocka_unit_test(what_is_no_model_is_named),
    };

    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
