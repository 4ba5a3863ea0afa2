/* test_bind.c - feeds that hold for many runs. */
#include "serve_kit.h"

static const fl_layers_embedding_args in_table = {
    .size = sizeof(fl_layers_embedding_args),
    .is_sparse = true,
    .is_distributed = true,
    .param = { .name = "emb" },
};

/* A trained model, one of its predictors, and a batch. */
typedef struct rig {
    kit_net n;
    fl_model *m;
    fl_predictor *p;
    kit_batch b;
} rig;

static void rig_new(rig *t, const char *name)
{
    char dir[256];

    t->n = kit_net_new(&in_table);
    kit_train(&t->n, 1, 20);
    assert_ok(kit_save(&t->n, kit_path(name, dir)));
    assert_ok(fl_model_open(&t->m, dir));
    assert_ok(fl_predictor_new(&t->p, t->m));
    kit_batch_draw(&t->b, 5);
}

static void rig_free(rig *t)
{
    fl_predictor_free(t->p);
    fl_model_close(t->m);
    kit_net_free(&t->n);
}

/* A run of what is bound scores what the batch is now. */
static void expect_bound(rig *t)
{
    float expected[KIT_BATCH];
    fl_tensor got;

    kit_expect(&t->n, &t->b, expected);
    assert_ok(fl_predictor_run_bound(t->p, &got, 1));
    assert_int_equal(got.shape.dim[0], KIT_BATCH);
    assert_memory_equal(got.data, expected, sizeof(expected));
}

static void bound_feeds_are_read_where_they_lie(void **state)
{
    uint32_t seed = 7;
    rig t;

    (void)state;
    rig_new(&t, "lie");
    assert_ok(fl_predictor_bind(t.p, t.b.feeds, 3));
    for (int round = 0; round < 10; round++) {
        for (int s = 0; s < 2; s++)
            for (int i = 0; i < KIT_BATCH; i++)
                t.b.ids[s][i] = (int64_t)(kit_draw(&seed) % KIT_HEIGHT);
        t.b.x[round] = (float)round;
        /* an id goes over to the record before */
        t.b.offsets[1][4] = t.b.offsets[1][3 + round % 3];
        expect_bound(&t);
    }
    assert_int_equal(kit_stats(t.m).runs, 10);
    assert_int_equal(kit_stats(t.m).records, 10 * KIT_BATCH);
    rig_free(&t);
}

static void bound_feeds_may_come_in_any_order(void **state)
{
    fl_feed other[3];
    rig t;

    (void)state;
    rig_new(&t, "order");
    for (int i = 0; i < 3; i++)
        other[i] = t.b.feeds[2 - i];
    assert_ok(fl_predictor_bind(t.p, other, 3));
    t.b.x[0] = 3;
    expect_bound(&t);
    rig_free(&t);
}

static void runs_with_feeds_of_their_own_come_between(void **state)
{
    kit_batch other;
    fl_tensor out;
    rig t;

    (void)state;
    rig_new(&t, "between");
    kit_batch_draw(&other, 9);
    assert_ok(fl_predictor_bind(t.p, t.b.feeds, 3));
    for (int round = 0; round < 3; round++) {
        expect_bound(&t);
        expect_bound(&t);
        assert_ok(fl_predictor_run(t.p, other.feeds, 3, &out, 1));
    }
    rig_free(&t);
}

static void offsets_of_bound_feeds_are_checked_in_every_run(void **state)
{
    int64_t good;
    fl_tensor out;
    rig t;

    (void)state;
    rig_new(&t, "offsets");
    assert_ok(fl_predictor_bind(t.p, t.b.feeds, 3));
    expect_bound(&t);
    good = t.b.offsets[1][4];
    t.b.offsets[1][4] = t.b.offsets[1][KIT_BATCH] + 1;
    assert_int_equal(fl_predictor_run_bound(t.p, &out, 1), FL_ERR_INVAL);
    assert_said("feed s1: offset 5 of level 0");
    t.b.offsets[1][4] = good;
    expect_bound(&t);
    rig_free(&t);
}

static void a_run_without_bound_feeds_says_what_to_call(void **state)
{
    fl_tensor out[2];
    rig t;

    (void)state;
    rig_new(&t, "nothing");
    assert_int_equal(fl_predictor_run_bound(t.p, out, 1), FL_ERR_INVAL);
    assert_said("nothing is bound to the predictor");
    assert_said("fl_predictor_bind");
    assert_ok(fl_predictor_bind(t.p, t.b.feeds, 3));
    assert_int_equal(fl_predictor_run_bound(t.p, out, 2), FL_ERR_INVAL);
    assert_said("the model has 1 output, and there is room for 2");
    rig_free(&t);
}

static void feeds_that_do_not_fit_leave_what_was_bound(void **state)
{
    kit_batch bad;
    rig t;

    (void)state;
    rig_new(&t, "fit");
    assert_int_equal(fl_predictor_bind(t.p, t.b.feeds, 2), FL_ERR_INVAL);
    assert_said("input x is not fed");
    assert_ok(fl_predictor_bind(t.p, t.b.feeds, 3));
    kit_batch_draw(&bad, 6);
    bad.feeds[2].value.dtype = FL_DTYPE_F64;
    assert_int_equal(fl_predictor_bind(t.p, bad.feeds, 3), FL_ERR_TYPE);
    assert_said("feed x");
    expect_bound(&t);
    assert_int_equal(fl_predictor_bind(t.p, t.b.feeds, 4), FL_ERR_NOTFOUND);
    assert_said("the model has no input y");
    expect_bound(&t);
    rig_free(&t);
}

