/* test_declare.c - texts of declarations: bytes that cannot be shown, and the
 * first line that differs. */
#include "store_kit.h"

static void control_characters_are_named_with_their_line(void **state)
{
    static const char nul[] = "seed 3\n\0seed 4\n";
    static const char tab[] = "op\tinit_table\n";

    (void)state;
    assert_ok(fl_declaration_check("", 0));
    assert_ok(fl_declaration_check("seed 3\n", 7));
    assert_error(fl_declaration_check(nul, sizeof(nul) - 1), FL_ERR_INVAL,
                 "line 2 has the control character 0x00");
    assert_error(fl_declaration_check(tab, strlen(tab)), FL_ERR_INVAL,
                 "line 1 has the control character 0x09");
    assert_error(fl_declaration_check("seed 1\n\r\n", 9), FL_ERR_INVAL,
                 "line 2 has the control character 0x0d");
}

static void long_texts_are_refused(void **state)
{
    (void)state;
    assert_error(fl_declaration_check("", (size_t)FL_DECLARE_BYTES_MAX + 1),
                 FL_ERR_INVAL, "more than 16777216");
}

static void equal_declarations_compare_equal(void **state)
{
    (void)state;
    assert_ok(fl_declaration_compare("", ""));
    assert_ok(fl_declaration_compare("seed 1\nseed 2\n", "seed 1\nseed 2\n"));
    assert_ok(fl_declaration_compare("seed 1\n", "seed 1"));
}

static void the_first_line_that_differs_is_shown_in_both_versions(void **state)
{
    fl_str a = { 0 }, b = { 0 };

    (void)state;
    assert_error(
        fl_declaration_compare("seed 1\nvar b : f32[2]\n",
                               "seed 1\nvar b : f32[3]\n"),
        FL_ERR_INVAL,
        "differ in line 2: 'var b : f32[2]' was declared first, 'var b : "
        "f32[3]' came now");
    assert_error(fl_declaration_compare("seed 1\n", "seed 1\nfetch b\n"),
                 FL_ERR_INVAL, "line 2: '' was declared first, 'fetch b'");
    for (int i = 0; i < 300; i++) {
        fl_str_add(&a, "word ");
        fl_str_add(&b, "word ");
    }
    fl_str_add(&a, "here");
    fl_str_add(&b, "there");
    assert_error(fl_declaration_compare(fl_str_text(&a), fl_str_text(&b)),
                 FL_ERR_INVAL, "here' was");
    assert_non_null(strstr(fl_last_error(), "there' came"));
    fl_str_release(&a);
    fl_str_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_are_named_with_their_line),
        cmocka_unit_test(long_texts_are_refused),
        cmocka_unit_test(equal_declarations_compare_equal),
        cmocka_unit_test(the_first_line_that_differs_is_shown_in_both_versions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
