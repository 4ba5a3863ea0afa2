/* test_sessions.c - sessions as items and what followed them. */
#include "format_kit.h"

#define N_DRAWS 20000

static void a_session_gives_its_items_and_the_next_ones(void **state)
{
    (void)state;
    expect_parsed("sessions", "1 2\n 7\t8  9 \n18446744073709551615 0\n",
                  "items=1 next=2\nitems=7 8 next=8 9\n"
                  "items=18446744073709551615 next=0\n");
}

static void sessions_of_one_item_are_skipped_and_counted(void **state)
{
    parsed f = parse("sessions", "5\n\n1 2\n  \n6\n");

    (void)state;
    expect_records(&f, "items=1 next=2\n");
    assert_int_equal(f.n_bad, 0);
    assert_int_equal(f.rows.n_skipped, 4);
    close_format(&f);
}

static void long_sessions_are_cut(void **state)
{
    (void)state;
    expect_parsed("sessions:max_len=3", "1 2 3 4 what\n",
                  "items=1 2 next=2 3\n");
    expect_parsed("sessions:max_len=2", "1 2 3\n", "items=1 next=2\n");
}

static void wanted_slots_choose_their_order(void **state)
{
    static const fl_slot wanted[] = { { .name = "next" }, { .name = "items" } };
    parsed f = open_format(&(fl_parser_args){
        .spec = "sessions", .wanted = wanted, .n_wanted = 2 });

    (void)state;
    assert_ok(feed_file(&f, "3 4 5\n"));
    expect_records(&f, "next=4 5 items=3 4\n");
    close_format(&f);
}

static void what_is_no_id_is_refused(void **state)
{
    (void)state;
    expect_bad("sessions", "1 x 3", "'x' is no item id");
    expect_bad("sessions", "1 2.5", "'2.5' is no item id");
    expect_bad("sessions", "-1 2", "'-1' is no item id");
    expect_bad("sessions:items=3", "1 2 3", "3 is not below");
    expect_spec_refused("sessions:max_len=1", "max_len=1");
    expect_spec_refused("sessions:negatives=2", "say how many there are");
    expect_spec_refused("sessions:items=5,negatives=2000", "negatives=2000");
}

/* --- draws ---------------------------------------------------------------- */

static char *drawn_at(fl_line where, uint64_t seed)
{
    parsed f = open_format(&(fl_parser_args){
        .spec = "sessions:items=1000,negatives=3", .seed = seed });
    char *text;

    assert_ok(feed_lines(&f, "1 2 3\n", where));
    text = describe(&f);
    close_format(&f);
    return text;
}

static void negatives_come_with_every_click(void **state)
{
    parsed f = parse("sessions:items=10,negatives=2", "1 2 3 4\n");
    const fl_slot *drawn = &f.parser->schema.slots[2];
    fl_row_part parts[3];

    (void)state;
    fl_help_parts(&f.parser->schema, fl_records_at(&f.rows, 0), parts);
    assert_string_equal(drawn->name, "drawn");
    assert_int_equal(drawn->height, 10);
    assert_int_equal(parts[2].n, 6);
    for (uint32_t i = 0; i < parts[2].n; i++)
        assert_true(fl_help_id(&parts[2], i) < 10);
    close_format(&f);
}

static void draws_depend_on_seed_file_line_and_pass_alone(void **state)
{
    const fl_line here = { .number = 7, .file = 5 };
    const fl_line others[] = { { .number = 8, .file = 5 },
                               { .number = 7, .file = 6 },
                               { .number = 7, .file = 5, .epoch = 1 } };
    char *first = drawn_at(here, 0), *again = drawn_at(here, 0);

    (void)state;
    assert_string_equal(first, again);
    fl_free(again);
    for (size_t i = 0; i < FL_LEN(others); i++) {
        again = drawn_at(others[i], 0);
        assert_string_not_equal(first, again);
        fl_free(again);
    }
    again = drawn_at(here, 1);
    assert_string_not_equal(first, again);
    fl_free(again);
    fl_free(first);
}

