/* test_words.c - settings in words: read, looked up, changed and written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "conf/words.h"
#include "flotilla/program.h"

static fl_words *read_words(const char *text)
{
    fl_words *w = NULL;

    if (fl_words_new(&w, text))
        fail_msg("%s", fl_last_error());
    return w;
}

static void assert_text(const fl_words *w, const char *text)
{
    char *got = fl_words_text(w);

    assert_string_equal(got, text);
    fl_text_free(got);
}

static void expect_refused(const char *text, const char *said)
{
    fl_words *w = NULL;

    assert_int_equal(fl_words_new(&w, text), FL_ERR_INVAL);
    assert_null(w);
    if (!strstr(fl_last_error(), said))
        fail_msg("'%s' does not say '%s'", fl_last_error(), said);
}

static void commas_and_white_space_lie_between_settings(void **state)
{
    fl_words *w =
        read_words(" dim=10\tinit=uniform(-1, 1),,\n optimizer=adam,");

    (void)state;
    assert_int_equal(fl_words_count(w), 3);
    assert_string_equal(fl_words_name(w, 1), "init");
    assert_string_equal(fl_words_value(w, 1), "uniform(-1, 1)");
    assert_string_equal(fl_words_get(w, "optimizer"), "adam");
    assert_null(fl_words_get(w, "opt"));
    assert_text(w, "dim=10 init=uniform(-1, 1) optimizer=adam");
    fl_words_free(w);
}

static void no_text_has_no_settings(void **state)
{
    static const char *const none[] = { NULL, "", "  ,\n, " };

    (void)state;
    for (size_t i = 0; i < FL_LEN(none); i++) {
        fl_words *w = read_words(none[i]);

        assert_int_equal(fl_words_count(w), 0);
        assert_text(w, "");
        fl_words_free(w);
    }
    fl_words_free(NULL);
}

static void a_value_may_be_empty_long_or_have_an_equals_sign(void **state)
{
    char text[4096] = "a= b=c=d e=";
    fl_words *w;

    (void)state;
    memset(text + strlen(text), 'x', 3000);
    w = read_words(text);
    assert_string_equal(fl_words_get(w, "a"), "");
    assert_string_equal(fl_words_get(w, "b"), "c=d");
    assert_int_equal(strlen(fl_words_get(w, "e")), 3000);
    assert_text(w, text);
    fl_words_free(w);
}

static void quotes_keep_spaces_commas_and_brackets(void **state)
{
    fl_words *w = read_words("path=\"a b,(c\" say='\"no\"' it=don't");

    (void)state;
    assert_string_equal(fl_words_get(w, "path"), "a b,(c");
    assert_string_equal(fl_words_get(w, "say"), "\"no\"");
    assert_string_equal(fl_words_get(w, "it"), "don't");
    assert_text(w, "path=\"a b,(c\" say='\"no\"' it=don't");
    fl_words_free(w);
}

static void what_is_no_setting_is_refused(void **state)
{
    (void)state;
    expect_refused("dim=3 fast", "'fast' is not of the form name=value");
    expect_refused("=3", "name=value");
    expect_refused("a(b)=3", "name=value");
    expect_refused("a = 3", "name=value");
    expect_refused("\"a\"=3", "name=value");
    expect_refused("a=\"b\"c", "name=value");
    expect_refused("a=f(1,2", "do not come in pairs");
    expect_refused("a=1)", "do not come in pairs");
    expect_refused("a=\"b", "do not come in pairs");
}

static void of_two_values_the_last_one_counts(void **state)
{
    fl_words *w = read_words("a=1 b=2 a=3");

    (void)state;
    assert_int_equal(fl_words_count(w), 3);
    assert_string_equal(fl_words_get(w, "a"), "3");
    assert_int_equal(fl_words_set(w, "a", fl_words_get(w, "a")), FL_OK);
    assert_text(w, "a=3 b=2");
    fl_words_free(w);
}

static void words_are_built_and_changed(void **state)
{
    fl_words *w = read_words(NULL);

    (void)state;
    assert_int_equal(fl_words_set(w, "dim", "10"), FL_OK);
    assert_int_equal(fl_words_set(w, "vocab", "my words.txt"), FL_OK);
    assert_int_equal(fl_words_set(w, "dim", "12"), FL_OK);
    assert_int_equal(fl_words_set(w, "none", ""), FL_OK);
    assert_text(w, "dim=12 vocab=\"my words.txt\" none=");
    assert_int_equal(fl_words_set(w, fl_words_name(w, 1), NULL), FL_OK);
    assert_int_equal(fl_words_set(w, "absent", NULL), FL_OK);
    assert_text(w, "dim=12 none=");
    fl_words_free(w);
}

static void what_cannot_be_written_is_not_set(void **state)
{
    fl_words *w = read_words("a=1");

    (void)state;
    assert_int_equal(fl_words_set(w, "", "1"), FL_ERR_INVAL);
    assert_int_equal(fl_words_set(w, "a b", "1"), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "'a b' is no name"));
    assert_int_equal(fl_words_set(w, "a", "\"x' y"), FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "both kinds of quotes"));
    assert_text(w, "a=1");
    fl_words_free(w);
}

static void a_list_has_values_without_names_and_spaces_in_them(void **state)
{
    fl_words w;

    (void)state;
    assert_int_equal(
        fl_words_read(&w, "-1, f(2,3), seed=7 , columns=a:id b:id,\"c d\" ",
                      FL_WORDS_LIST),
        FL_OK);
    assert_int_equal(fl_words_count(&w), 5);
    assert_string_equal(fl_words_name(&w, 0), "");
    assert_string_equal(fl_words_value(&w, 0), "-1");
    assert_string_equal(fl_words_value(&w, 1), "f(2,3)");
    assert_string_equal(fl_words_get(&w, "seed"), "7");
    assert_string_equal(fl_words_get(&w, "columns"), "a:id b:id");
    assert_string_equal(fl_words_value(&w, 4), "c d");
    fl_words_release(&w);
}

static void a_list_has_something_at_both_sides_of_a_comma(void **state)
{
    static const char *const bad[] = { "", "1,", ",1", "1,,2", "=1", "\"a\"b" };
    fl_words w;

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++)
        assert_int_equal(fl_words_read(&w, bad[i], FL_WORDS_LIST),
                         FL_ERR_INVAL);
}

static void an_unknown_name_is_told_the_nearest_and_all(void **state)
{
    static const char *const names[] = { "learning_rate", "beta1", "beta2" };
    fl_word w = { .name = "beta_1", .value = "0" };

    (void)state;
    assert_int_equal(fl_word_refuse(&w, "optimizer adam", names, 3),
                     FL_ERR_INVAL);
    assert_string_equal(fl_last_error(),
                        "optimizer adam has no setting beta_1; did you mean "
                        "beta1? there are learning_rate, beta1, beta2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_and_white_space_lie_between_settings),
        cmocka_unit_test(no_text_has_no_settings),
        cmocka_unit_test(a_value_may_be_empty_long_or_have_an_equals_sign),
        cmocka_unit_test(quotes_keep_spaces_commas_and_brackets),
        cmocka_unit_test(what_is_no_setting_is_refused),
        cmocka_unit_test(of_two_values_the_last_one_counts),
        cmocka_unit_test(words_are_built_and_changed),
        cmocka_unit_test(what_cannot_be_written_is_not_set),
        cmocka_unit_test(a_list_has_values_without_names_and_spaces_in_them),
        cmocka_unit_test(a_list_has_something_at_both_sides_of_a_comma),
        cmocka_unit_test(an_unknown_name_is_told_the_nearest_and_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
