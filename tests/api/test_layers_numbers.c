/* test_layers_numbers.c - functions of numbers, comparisons and reductions:
 * their layers, shapes that meet, values by hand, and what is refused. */
#include <math.h>

#include "api.h"
#include "../make.h"

/* What came of a program in text form; out is what it called z. */
typedef struct result {
    fl_ctx *c;
    fl_executor *e;
    fl_tensor out;
} result;

static fl_status run_fed(result *r, const char *text, const fl_feed *feeds,
                         size_t n_feeds)
{
    const char *fetch = "z";
    fl_run_args a = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = n_feeds,
                            .fetches = &fetch, .n_fetches = 1, .out = &r->out);
    static const double nothing = 0;
    fl_status st;

    *r = (result){ .c = make_ctx(),
                   .out = fl_tensor_of(FL_DTYPE_F64, &nothing, 0, NULL) };
    r->e = make_executor(r->c);
    st = fl_program_add(fl_default_main_program(r->c), text);
    return st ? st : fl_run(r->e, fl_default_main_program(r->c), &a);
}

static fl_status run_text(result *r, const char *text)
{
    return run_fed(r, text, NULL, 0);
}

static void end_run(result *r)
{
    fl_executor_free(r->e);
    fl_ctx_free(r->c);
}

#define CONSTANT(name, dtype, value)                                           \
    "op fill_constant () -> (Out=" name ") {shape=[1], dtype=" dtype           \
    ", value=" value "}\n"

static void check_ints(const char *op, const char *x, const char *y,
                       int64_t want)
{
    char text[512];
    result r;

    snprintf(text, sizeof(text),
             "op fill_constant () -> (Out=x) {shape=[1], dtype=int64, "
             "value=%s}\n"
             "op fill_constant () -> (Out=y) {shape=[1], dtype=int64, "
             "value=%s}\n"
             "op %s (X=x, Y=y) -> (Out=z)\n",
             x, y, op);
    assert_ok(run_text(&r, text));
    assert_int_equal(r.out.dtype, FL_DTYPE_I64);
    assert_int_equal(*(int64_t *)r.out.data, want);
    end_run(&r);
}

static void integers_are_added_and_divided(void **state)
{
    (void)state;
    check_ints("elementwise_add", "7", "-3", 4);
    check_ints("elementwise_mul", "7", "-3", -21);
    check_ints("elementwise_max", "7", "-3", 7);
    check_ints("elementwise_div", "-7", "3", -2);
    check_ints("elementwise_floordiv", "-7", "3", -2);
    check_ints("elementwise_mod", "-7", "3", -1);
    check_ints("elementwise_pow", "-7", "3", -343);
}

static void an_integer_divided_by_zero_is_an_error(void **state)
{
    result r;

    (void)state;
    assert_int_equal(
        run_text(&r, CONSTANT("x", "int64", "7") CONSTANT(
                         "y", "int64",
                         "0") "op elementwise_mod (X=x, Y=y) -> (Out=z)\n"),
        FL_ERR_NUMERIC);
    assert_said("Y: 0 at place 0");
    end_run(&r);
}

static void of_floats_the_rest_has_the_sign_of_the_divisor(void **state)
{
    result r;

    (void)state;
    assert_ok(run_text(
        &r, CONSTANT("x", "float32", "-7.5")
                CONSTANT("y", "float32",
                         "3") "op elementwise_mod (X=x, Y=y) -> (Out=z)\n"));
    assert_float_equal(*(float *)r.out.data, 1.5, 0);
    end_run(&r);
    assert_ok(run_text(
        &r, CONSTANT("x", "float32", "-7.5") CONSTANT(
                "y", "float32",
                "3") "op elementwise_floordiv (X=x, Y=y) -> (Out=z)\n"));
    assert_float_equal(*(float *)r.out.data, -3, 0);
    end_run(&r);
}

/* --- shapes that meet ----------------------------------------------------- */

static const float column[] = { 10, 20 }, row[] = { 1, 2, 3 };

/* x + y over feeds of the given shapes, as text declares them. */
typedef struct sum_case {
    const char *text; /* of both variables and the operator */
    fl_feed feeds[2];
} sum_case;

static fl_status run_sum(result *r, const sum_case *s)
{
    return run_fed(r, s->text, s->feeds, 2);
}

#define FEED(name, data, ...)                                                  \
    {                                                                          \
        name, fl_tensor_of(FL_DTYPE_F32, data, FL_LEN_OF(__VA_ARGS__),         \
                           (int64_t[]){ __VA_ARGS__ })                         \
    }