static void every_item_is_drawn_as_often(void **state)
{
    parsed f = open_format(
        &(fl_parser_args){ .spec = "sessions:items=4,negatives=1" });
    unsigned counts[4] = { 0 };
    fl_row_part parts[3];

    (void)state;
    for (uint64_t i = 0; i < N_DRAWS; i++)
        assert_ok(feed_lines(&f, "1 2\n", (fl_line){ .number = i + 1 }));
    for (size_t i = 0; i < f.rows.n; i++) {
        fl_help_parts(&f.parser->schema, fl_records_at(&f.rows, i), parts);
        counts[fl_help_id(&parts[2], 0)]++;
    }
    for (size_t i = 0; i < FL_LEN(counts); i++)
        assert_in_range(counts[i], N_DRAWS / 4 - 400, N_DRAWS / 4 + 400);
    close_format(&f);
}

/* The last of `next` in n records of one line. */
static void count_ends(unsigned *counts, size_t n)
{
    parsed f = open_format(&(fl_parser_args){ .spec = "sessions:cut=yes" });
    fl_row_part parts[2];

    for (uint64_t i = 0; i < n; i++)
        assert_ok(feed_lines(&f, "0 1 2 3\n", (fl_line){ .number = i + 1 }));
    for (size_t i = 0; i < f.rows.n; i++) {
        fl_help_parts(&f.parser->schema, fl_records_at(&f.rows, i), parts);
        assert_int_equal(parts[0].n, parts[1].n);
        counts[fl_help_id(&parts[1], parts[1].n - 1)]++;
    }
    close_format(&f);
}

static void a_session_is_cut_at_every_click_but_the_first(void **state)
{
    unsigned counts[4] = { 0 };

    (void)state;
    count_ends(counts, N_DRAWS);
    assert_int_equal(counts[0], 0);
    for (size_t i = 1; i < FL_LEN(counts); i++)
        assert_in_range(counts[i], N_DRAWS / 3 - 400, N_DRAWS / 3 + 400);
}

static void what_is_cut_is_read_even_so(void **state)
{
    (void)state;
    expect_bad("sessions:cut=yes", "1 2 3 4 5 6 x", "'x' is no item id");
    expect_parsed("sessions:cut=yes", "1 2\n", "items=1 next=2\n");
    expect_parsed("sessions:cut=yes,max_len=2", "1 2 what\n",
                  "items=1 next=2\n");
    expect_spec_refused("sessions:cut=often", "cut=often");
}

static void only_sessions_with_negatives_or_cuts_draw(void **state)
{
    parsed plain = open_format(&(fl_parser_args){ .spec = "sessions" });
    parsed drawing = open_format(
        &(fl_parser_args){ .spec = "sessions:items=9,negatives=1" });
    parsed cut = open_format(&(fl_parser_args){ .spec = "sessions:cut=yes" });

    (void)state;
    assert_false(plain.parser->draws);
    assert_true(drawing.parser->draws);
    assert_true(cut.parser->draws);
    close_format(&plain);
    close_format(&drawing);
    close_format(&cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_gives_its_items_and_the_next_ones),
        cmocka_unit_test(sessions_of_one_item_are_skipped_and_counted),
        cmocka_unit_test(long_sessions_are_cut),
        cmocka_unit_test(wanted_slots_choose_their_order),
        cmocka_unit_test(what_is_no_id_is_refused),
        cmocka_unit_test(negatives_come_with_every_click),
        cmocka_unit_test(draws_depend_on_seed_file_line_and_pass_alone),
        cmocka_unit_test(every_item_is_drawn_as_often),
        cmocka_unit_test(a_session_is_cut_at_every_click_but_the_first),
        cmocka_unit_test(what_is_cut_is_read_even_so),
        cmocka_unit_test(only_sessions_with_negatives_or_cuts_draw),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
