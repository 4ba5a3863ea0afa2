/* test_backward.c - gradients for lists of parameters and for any variable,
 * and the state of optimizers by name. */
#include "api.h"

static fl_ctx *ctx;
static fl_executor *exe;

static int open_all(void **state)
{
    (void)state;
    assert_ok(fl_ctx_new(&ctx));
    assert_ok(fl_executor_new(&exe, ctx));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    fl_executor_free(exe);
    fl_ctx_free(ctx);
    return 0;
}

static fl_var *main_var(const char *name)
{
    return fl_program_var(fl_default_main_program(ctx), name);
}

static fl_optimizer *new_optimizer(const char *kind)
{
    fl_optimizer *o;

    assert_ok(fl_optimizer_new(&o, ctx, kind, NULL));
    return o;
}

/* Two layers, four parameters. */
static fl_var *two_layers(void)
{
    fl_var *h = fl_layers_fc(data2(ctx, "x", 3), 4, );

    return fl_layers_mean(fl_layers_fc(h, 1, ));
}

/* The first three values of a variable when x is 1, 2, 3. */
static void run(const fl_var *v, float out[3])
{
    float x[3] = { 1, 2, 3 };
    const char *name = fl_var_name(v);
    fl_feed feed = { "x",
                     fl_tensor_of(FL_DTYPE_F32, x, 2, (int64_t[]){ 1, 3 }) };
    fl_tensor t;

    assert_ok(fl_run(exe, fl_default_main_program(ctx),
                     FL_OPTIONS(fl_run_args, .feeds = &feed, .n_feeds = 1,
                                .fetches = &name, .n_fetches = 1, .out = &t)));
    memcpy(out, t.data, 3 * sizeof(*out));
}

static void expect(const fl_var *v, float a, float b, float c)
{
    float got[3];

    run(v, got);
    assert_float_equal(got[0], a, 1e-6);
    assert_float_equal(got[1], b, 1e-6);
    assert_float_equal(got[2], c, 1e-6);
}

/* --- parameters ---------------------------------------------------------- */

static void only_the_parameters_of_the_list_get_gradients(void **state)
{
    fl_var *loss = two_layers();
    fl_var *some[] = { main_var("fc_1.w_0"), main_var("fc_0.b_0") };
    fl_backward_args args = { .size = sizeof(args),
                              .parameters = some,
                              .n_parameters = 2 };
    fl_param_grad *pg;
    size_t n;

    (void)state;
    assert_ok(fl_append_backward_with(loss, &args, &pg, &n));
    assert_int_equal(n, 2);
    assert_ptr_equal(pg[0].param, some[0]);
    assert_string_equal(fl_var_name(pg[1].grad), "fc_0.b_0@GRAD");
    assert_null(main_var("fc_0.w_0@GRAD"));
    assert_null(main_var("fc_1.b_0@GRAD"));
    fl_param_grads_free(pg);
}

static void nothing_flows_through_what_is_cut(void **state)
{
    fl_var *loss = two_layers();
    fl_var *cut = main_var("fc_0.tmp_1");
    fl_backward_args args = { .size = sizeof(args),
                              .no_grad = &cut,
                              .n_no_grad = 1 };
    fl_optimizer *o = new_optimizer("sgd");

    (void)state;
    assert_ok(fl_minimize_with(o, loss, &args));
    assert_non_null(main_var("fc_1.w_0@GRAD"));
    assert_null(main_var("fc_0.w_0@GRAD"));
    assert_null(main_var("fc_0.tmp_1@GRAD"));
}

static void a_parameter_that_failed_is_named(void **state)
{
    fl_var *missing = NULL;
    fl_backward_args args = { .size = sizeof(args),
                              .parameters = &missing,
                              .n_parameters = 1 };
    fl_param_grad *pg;
    size_t n;

    (void)state;
    assert_int_equal(fl_append_backward_with(two_layers(), &args, &pg, &n),
                     FL_ERR_INVAL);
    assert_said("parameter 0 is missing");
}

/* --- any variable -------------------------------------------------------- */

static void gradients_reach_what_is_fed(void **state)
{
    fl_var *x = data2(ctx, "x", 3);
    fl_var *y = fl_layers_unary("square", x, NULL), *dx;

    (void)state;
    assert_ok(fl_gradients(&dx, .targets = &y, .n_targets = 1, .inputs = &x,
                           .n_inputs = 1));
    expect(dx, 2, 4, 6);
}

static void gradients_start_from_those_of_the_targets(void **state)
{
    fl_var *x = data2(ctx, "x", 3);
    fl_var *y = fl_layers_unary("square", x, NULL), *dx;
    fl_var *above = fl_layers_scale(x, 10, 0);

    (void)state;
    assert_ok(fl_gradients(&dx, .targets = &y, .n_targets = 1, .inputs = &x,
                           .n_inputs = 1, .target_gradients = &above));
    expect(dx, 20, 80, 180);
}

static void a_target_of_which_another_is_made_counts_twice(void **state)
{
    fl_var *x = data2(ctx, "x", 3), *grads[2];
    fl_var *y = fl_layers_unary("square", x, NULL);
    fl_var *targets[] = { y, fl_layers_scale(y, 3, 0) };
    fl_var *inputs[] = { x, y };

    (void)state;
    assert_ok(fl_gradients(grads, .targets = targets, .n_targets = 2,
                           .inputs = inputs, .n_inputs = 2));
    expect(grads[1], 4, 4, 4);
    expect(grads[0], 8, 16, 24);
}

