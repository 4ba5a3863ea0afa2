/* test_run.c - feeding, running, fetching, and what is said when it fails. */
#include "net.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "../make.h"

static void the_loss_falls_with_every_optimizer(void **state)
{
    static const char *const kinds[][2] = {
        { "sgd", "learning_rate=0.3" },
        { "momentum", "learning_rate=0.05, momentum=0.9" },
        { "adagrad", "learning_rate=0.2" },
        { "adam", "learning_rate=0.02" },
        { "ftrl", "learning_rate=0.3" },
    };

    (void)state;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        fl_ctx *c = make_ctx();
        fl_executor *e = make_executor(c);
        fl_var *loss = net_build(c, kinds[k][0], kinds[k][1]);
        const char *fetch = fl_var_name(loss);
        float first = 0, last = 0;
        net_batch b;

        net_start(c, e);
        for (int i = 0; i < 80; i++) {
            fl_tensor out;
            fl_run_args a =
                FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = 3,
                        .fetches = &fetch, .n_fetches = 1, .out = &out);

            net_fill(&b, i % 4, NET_BATCH);
            assert_ok(fl_run(e, fl_default_main_program(c), &a));
            last = *(float *)out.data;
            first = i < 4 ? first + last / 4 : first;
        }
        if (!(last < 0.8f * first))
            fail_msg("%s: loss from %f to %f", kinds[k][0], first, last);
        assert_int_equal(fl_scope_step(fl_current_scope(c)), 80);
        fl_executor_free(e);
        fl_ctx_free(c);
    }
}

static void a_repeated_step_asks_for_no_memory(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    const char *fetch = fl_var_name(net_build(c, "adam", NULL));
    uint64_t calls = 0;
    net_batch b;
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = 3,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    (void)state;
    net_start(c, e);
    for (int i = 0; i < 20; i++) {
        /* The first batches are the largest; later ones are smaller. */
        net_fill(&b, i % 3, i < 3 ? NET_BATCH : NET_BATCH - i % 5);
        assert_ok(fl_run(e, fl_default_main_program(c), &a));
        if (i == 3)
            calls = fl_data_calls();
    }
    assert_int_equal(fl_data_calls(), calls);
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void optimised_and_plain_programs_agree(void **state)
{
    float loss[2][30];

    (void)state;
    for (int k = 0; k < 2; k++) {
        fl_ctx *c = make_ctx();
        fl_executor *e = make_executor(c);
        const char *fetch = fl_var_name(net_build(c, "adam", NULL));

        assert_ok(fl_ctx_set(c, "optimize", k ? "true" : "false"));
        net_start(c, e);
        for (int i = 0; i < 30; i++) {
            net_batch b;
            fl_tensor out;
            fl_run_args a =
                FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = 3,
                        .fetches = &fetch, .n_fetches = 1, .out = &out);

            net_fill(&b, i, NET_BATCH);
            assert_ok(fl_run(e, fl_default_main_program(c), &a));
            loss[k][i] = *(float *)out.data;
        }
        fl_executor_free(e);
        fl_ctx_free(c);
    }
    for (int i = 0; i < 30; i++)
        assert_float_equal(loss[0][i], loss[1][i], 1e-5);
}

