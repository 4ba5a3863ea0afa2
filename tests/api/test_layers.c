/* test_layers.c - layers: the names users know, the operators they expect,
 * and what is said when something does not fit. */
#include "api.h"
#include "../make.h"

static void an_fc_has_the_names_users_know(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *y = fl_layers_fc(data2(c, "x", 13), 400, .act = "relu");
    char *text, *start;

    (void)state;
    assert_non_null(y);
    assert_string_equal(fl_var_name(y), "fc_0.tmp_2");
    text = fl_program_to_text(fl_default_main_program(c));
    assert_text_has(text, "param fc_0.w_0 : f32[13,400] init=xavier trainable");
    assert_text_has(text, "param fc_0.b_0 : f32[400] init=constant(0)");
    assert_text_has(text, "op mul (X=x, Y=fc_0.w_0) -> (Out=fc_0.tmp_0)");
    assert_text_has(text, "op elementwise_add (X=fc_0.tmp_0, Y=fc_0.b_0) -> "
                          "(Out=fc_0.tmp_1) {axis=1}");
    assert_text_has(text, "op relu (X=fc_0.tmp_1) -> (Out=fc_0.tmp_2)");
    start = fl_program_to_text(fl_default_startup_program(c));
    assert_text_has(start, "op uniform_random () -> (Out=fc_0.w_0)");
    assert_text_has(start, "op fill_constant () -> (Out=fc_0.b_0)");
    fl_text_free(text);
    fl_text_free(start);
    fl_ctx_free(c);
}

static void a_parameter_of_no_layer_is_in_both_programs(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *w = fl_layers_create_parameter(c, .shape = { 2, { 3, 4 } });
    fl_var *b = fl_layers_create_parameter(c, .shape = { 1, { 3 } },
                                           .is_bias = true, .name = "shift");
    fl_var *v = fl_layers_create_parameter(
        c, .shape = { 2, { 3, 4 } },
        .param = { .name = "v", .init = "constant(2)", .frozen = true });
    char *text, *start;

    (void)state;
    assert_non_null(w);
    assert_string_equal(fl_var_name(w), "create_parameter_0.w_0");
    assert_string_equal(fl_var_name(b), "shift");
    assert_ptr_equal(v, fl_layers_create_parameter(c, .shape = { 2, { 3, 4 } },
                                                   .name = "v"));
    text = fl_program_to_text(fl_default_main_program(c));
    assert_text_has(text,
                    "param create_parameter_0.w_0 : f32[3,4] init=xavier");
    assert_text_has(text, "param shift : f32[3] init=constant(0) trainable");
    assert_text_has(text, "param v : f32[3,4] init=constant(2) frozen");
    start = fl_program_to_text(fl_default_startup_program(c));
    assert_text_has(start, "-> (Out=create_parameter_0.w_0)");
    assert_text_has(start, "op fill_constant () -> (Out=v)");
    fl_text_free(start);
    fl_text_free(text);
    assert_null(fl_layers_create_parameter(c, .shape = { 2, { 3, -1 } }));
    assert_said("dimension 1 is -1");
    assert_null(fl_layers_create_parameter(c, .name = "x"));
    assert_said("rank 0");
    assert_null(
        fl_layers_create_parameter(c, .shape = { 1, { 3 } }, .name = "v"));
    fl_ctx_free(c);
}

static void an_fc_of_several_inputs_adds_their_products(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *in[] = { data2(c, "a", 3), data2(c, "b", 4) };
    fl_var *y = fl_layers_fc_with(in, 2, 5,
                                  FL_OPTIONS(fl_layers_fc_args, .act = "tanh"));
    char *text = fl_program_to_text(fl_default_main_program(c));

    (void)state;
    assert_non_null(y);
    assert_text_has(text, "param fc_0.w_0 : f32[3,5]");
    assert_text_has(text, "param fc_0.w_1 : f32[4,5]");
    assert_text_has(text, "op sum (X=[fc_0.tmp_0,fc_0.tmp_1])");
    fl_text_free(text);
    fl_ctx_free(c);
}