static void what_no_target_depends_on_has_no_gradient(void **state)
{
    fl_var *x = data2(ctx, "x", 3), *grads[2];
    fl_var *y = fl_layers_relu(x);
    fl_var *inputs[] = { x, fl_layers_tanh(x) };

    (void)state;
    assert_ok(fl_gradients(grads, .targets = &y, .n_targets = 1,
                           .inputs = inputs, .n_inputs = 2));
    assert_non_null(grads[0]);
    assert_null(grads[1]);
}

static void a_second_gradient_has_a_name_of_its_own(void **state)
{
    fl_var *x = data2(ctx, "x", 3), *first, *second;
    fl_var *y = fl_layers_unary("square", x, NULL);
    fl_var *z = fl_layers_scale(x, 5, 0);

    (void)state;
    assert_ok(fl_gradients(&first, .targets = &y, .n_targets = 1, .inputs = &x,
                           .n_inputs = 1));
    assert_ok(fl_gradients(&second, .targets = &z, .n_targets = 1, .inputs = &x,
                           .n_inputs = 1));
    assert_string_equal(fl_var_name(first), "x@GRAD");
    assert_string_equal(fl_var_name(second), "x@GRAD@1");
    expect(first, 2, 4, 6);
    expect(second, 5, 5, 5);
}

static void integers_have_no_gradient(void **state)
{
    fl_var *ids =
        fl_layers_data(ctx, "ids", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *y = fl_layers_cast(ids, FL_DTYPE_F32), *dx;

    (void)state;
    assert_int_equal(fl_gradients(&dx, .targets = &y, .n_targets = 1,
                                  .inputs = &ids, .n_inputs = 1),
                     FL_ERR_TYPE);
    assert_said("input ids is of type i64");
}

/* --- optimizers ---------------------------------------------------------- */

static void the_state_of_a_parameter_is_found_by_name(void **state)
{
    fl_optimizer *o = new_optimizer("adam");
    fl_var *loss = two_layers(), *w = main_var("fc_0.w_0"), *moment;
    fl_param_grad *pg;
    size_t n;

    (void)state;
    assert_string_equal(fl_optimizer_state_name(o, 0), "moment1");
    assert_non_null(fl_optimizer_state_name(o, 3));
    assert_null(fl_optimizer_state_name(o, 4));
    assert_null(fl_optimizer_state(o, w, "moment1"));
    assert_ok(fl_append_backward(loss, &pg, &n));
    assert_ok(fl_apply_gradients(o, pg, n));
    fl_param_grads_free(pg);
    moment = fl_optimizer_state(o, w, "moment1");
    assert_string_equal(fl_var_name(moment), "fc_0.w_0_moment1_0");
    assert_null(fl_optimizer_state(o, w, "moment3"));
    assert_null(fl_optimizer_state(o, loss, "moment1"));
}

static void kinds_of_optimizers_describe_themselves(void **state)
{
    fl_optimizer_view kind = { .size = sizeof(kind) };
    fl_optimizer_setting setting = { .size = sizeof(setting) };
    fl_optimizer_state_view view = { .size = sizeof(view) };
    size_t n = 0;

    (void)state;
    for (; !fl_optimizer_at(n, &kind); n++) {
        for (size_t i = 0; i < kind.n_settings; i++)
            assert_ok(fl_optimizer_setting_at(kind.name, i, &setting));
        for (size_t i = 0; i < kind.n_states; i++)
            assert_ok(fl_optimizer_state_at(kind.name, i, &view));
        assert_int_equal(fl_optimizer_state_at(kind.name, kind.n_states, &view),
                         FL_ERR_NOTFOUND);
    }
    assert_true(n >= 5);
    assert_ok(fl_optimizer_setting_at("adam", 0, &setting));
    assert_string_equal(setting.name, "beta1");
    assert_float_equal(setting.value, 0.9, 0);
    assert_ok(fl_optimizer_state_at("adam", 2, &view));
    assert_true(view.is_scalar);
    assert_string_equal(view.slot, "Beta1Pow");
    assert_string_equal(view.first_from, "beta1");
    assert_int_equal(fl_optimizer_setting_at("adm", 0, &setting),
                     FL_ERR_NOTFOUND);
}

/* x has no gradient, and the operator's first output is left out. */
static void a_fed_gradient_flows_past_what_is_cut_off(void **state)
{
    fl_program *p = fl_default_main_program(ctx);

    (void)state;
    data2(ctx, "x", 3);
    assert_ok(fl_program_add(
        p, "op scale (X=x) -> (Out=y) {scale=2}\n"
           "op elementwise_mul (X=y, Y=y) -> (Out=o)\n"
           "op elementwise_mul_grad (X=y, Y=y, Out@GRAD=x) -> (Y@GRAD=d) "
           "@backward"));
    expect(main_var("d"), 2, 8, 18);
}

#define backward_test(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        backward_test(only_the_parameters_of_the_list_get_gradients),
        backward_test(nothing_flows_through_what_is_cut),
        backward_test(a_parameter_that_failed_is_named),
        backward_test(gradients_reach_what_is_fed),
        backward_test(gradients_start_from_those_of_the_targets),
        backward_test(a_target_of_which_another_is_made_counts_twice),
        backward_test(what_no_target_depends_on_has_no_gradient),
        backward_test(a_second_gradient_has_a_name_of_its_own),
        backward_test(integers_have_no_gradient),
        backward_test(a_fed_gradient_flows_past_what_is_cut_off),
        backward_test(the_state_of_a_parameter_is_found_by_name),
        backward_test(kinds_of_optimizers_describe_themselves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
