/* test_calls.c - initialisers, regularizers and clips in words. */
#include "../ir/kit.h"

#include <math.h>

#include "optim/calls.h"

#define NEAR 1e-12

static fl_shape shape(int rank, const int64_t *dims)
{
    return fl_shape_of(rank, dims);
}

static fl_init resolve(const char *text, const fl_shape *s)
{
    fl_init init;

    if (fl_init_parse(text, s, &init))
        fail_msg("%s", fl_last_error());
    return init;
}

static void words_have_a_name_numbers_and_a_seed(void **state)
{
    fl_call w;

    (void)state;
    assert_int_equal(fl_call_parse("xavier", &w), FL_OK);
    assert_string_equal(w.name, "xavier");
    assert_int_equal(w.n, 0);
    assert_int_equal(fl_call_parse("uniform(-1,2.5,seed=9)", &w), FL_OK);
    assert_string_equal(w.name, "uniform");
    assert_int_equal(w.n, 2);
    assert_true(w.v[0] == -1 && w.v[1] == 2.5);
    assert_int_equal(w.seed, 9);
}

static void malformed_words_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "(1)",
        "l2(",
        "l2()",
        "l2(1",
        "l2(a)",
        "l2(1,)",
        "l2(1)x",
        "l2(1 2)",
        "l2(inf)",
        "l2(nan)",
        "l2(1;2)",
        "u(seed=)",
        "u(1,2,3,4,5)",
        "a_name_that_is_longer_than_there_is_room_for(1)"
    };
    fl_call w;

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++) {
        assert_int_equal(fl_call_parse(bad[i], &w), FL_ERR_INVAL);
        expect_said("name(number,...)");
    }
}

static void plain_initialisers_keep_their_numbers(void **state)
{
    fl_shape s = shape(1, (int64_t[]){ 3 });
    fl_init c = resolve("constant(0.5)", &s);
    fl_init u = resolve("uniform(-1,2,seed=4)", &s);
    fl_init n = resolve("normal(1,0.1)", &s);
    fl_init t = resolve("truncated_normal(0,2)", &s);

    (void)state;
    assert_true(c.kind == FL_INIT_CONSTANT && c.a == 0.5 && c.stream == 0);
    assert_true(u.kind == FL_INIT_UNIFORM && u.a == -1 && u.b == 2);
    assert_int_equal(u.stream, 4);
    assert_true(n.kind == FL_INIT_GAUSSIAN && n.a == 1 && n.b == 0.1);
    assert_true(t.kind == FL_INIT_TRUNCATED && t.a == 0 && t.b == 2);
}

static void xavier_follows_both_fans(void **state)
{
    fl_shape s = shape(2, (int64_t[]){ 20, 30 });
    fl_init u = resolve("xavier", &s);
    fl_init n = resolve("xavier_normal", &s);

    (void)state;
    assert_true(u.kind == FL_INIT_UNIFORM);
    assert_true(fabs(u.b - sqrt(6.0 / 50)) < NEAR && u.a == -u.b);
    assert_true(n.kind == FL_INIT_GAUSSIAN && n.a == 0);
    assert_true(fabs(n.b - sqrt(2.0 / 50)) < NEAR);
}

static void msra_follows_the_inputs_alone(void **state)
{
    fl_shape s = shape(2, (int64_t[]){ 20, 30 });
    fl_init u = resolve("msra", &s);
    fl_init n = resolve("msra_normal(seed=3)", &s);

    (void)state;
    assert_true(fabs(u.b - sqrt(6.0 / 20)) < NEAR && u.a == -u.b);
    assert_true(fabs(n.b - sqrt(2.0 / 20)) < NEAR);
    assert_int_equal(n.stream, 3);
}

static void fans_of_other_shapes(void **state)
{
    fl_shape flat = shape(1, (int64_t[]){ 12 });
    fl_shape conv = shape(4, (int64_t[]){ 8, 3, 5, 5 });

    (void)state;
    assert_true(fabs(resolve("xavier", &flat).b - sqrt(6.0 / 24)) < NEAR);
    assert_true(fabs(resolve("msra", &conv).b - sqrt(6.0 / 75)) < NEAR);
    assert_true(fabs(resolve("xavier", &conv).b - sqrt(6.0 / 275)) < NEAR);
}

static void given_fans_win_over_the_shape(void **state)
{
    fl_shape s = shape(2, (int64_t[]){ 20, 30 });

    (void)state;
    assert_true(fabs(resolve("xavier(4,2)", &s).b - 1) < NEAR);
    assert_true(fabs(resolve("xavier_normal(4,4,seed=2)", &s).b - 0.5) < NEAR);
    assert_true(fabs(resolve("msra(6)", &s).b - 1) < NEAR);
    assert_true(fabs(resolve("msra_normal(2)", &s).b - 1) < NEAR);
}

static void wrong_words_are_refused_with_a_reason(void **state)
{
    fl_shape s = shape(1, (int64_t[]){ 3 });
    fl_init init;

    (void)state;
    assert_int_equal(fl_init_parse("unifrom(0,1)", &s, &init), FL_ERR_INVAL);
    expect_said("'unifrom' is no initialiser");
    assert_int_equal(fl_init_parse("uniform(1)", &s, &init), FL_ERR_INVAL);
    expect_said("'uniform' needs 2 numbers, got 1");
    assert_int_equal(fl_init_parse("xavier(1)", &s, &init), FL_ERR_INVAL);
    expect_said("'xavier' needs 2 numbers, got 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_have_a_name_numbers_and_a_seed),
        cmocka_unit_test(malformed_words_are_refused),
        cmocka_unit_test(plain_initialisers_keep_their_numbers),
        cmocka_unit_test(xavier_follows_both_fans),
        cmocka_unit_test(msra_follows_the_inputs_alone),
        cmocka_unit_test(fans_of_other_shapes),
        cmocka_unit_test(given_fans_win_over_the_shape),
        cmocka_unit_test(wrong_words_are_refused_with_a_reason),
    };

    return cmocka_run_group_tests_name("init", tests, NULL, NULL);
}