static void embeddings_share_a_table_by_name(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *i =
        fl_layers_data(c, "i", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 1);
    fl_var *k =
        fl_layers_data(c, "k", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 1);
    fl_var *a = fl_layers_embedding(i, 100, 8, .is_sparse = true,
                                    .param = { .name = "emb" });
    fl_var *b = fl_layers_embedding(k, 100, 8, .is_sparse = true,
                                    .param = { .name = "emb" });
    char *start = fl_program_to_text(fl_default_startup_program(c));

    (void)state;
    assert_string_equal(fl_var_name(a), "embedding_0.tmp_0");
    assert_string_equal(fl_var_name(b), "embedding_1.tmp_0");
    assert_null(strstr(strstr(start, "Out=emb") + 1, "Out=emb"));
    assert_null(fl_layers_embedding(k, 200, 8, .param = { .name = "emb" }));
    assert_said("parameter emb is f32[100,8], but this layer wants f32[200,8]");
    fl_text_free(start);
    fl_ctx_free(c);
}

static void a_failed_layer_makes_the_rest_fail_with_its_reason(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x = data2(c, "x", 3);
    fl_var *bad =
        fl_layers_binary("elementwise_add", x, fl_layers_fc(x, 4, ), NULL);

    (void)state;
    assert_null(bad);
    assert_said("elementwise_add");
    assert_null(
        fl_layers_mean(fl_layers_fc(fl_layers_relu(bad), 2, .act = "softmax")));
    assert_said("elementwise_add");
    fl_ctx_free(c);
}

static void wrong_words_are_refused(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x = data2(c, "x", 3);

    (void)state;
    assert_null(fl_layers_fc(x, 4, .act = "rleu"));
    assert_said("did you mean relu?");
    assert_null(fl_layers_fc(x, 4, .param = { .init = "unifrom(0,1)" }));
    assert_said("unifrom");
    assert_null(fl_layers_unary("scale", x, "{scael=2}"));
    assert_said("did you mean scale?");
    assert_null(fl_layers_sequence_pool(x, "median"));
    assert_null(data2(c, "x", 3));
    assert_said("variable x exists already");
    assert_null(data2(c, "two words", 3));
    assert_said("is not a name");
    fl_ctx_free(c);
}

static void two_contexts_know_nothing_of_each_other(void **state)
{
    fl_ctx *a = make_ctx();
    fl_ctx *b = make_ctx();
    fl_var *ya = fl_layers_fc(data2(a, "x", 3), 2, );
    fl_var *yb = fl_layers_fc(data2(b, "x", 3), 2, );

    (void)state;
    assert_string_equal(fl_var_name(ya), fl_var_name(yb));
    fl_ctx_free(a);
    assert_non_null(fl_layers_relu(yb));
    fl_ctx_free(b);
}

static void the_auc_keeps_its_histograms_in_the_scope(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_var *p = data2(c, "p", 2);
    fl_var *y =
        fl_layers_data(c, "y", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *batch, *stats[4] = { 0 };
    fl_var *auc =
        fl_layers_auc(p, y, &batch, .num_thresholds = 100,
                      .stat_pos = &stats[0], .stat_neg = &stats[1],
                      .batch_stat_pos = &stats[2], .batch_stat_neg = &stats[3]);
    float prob[] = { .9f, .1f, .2f, .8f, .7f, .3f, .4f, .6f };
    int64_t label[] = { 0, 1, 0, 1 };
    fl_feed feeds[] = {
        { "p", fl_tensor_of(FL_DTYPE_F32, prob, 2, (int64_t[]){ 4, 2 }) },
        { "y", fl_tensor_of(FL_DTYPE_I64, label, 2, (int64_t[]){ 4, 1 }) },
    };
    const char *fetches[] = { fl_var_name(auc), fl_var_name(batch) };
    fl_tensor out[2], stat;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2,
                            .fetches = fetches, .n_fetches = 2, .out = out);

    (void)state;
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    for (int i = 0; i < 3; i++)
        assert_ok(fl_run(e, fl_default_main_program(c), &a));
    assert_float_equal(*(double *)out[0].data, 1, 1e-12);
    assert_float_equal(*(double *)out[1].data, 1, 1e-12);
    for (int k = 0; k < 4; k++) {
        int64_t sum = 0;

        assert_non_null(stats[k]);
        assert_ok(
            fl_scope_get(fl_current_scope(c), fl_var_name(stats[k]), &stat));
        for (int i = 0; i <= 100; i++)
            sum += ((int64_t *)stat.data)[i];
        /* Two labels of each kind in each of three batches, or in the last. */
        assert_int_equal(sum, k < 2 ? 3 * 2 : 2);
    }
    /* The lowest prediction is .1, of a negative label. */
    assert_ok(fl_scope_get(fl_current_scope(c), fl_var_name(stats[1]), &stat));
    assert_int_equal(((int64_t *)stat.data)[10], 3);
    fl_executor_free(e);
    fl_ctx_free(c);
}

