/* test_part.c - split, key and negatives: which records of a text are taken. */
#include "format_kit.h"

#include "base/hash.h"

#define N_LINES 4000
#define USERS 100

typedef char *(*print_line)(int i);

/* Lines as `print` gives them, from `lo` up to `hi`. */
static char *make_text(print_line print, int lo, int hi)
{
    fl_str text = { 0 };

    for (int i = lo; i < hi; i++) {
        char *line = print(i);

        fl_str_addf(&text, "%s\n", line);
        free(line);
    }
    return fl_str_take(&text);
}

static char *click_line(int i)
{
    char *line = NULL;

    assert_true(asprintf(&line, "%d,u%d,%d", i % 5 == 0, i % USERS, i) > 0);
    return line;
}

#define CLICKS "csv:columns=label:float user:skip n:id"

static parsed read_clicks(const char *options)
{
    char *text = make_text(click_line, 0, N_LINES);
    parsed f =
        open_format(&(fl_parser_args){ .spec = CLICKS, .options = options });

    assert_ok(feed_file(&f, text));
    fl_free(text);
    return f;
}

/* The number of a click, which is its second slot. */
static int number_of(const parsed *f, size_t i)
{
    fl_row_part parts[2];

    fl_help_parts(&f->parser->schema, fl_records_at(&f->rows, i), parts);
    return (int)fl_help_id(&parts[1], 0);
}

static double label_of(const parsed *f, size_t i)
{
    fl_row_part parts[2];

    fl_help_parts(&f->parser->schema, fl_records_at(&f->rows, i), parts);
    return (double)fl_help_float(&parts[0], 0);
}

static void parts_have_every_line_once(void **state)
{
    static const char *const split[] = { "split=0-80", "split=80-90",
                                         "split=900-1000/1000" };
    int seen[N_LINES] = { 0 };

    (void)state;
    for (size_t k = 0; k < FL_LEN(split); k++) {
        parsed f = read_clicks(split[k]);

        for (size_t i = 0; i < f.rows.n; i++)
            seen[number_of(&f, i)]++;
        assert_int_equal(f.rows.n + f.rows.n_skipped, N_LINES);
        assert_in_range(f.rows.n, k ? 320 : 3100, k ? 480 : 3300);
        close_format(&f);
    }
    for (int i = 0; i < N_LINES; i++)
        assert_int_equal(seen[i], 1);
}

/* docs/formats/parts.md has this function; it never changes. */
static void the_hash_of_a_line_is_that_of_its_bytes(void **state)
{
    parsed f = read_clicks("split=25-50");
    size_t n = 0;

    (void)state;
    for (int i = 0; i < N_LINES; i++) {
        char *line = click_line(i);
        uint64_t h = fl_hash_bytes(line, strlen(line));

        if (h >= (uint64_t)1 << 62 && h < (uint64_t)1 << 63)
            assert_int_equal(number_of(&f, n++), i);
        free(line);
    }
    assert_int_equal(f.rows.n, n);
    close_format(&f);
    assert_true(fl_hash_str("u7") == 0xc12e8662d1e867b9u);
}

static void line_ends_change_nothing(void **state)
{
    (void)state;
    expect_parsed("csv:columns=n:id,split=0-50", "1\n2\n3\n4\n5\n6\n",
                  "n=1\nn=2\nn=4\n");
    expect_parsed("csv:columns=n:id,split=0-50", "6\r\n5\r\n4\r\n3\r\n2\r\n1",
                  "n=4\nn=2\nn=1\n");
}

static void records_of_one_key_lie_in_one_part(void **state)
{
    parsed f = read_clicks("split=0-30,key=user");
    int seen[USERS] = { 0 }, n = 0;

    (void)state;
    for (size_t i = 0; i < f.rows.n; i++)
        seen[number_of(&f, i) % USERS]++;
    for (int u = 0; u < USERS; u++) {
        assert_true(seen[u] == 0 || seen[u] == N_LINES / USERS);
        n += seen[u] > 0;
    }
    assert_in_range(n, 20, 40);
    close_format(&f);
}

static void a_key_is_its_text_wherever_it_stands(void **state)
{
    static const char *const texts[] = {
        "user,n\nann,1\nbob,2\ncid,3\ndan,4\neve,5\n",
        "n,user\n5,eve\n4,\"dan\"\n3, cid \n2,bob\n1,ann\n",
    };

    (void)state;
    expect_parsed("csv:columns=user:skip n:id,header=yes,split=0-50,key=user",
                  texts[0], "n=2\nn=3\nn=4\n");
    expect_parsed("csv:columns=user:skip n:id,header=yes,split=0-50,key=user",
                  texts[1], "n=4\nn=3\nn=2\n");
}

