/* test_optimizer.c - backward, clipping, decay, schedules, settings. */
#include "api.h"
#include "../make.h"

static fl_var *small_loss(fl_ctx *c)
{
    fl_var *x = data2(c, "x", 3);
    fl_var *h = fl_layers_fc(x, 4, .act = "tanh");

    /* h is used twice, so its gradient is a sum. */
    return fl_layers_mean(
        fl_layers_binary("elementwise_mul", h, fl_layers_fc(h, 4, ), NULL));
}

static void a_variable_used_twice_gets_the_sum_of_its_gradients(void **state)
{
    fl_ctx *c = make_ctx();
    fl_param_grad *pg;
    char *text;
    size_t n;

    (void)state;
    assert_ok(fl_append_backward(small_loss(c), &pg, &n));
    assert_int_equal(n, 4);
    assert_string_equal(fl_var_name(pg[0].param), "fc_0.w_0");
    assert_string_equal(fl_var_name(pg[0].grad), "fc_0.w_0@GRAD");
    text = fl_program_to_text(fl_default_main_program(c));
    assert_text_has(text, "op sum (X=[fc_0.tmp_2@GRAD@RENAME@0,"
                          "fc_0.tmp_2@GRAD@RENAME@1]) -> "
                          "(Out=fc_0.tmp_2@GRAD) @backward");
    assert_null(strstr(text, "x@GRAD ")); /* data gets none */
    fl_text_free(text);
    fl_param_grads_free(pg);
    fl_ctx_free(c);
}

static void frozen_parameters_get_no_gradient(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *h = fl_layers_fc(data2(c, "x", 3), 4, .param = { .frozen = true });
    fl_param_grad *pg;
    size_t n;

    (void)state;
    assert_ok(
        fl_append_backward(fl_layers_mean(fl_layers_fc(h, 2, )), &pg, &n));
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++)
        assert_string_not_equal(fl_var_name(pg[i].param), "fc_0.w_0");
    fl_param_grads_free(pg);
    fl_ctx_free(c);
}

static void a_loss_that_is_no_number_is_refused(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x = data2(c, "x", 3);
    fl_optimizer *o = make_optimizer(c, "sgd", NULL);

    (void)state;
    assert_int_equal(fl_minimize(o, fl_layers_fc(x, 4, )), FL_ERR_INVAL);
    assert_said("take its mean");
    assert_int_equal(fl_minimize(o, fl_layers_mean(x)), FL_ERR_INVAL);
    assert_said("does not depend on any trainable parameter");
    fl_ctx_free(c);
}

static void settings_are_words_and_wrong_ones_are_refused(void **state)
{
    fl_ctx *c = make_ctx();
    fl_optimizer *o;

    (void)state;
    assert_ok(
        fl_optimizer_new(&o, c, "adam",
                         "learning_rate=0.1, beta1=0.8 lazy_mode=false,"
                         "regularization=l2(0.1), grad_clip=value(-1, 1)"));
    assert_int_not_equal(fl_optimizer_new(&o, c, "adma", NULL), FL_OK);
    assert_said("there are sgd, momentum, adagrad, adam, ftrl");
    assert_int_not_equal(fl_optimizer_new(&o, c, "adam", "beta_1=0.9"), FL_OK);
    assert_said("did you mean beta1?");
    assert_int_not_equal(fl_optimizer_new(&o, c, "sgd", "learning_rate=fast"),
                         FL_OK);
    assert_said("'fast' is not a number");
    assert_int_not_equal(fl_optimizer_new(&o, c, "adam", "lr=0.1"), FL_OK);
    assert_said("optimizer adam has no setting lr; ");
    assert_said("there are learning_rate, regularization, grad_clip, "
                "lazy_mode, accumulate, initial_accumulator_value, beta1, "
                "beta2, epsilon");
    assert_int_not_equal(fl_optimizer_new(&o, c, "sgd", "grad_clip=norm(1,2)"),
                         FL_OK);
    assert_said("norm(1,2)");
    assert_int_not_equal(fl_optimizer_new(&o, c, "sgd", "regularization=l3(1)"),
                         FL_OK);
    assert_int_not_equal(fl_optimizer_new(&o, c, "sgd", "fast"), FL_OK);
    assert_said("name=value");
    fl_ctx_free(c);
}

