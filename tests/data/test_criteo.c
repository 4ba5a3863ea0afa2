/* test_criteo.c - lines of Criteo's click logs: scaled integers, hashed
 * categories, and which lines are refused. */
#include "format_kit.h"

#include "base/hash.h"

#define N_INTS 13
#define N_CATEGORIES 26
#define COLUMNS (1 + N_INTS + N_CATEGORIES)

/* The fields of a good line; tests change some of them. */
typedef struct fields {
    const char *at[COLUMNS + 1];
    int n;
} fields;

static fields good_fields(void)
{
    fields f = {
        .at = { "1",        "5",        "-2",       "",         "7",
                "1382",     "4",        "15",       "2",        "181",
                "1",        "2",        "12345678", "2",        "68fd1e64",
                "80E26C9B", "fb936136", "7b4723c4", "25c83c98", "7e0ccccf",
                "de7995b8", "1f89b562", "a73ee510", "a8cd5504", "b2cb9c98",
                "37c9c164", "2824a5f6", "1adce6ef", "8ba8b39a", "891b62e7",
                "e5ba7672", "f54016b9", "21ddcdc9", "b1252a9d", "07b5194c",
                "",         "3a171ecb", "c5c5048",  "g8b83407", "9727dd16" },
        .n = COLUMNS
    };

    return f;
}

static char *join(const fields *f, int first)
{
    fl_str text = { 0 };

    for (int i = first; i < f->n; i++)
        fl_str_addf(&text, "%s%s", i > first ? "\t" : "", f->at[i]);
    return fl_str_take(&text);
}

/* --- what the document says, in the plainest way ------------------------- */

