/* test_declare.c - declarations as text: what they say, and what is wrong with
 * those that say nothing. */
#include "store_kit.h"

static const char good[] = "seed 42\n"
                           "table emb dim=8 optimizer=adam\n"
                           "program w 6\n"
                           "| var a : f32[1] persist\n"
                           "|  op fill_constant () -> (Out=a) {shape=[1]}\n"
                           "|---\n"
                           "| op one\n"
                           "|op two\n"
                           "table wide dim=1\n"
                           "program emb 18446744073709551615\n"
                           "| op three";

static void parse(fl_declaration *d, const char *text)
{
    assert_ok(fl_declaration_parse(d, text, strlen(text)));
}

static void expect_refused(const char *text, const char *words)
{
    fl_declaration d = { .seed = 77 };

    assert_error(fl_declaration_parse(&d, text, strlen(text)), FL_ERR_INVAL,
                 words);
    assert_int_equal(d.seed, 77);
}

static void a_declaration_is_read(void **state)
{
    const fl_declared *i;
    fl_declaration d;

    (void)state;
    parse(&d, good);
    assert_int_equal(d.seed, 42);
    assert_int_equal(d.items.len, 4);
    i = d.items.data;
    assert_int_equal(i[0].kind, FL_DECLARED_TABLE);
    assert_int_equal(i[0].line, 2);
    assert_string_equal(i[0].name, "emb");
    assert_string_equal(i[0].text, "dim=8 optimizer=adam");
    assert_null(i[0].startup);
    assert_int_equal(i[1].kind, FL_DECLARED_PROGRAM);
    assert_string_equal(i[1].name, "w");
    assert_int_equal(i[1].n, 6);
    assert_string_equal(i[1].startup,
                        "var a : f32[1] persist\n"
                        " op fill_constant () -> (Out=a) {shape=[1]}\n");
    assert_string_equal(i[1].text, "op one\nop two\n");
    assert_string_equal(i[2].text, "dim=1");
    assert_int_equal(i[3].line, 10);
    assert_true(i[3].n == UINT64_MAX);
    assert_string_equal(i[3].startup, "");
    assert_string_equal(i[3].text, "op three\n");
    fl_declaration_release(&d);
}

static void an_empty_text_declares_nothing(void **state)
{
    fl_declaration d;

    (void)state;
    parse(&d, "");
    assert_int_equal(d.items.len, 0);
    assert_int_equal(d.seed, 0);
    fl_declaration_release(&d);
    parse(&d, "table t\n");
    assert_string_equal(d.items.data[0].text, "");
    fl_declaration_release(&d);
}

static void bad_lines_are_named_with_their_number(void **state)
{
    (void)state;
    expect_refused("table a dim=1\nhello world\n", "line 2 is 'hello world'");
    expect_refused("table a dim=1\n\ntable b dim=1\n", "line 2 is ''");
    expect_refused("dense w 3 adam\n", "line 1 is 'dense w 3 adam'");
    expect_refused(" table a dim=1\n", "line 1 is ' table a dim=1'");
    expect_refused("table\n", "line 1 has no name");
    expect_refused("table  dim=1\n", "line 1 has no name");
    expect_refused("table 1a dim=1\n", "'1a' is not a name");
    expect_refused("table a\tb dim=1\n", "control character 0x09");
    expect_refused("table a dim=1\r\n", "line 1 has the control character");
    expect_refused("table a dim=1\ntable a dim=2\n",
                   "line 2: there is a table a already");
    expect_refused("program a 1\nprogram a 1\n",
                   "line 2: there is a block a already");
}

static void seeds_and_sizes_are_whole_numbers(void **state)
{
    static const char *const bad[] = { "",
                                       "x",
                                       "-1",
                                       " 1",
                                       "1 ",
                                       "1x",
                                       "1.0",
                                       "18446744073709551616",
                                       "000000000000000000001" };
    char text[64];

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++) {
        snprintf(text, sizeof(text), "seed %s\n", bad[i]);
        expect_refused(text, "is no whole number");
        snprintf(text, sizeof(text), "program w %s\n", bad[i]);
        expect_refused(text, "floats from 1 on");
    }
    expect_refused("program w 0\n", "floats from 1 on");
    expect_refused("program w\n", "floats from 1 on");
    expect_refused("table a dim=1\nseed 3\n",
                   "line 2: the seed belongs in the first line");
}

