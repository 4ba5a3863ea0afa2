/* test_attr.c - attribute values in text form, compared and converted. */
#include "kit.h"

#include <float.h>
#include <stdlib.h>

#include "ir/attr.h"

static fl_arena arena;

static int setup(void **state)
{
    (void)state;
    fl_arena_init(&arena, 4 << 10);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fl_arena_release(&arena);
    return 0;
}

static void expect_print(const fl_attr *a, const char *want)
{
    fl_str s = { 0 };

    fl_attr_print(a, &s);
    assert_string_equal(s.data, want);
    fl_str_release(&s);
}

static void printed_values_read_back_as_themselves(void **state)
{
    static const struct {
        fl_attr_type type;
        const char *text, *printed;
    } rows[] = {
        { FL_ATTR_BOOL, "true", "true" },
        { FL_ATTR_BOOL, "0", "false" },
        { FL_ATTR_INT, "-9223372036854775808", "-9223372036854775808" },
        { FL_ATTR_INT, "0", "0" },
        { FL_ATTR_FLOAT, "0.1", "0.1" },
        { FL_ATTR_FLOAT, "1e-300", "1e-300" },
        { FL_ATTR_FLOAT, "-3", "-3" },
        { FL_ATTR_FLOAT, "0.30000000000000004", "0.30000000000000004" },
        { FL_ATTR_STRING, "SUM", "SUM" },
        { FL_ATTR_STRING, "\"SUM\"", "SUM" },
        { FL_ATTR_STRING, "\"\"", "\"\"" },
        { FL_ATTR_STRING, "\"a b\"", "\"a b\"" },
        { FL_ATTR_STRING, "\"a \\\"b\\\" \\\\\"", "\"a \\\"b\\\" \\\\\"" },
        { FL_ATTR_STRING, "\"1\"", "\"1\"" },
        { FL_ATTR_INTS, "[]", "[]" },
        { FL_ATTR_INTS, "[1,-2,3]", "[1,-2,3]" },
        { FL_ATTR_INTS, "[ 1 , 2]", "[1,2]" },
        { FL_ATTR_FLOATS, "[0.5,1e9]", "[0.5,1e+09]" },
        { FL_ATTR_STRINGS, "[]", "[]" },
        { FL_ATTR_STRINGS, "[ a , \"b, c]\", d:1]", "[a,\"b, c]\",d:1]" },
        { FL_ATTR_BLOCK, "2", "2" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(rows); i++) {
        fl_attr a, b;

        assert_int_equal(fl_attr_parse(rows[i].text, rows[i].type, &arena, &a),
                         FL_OK);
        expect_print(&a, rows[i].printed);
        assert_int_equal(
            fl_attr_parse(rows[i].printed, rows[i].type, &arena, &b), FL_OK);
        assert_true(fl_attr_equal(&a, &b));
    }
}

static void values_of_another_type_are_refused(void **state)
{
    static const struct {
        fl_attr_type type;
        const char *text;
    } rows[] = {
        { FL_ATTR_BOOL, "yes" },      { FL_ATTR_BOOL, "" },
        { FL_ATTR_INT, "1.5" },       { FL_ATTR_INT, "" },
        { FL_ATTR_INT, "one" },       { FL_ATTR_INT, "1 2" },
        { FL_ATTR_FLOAT, "1,5" },     { FL_ATTR_FLOAT, "fast" },
        { FL_ATTR_STRING, "\"a" },    { FL_ATTR_STRING, "\"a\"b" },
        { FL_ATTR_INTS, "1" },        { FL_ATTR_INTS, "[1" },
        { FL_ATTR_INTS, "[1,a]" },    { FL_ATTR_INTS, "[1.5]" },
        { FL_ATTR_INTS, "[1]2" },     { FL_ATTR_INTS, "[1 2]" },
        { FL_ATTR_FLOATS, "[1,,2]" }, { FL_ATTR_FLOATS, "[x]" },
    };
    fl_attr a;

    (void)state;
    for (size_t i = 0; i < FL_LEN(rows); i++) {
        assert_int_equal(fl_attr_parse(rows[i].text, rows[i].type, &arena, &a),
                         FL_ERR_INVAL);
        expect_said("is not a value of type");
    }
}

static void numbers_have_the_shortest_text_that_reads_back(void **state)
{
    static const double values[] = { 0,      1,         -1,
                                     0.1,    1.0 / 3,   DBL_MAX,
                                     1e-310, 123456789, 0.30000000000000004,
                                     DBL_MIN };
    char buf[FL_NUMBER_TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < FL_LEN(values); i++)
        assert_true(strtod(fl_number_text(values[i], buf), NULL) == values[i]);
    assert_string_equal(fl_number_text(0.1, buf), "0.1");
    assert_string_equal(fl_number_text(1e6, buf), "1e+06");
    assert_string_equal(fl_number_text(100, buf), "100");
}

static void values_differ_by_type_length_and_entries(void **state)
{
    int64_t one_two[] = { 1, 2 }, one_three[] = { 1, 3 };
    fl_attr i1 = { .type = FL_ATTR_INT, .i = 1 };
    fl_attr f1 = { .type = FL_ATTR_FLOAT, .f = 1 };
    fl_attr a = { .type = FL_ATTR_INTS, .n = 2, .ints = one_two };
    fl_attr b = { .type = FL_ATTR_INTS, .n = 2, .ints = one_three };
    fl_attr c = { .type = FL_ATTR_INTS, .n = 1, .ints = one_two };
    fl_attr s = { .type = FL_ATTR_STRING, .s = "a" };
    fl_attr t = { .type = FL_ATTR_STRING, .s = "b" };

    (void)state;
    assert_true(fl_attr_equal(&a, &a));
    assert_false(fl_attr_equal(&i1, &f1));
    assert_false(fl_attr_equal(&a, &b));
    assert_false(fl_attr_equal(&a, &c));
    assert_false(fl_attr_equal(&s, &t));
}

static void only_harmless_conversions_are_made(void **state)
{
    int64_t ints[] = { 1, 2 };
    double floats[] = { 1.5 };
    fl_attr i = { .type = FL_ATTR_INT, .i = 1 };
    fl_attr two = { .type = FL_ATTR_INT, .i = 2 };
    fl_attr f = { .type = FL_ATTR_FLOAT, .f = 1 };
    fl_attr list = { .type = FL_ATTR_INTS, .n = 2, .ints = ints };
    fl_attr reals = { .type = FL_ATTR_FLOATS, .n = 1, .floats = floats };
    fl_attr none = { .type = FL_ATTR_FLOATS, .n = 0 };
    fl_attr out;

    (void)state;
    assert_true(fl_attr_convert(&i, FL_ATTR_FLOAT, &arena, &out));
    assert_true(out.f == 1);
    assert_true(fl_attr_convert(&i, FL_ATTR_BOOL, &arena, &out));
    assert_true(out.b);
    assert_false(fl_attr_convert(&two, FL_ATTR_BOOL, &arena, &out));
    assert_false(fl_attr_convert(&f, FL_ATTR_INT, &arena, &out));
    assert_false(fl_attr_convert(&i, FL_ATTR_STRING, &arena, &out));
    assert_false(fl_attr_convert(&i, FL_ATTR_INTS, &arena, &out));
    assert_true(fl_attr_convert(&list, FL_ATTR_FLOATS, &arena, &out));
    assert_true(out.n == 2 && out.floats[1] == 2);
    assert_false(fl_attr_convert(&reals, FL_ATTR_INTS, &arena, &out));
    assert_true(fl_attr_convert(&none, FL_ATTR_INTS, &arena, &out));
    assert_int_equal(out.n, 0);
}

static void a_converted_value_is_a_copy(void **state)
{
    char word[] = "SUM";
    int64_t ints[] = { 1, 2 };
    fl_attr s = { .type = FL_ATTR_STRING, .s = word };
    fl_attr list = { .type = FL_ATTR_INTS, .n = 2, .ints = ints };
    fl_attr a, b;

    (void)state;
    assert_true(fl_attr_convert(&s, FL_ATTR_STRING, &arena, &a));
    assert_true(fl_attr_convert(&list, FL_ATTR_INTS, &arena, &b));
    word[0] = 'X';
    ints[0] = 9;
    assert_string_equal(a.s, "SUM");
    assert_int_equal(b.ints[0], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printed_values_read_back_as_themselves),
        cmocka_unit_test(values_of_another_type_are_refused),
        cmocka_unit_test(numbers_have_the_shortest_text_that_reads_back),
        cmocka_unit_test(values_differ_by_type_length_and_entries),
        cmocka_unit_test(only_harmless_conversions_are_made),
        cmocka_unit_test(a_converted_value_is_a_copy),
    };

    return cmocka_run_group_tests_name("attr", tests, setup, teardown);
}