static float scaled(int i, const char *field)
{
    static const double mins[] = { 0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    static const double maxs[] = { 20, 600, 100, 50, 64000, 500, 100,
                                   50, 500, 10,  10, 10,    50 };

    if (!*field)
        return 0;
    return (float)((strtod(field, NULL) - mins[i]) / (maxs[i] - mins[i]));
}

static uint64_t id_of(int column, const char *field, uint64_t size)
{
    size_t n = strlen(field);
    uint64_t key;

    if (!n)
        key = UINT64_C(1) << 40;
    else if (n == 8 && strspn(field, "0123456789abcdefABCDEF") == 8)
        key = strtoull(field, NULL, 16);
    else
        key = fl_hash_bytes(field, n) ^ UINT64_C(2) << 40;
    key = fl_mix64(key ^ (uint64_t)column << 32);
    return size ? key % size : key;
}

/* Record 0 as the fields of columns 0 to 39 say. */
static void expect_default_record(const parsed *p, const fields *f,
                                  uint64_t size, int has_label)
{
    const fl_schema *s = &p->parser->schema;
    fl_row_part parts[2 + N_CATEGORIES];

    assert_int_equal(s->n_slots, has_label + 1 + N_CATEGORIES);
    assert_int_equal(p->rows.n, 1);
    fl_help_parts(s, fl_records_at(&p->rows, 0), parts);
    if (has_label)
        assert_true(fl_help_id(&parts[0], 0) == strtoull(f->at[0], NULL, 10));
    assert_string_equal(s->slots[has_label].name, "dense");
    for (uint32_t i = 0; i < N_INTS; i++)
        assert_true(fl_help_float(&parts[has_label], i) ==
                    scaled((int)i, f->at[1 + i]));
    for (int i = 0; i < N_CATEGORIES; i++) {
        char name[8];

        snprintf(name, sizeof(name), "C%d", i + 1);
        assert_string_equal(s->slots[has_label + 1 + i].name, name);
        assert_true(s->slots[has_label + 1 + i].height == size);
        assert_true(fl_help_id(&parts[has_label + 1 + i], 0) ==
                    id_of(14 + i, f->at[14 + i], size));
    }
}

static void expect_as_documented(const char *spec, const fields *f,
                                 uint64_t size, int has_label)
{
    char *line = join(f, has_label ? 0 : 1);
    parsed p = parse(spec, line);

    if (p.n_bad)
        fail_msg("'%s': %s", line, p.bad.reason);
    expect_default_record(&p, f, size, has_label);
    fl_free(line);
    close_format(&p);
}

static void lines_become_label_dense_and_categories(void **state)
{
    fields f = good_fields();

    (void)state;
    expect_as_documented("criteo", &f, 1000001, 1);
    expect_as_documented("criteo:hash_size=7", &f, 7, 1);
    expect_as_documented("criteo:hash_size=1", &f, 1, 1);
    expect_as_documented("criteo:hash_size=1048576", &f, 1048576, 1);
    expect_as_documented("criteo:hash_size=4611686018427387904", &f,
                         UINT64_C(1) << 62, 1);
    expect_as_documented("criteo:hash_size=0", &f, 0, 1);
    expect_as_documented("criteo:label=no", &f, 1000001, 0);
}

static void the_ids_of_a_known_line_never_change(void **state)
{
    fields f = good_fields();
    char *line = join(&f, 0);
    parsed p = parse("criteo", line);
    fl_row_part parts[2 + N_CATEGORIES];

    (void)state;
    fl_help_parts(&p.parser->schema, fl_records_at(&p.rows, 0), parts);
    assert_true(fl_help_id(&parts[2], 0) == 936381);
    assert_true(fl_help_id(&parts[2 + 21], 0) == 643889);
    assert_true(fl_help_id(&parts[2 + 24], 0) == 660902);
    fl_free(line);
    close_format(&p);
}

static void integers_may_be_missing_negative_and_long(void **state)
{
    static const char *const ints[] = { "",
                                        "0",
                                        "-1",
                                        "-0",
                                        "7",
                                        "1234567",
                                        "12345678",
                                        "123456789",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "00000000000012" };

    (void)state;
    for (size_t i = 0; i < FL_LEN(ints); i++)
        for (int k = 1; k <= N_INTS; k++) {
            fields f = good_fields();

            f.at[k] = ints[i];
            expect_as_documented("criteo", &f, 1000001, 1);
        }
}

static void categories_may_be_missing_and_any_text(void **state)
{
    static const char *const texts[] = {
        "",
        "0",
        "00000000",
        "ffffffff",
        "FFFFFFFF",
        "0000000g",
        "g0000000",
        "0000000@",
        "`0000000",
        "/0000000",
        ":0000000",
        "000000000",
        "0000000",
        "long text of many bytes, with ,",
        "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4",
        "ooooooof",
        "        ",
        "-1234567",
        "GHIJKLMN",
        "\x80\x80\x80\x80\x80\x80\x80\x80",
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(texts); i++)
        for (int k = 0; k < N_CATEGORIES; k++) {
            fields f = good_fields();

            f.at[1 + N_INTS + k] = texts[i];
            expect_as_documented("criteo", &f, 1000001, 1);
        }
}

static void all_columns_may_be_missing_but_the_label(void **state)
{
    fields f = good_fields();

    (void)state;
    for (int i = 1; i < COLUMNS; i++)
        f.at[i] = "";
    expect_as_documented("criteo", &f, 1000001, 1);
    f.at[0] = "";
    expect_as_documented("criteo:label=no", &f, 1000001, 0);
}

static void random_numbers_are_read_like_the_document_says(void **state)
{
    uint64_t s = 9;

    (void)state;
    for (int i = 0; i < 2000; i++) {
        char ints[N_INTS][24], categories[N_CATEGORIES][12];
        fields f = good_fields();

        for (int k = 0; k < N_INTS; k++) {
            s = fl_mix64(s + 1);
            snprintf(ints[k], sizeof(ints[k]), "%lld",
                     (long long)(s >> s % 64) * (s % 3 ? 1 : -1));
            f.at[1 + k] = s % 5 ? ints[k] : "";
        }
        for (int k = 0; k < N_CATEGORIES; k++) {
            s = fl_mix64(s + 1);
            snprintf(categories[k], sizeof(categories[k]), "%08x",
                     (unsigned)(s >> 32));
            f.at[1 + N_INTS + k] = s % 5 ? categories[k] : "";
        }
        expect_as_documented("criteo", &f, 1000001, 1);
    }
}

/* --- wanted slots -------------------------------------------------------- */

static void wanted_slots_choose_columns_and_order(void **state)
{
    static const fl_slot wanted[] = {
        { "C26", FL_SLOT_IDS, 0, 0 },
        { "numbers", FL_SLOT_FLOATS, N_INTS, 0 },
        { "C1", FL_SLOT_IDS, 1, 1000001 },
        { "click", FL_SLOT_IDS, 1, 2 },
        { "C22", FL_SLOT_IDS, 0, 2000000 },
    };
    parsed p = open_format(&(fl_parser_args){
        .spec = "criteo", .wanted = wanted, .n_wanted = FL_LEN(wanted) });
    fields f = good_fields();
    char *line = join(&f, 0);
    fl_row_part parts[FL_LEN(wanted)];

    (void)state;
    assert_ok(feed_file(&p, line));
    assert_int_equal(p.rows.n, 1);
    fl_help_parts(&p.parser->schema, fl_records_at(&p.rows, 0), parts);
    assert_int_equal(fl_row_words(&p.parser->schema, fl_records_at(&p.rows, 0)),
                     p.rows.len);
    assert_true(fl_help_id(&parts[0], 0) == id_of(39, f.at[39], 1000001));
    assert_true(fl_help_float(&parts[1], 4) == scaled(4, f.at[5]));
    assert_true(fl_help_id(&parts[2], 0) == id_of(14, f.at[14], 1000001));
    assert_true(fl_help_id(&parts[3], 0) == 1);
    assert_int_equal(parts[4].n, 1);
    assert_true(fl_help_id(&parts[4], 0) == id_of(35, f.at[35], 1000001));
    fl_free(line);
    close_format(&p);
}

static void columns_that_are_not_wanted_are_not_looked_at(void **state)
{
    static const fl_slot wanted[] = { { "C2", FL_SLOT_IDS, 0, 0 } };
    parsed p = open_format(
        &(fl_parser_args){ .spec = "criteo", .wanted = wanted, .n_wanted = 1 });
    fields f = good_fields();
    char *line;

    (void)state;
    f.at[0] = "label";
    f.at[3] = "1.5";
    line = join(&f, 0);
    assert_ok(feed_file(&p, line));
    assert_int_equal(p.n_bad, 0);
    assert_int_equal(p.rows.n, 1);
    assert_ok(feed_file(&p, "1\t2\t3\n1\n\n"));
    assert_int_equal(p.n_bad, 3);
    fl_free(line);
    close_format(&p);
}

static void slots_that_are_no_columns_are_refused_by_name(void **state)
{
    static const struct {
        const char *spec;
        fl_slot slot;
        const char *why;
    } cases[] = {
        { "criteo",
          { "x", FL_SLOT_FLOATS, 12, 0 },
          "slot x: floats are the 13" },
        { "criteo",
          { "x", FL_SLOT_FLOATS, 0, 0 },
          "slot x: floats are the 13" },
        { "criteo", { "y", FL_SLOT_IDS, 0, 0 }, "slot y: ids are C1 to C26" },
        { "criteo", { "y", FL_SLOT_IDS, 2, 0 }, "slot y: ids are C1 to C26" },
        { "criteo", { "C27", FL_SLOT_IDS, 0, 0 }, "slot C27: ids are C1" },
        { "criteo", { "C01", FL_SLOT_IDS, 0, 0 }, "slot C01: ids are C1" },
        { "criteo", { "C3", FL_SLOT_IDS, 2, 0 }, "slot C3 is a category" },
        { "criteo", { "C3", FL_SLOT_FLOATS, 13, 0 }, "slot C3 is a category" },
        { "criteo",
          { "C3", FL_SLOT_IDS, 1, 1000 },
          "slot C3 takes ids below 1000, but hash_size=1000001" },
        { "criteo:hash_size=0", { "C3", FL_SLOT_IDS, 1, 1000 }, "hash_size=0" },
        { "criteo:label=no", { "y", FL_SLOT_IDS, 1, 0 }, "with label=no" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++)
        expect_wanted_refused(cases[i].spec, cases[i].slot, cases[i].why);
}

static void a_second_label_or_second_integers_are_refused(void **state)
{
    static const fl_slot labels[] = { { "click", FL_SLOT_IDS, 1, 0 },
                                      { "buy", FL_SLOT_IDS, 1, 0 } };
    static const fl_slot ints[] = { { "a", FL_SLOT_FLOATS, 13, 0 },
                                    { "b", FL_SLOT_FLOATS, 13, 0 } };
    fl_parser_args args = { .spec = "criteo", .wanted = labels, .n_wanted = 2 };
    fl_parser *p = NULL;

    (void)state;
    assert_int_equal(fl_parser_new(&p, &args), FL_ERR_INVAL);
    assert_says(fl_last_error(), "slot buy is a second one for the label");
    args.wanted = ints;
    assert_int_equal(fl_parser_new(&p, &args), FL_ERR_INVAL);
    assert_says(fl_last_error(), "slot b is a second one for the 13 integers");
}

/* --- bad lines ----------------------------------------------------------- */

static void expect_bad_field(int column, const char *field, int slot,
                             const char *reason)
{
    fields f = good_fields();
    parsed p;
    char *line;

    f.at[column] = field;
    line = join(&f, 0);
    p = parse("criteo", line);
    assert_int_equal(p.n_bad, 1);
    assert_int_equal(p.bad.slot, slot);
    assert_string_equal(p.bad.reason, reason);
    assert_int_equal(p.rows.n, 0);
    fl_free(line);
    close_format(&p);
}

static void bad_fields_are_told_by_slot_and_reason(void **state)
{
    (void)state;
    expect_bad_field(0, "", 0, "'' is no label: a whole number");
    expect_bad_field(0, "-1", 0, "'-1' is no label: a whole number");
    expect_bad_field(0, "1.0", 0, "'1.0' is no label: a whole number");
    for (int i = 1; i <= N_INTS; i++) {
        expect_bad_field(i, "1.5", 1, "'1.5' is no whole number");
        expect_bad_field(i, "-", 1, "'-' is no whole number");
        expect_bad_field(i, "12a", 1, "'12a' is no whole number");
        expect_bad_field(i, "+1", 1, "'+1' is no whole number");
        expect_bad_field(i, "12 ", 1, "'12 ' is no whole number");
        expect_bad_field(i, "9223372036854775808", 1,
                         "'9223372036854775808' is no whole number");
    }
}

static void the_number_of_columns_must_be_right(void **state)
{
    (void)state;
    for (int n = 1; n <= COLUMNS + 1; n++) {
        fields f = good_fields();
        parsed p;
        char *line, reason[64];

        if (n == COLUMNS)
            continue;
        f.at[COLUMNS] = "";
        f.n = n;
        line = join(&f, 0);
        snprintf(reason, sizeof(reason),
                 "%d columns apart by tabs, but a line has 40", n);
        p = parse("criteo", line);
        assert_int_equal(p.n_bad, 1);
        assert_int_equal(p.bad.slot, FL_NO_SLOT);
        assert_string_equal(p.bad.reason, reason);
        fl_free(line);
        close_format(&p);
    }
    expect_bad("criteo", "\n", "the line is empty");
    expect_bad("criteo:label=no", "1\t2", "but a line has 39");
}

static void a_label_beyond_its_height_is_bad(void **state)
{
    static const fl_slot wanted[] = { { "click", FL_SLOT_IDS, 1, 2 } };
    parsed p = open_format(
        &(fl_parser_args){ .spec = "criteo", .wanted = wanted, .n_wanted = 1 });
    fields f = good_fields();
    char *line;

    (void)state;
    f.at[0] = "2";
    line = join(&f, 0);
    assert_ok(feed_file(&p, line));
    assert_int_equal(p.n_bad, 1);
    assert_int_equal(p.bad.slot, 0);
    assert_string_equal(p.bad.reason, "id 2 is not below 2");
    fl_free(line);
    close_format(&p);
}

static void no_memory_ends_the_job(void **state)
{
    fields f = good_fields();
    char *line = join(&f, 0);
    parsed p = open_format(&(fl_parser_args){ .spec = "criteo" });

    (void)state;
    fl_alloc_fail_after(1);
    assert_int_equal(feed_file(&p, line), FL_ERR_NOMEM);
    fl_alloc_fail_after(0);
    fl_free(line);
    close_format(&p);
}

static void hashes_are_not_printed(void **state)
{
    (void)state;
    assert_null(fl_format_find("criteo")->print);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_label_dense_and_categories),
        cmocka_unit_test(the_ids_of_a_known_line_never_change),
        cmocka_unit_test(integers_may_be_missing_negative_and_long),
        cmocka_unit_test(categories_may_be_missing_and_any_text),
        cmocka_unit_test(all_columns_may_be_missing_but_the_label),
        cmocka_unit_test(random_numbers_are_read_like_the_document_says),
        cmocka_unit_test(wanted_slots_choose_columns_and_order),
        cmocka_unit_test(columns_that_are_not_wanted_are_not_looked_at),
        cmocka_unit_test(slots_that_are_no_columns_are_refused_by_name),
        cmocka_unit_test(a_second_label_or_second_integers_are_refused),
        cmocka_unit_test(bad_fields_are_told_by_slot_and_reason),
        cmocka_unit_test(the_number_of_columns_must_be_right),
        cmocka_unit_test(a_label_beyond_its_height_is_bad),
        cmocka_unit_test(no_memory_ends_the_job),
        cmocka_unit_test(hashes_are_not_printed),
    };

    return cmocka_run_group_tests_name("criteo", tests, NULL, NULL);
}