static void bars_belong_to_programs(void **state)
{
    (void)state;
    expect_refused("| op x\n", "line 1 starts with a bar");
    expect_refused("program w 1\ntable a dim=1\n| op x\n",
                   "line 3 starts with a bar");
    expect_refused("program w 1\n|---\n| op\n|---\n",
                   "line 4: block w has a second |---");
}

static void a_nul_in_the_text_is_refused(void **state)
{
    static const char text[] = "table a dim=1\n\0table b dim=1\n";
    fl_declaration d;

    (void)state;
    assert_error(fl_declaration_parse(&d, text, sizeof(text) - 1), FL_ERR_INVAL,
                 "line 2 has the control character 0x00");
}

static void there_is_a_largest_number_of_tables(void **state)
{
    fl_str text = { 0 };
    fl_declaration d;

    (void)state;
    for (int i = 0; i < FL_DECLARED_MAX; i++)
        fl_str_addf(&text, "table t%d dim=1\n", i);
    parse(&d, fl_str_text(&text));
    assert_int_equal(d.items.len, FL_DECLARED_MAX);
    fl_declaration_release(&d);
    fl_str_add(&text, "table last dim=1\n");
    expect_refused(fl_str_text(&text), "more than 4096 tables");
    fl_str_release(&text);
}

static void long_names_and_texts_are_refused(void **state)
{
    char *name = fl_alloc(2000);
    char *text;
    fl_str line = { 0 };
    fl_declaration d;

    (void)state;
    memset(name, 'a', 1999);
    fl_str_addf(&line, "table %s dim=1\n", name);
    expect_refused(fl_str_text(&line), "1999 bytes is too long");
    fl_str_release(&line);
    fl_free(name);
    text = fl_alloc((size_t)FL_DECLARE_BYTES_MAX + 1);
    memset(text, ' ', (size_t)FL_DECLARE_BYTES_MAX + 1);
    assert_error(
        fl_declaration_parse(&d, text, (size_t)FL_DECLARE_BYTES_MAX + 1),
        FL_ERR_INVAL, "more than 16777216");
    fl_free(text);
}

static void equal_declarations_compare_equal(void **state)
{
    (void)state;
    assert_ok(fl_declaration_compare(good, good));
    assert_ok(fl_declaration_compare("", ""));
    assert_ok(fl_declaration_compare("table a dim=1\n", "table a dim=1"));
}

static void the_first_line_that_differs_is_shown_in_both_versions(void **state)
{
    fl_str a = { 0 }, b = { 0 };

    (void)state;
    assert_error(fl_declaration_compare("table a dim=1\ntable b dim=2\n",
                                        "table a dim=1\ntable b dim=3\n"),
                 FL_ERR_INVAL,
                 "differ in line 2: 'table b dim=2' was declared first, 'table "
                 "b dim=3' came now");
    assert_error(fl_declaration_compare("table a dim=1\n",
                                        "table a dim=1\ntable b dim=3\n"),
                 FL_ERR_INVAL,
                 "line 2: '' was declared first, 'table b dim=3'");
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
        cmocka_unit_test(a_declaration_is_read),
        cmocka_unit_test(an_empty_text_declares_nothing),
        cmocka_unit_test(bad_lines_are_named_with_their_number),
        cmocka_unit_test(seeds_and_sizes_are_whole_numbers),
        cmocka_unit_test(bars_belong_to_programs),
        cmocka_unit_test(a_nul_in_the_text_is_refused),
        cmocka_unit_test(there_is_a_largest_number_of_tables),
        cmocka_unit_test(long_names_and_texts_are_refused),
        cmocka_unit_test(equal_declarations_compare_equal),
        cmocka_unit_test(the_first_line_that_differs_is_shown_in_both_versions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