#define PLAIN(name)                                                            \
    assert_non_null(fl_layers_##name(x));                                      \
    assert_null(fl_layers_##name(NULL));                                       \
    expect_op(c, "op " #name " (X=x)", "");
#define WITH(name, attr)                                                       \
    assert_non_null(fl_layers_##name(x, 0.75));                                \
    assert_null(fl_layers_##name(NULL, 1));                                    \
    expect_op(c, "op " #name " (X=x)", "{" #attr "=0.75}");

/* The line that begins so; with an attribute it has this at its end. */
static void expect_op(fl_ctx *c, const char *start, const char *end)
{
    char *text = fl_program_to_text(fl_default_main_program(c));
    char *at = strstr(text, start);

    if (!at)
        fail_msg("'%s' is not in\n%s", start, text);
    at[strcspn(at, "\n")] = '\0';
    if (*end == '{' && !strstr(at, end))
        fail_msg("'%s' lacks %s", at, end);
    fl_text_free(text);
}

static void every_layer_of_the_list_appends_its_operator(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x = data2(c, "x", 4);

    (void)state;
    FL_LAYERS_OF_X(PLAIN, WITH)
    fl_ctx_free(c);
}

static void simple_layers_compute_what_they_say(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_var *x = data2(c, "x", 4);
    fl_var *half[2];
    fl_var *outs[8];
    const char *fetches[8];
    float xs[] = { 1, -2, 3, -4, 5, 6, 7, 8 };
    fl_feed feed = { "x",
                     fl_tensor_of(FL_DTYPE_F32, xs, 2, (int64_t[]){ 2, 4 }) };
    fl_tensor out[8];
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1,
                            .fetches = fetches, .n_fetches = 8, .out = out);

    (void)state;
    assert_ok(fl_layers_split(x, 2, 1, half));
    outs[0] = half[1];
    outs[1] = fl_layers_sum((fl_var *[]){ half[0], half[1] }, 2);
    outs[2] = fl_layers_reduce_mean(fl_layers_scale(x, 2, 1));
    outs[3] = fl_layers_cast(fl_layers_reshape(x, 1, (int64_t[]){ -1 }),
                             FL_DTYPE_I64);
    outs[4] = fl_layers_clip(x, -1, 1);
    outs[5] = fl_layers_square_error_cost(half[0], half[1]);
    outs[6] = fl_layers_fill_constant(c, FL_DTYPE_F32, 1, (int64_t[]){ 3 }, 7);
    outs[7] = fl_layers_clip_by_norm(x, 1);
    for (int i = 0; i < 8; i++) {
        assert_non_null(outs[i]);
        fetches[i] = fl_var_name(outs[i]);
    }
    assert_ok(fl_run(e, fl_default_main_program(c), &a));
    assert_float_equal(((float *)out[0].data)[1], -4, 0);
    assert_float_equal(((float *)out[1].data)[0], 4, 0);
    assert_float_equal(((float *)out[2].data)[0], 7, 1e-6);
    assert_int_equal(((int64_t *)out[3].data)[3], -4);
    assert_float_equal(((float *)out[4].data)[7], 1, 0);
    assert_float_equal(((float *)out[5].data)[0], 4, 0);
    assert_float_equal(((float *)out[6].data)[2], 7, 0);
    assert_true(((float *)out[7].data)[7] < 1);
    fl_executor_free(e);
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_fc_has_the_names_users_know),
        cmocka_unit_test(a_parameter_of_no_layer_is_in_both_programs),
        cmocka_unit_test(an_fc_of_several_inputs_adds_their_products),
        cmocka_unit_test(embeddings_share_a_table_by_name),
        cmocka_unit_test(a_failed_layer_makes_the_rest_fail_with_its_reason),
        cmocka_unit_test(wrong_words_are_refused),
        cmocka_unit_test(two_contexts_know_nothing_of_each_other),
        cmocka_unit_test(the_auc_keeps_its_histograms_in_the_scope),
        cmocka_unit_test(every_layer_of_the_list_appends_its_operator),
        cmocka_unit_test(simple_layers_compute_what_they_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