static void values_out_of_their_range_are_refused(void **state)
{
    static const char *const bad[][3] = {
        { "sgd", "learning_rate=-1", "'-1' is not a number in 0..inf" },
        { "sgd", "learning_rate=nan", "0..inf" },
        { "adam", "beta1=1", "0..0.999999999" },
        { "adam", "epsilon=-1e-8", "0..inf" },
        { "momentum", "momentum=-0.1", "0..inf" },
        { "momentum", "use_nesterov=2", "true, false" },
        { "ftrl", "lr_power=1", "-inf..0" },
        { "adagrad", "initial_accumulator_value=-1", "0..inf" },
    };
    fl_ctx *c = make_ctx();
    fl_optimizer *o;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_not_equal(fl_optimizer_new(&o, c, bad[i][0], bad[i][1]),
                             FL_OK);
        assert_said(bad[i][1]);
        assert_said(bad[i][2]);
    }
    fl_ctx_free(c);
}

static void accumulators_have_the_names_users_know(void **state)
{
    fl_ctx *c = make_ctx();
    char *text;

    (void)state;
    assert_ok(fl_minimize(make_optimizer(c, "adam", NULL), small_loss(c)));
    text = fl_program_to_text(fl_default_main_program(c));
    assert_text_has(text, "var fc_0.w_0_moment1_0 : f32[3,4] persist");
    assert_text_has(text, "var fc_0.w_0_beta2_pow_acc_0 : f32[1] persist");
    assert_text_has(text, "var learning_rate_0 : f32[1] persist");
    assert_text_has(text, "@optimize");
    fl_text_free(text);
    fl_ctx_free(c);
}

static void a_parameter_keeps_its_own_rate_decay_and_clip(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *y = fl_layers_fc(data2(c, "x", 3), 4,
                             .param = { .learning_rate = 0.5,
                                        .regularizer = "l2(0.25)",
                                        .clip = "norm(2)" });
    char *text;

    (void)state;
    assert_ok(fl_minimize(make_optimizer(c, "sgd", NULL), fl_layers_mean(y)));
    text = fl_program_to_text(fl_default_main_program(c));
    assert_text_has(text, "lr=0.5 regularizer=l2(0.25) clip=norm(2)");
    assert_text_has(text, "op clip_by_norm (X=fc_0.w_0@GRAD)");
    assert_text_has(text, "op weight_decay (Param=fc_0.w_0, "
                          "Grad=clip_by_norm_0.tmp_0)");
    assert_text_has(text, "op scale (X=learning_rate_0)");
    fl_text_free(text);
    fl_ctx_free(c);
}