#define FL_LEN_OF(...)                                                         \
    ((int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

static void expect_sums(const sum_case *s)
{
    static const float want[] = { 11, 12, 13, 21, 22, 23 };
    result r;

    assert_ok(run_sum(&r, s));
    assert_int_equal(r.out.shape.rank, 2);
    assert_int_equal(r.out.shape.dim[0], 2);
    assert_int_equal(r.out.shape.dim[1], 3);
    assert_memory_equal(r.out.data, want, sizeof(want));
    end_run(&r);
}

static void either_side_is_repeated(void **state)
{
    (void)state;
    expect_sums(&(sum_case){ "var x : f32[-1,1] data\nvar y : f32[3] data\n"
                             "op elementwise_add (X=x, Y=y) -> (Out=z)\n",
                             { FEED("x", column, 2, 1), FEED("y", row, 3) } });
    expect_sums(
        &(sum_case){ "var x : f32[1,3] data\nvar y : f32[-1,1] data\n"
                     "op elementwise_add (X=x, Y=y) -> (Out=z)\n",
                     { FEED("x", row, 1, 3), FEED("y", column, 2, 1) } });
    /* In place would be wrong: Out is larger than X. */
    expect_sums(&(sum_case){ "var x : f32[3] data\nvar y : f32[-1,1] data\n"
                             "op scale (X=x) -> (Out=s) {scale=1}\n"
                             "op elementwise_add (X=s, Y=y) -> (Out=z)\n",
                             { FEED("x", row, 3), FEED("y", column, 2, 1) } });
}

static void shapes_that_do_not_meet_are_refused(void **state)
{
    static const float six[6] = { 0 };
    result r;

    (void)state;
    assert_int_equal(
        run_sum(&r, &(sum_case){ "var x : f32[2,3] data\n"
                                 "var y : f32[2] data\n"
                                 "op elementwise_add (X=x, Y=y) -> (Out=z)\n",
                                 { FEED("x", six, 2, 3), FEED("y", six, 2) } }),
        FL_ERR_INVAL);
    assert_said("X (x: f32[2,3]) and Y (y: f32[2]) do not fit at axis -1");
    end_run(&r);
    assert_int_equal(
        run_sum(&r,
                &(sum_case){ "var x : f32[-1,3] data\n"
                             "var y : f32[-1,3] data\n"
                             "op elementwise_add (X=x, Y=y) -> (Out=z)\n",
                             { FEED("x", six, 1, 3), FEED("y", six, 2, 3) } }),
        FL_ERR_INVAL);
    assert_said("X must be declared with 1");
    end_run(&r);
}

static void wrong_types_are_refused(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x = data2(c, "x", 3);
    fl_var *ids =
        fl_layers_data(c, "ids", FL_DTYPE_I64, 2, (int64_t[]){ -1, 3 }, 0);
    fl_var *bytes =
        fl_layers_data(c, "bytes", FL_DTYPE_U8, 2, (int64_t[]){ -1, 3 }, 0);

    (void)state;
    assert_null(fl_layers_elementwise_add(x, ids, -1));
    assert_said("have different types");
    assert_null(fl_layers_elementwise_pow(bytes, bytes, -1));
    assert_said("must be f32 or f64, i32 or i64");
    assert_null(fl_layers_elementwise_add(bytes, bytes, -1));
    assert_said("must be f32 or f64, i32 or i64");
    assert_null(fl_layers_logical_and(x, x));
    assert_said("must be bool; compare or cast it first");
    assert_null(fl_layers_reduce_all(x));
    assert_said("must be bool; compare or cast it first");
    assert_null(fl_layers_reduce_max(bytes));
    assert_said("must be f32 or f64");
    assert_null(fl_layers_exp(ids));
    assert_said("must be f32 or f64");
    assert_null(fl_layers_reduce("reduce_max", x, (int64_t[]){ 2 }, 1, false));
    assert_said("dim names a dimension that");
    assert_null(fl_layers_l2_normalize(x, 2));
    assert_said("has no axis 2");
    assert_null(fl_layers_unary("norm", x, "{epsilon=0}"));
    assert_said("epsilon=0 is not above 0");
    fl_ctx_free(c);
}

/* --- layers --------------------------------------------------------------- */

#define COUNT_OUTS 24

static void layers_compute_what_they_say(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_var *x = data2(c, "x", 2), *half = fl_layers_scale(x, 0.5, 0);
    fl_var *less = fl_layers_less_than(x, half);
    float xs[] = { 3, -4 };
    fl_feed feed = { "x",
                     fl_tensor_of(FL_DTYPE_F32, xs, 2, (int64_t[]){ 1, 2 }) };
    struct {
        fl_var *var;
        double want[2];
    } all[] = {
        { fl_layers_brelu(x, -1, 2), { 2, -1 } },
        { fl_layers_stanh(x, 0.5, 2), { 2 * tanh(1.5), -2 * tanh(2) } },
        { fl_layers_hard_sigmoid(x, 0.125, 0.5), { 0.875, 0 } },
        { fl_layers_hard_swish(x, 6, 6, 3), { 3, 0 } },
        { fl_layers_gelu(x, false), { 2.9959502, -0.00012668 } },
        { fl_layers_gelu(x, true), { 2.9963627, -7.0243e-05 } },
        { fl_layers_elementwise_sub(x, half, -1), { 1.5, -2 } },
        { fl_layers_elementwise_max(x, half, -1), { 3, -2 } },
        { fl_layers_elementwise_min(x, half, -1), { 1.5, -4 } },
        { fl_layers_cast(less, FL_DTYPE_F32), { 0, 1 } },
        { fl_layers_cast(fl_layers_logical_not(less), FL_DTYPE_F32), { 1, 0 } },
        { fl_layers_cast(fl_layers_logical_xor(less, less), FL_DTYPE_F32),
          { 0, 0 } },
        { fl_layers_cast(fl_layers_not_equal(x, half), FL_DTYPE_F32),
          { 1, 1 } },
        { fl_layers_reduce_max(x), { 3 } },
        { fl_layers_reduce_min(x), { -4 } },
        { fl_layers_reduce_prod(x), { -12 } },
        { fl_layers_cast(fl_layers_reduce_all(less), FL_DTYPE_F32), { 0 } },
        { fl_layers_cast(fl_layers_reduce_any(less), FL_DTYPE_F32), { 1 } },
        { fl_layers_reduce("reduce_sum", x, (int64_t[]){ 0 }, 1, true),
          { 3, -4 } },
        { fl_layers_reduce("reduce_min", x, NULL, 0, false), { -4 } },
        { fl_layers_l2_normalize(x, -1), { 0.6, -0.8 } },
        { fl_layers_squared_l2_norm(x), { 25 } },
        { fl_layers_swish(x, 1), { 2.8577224, -0.0719448 } },
        { fl_layers_softplus(x), { 3.0485874, 0.0181499 } },
    };
    const char *fetches[COUNT_OUTS];
    fl_tensor out[COUNT_OUTS];
    fl_run_args a =
        FL_INIT(fl_run_args, .feeds = &feed, .n_feeds = 1, .fetches = fetches,
                .n_fetches = COUNT_OUTS, .out = out);

    (void)state;
    assert_int_equal(sizeof(all) / sizeof(all[0]), COUNT_OUTS);
    for (int i = 0; i < COUNT_OUTS; i++) {
        if (!all[i].var)
            fail_msg("layer %d: %s", i, fl_last_error());
        fetches[i] = fl_var_name(all[i].var);
    }
    assert_ok(fl_run(e, fl_default_main_program(c), &a));
    for (int i = 0; i < COUNT_OUTS; i++)
        for (int64_t k = 0; k < fl_tensor_numel(&out[i]); k++)
            if (fabs((double)((float *)out[i].data)[k] - all[i].want[k]) > 1e-6)
                fail_msg("layer %d, number %d: got %.9g, want %.9g", i, (int)k,
                         (double)((float *)out[i].data)[k], all[i].want[k]);
    fl_executor_free(e);
    fl_ctx_free(c);
}

#define AT_AXIS(name)                                                          \
    assert_non_null(fl_layers_##name(x, x, 0));                                \
    assert_null(fl_layers_##name(x, NULL, 0));                                 \
    assert_null(fl_layers_##name(NULL, x, 0));
#define OF_TWO(name)                                                           \
    assert_non_null(fl_layers_##name(x, x));                                   \
    assert_null(fl_layers_##name(x, NULL));                                    \
    assert_null(fl_layers_##name(NULL, x));

static void every_layer_of_two_appends_its_operator(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x = data2(c, "x", 4);

    (void)state;
    FL_LAYERS_ELEMENTWISE(AT_AXIS)
    FL_LAYERS_COMPARING(OF_TWO)
    x = fl_layers_equal(x, x);
    FL_LAYERS_LOGICAL(OF_TWO)
    fl_ctx_free(c);
}

static void a_product_with_one_zero_has_a_gradient_there(void **state)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_program *main = fl_default_main_program(c);
    float xs[] = { 2, 0, 5 }, ones[] = { 1 };
    fl_feed feeds[] = {
        { "x", fl_tensor_of(FL_DTYPE_F32, xs, 1, (int64_t[]){ 3 }) },
        { "dy", fl_tensor_of(FL_DTYPE_F32, ones, 1, (int64_t[]){ 1 }) },
    };
    const char *fetch = "dx";
    fl_tensor out;
    fl_run_args a = FL_INIT(fl_run_args, .feeds = feeds, .n_feeds = 2,
                            .fetches = &fetch, .n_fetches = 1, .out = &out);

    (void)state;
    assert_ok(fl_program_add(
        main, "var x : f32[3] data\nvar dy : f32[1] data\n"
              "op reduce_prod (X=x) -> (Out=y) {reduce_all=true}\n"
              "op reduce_prod_grad (X=x, Out=y, Out@GRAD=dy) -> (X@GRAD=dx) "
              "{reduce_all=true} @backward\n"));
    assert_ok(fl_run(e, main, &a));
    assert_memory_equal(out.data, ((float[]){ 0, 10, 0 }), sizeof(xs));
    fl_executor_free(e);
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_added_and_divided),
        cmocka_unit_test(an_integer_divided_by_zero_is_an_error),
        cmocka_unit_test(of_floats_the_rest_has_the_sign_of_the_divisor),
        cmocka_unit_test(either_side_is_repeated),
        cmocka_unit_test(shapes_that_do_not_meet_are_refused),
        cmocka_unit_test(wrong_types_are_refused),
        cmocka_unit_test(layers_compute_what_they_say),
        cmocka_unit_test(every_layer_of_two_appends_its_operator),
        cmocka_unit_test(a_product_with_one_zero_has_a_gradient_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