static void a_batch_of_another_size_is_bound_anew(void **state)
{
    fl_tensor out, expected;
    fl_predictor *fresh;
    rig t;

    (void)state;
    rig_new(&t, "anew");
    assert_ok(fl_predictor_bind(t.p, t.b.feeds, 3));
    expect_bound(&t);
    for (int s = 0; s < 2; s++) {
        t.b.feeds[s].value.shape.dim[0] = t.b.offsets[s][2];
        t.b.feeds[s].value.lod_len[0] = 3;
    }
    t.b.feeds[2].value.shape.dim[0] = 2;
    assert_ok(fl_predictor_bind(t.p, t.b.feeds, 3));
    assert_ok(fl_predictor_run_bound(t.p, &out, 1));
    assert_ok(fl_predictor_new(&fresh, t.m));
    assert_ok(fl_predictor_run(fresh, t.b.feeds, 3, &expected, 1));
    assert_int_equal(out.shape.dim[0], 2);
    assert_memory_equal(out.data, expected.data, 2 * sizeof(float));
    fl_predictor_free(fresh);
    rig_free(&t);
}

/* --- newer versions ------------------------------------------------------- */

static const char once[] = "var x : f32[-1,1] data\n"
                           "param w : f32[1,1]\n"
                           "op mul (X=x, Y=w) -> (Out=y)\n"
                           "fetch y\n";
static const char twice[] = "var x : f32[-1,1] data\n"
                            "var z : f32[-1,1]\n"
                            "param w : f32[1,1]\n"
                            "op mul (X=x, Y=w) -> (Out=z)\n"
                            "op mul (X=z, Y=w) -> (Out=y)\n"
                            "fetch y\n";
static const char chosen[] = "var x : bool[-1,1] data\n"
                             "op cast (X=x) -> (Out=y) {out_dtype=f32}\n"
                             "fetch y\n";

static void save_text(const char *dir, const char *text, float w)
{
    fl_tensor t = fl_tensor_of(FL_DTYPE_F32, &w, 2, (int64_t[]){ 1, 1 });
    const char *x = "x", *y = "y";
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_program *p;

    must(fl_program_from_text(&p, c, text));
    must(fl_scope_set(fl_current_scope(c), "w", &t));
    must(fl_save_inference_model(e, dir, .feeds = &x, .n_feeds = 1,
                                 .targets = &y, .n_targets = 1, .program = p));
    fl_program_free(p);
    fl_executor_free(e);
    fl_ctx_free(c);
}

static float run_bound(fl_predictor *p)
{
    fl_tensor y;

    assert_ok(fl_predictor_run_bound(p, &y, 1));
    return *(const float *)y.data;
}

static void bound_feeds_go_over_to_newer_versions(void **state)
{
    float x = 2;
    fl_feed feed = { "x",
                     fl_tensor_of(FL_DTYPE_F32, &x, 2, (int64_t[]){ 1, 1 }) };
    fl_predictor *p;
    fl_model *m;
    char dir[256];

    (void)state;
    save_text(kit_path("newer", dir), once, 3);
    assert_ok(fl_model_open(&m, dir));
    assert_ok(fl_predictor_new(&p, m));
    assert_ok(fl_predictor_bind(p, &feed, 1));
    assert_true(run_bound(p) == 6);
    save_text(dir, once, 5); /* other numbers */
    assert_ok(fl_model_refresh(m));
    assert_true(run_bound(p) == 10);
    save_text(dir, twice, 5); /* another program */
    assert_ok(fl_model_refresh(m));
    assert_true(run_bound(p) == 50);
    x = 4;
    assert_true(run_bound(p) == 100);
    fl_predictor_free(p);
    fl_model_close(m);
}

static void bound_truths_are_looked_at_in_every_run(void **state)
{
    uint8_t x = 1;
    fl_feed feed = { "x",
                     fl_tensor_of(FL_DTYPE_BOOL, &x, 2, (int64_t[]){ 1, 1 }) };
    fl_predictor *p;
    fl_model *m;
    fl_tensor y;
    char dir[256];

    (void)state;
    save_text(kit_path("truths", dir), chosen, 0);
    assert_ok(fl_model_open(&m, dir));
    assert_ok(fl_predictor_new(&p, m));
    assert_ok(fl_predictor_bind(p, &feed, 1));
    assert_true(run_bound(p) == 1);
    x = 0;
    assert_true(run_bound(p) == 0);
    x = 2;
    assert_int_equal(fl_predictor_run_bound(p, &y, 1), FL_ERR_INVAL);
    assert_said("feed x");
    fl_predictor_free(p);
    fl_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bound_feeds_are_read_where_they_lie),
        cmocka_unit_test(bound_feeds_may_come_in_any_order),
        cmocka_unit_test(runs_with_feeds_of_their_own_come_between),
        cmocka_unit_test(offsets_of_bound_feeds_are_checked_in_every_run),
        cmocka_unit_test(a_run_without_bound_feeds_says_what_to_call),
        cmocka_unit_test(feeds_that_do_not_fit_leave_what_was_bound),
        cmocka_unit_test(a_batch_of_another_size_is_bound_anew),
        cmocka_unit_test(bound_feeds_go_over_to_newer_versions),
        cmocka_unit_test(bound_truths_are_looked_at_in_every_run),
    };

    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