static void a_schedule_follows_the_global_step(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    int64_t bounds[] = { 2, 4 };
    double values[] = { 1, 0.5, 0.25 };
    fl_var *lr = fl_layers_piecewise_decay(c, bounds, values, 2);
    fl_var *loss = small_loss(c);
    fl_optimizer *o = make_optimizer(c, "sgd", NULL);
    static const float want[] = { 1, 1, .5f, .5f, .25f };
    float x[3] = { 1, 2, 3 };
    fl_feed feed = { "x",
                     fl_tensor_of(FL_DTYPE_F32, x, 2, (int64_t[]){ 1, 3 }) };
    const char *fetch;
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    (void)state;
    fetch = fl_var_name(lr);
    fl_optimizer_set_lr(o, lr);
    assert_ok(fl_minimize(o, loss));
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    for (int i = 0; i < 5; i++) {
        assert_ok(fl_run(e, fl_default_main_program(c), &a));
        assert_float_equal(*(float *)out.data, want[i], 0);
    }
    fl_scope_set_step(fl_current_scope(c), 0);
    assert_ok(fl_run(e, fl_default_main_program(c), &a));
    assert_float_equal(*(float *)out.data, 1, 0);
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void a_clip_of_its_own_leaves_the_global_norm(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *h =
        fl_layers_fc(data2(c, "x", 3), 4, .param = { .clip = "value(-1,1)" });
    char *text;

    (void)state;
    assert_ok(fl_minimize(make_optimizer(c, "lamb", "grad_clip=global_norm(2)"),
                          fl_layers_mean(h)));
    text = fl_program_to_text(fl_default_main_program(c));
    assert_text_has(text, "op clip_by_global_norm (X=fc_0.b_0@GRAD)");
    assert_text_has(text, "op clip (X=fc_0.w_0@GRAD)");
    fl_text_free(text);
    fl_ctx_free(c);
}

static void a_schedule_for_a_rule_with_its_own_rate_is_refused(void **state)
{
    fl_ctx *c = make_ctx();
    fl_optimizer *o = make_optimizer(c, "adadelta", "learning_rate=0.0003");

    (void)state;
    fl_optimizer_set_lr(o, fl_layers_noam_decay(c, 8, 10, 1));
    assert_int_equal(fl_minimize(o, small_loss(c)), FL_ERR_INVAL);
    assert_said("adadelta makes its own rate");
    fl_ctx_free(c);
}

static void wrong_numbers_of_a_schedule_are_named(void **state)
{
    fl_ctx *c = make_ctx();

    (void)state;
    assert_null(fl_layers_natural_exp_decay(c, 0.1, 0, 0.5, false));
    assert_said("op lr_natural_exp_decay: decay_steps is 0, not above 0");
    assert_null(fl_layers_inverse_time_decay(c, 0.1, -1, 0.5, false));
    assert_said("op lr_inverse_time_decay: decay_steps is -1, not above 0");
    assert_null(fl_layers_noam_decay(c, 0, 10, 1));
    assert_said("op lr_noam_decay: d_model is 0, not above 0");
    assert_null(fl_layers_noam_decay(c, 8, 0, 1));
    assert_said("op lr_noam_decay: warmup_steps is 0, not above 0");
    assert_null(fl_layers_polynomial_decay(c, 0.1, 0, 0.01, 1, false));
    assert_said("op lr_polynomial_decay: decay_steps is 0, not above 0");
    assert_null(fl_layers_cosine_decay(c, 0.1, 0, 4));
    assert_said("op lr_cosine_decay: step_each_epoch is 0, not above 0");
    assert_null(fl_layers_cosine_decay(c, 0.1, 4, 0));
    assert_said("op lr_cosine_decay: epochs is 0, not above 0");
    assert_null(fl_layers_linear_lr_warmup(fl_layers_cosine_decay(c, 0.1, 4, 4),
                                           0, 0, 1));
    assert_said("op lr_linear_warmup: warmup_steps is 0, not above 0");
    fl_ctx_free(c);
}

/* As the original has it: the operator uses the power, a scale advances it. */
static void a_power_may_be_advanced_by_another_operator(void **state)
{
    static const char text[] =
        "param w : f32[2] trainable\n"
        "var g : f32[2] data\n"
        "var lr : f32[1] persist\nvar m : f32[2] persist\n"
        "var u : f32[2] persist\nvar p : f32[1] persist\n"
        "op adamax (Param=w, Grad=g, LearningRate=lr, Moment=m, InfNorm=u, "
        "Beta1Pow=p) -> (ParamOut=w, MomentOut=m, InfNormOut=u) @optimize\n"
        "op scale (X=p) -> (Out=p) {scale=0.9} @optimize\n";
    static const char *const names[] = { "w", "m", "u", "lr", "p" };
    static const int64_t sizes[] = { 2, 2, 2, 1, 1 };
    float first[][2] = { { 1, 1 }, { 0 }, { 0 }, { 0.1f }, { 0.9f } };
    float g[2] = { 2, -2 };
    fl_feed feed = { "g", fl_tensor_of(FL_DTYPE_F32, g, 1, (int64_t[]){ 2 }) };
    fl_run_args a = FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1);
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_program *p;
    fl_tensor t;

    (void)state;
    assert_ok(fl_program_from_text(&p, c, text));
    for (int i = 0; i < 5; i++) {
        t = fl_tensor_of(FL_DTYPE_F32, first[i], 1, &sizes[i]);
        assert_ok(fl_scope_set(fl_current_scope(c), names[i], &t));
    }
    assert_ok(fl_run(e, p, &a));
    assert_ok(fl_run(e, p, &a));
    assert_ok(fl_scope_get(fl_current_scope(c), "p", &t));
    assert_float_equal(*(float *)t.data, 0.9 * 0.9 * 0.9, 1e-6);
    assert_ok(fl_scope_get(fl_current_scope(c), "w", &t));
    assert_float_equal(*(float *)t.data, 1 - 0.1 - 0.1, 1e-6);
    fl_program_free(p);
    fl_executor_free(e);
    fl_ctx_free(c);
}