static void a_run_before_startup_names_the_parameter(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    net_batch b;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = 3);

    (void)state;
    net_build(c, "sgd", NULL);
    net_fill(&b, 0, 4);
    assert_error(fl_run(e, fl_default_main_program(c), &a), FL_ERR_NOTFOUND,
                 "run the startup program");
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void bad_feeds_are_refused_by_name(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_program *main = fl_default_main_program(c);
    net_batch b;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = 3);
    int64_t bad_offsets[] = { 0, 2, 1, 4, 4 };

    (void)state;
    net_build(c, "sgd", NULL);
    net_start(c, e);

    net_fill(&b, 0, 4);
    a.n_feeds = 2;
    assert_error(fl_run(e, main, &a), FL_ERR_INVAL, "label is needed");
    a.n_feeds = 3;
    b.feeds[0].value.shape.dim[1] = NET_WIDTH - 1;
    assert_error(fl_run(e, main, &a), FL_ERR_INVAL, "feed x: got shape [4,5]");
    net_fill(&b, 0, 4);
    b.feeds[0].value.dtype = FL_DTYPE_F64;
    assert_error(fl_run(e, main, &a), FL_ERR_TYPE, "feed x: got f64");
    net_fill(&b, 0, 4);
    b.feeds[0].value = b.feeds[1].value;
    b.feeds[0].value.dtype = FL_DTYPE_F32;
    assert_error(fl_run(e, main, &a), FL_ERR_INVAL, "id list");
    net_fill(&b, 0, 4);
    b.feeds[1].value.lod[0] = bad_offsets;
    assert_error(fl_run(e, main, &a), FL_ERR_INVAL, "feed ids: offset 2");
    net_fill(&b, 0, 4);
    b.feeds[1].value.n_lod = 0;
    assert_error(fl_run(e, main, &a), FL_ERR_INVAL, "levels of offsets");
    net_fill(&b, 0, 4);
    b.feeds[2].name = "labels";
    assert_error(fl_run(e, main, &a), FL_ERR_NOTFOUND, "feed labels");
    net_fill(&b, 0, 4);
    b.feeds[2].name = "x";
    assert_error(fl_run(e, main, &a), FL_ERR_INVAL, "fed twice");
    net_fill(&b, 0, 4);
    b.feeds[2].value.data = NULL;
    assert_error(fl_run(e, main, &a), FL_ERR_INVAL, "no data");

    /* Nothing of this has harmed the executor. */
    net_fill(&b, 0, 4);
    assert_ok(fl_run(e, main, &a));
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void bad_data_names_operator_and_place(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_program *main = fl_default_main_program(c);
    net_batch b;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = 3);

    (void)state;
    net_build(c, "sgd", NULL);
    net_start(c, e);
    for (int optimize = 0; optimize < 2; optimize++) {
        assert_ok(fl_ctx_set(c, "optimize", optimize ? "true" : "false"));
        net_fill(&b, 0, NET_BATCH);
        b.ids[1] = NET_ROWS;
        assert_error(fl_run(e, main, &a), FL_ERR_INVAL, "50");
        b.ids[1] = -1;
        assert_int_equal(fl_run(e, main, &a), FL_ERR_INVAL);
        net_fill(&b, 0, NET_BATCH);
        b.label[3] = 2;
        assert_error(fl_run(e, main, &a), FL_ERR_INVAL, "Label");
        net_fill(&b, 0, NET_BATCH);
        assert_ok(fl_run(e, main, &a));
    }
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void a_nan_label_is_an_error(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_var *x =
        fl_layers_data(c, "x", FL_DTYPE_F32, 2, (int64_t[]){ -1, 2 }, 0);
    fl_var *y =
        fl_layers_data(c, "y", FL_DTYPE_F32, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *loss = fl_layers_mean(
        fl_layers_sigmoid_cross_entropy_with_logits(fl_layers_fc(x, 1, ), y));
    float xs[4] = { 1, 2, 3, 4 }, ys[2] = { 1, NAN };
    fl_feed feeds[] = {
        { "x", fl_tensor_of(FL_DTYPE_F32, xs, 2, (int64_t[]){ 2, 2 }) },
        { "y", fl_tensor_of(FL_DTYPE_F32, ys, 2, (int64_t[]){ 2, 1 }) },
    };
    const char *fetch = fl_var_name(loss);
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    (void)state;
    net_start(c, e);
    assert_error(fl_run(e, fl_default_main_program(c), &a), FL_ERR_NUMERIC,
                 "Label");
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void a_bool_is_fed_and_fetched_as_0_or_1(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_program *main = fl_default_main_program(c);
    uint8_t bytes[3] = { 1, 0, 1 };
    fl_feed feed = { "b",
                     fl_tensor_of(FL_DTYPE_BOOL, bytes, 1, (int64_t[]){ 3 }) };
    const char *fetches[] = { "f", "again" };
    fl_tensor out[2];
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1,
                            .fetches = fetches, .n_fetches = 2, .out = out);

    (void)state;
    assert_ok(fl_program_add(
        main, "var b : bool[-1] data\n"
              "op cast (X=b) -> (Out=f) {out_dtype=float32}\n"
              "op scale (X=f) -> (Out=g) {scale=-0.5}\n"
              "op cast (X=g) -> (Out=again) {out_dtype=bool}\n"));
    assert_ok(fl_run(e, main, &a));
    assert_memory_equal(out[0].data, ((float[]){ 1, 0, 1 }), 3 * sizeof(float));
    assert_int_equal(out[1].dtype, FL_DTYPE_BOOL);
    assert_memory_equal(out[1].data, bytes, 3);
    bytes[2] = 7;
    assert_error(fl_run(e, main, &a), FL_ERR_INVAL,
                 "feed b: element 2 is 7, and a bool is 0 or 1");
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void the_guard_names_the_first_nan(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_program *main = fl_default_main_program(c);
    float xs[2] = { -1, 4 };
    fl_feed feed = { "x", fl_tensor_of(FL_DTYPE_F32, xs, 1, (int64_t[]){ 2 }) };
    const char *fetch = "m";
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    (void)state;
    assert_ok(fl_program_add(main, "var x : f32[-1] data\n"
                                   "op sqrt (X=x) -> (Out=r)\n"
                                   "op mean (X=r) -> (Out=m)\n"));
    assert_ok(fl_run(e, main, &a));
    assert_true(isnan(*(float *)out.data));
    assert_ok(fl_ctx_set(c, "check_nan_inf", "true"));
    assert_error(fl_run(e, main, &a), FL_ERR_NUMERIC,
                 "op sqrt -> r: variable r has");
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void fetching_an_intermediate_still_works(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    const char *fetches[] = { "fc_0.tmp_0", "fc_0.tmp_2", "fc_0.w_0",
                              "embedding_0.w_0@GRAD" };
    net_batch b;
    fl_tensor out[4];
    fl_run_args a = FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = 3,
                            .fetches = fetches, .n_fetches = 4, .out = out);

    (void)state;
    net_build(c, "sgd", NULL);
    net_start(c, e);
    net_fill(&b, 0, NET_BATCH);
    assert_ok(fl_run(e, fl_default_main_program(c), &a));
    assert_int_equal(out[0].shape.dim[0], NET_BATCH);
    assert_int_equal(out[2].shape.dim[0], 4 + NET_WIDTH);
    assert_int_equal(out[3].kind, FL_KIND_ROWS);
    for (int i = 0; i < NET_BATCH * 8; i++) {
        float z = ((float *)out[0].data)[i];

        assert_true(((float *)out[1].data)[i] >= 0);
        assert_true(isfinite(z));
    }
    fl_executor_free(e);
    fl_ctx_free(c);
}

static bool next_of(void *arg, int thread, fl_feed *feeds)
{
    net_batch *b = (net_batch *)arg + thread;
    static _Thread_local int no;

    if (no == 30) {
        no = 0;
        return false;
    }
    net_fill(b, thread * 100 + no++ % 4, NET_BATCH);
    memcpy(feeds, b->feeds, sizeof(b->feeds));
    return true;
}

static void hogwild_threads_train_one_model(void **state)
{
    static const char *const names[] = { "x", "ids", "label" };
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    const char *fetch = fl_var_name(net_build(c, "sgd", "learning_rate=0.2"));
    net_batch batches[3], b;
    fl_hogwild_args h =
        FL_INIT(fl_hogwild_args, .n_threads = 3, .feed_names = names,
                .n_feeds = 3, .next = next_of, .arg = batches);
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = b.feeds, .n_feeds = 3,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);
    float before, after;

    (void)state;
    net_start(c, e);
    net_fill(&b, 1, NET_BATCH);
    assert_ok(fl_run(e, fl_default_main_program(c), &a));
    before = *(float *)out.data;
    for (int i = 0; i < 4; i++)
        assert_ok(fl_run_hogwild(e, fl_default_main_program(c), &h));
    assert_int_equal(fl_scope_step(fl_current_scope(c)), 1 + 4 * 90);
    assert_ok(fl_run(e, fl_default_main_program(c), &a));
    after = *(float *)out.data;
    assert_true(after < before);
    fl_executor_free(e);
    fl_ctx_free(c);
}

static bool next_bad(void *arg, int thread, fl_feed *feeds)
{
    net_batch *b = (net_batch *)arg + thread;

    net_fill(b, thread, NET_BATCH);
    if (thread == 1)
        b->label[0] = 7;
    memcpy(feeds, b->feeds, sizeof(b->feeds));
    return true;
}

static void a_failing_thread_stops_the_others(void **state)
{
    static const char *const names[] = { "x", "ids", "label" };
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    net_batch batches[2];
    fl_hogwild_args h =
        FL_INIT(fl_hogwild_args, .n_threads = 2, .feed_names = names,
                .n_feeds = 3, .next = next_bad, .arg = batches);

    (void)state;
    net_build(c, "sgd", NULL);
    net_start(c, e);
    assert_error(fl_run_hogwild(e, fl_default_main_program(c), &h),
                 FL_ERR_INVAL, "training thread 1");
    fl_executor_free(e);
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_falls_with_every_optimizer),
        cmocka_unit_test(a_repeated_step_asks_for_no_memory),
        cmocka_unit_test(optimised_and_plain_programs_agree),
        cmocka_unit_test(a_run_before_startup_names_the_parameter),
        cmocka_unit_test(bad_feeds_are_refused_by_name),
        cmocka_unit_test(bad_data_names_operator_and_place),
        cmocka_unit_test(a_nan_label_is_an_error),
        cmocka_unit_test(a_bool_is_fed_and_fetched_as_0_or_1),
        cmocka_unit_test(the_guard_names_the_first_nan),
        cmocka_unit_test(fetching_an_intermediate_still_works),
        cmocka_unit_test(hogwild_threads_train_one_model),
        cmocka_unit_test(a_failing_thread_stops_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