static void a_slot_is_a_key_where_lines_have_no_columns(void **state)
{
    size_t n = 0;

    (void)state;
    for (int part = 0; part < 2; part++) {
        char spec[64];
        parsed f;

        snprintf(spec, sizeof(spec), "libffm:fields=2,split=%d-%d,key=F1",
                 part * 50, part * 50 + 50);
        f = parse(spec, "1 0:1 1:7\n0 0:2 1:8\n1 0:3 1:7\n0 0:4 1:8\n"
                        "1 0:5 1:9\n0 0:6 1:9\n");
        assert_int_equal(f.n_bad, 0);
        assert_int_equal(f.rows.n % 2, 0);
        assert_int_equal(f.rows.n + f.rows.n_skipped, 6);
        n += f.rows.n;
        close_format(&f);
    }
    assert_int_equal(n, 6);
}

static void a_share_of_the_negatives_is_kept_in_every_part(void **state)
{
    static const char *const split[] = { "", ",split=0-50", ",split=50-100" };

    (void)state;
    for (size_t k = 0; k < FL_LEN(split); k++) {
        char options[64];
        double n[2] = { 0 };
        parsed f;

        snprintf(options, sizeof(options), "negatives=0.25%s", split[k]);
        f = read_clicks(options);
        for (size_t i = 0; i < f.rows.n; i++)
            n[label_of(&f, i) > 0]++;
        /* One in five is a click, so one in two is one of these. */
        assert_true(n[1] > (k ? 350 : 799) && n[1] < (k ? 450 : 801));
        assert_true(n[0] / n[1] > 0.85 && n[0] / n[1] < 1.15);
        assert_int_equal(f.rows.n + f.rows.n_skipped, N_LINES);
        close_format(&f);
    }
}

static void bad_lines_are_told_by_the_part_they_lie_in(void **state)
{
    const char *text = "1,ann\nx,bob\n3,cid\n4\n";
    size_t n_bad = 0;

    (void)state;
    for (int part = 0; part < 4; part++) {
        char spec[64];
        parsed f;

        snprintf(spec, sizeof(spec), "csv:columns=n:id u:hash,split=%d-%d/4",
                 part, part + 1);
        f = parse(spec, text);
        n_bad += f.n_bad;
        close_format(&f);
    }
    assert_int_equal(n_bad, 2);
}

static void parsers_of_other_parts_have_other_hashes(void **state)
{
    static const char *const options[] = { NULL, "split=0-80", "split=0-81",
                                           "split=0-80,key=user",
                                           "negatives=0.5" };
    uint64_t hash[FL_LEN(options)];

    (void)state;
    for (size_t i = 0; i < FL_LEN(options); i++) {
        parsed f = open_format(
            &(fl_parser_args){ .spec = CLICKS, .options = options[i] });

        hash[i] = fl_parser_hash(f.parser);
        for (size_t k = 0; k < i; k++)
            assert_true(hash[k] != hash[i]);
        close_format(&f);
    }
}

static void what_makes_no_part_is_refused(void **state)
{
    (void)state;
    expect_spec_refused(CLICKS ",split=80", "is not LO-HI");
    expect_spec_refused(CLICKS ",split=80-20", "is not LO-HI");
    expect_spec_refused(CLICKS ",split=0-101", "is not LO-HI");
    expect_spec_refused(CLICKS ",split=0-5/4", "is not LO-HI");
    expect_spec_refused(CLICKS ",split=0-5/", "is not LO-HI");
    expect_spec_refused(CLICKS ",key=user", "key=user of what?");
    expect_spec_refused(CLICKS ",split=0-5,key=usr", "write usr:skip");
    expect_spec_refused("libffm:fields=2,split=0-5,key=F2",
                        "none of the slots that are read");
    expect_spec_refused(CLICKS ",negatives=0", "is no share above 0");
    expect_spec_refused(CLICKS ",negatives=x", "is no share above 0");
    expect_spec_refused(CLICKS ",negatives=0.5:click",
                        "click is none of the slots");
}

static void a_header_without_the_key_is_an_error(void **state)
{
    parsed f = open_format(&(fl_parser_args){
        .spec = "csv:columns=user:skip n:id,header=yes,split=0-50,key=user" });

    (void)state;
    assert_int_equal(feed_file(&f, "n\n1\n"), FL_ERR_INVAL);
    assert_says(fl_last_error(), "no column called user");
    close_format(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_every_line_once),
        cmocka_unit_test(the_hash_of_a_line_is_that_of_its_bytes),
        cmocka_unit_test(line_ends_change_nothing),
        cmocka_unit_test(records_of_one_key_lie_in_one_part),
        cmocka_unit_test(a_key_is_its_text_wherever_it_stands),
        cmocka_unit_test(a_slot_is_a_key_where_lines_have_no_columns),
        cmocka_unit_test(a_share_of_the_negatives_is_kept_in_every_part),
        cmocka_unit_test(bad_lines_are_told_by_the_part_they_lie_in),
        cmocka_unit_test(parsers_of_other_parts_have_other_hashes),
        cmocka_unit_test(what_makes_no_part_is_refused),
        cmocka_unit_test(a_header_without_the_key_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