/* The same table, once with a dense and once with a sparse gradient. */
static void dense_and_sparse_gradients_of_a_table_agree(void **state)
{
    float value[2][40];

    (void)state;
    for (int sparse = 0; sparse < 2; sparse++) {
        fl_ctx *c = make_ctx();
        fl_executor *e = make_executor(c);
        fl_var *i =
            fl_layers_data(c, "i", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
        fl_var *k =
            fl_layers_data(c, "k", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
        fl_param_attr p = { .name = "emb" };
        fl_var *a =
            fl_layers_embedding(i, 10, 4, .is_sparse = sparse, .param = p);
        fl_var *b =
            fl_layers_embedding(k, 10, 4, .is_sparse = sparse, .param = p);
        fl_var *loss = fl_layers_mean(fl_layers_square_error_cost(a, b));
        int64_t ids[] = { 1, 2, 2, 9, 0 }, other[] = { 2, 3, 1, 0, 0 };
        fl_feed feeds[] = {
            { "i", fl_tensor_of(FL_DTYPE_I64, ids, 2, (int64_t[]){ 5, 1 }) },
            { "k", fl_tensor_of(FL_DTYPE_I64, other, 2, (int64_t[]){ 5, 1 }) },
        };
        fl_run_args args = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2);
        fl_tensor t;

        assert_ok(fl_minimize(
            make_optimizer(c, "adam", "learning_rate=0.1 lazy_mode=false"),
            loss));
        assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
        for (int s = 0; s < 5; s++)
            assert_ok(fl_run(e, fl_default_main_program(c), &args));
        assert_ok(fl_scope_get(fl_current_scope(c), "emb", &t));
        memcpy(value[sparse], t.data, sizeof(value[sparse]));
        fl_executor_free(e);
        fl_ctx_free(c);
    }
    for (int j = 0; j < 40; j++)
        assert_float_equal(value[0][j], value[1][j], 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_variable_used_twice_gets_the_sum_of_its_gradients),
        cmocka_unit_test(frozen_parameters_get_no_gradient),
        cmocka_unit_test(a_loss_that_is_no_number_is_refused),
        cmocka_unit_test(settings_are_words_and_wrong_ones_are_refused),
        cmocka_unit_test(values_out_of_their_range_are_refused),
        cmocka_unit_test(accumulators_have_the_names_users_know),
        cmocka_unit_test(a_parameter_keeps_its_own_rate_decay_and_clip),
        cmocka_unit_test(a_schedule_follows_the_global_step),
        cmocka_unit_test(a_power_may_be_advanced_by_another_operator),
        cmocka_unit_test(a_clip_of_its_own_leaves_the_global_norm),
        cmocka_unit_test(a_schedule_for_a_rule_with_its_own_rate_is_refused),
        cmocka_unit_test(wrong_numbers_of_a_schedule_are_named),
        cmocka_unit_test(dense_and_sparse_gradients_of_a_table_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
