/* test_formats.c - the frame of formats, and multislot and multislot_header:
 * what lines mean, and which are refused. */
#include "format_kit.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"

static uint64_t draw(uint64_t *s)
{
    *s += 0x9e3779b97f4a7c15u;
    return fl_mix64(*s);
}

/* A label, two floats, and ids of any number. */
static const fl_slot three[] = {
    { "label", FL_SLOT_IDS, 1, 2 },
    { "x", FL_SLOT_FLOATS, 2, 0 },
    { "ids", FL_SLOT_IDS, 0, 1000 },
};
#define THREE .wanted = three, .n_wanted = FL_LEN(three)

static parsed open_three(const char *spec)
{
    return open_format(&(fl_parser_args){ .spec = spec, THREE });
}

/* --- the frame ----------------------------------------------------------- */

static void unknown_names_are_refused_with_the_nearest(void **state)
{
    (void)state;
    expect_spec_refused("multislat", "did you mean multislot?");
    expect_spec_refused("", "no format is called ''");
    expect_spec_refused("zzzzzzzzzz", "fl_format_help lists them");
    expect_spec_refused("criteo:hash_sise=3", "did you mean hash_size?");
    expect_spec_refused("criteo:qqqqqqqqqqqq=3", "fl_format_help lists them");
    expect_spec_refused("multislot:splt=1", "did you mean split?");
}

static void options_are_checked(void **state)
{
    (void)state;
    expect_spec_refused("criteo:hash_size", "name=value");
    expect_spec_refused("criteo:", "name=value");
    expect_spec_refused("criteo:label=yes,label=no", "given twice");
    expect_spec_refused("criteo:label=maybe", "neither yes nor no");
    expect_spec_refused("criteo:hash_size=-1", "is no whole number from 0");
    expect_spec_refused("criteo:hash_size=12x", "hash_size=12x");
    expect_spec_refused("criteo:hash_size=", "is no whole number");
}

static void every_format_is_found_by_its_name(void **state)
{
    (void)state;
    assert_true(fl_format_count() >= 7);
    for (size_t i = 0; i < fl_format_count(); i++) {
        const fl_format *f = fl_format_at(i);

        assert_ptr_equal(fl_format_find(f->name), f);
        assert_true(f->doc && *f->doc);
        assert_true(f->open && f->line);
    }
    assert_null(fl_format_find("nothing"));
}

static uint64_t hash_of(fl_parser_args args)
{
    parsed f = open_format(&args);
    uint64_t h = fl_parser_hash(f.parser);

    close_format(&f);
    return h;
}

static void the_hash_tells_parsers_apart(void **state)
{
    fl_slot other[FL_LEN(three)];
    uint64_t h[8];

    (void)state;
    memcpy(other, three, sizeof(other));
    other[2].height++;
    h[0] = hash_of((fl_parser_args){ .spec = "multislot", THREE });
    h[1] = hash_of((fl_parser_args){ .spec = "multislot_header", THREE });
    h[2] = hash_of((fl_parser_args){
        .spec = "multislot", .wanted = other, .n_wanted = FL_LEN(other) });
    h[3] = hash_of(
        (fl_parser_args){ .spec = "multislot", THREE, .empty_slots = true });
    h[4] = hash_of((fl_parser_args){ .spec = "criteo" });
    h[5] = hash_of((fl_parser_args){ .spec = "criteo:hash_size=1000" });
    h[6] = hash_of((fl_parser_args){ .spec = "criteo:label=no" });
    h[7] = hash_of((fl_parser_args){ .spec = "criteo:hash_size=0" });
    for (size_t i = 0; i < FL_LEN(h); i++)
        for (size_t k = 0; k < i; k++)
            assert_true(h[i] != h[k]);
    assert_true(h[4] == hash_of((fl_parser_args){
                            .spec = "criteo:label=yes,hash_size=1000001" }));
}

static void lines_end_with_and_without_a_carriage_return(void **state)
{
    parsed f = open_three("multislot");

    (void)state;
    assert_ok(feed_file(&f, "1 0 2 1 2 1 5\r\n1 1 2 3 4 1 6\n1 0 2 5 6 1 7"));
    expect_records(&f, "label=0 x=1 2 ids=5\n"
                       "label=1 x=3 4 ids=6\n"
                       "label=0 x=5 6 ids=7\n");
    assert_int_equal(f.n_bad, 0);
    close_format(&f);
}

static void a_bad_line_is_told_by_number_and_leaves_nothing(void **state)
{
    parsed f = open_three("multislot");

    (void)state;
    assert_ok(feed_lines(&f, "1 0 2 1 2 1 5\n1 1 2 3 4 1 x\n1 0 2 5 6 1 7\n\n",
                         (fl_line){ .number = 40 }));
    expect_records(&f, "label=0 x=1 2 ids=5\nlabel=0 x=5 6 ids=7\n");
    assert_int_equal(f.n_bad, 2);
    assert_int_equal(f.bad_line, 43);
    assert_string_equal(f.bad.reason, "the line is empty");
    close_format(&f);
}

static fl_status end_the_job(void *arg, const fl_line *l, const fl_bad *bad)
{
    (void)arg;
    (void)bad;
    FL_FAIL(FL_ERR_CORRUPT, "line %d", (int)l->number);
}

static void the_job_ends_when_a_bad_line_ends_it(void **state)
{
    parsed f = open_three("multislot");
    char *text = pad("x\n1 0 2 1 2 1 5\n", 16);

    (void)state;
    assert_int_equal(
        fl_parse_lines(f.parser,
                       (fl_line){ .at = text, .end = text + 16, .number = 1 },
                       &f.rows, end_the_job, NULL),
        FL_ERR_CORRUPT);
    assert_string_equal(fl_last_error(), "line 1");
    assert_int_equal(f.rows.n, 0);
    fl_free(text);
    close_format(&f);
}

static void no_memory_ends_the_job(void **state)
{
    static const char *const files[][2] = {
        { "multislot", "1 0 2 1 2 1 5\n" },
        { "multislot_header", "#slots label:u64 x:float ids:u64\n"
                              "1 0 2 1 2 1 5\n" },
        { "multislot_header", "#slots x:float label:u64 ids:u64\n"
                              "2 1 2 1 0 1 5\n" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(files); i++) {
        parsed f = open_three(files[i][0]);

        fl_alloc_fail_after(1);
        assert_int_equal(feed_file(&f, files[i][1]), FL_ERR_NOMEM);
        fl_alloc_fail_after(0);
        assert_int_equal(f.rows.n, 0);
        assert_int_equal(f.n_bad, 0);
        close_format(&f);
    }
}

/* The same text through `line` alone. */
static parsed parse_by_lines(const fl_parser_args *args, const char *text)
{
    parsed f = open_format(args);
    const fl_format *format = f.parser->format;
    fl_format slow = *format;

    slow.take = NULL;
    f.parser->format = &slow;
    assert_ok(feed_file(&f, text));
    f.parser->format = format;
    return f;
}

static void expect_same_as_by_lines(const fl_parser_args *args,
                                    const char *text)
{
    parsed a = open_format(args), b = parse_by_lines(args, text);

    assert_ok(feed_file(&a, text));
    if (a.rows.n != b.rows.n || a.rows.len != b.rows.len || a.n_bad != b.n_bad)
        fail_msg("taking lines differs from reading them: '%s'", text);
    if (a.rows.n)
        assert_memory_equal(a.rows.words, b.rows.words, 4 * a.rows.len);
    for (size_t i = 0; i < a.rows.n; i++)
        assert_int_equal(a.rows.starts[i], b.rows.starts[i]);
    if (a.n_bad) {
        assert_int_equal(a.bad_line, b.bad_line);
        assert_int_equal(a.bad.slot, b.bad.slot);
        assert_string_equal(a.bad.reason, b.bad.reason);
    }
    close_format(&a);
    close_format(&b);
}

/* Some bytes of a good text become others, but not those of its header. */
static void expect_same_when_damaged(const fl_parser_args *args,
                                     const char *good)
{
    static const char bytes[] = "0123456789abAB :.-\t\r\n";
    size_t len = strlen(good),
           head = *good == '#' ? strcspn(good, "\n") + 1 : 0;
    char *text = fl_alloc(len + 1);
    uint64_t seed = 1;

    expect_same_as_by_lines(args, good);
    for (int round = 0; round < 5000; round++) {
        memcpy(text, good, len + 1);
        for (int i = 0; i <= round % 3; i++) {
            char *at = text + head + draw(&seed) % (len - head);

            *at = bytes[draw(&seed) % strlen(bytes)];
        }
        expect_same_as_by_lines(args, text);
    }
    fl_free(text);
}

/* Every line at the end of what can be read: the padding, then a page that
   faults. */
static void expect_within_padding(const fl_parser_args *args, const char *text)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE), len = strlen(text);
    char *page = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    parsed f = open_format(args);

    assert_ptr_not_equal(page, MAP_FAILED);
    assert_int_equal(mprotect(page + bytes, bytes, PROT_NONE), 0);
    for (size_t n = 0; n <= len; n++) {
        char *at = page + bytes - FL_TEXT_PADDING - n;

        memcpy(at, text, n);
        fl_records_clear(&f.rows);
        assert_ok(fl_parse_lines(
            f.parser, (fl_line){ .at = at, .end = at + n, .number = 1 },
            &f.rows, keep_bad, &f));
        assert_true(f.rows.n <= 1);
    }
    assert_int_equal(munmap(page, 2 * bytes), 0);
    close_format(&f);
}

#define CRITEO_LINE                                                            \
    "1\t5\t-2\t\t7\t1382\t4\t15\t2\t181\t1\t2\t\t2"                            \
    "\t68fd1e64\t80e26c9b\tfb936136\t7b4723c4\t25c83c98\t7e0ccccf"             \
    "\tde7995b8\t1f89b562\ta73ee510\ta8cd5504\tb2cb9c98\t37c9c164"             \
    "\t2824a5f6\t1adce6ef\t8ba8b39a\t891b62e7\te5ba7672\tf54016b9"             \
    "\t21ddcdc9\tb1252a9d\t07b5194c\t\t3a171ecb\tc5c50484\te8b83407"           \
    "\t9727dd16"

static void a_line_is_taken_as_it_is_read(void **state)
{
    static const fl_slot some[] = { { .name = "C3" },
                                    { .name = "label", .width = 1 } };

    (void)state;
    expect_same_when_damaged(
        &(fl_parser_args){ .spec = "multislot", THREE },
        "1 1 2 0.123456 -3.25e-3 4 1 22 333 999\r\n"
        "1 0 2 1 0.25 1 12345678901234567890 \n1 1 2 1 12.5 2 7 8");
    expect_same_when_damaged(
        &(fl_parser_args){ .spec = "multislot_header", THREE },
        "#slots label:u64 x:float ids:u64\n1 1 2 0.5 1 1 7\n"
        "1 0 2 1 -2 3 1 2 3\n1 0 2 1 2 1 5\n");
    expect_same_when_damaged(&(fl_parser_args){ .spec = "criteo" },
                             CRITEO_LINE "\r\n" CRITEO_LINE "\n" CRITEO_LINE);
    expect_same_when_damaged(
        &(fl_parser_args){ .spec = "criteo", .wanted = some, .n_wanted = 2 },
        CRITEO_LINE "\n" CRITEO_LINE "\n");
}

static void a_slot_of_many_values_is_taken_as_it_is_read(void **state)
{
    fl_str text = { 0 };

    (void)state;
    for (int n = 250; n < 2000; n += 250) {
        fl_str_addf(&text, "1 0 2 1 2 %d", n);
        for (int i = 0; i < n; i++)
            fl_str_addf(&text, " %d", i);
        fl_str_add(&text, "\n");
    }
    expect_same_as_by_lines(&(fl_parser_args){ .spec = "multislot", THREE },
                            fl_str_text(&text));
    fl_str_release(&text);
}

static void a_line_that_is_cut_anywhere_reads_within_the_padding(void **state)
{
    (void)state;
    expect_within_padding(&(fl_parser_args){ .spec = "multislot", THREE },
                          "1 1 2 0.123456 -3.25e-3 4 1 22 333 999\n");
    expect_within_padding(&(fl_parser_args){ .spec = "criteo" },
                          CRITEO_LINE "\n");
}

/* --- multislot ----------------------------------------------------------- */

static void expect_three(const char *line, const char *expected)
{
    parsed f = open_three("multislot");

    assert_ok(feed_file(&f, line));
    if (f.n_bad)
        fail_msg("'%s': %s", line, f.bad.reason);
    expect_records(&f, expected);
    close_format(&f);
}

static void expect_bad_three(const char *line, int slot, const char *reason)
{
    parsed f = open_three("multislot");

    assert_ok(feed_file(&f, line));
    if (f.n_bad != 1)
        fail_msg("'%s' was taken", line);
    assert_int_equal(f.bad.slot, slot);
    assert_string_equal(f.bad.reason, reason);
    assert_int_equal(f.rows.n, 0);
    assert_int_equal(f.rows.len, 0);
    close_format(&f);
}

static void multislot_lines_are_counts_and_values(void **state)
{
    (void)state;
    expect_three("1 1 2 0.5 -3 3 1 20 999", "label=1 x=0.5 -3 ids=1 20 999\n");
    expect_three("1 0 2 1e3 +0.25 1 0", "label=0 x=1000 0.25 ids=0\n");
    expect_three("01 01 02 007 10.5 001 0000000000000000000000012",
                 "label=1 x=7 10.5 ids=12\n");
}

static void blanks_and_tabs_may_be_many_and_trail(void **state)
{
    (void)state;
    expect_three("  1  1 \t2   0.5\t3  1   7  ", "label=1 x=0.5 3 ids=7\n");
    expect_three("1 1 2 0.5 3 1 7\t", "label=1 x=0.5 3 ids=7\n");
    expect_three("1 1 2 0.5 3 1 7 \t \r\n", "label=1 x=0.5 3 ids=7\n");
}

static void bad_multislot_lines_are_told_by_slot_and_reason(void **state)
{
    (void)state;
    expect_bad_three(" ", FL_NO_SLOT, "the line is empty");
    expect_bad_three("1 1 2 0.5 3 1 7 8", FL_NO_SLOT,
                     "'8' stands behind the last slot");
    expect_bad_three("1 1 2 0.5 3 1 7 \tab", FL_NO_SLOT,
                     "'ab' stands behind the last slot");
    expect_bad_three("x", 0, "'x' is no count");
    expect_bad_three("1x 1", 0, "'1x' is no count");
    expect_bad_three("-1 1", 0, "'-1' is no count");
    expect_bad_three("99999999999999999999999 1", 0,
                     "'99999999999999999999999' is no count");
    expect_bad_three("1", 0, "the line ends where an id is expected");
    expect_bad_three("1 1", 1, "the line ends where a count is expected");
    expect_bad_three("1 1 2 0.5", 1,
                     "the line ends where a number is expected");
    expect_bad_three("1 1 2 0.5 ", 1,
                     "the line ends where a number is expected");
    expect_bad_three("2 1 1 2 0.5 3 1 7", 0, "2 values, but the slot has 1");
    expect_bad_three("0 2 0.5 3 1 7", 0, "0 values, but the slot has 1");
    expect_bad_three("1 1 3 0.5 3 4 1 7", 1, "3 values, but the slot has 2");
    expect_bad_three("1 1 2 0.5 3 0", 2,
                     "no values; the setting empty_slots allows that");
}

static void bad_values_of_multislot_lines_are_shown(void **state)
{
    (void)state;
    expect_bad_three("1 1.5 2 0.5 3 1 7", 0,
                     "'1.5' is no id: a whole number below 2^64");
    expect_bad_three("1 -1 2 0.5 3 1 7", 0,
                     "'-1' is no id: a whole number below 2^64");
    expect_bad_three("1 18446744073709551616 2 0.5 3 1 7", 0,
                     "'18446744073709551616' is no id: a whole number below "
                     "2^64");
    expect_bad_three("1 2 2 0.5 3 1 7", 0, "id 2 is not below 2");
    expect_bad_three("1 1 2 0.5 3 2 7 1000", 2, "id 1000 is not below 1000");
    expect_bad_three("1 1 2 0.5 3 1 18446744073709551615", 2,
                     "id 18446744073709551615 is not below 1000");
    expect_bad_three("1 1 2 0.5x 3 1 7", 1, "'0.5x' is no number for a float");
    expect_bad_three("1 1 2 0.5e 3 1 7", 1, "'0.5e' is no number for a float");
    expect_bad_three("1 1 2 nan 3 1 7", 1, "'nan' is no number for a float");
    expect_bad_three("1 1 2 0.5 1e39 1 7", 1,
                     "'1e39' is no number for a float");
    expect_bad_three("1 1 2 0.5 \x01\xc3 1 7", 1,
                     "'?\?' is no number for a float");
}

static void an_absurd_count_is_refused_by_the_length_of_the_line(void **state)
{
    (void)state;
    expect_bad_three("1 1 2 0.5 3 4000000000000 7", 2,
                     "4000000000000 values cannot stand in the 1 bytes that "
                     "are left of the line");
    expect_bad_three("1 1 2 0.5 3 18446744073709551615 7 8 9", 2,
                     "18446744073709551615 values cannot stand in the 5 bytes "
                     "that are left of the line");
    expect_bad_three("1 1 2 0.5 3 4 7 8 9", 2,
                     "4 values cannot stand in the 5 bytes that are left of "
                     "the line");
    expect_bad_three("1 1 2 0.5 3 3 7 889", 2,
                     "the line ends where an id is expected");
}

static void empty_slots_are_read_where_they_are_allowed(void **state)
{
    parsed f = open_format(
        &(fl_parser_args){ .spec = "multislot", THREE, .empty_slots = true });

    (void)state;
    assert_ok(feed_file(&f, "1 1 2 0.5 3 0\n1 1 2 0.5 3 0 \n"
                            "1 1 0 1 7\n"));
    expect_records(&f, "label=1 x=0.5 3 ids=\nlabel=1 x=0.5 3 ids=\n");
    assert_int_equal(f.n_bad, 1);
    assert_string_equal(f.bad.reason, "0 values, but the slot has 2");
    close_format(&f);
}

static void multislot_needs_slots(void **state)
{
    (void)state;
    expect_spec_refused("multislot", "name them (set_slots, set_use_var)");
}

static void records_are_printed_as_multislot_lines(void **state)
{
    parsed f = open_three("multislot");

    (void)state;
    assert_ok(feed_file(&f, "1  1 2 0.10 -3e0 03 1 2 3\n1 0 2 0 1e30 1 4\n"));
    expect_print(&f, "1 1 2 0.1 -3 3 1 2 3\n1 0 2 0 1e+30 1 4\n");
    close_format(&f);
}

/* --- random records ------------------------------------------------------ */

#define RANDOM_SLOTS_MAX 9
#define SLOT_NAME_MAX 32

static size_t draw_slots(uint64_t *s, fl_slot *slots,
                         char names[][SLOT_NAME_MAX])
{
    size_t n = 1 + draw(s) % RANDOM_SLOTS_MAX;

    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof(names[i]), "slot%c", (char)('0' + i));
        slots[i] =
            (fl_slot){ names[i], draw(s) % 2 ? FL_SLOT_IDS : FL_SLOT_FLOATS,
                       draw(s) % 2 ? 0 : 1 + (uint32_t)draw(s) % 5, 0 };
    }
    return n;
}

static void draw_value(uint64_t *s, const fl_slot *slot, fl_row_writer *w)
{
    uint32_t bits = (uint32_t)draw(s);
    float x;

    if (slot->kind == FL_SLOT_IDS) {
        fl_row_id(w, draw(s) >> draw(s) % 64);
        return;
    }
    if (draw(s) % 2) {
        fl_row_float(w, (float)(draw(s) % 1000) / 1000);
        return;
    }
    bits &= ~(UINT32_C(1) << 30); /* neither infinite nor NaN */
    memcpy(&x, &bits, sizeof(x));
    fl_row_float(w, x);
}

static void draw_record(uint64_t *s, fl_row_writer *w)
{
    const fl_schema *schema = w->schema;
    uint32_t ragged = 0;

    assert_ok(fl_row_open(w, 600 * schema->n_slots));
    for (uint32_t i = 0; i < schema->n_slots; i++) {
        const fl_slot *slot = &schema->slots[i];
        uint32_t n = slot->width;

        if (!n)
            n = (uint32_t)draw(s) % (draw(s) % 20 ? 4 : 600);
        fl_row_slot(w, slot, ragged, n);
        ragged += slot->width == 0;
        for (uint32_t k = 0; k < n; k++)
            draw_value(s, slot, w);
    }
    fl_row_close(w);
}

static void expect_round_trip(uint64_t *s, const char *spec)
{
    char names[RANDOM_SLOTS_MAX][SLOT_NAME_MAX];
    fl_slot slots[RANDOM_SLOTS_MAX];
    size_t n = draw_slots(s, slots, names);
    parsed f = open_format(&(fl_parser_args){
        .spec = spec, .wanted = slots, .n_wanted = n, .empty_slots = true });
    fl_row_writer w = { .schema = &f.parser->schema, .rows = &f.rows };
    parsed again = { .parser = f.parser };
    fl_str text = { 0 };

    for (int i = 0; i < 20; i++)
        draw_record(s, &w);
    if (f.parser->format->print_head)
        f.parser->format->print_head(f.parser, &text);
    for (size_t i = 0; i < f.rows.n; i++) {
        f.parser->format->print(f.parser, fl_records_at(&f.rows, i), &text);
        fl_str_add(&text, "\n");
    }
    assert_ok(feed_file(&again, text.data));
    if (again.n_bad)
        fail_msg("%s", again.bad.reason);
    assert_int_equal(again.rows.n, f.rows.n);
    assert_int_equal(again.rows.len, f.rows.len);
    assert_memory_equal(again.rows.words, f.rows.words,
                        f.rows.len * sizeof(*f.rows.words));
    fl_str_release(&text);
    fl_records_release(&again.rows);
    close_format(&f);
}

static void random_records_print_and_parse_to_the_same(void **state)
{
    uint64_t s = 1;

    (void)state;
    for (int i = 0; i < 200; i++)
        expect_round_trip(&s, i % 2 ? "multislot" : "multislot_header");
}

/* Bytes that numbers and blanks are made of, in no order. */
static void lines_of_nonsense_never_crash(void **state)
{
    static const char bytes[] = "0123456789 \t.-+e1 1 1 2 x#:\r";
    uint64_t s = 2;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        parsed f = open_format(
            &(fl_parser_args){ .spec = i % 2 ? "multislot" : "criteo:label=no",
                               .wanted = i % 2 ? three : NULL,
                               .n_wanted = i % 2 ? FL_LEN(three) : 0 });
        char line[64];
        size_t n = draw(&s) % (sizeof(line) - 1);

        for (size_t k = 0; k < n; k++)
            line[k] = bytes[draw(&s) % (sizeof(bytes) - 1)];
        line[n] = '\0';
        assert_ok(feed_file(&f, line));
        assert_true(f.rows.n + f.n_bad == (n > 0));
        close_format(&f);
    }
}

/* --- multislot_header ---------------------------------------------------- */

static void a_header_defines_the_slots_when_none_are_wanted(void **state)
{
    parsed f = open_format(
        &(fl_parser_args){ .spec = "multislot_header",
                           .sample = "#slots a:u64:1 b:float c:u64\r\n" });

    (void)state;
    assert_int_equal(f.parser->schema.n_slots, 3);
    assert_int_equal(f.parser->schema.slots[0].width, 1);
    assert_int_equal(f.parser->schema.slots[1].kind, FL_SLOT_FLOATS);
    assert_int_equal(f.parser->schema.slots[2].width, 0);
    assert_ok(feed_file(&f, "#slots a:u64:1 b:float c:u64\n"
                            "1 7 2 0.5 1 3 1 2 3\n"));
    expect_records(&f, "a=7 b=0.5 1 c=1 2 3\n");
    expect_print(&f, "#slots a:u64:1 b:float c:u64\n1 7 2 0.5 1 3 1 2 3\n");
    close_format(&f);
}

static void slots_of_a_file_are_matched_by_name(void **state)
{
    parsed f = open_three("multislot_header");

    (void)state;
    assert_ok(feed_file(&f, "#slots ids:u64 other:float label:u64:1 x:float:2 "
                            "last:u64\n"
                            "2 5 6 1 nonsense 1 1 2 0.5 1 0\n"
                            "1 5 3 a b c 1 0 2 2 3 1 9\t\n"));
    assert_ok(feed_file(&f, "#slots label:u64 x:float ids:u64\n"
                            "1 1 2 3 4 1 7\n"));
    assert_int_equal(f.n_bad, 0);
    expect_records(&f, "label=1 x=0.5 1 ids=5 6\n"
                       "label=0 x=2 3 ids=5\n"
                       "label=1 x=3 4 ids=7\n");
    close_format(&f);
}

static void expect_bad_by_name(const char *line, int slot, const char *reason)
{
    parsed f = open_three("multislot_header");
    fl_str text = { 0 };

    fl_str_addf(&text, "#slots ids:u64 other:float label:u64 x:float\n%s\n",
                line);
    assert_ok(feed_file(&f, text.data));
    assert_int_equal(f.n_bad, 1);
    assert_int_equal(f.bad_line, 2);
    assert_int_equal(f.bad.slot, slot);
    assert_string_equal(f.bad.reason, reason);
    fl_str_release(&text);
    close_format(&f);
}

static void bad_lines_of_files_in_another_order_are_told(void **state)
{
    (void)state;
    expect_bad_by_name("", FL_NO_SLOT, "the line is empty");
    expect_bad_by_name("1 5 1 0 1 1 2 3 x", 1, "'x' is no number for a float");
    expect_bad_by_name("1 5 1 0 1 1 2 3", 1,
                       "the line ends where a value is expected");
    expect_bad_by_name("1 5 9000000000000000000 0 1 1 2 3", FL_NO_SLOT,
                       "the line ends where a value is expected");
    expect_bad_by_name("1 5 1 0 1 1 2 3 4 5", FL_NO_SLOT,
                       "'5' stands behind the last slot");
    expect_bad_by_name("1 5 1 0", 0, "the line ends where a count is expected");
}

static void expect_bad_header(const char *header, fl_status status,
                              const char *why)
{
    parsed f = open_three("multislot_header");

    assert_int_equal(feed_file(&f, header), status);
    assert_says(fl_last_error(), why);
    close_format(&f);
}

static void headers_that_do_not_fit_say_what_they_lack(void **state)
{
    (void)state;
    expect_bad_header("1 1 2 3 4 1 7\n", FL_ERR_CORRUPT,
                      "does not begin with #slots");
    expect_bad_header("#slotss a:u64\n", FL_ERR_CORRUPT,
                      "does not begin with #slots");
    expect_bad_header("#slots\n", FL_ERR_CORRUPT, "the header has no slots");
    expect_bad_header("#slots label:u64 ids:u64\n", FL_ERR_NOTFOUND,
                      "the header has no slot x");
    expect_bad_header("#slots label:u64 x:u64 ids:u64\n", FL_ERR_INVAL,
                      "slot x has ids in the file, wanted are floats");
    expect_bad_header("#slots label:u64 x:float:3 ids:u64\n", FL_ERR_INVAL,
                      "slot x has width 3 in the file, wanted is 2");
    expect_bad_header("#slots label:u64 x:float ids:u64 x:float\n",
                      FL_ERR_INVAL, "two slots are called x");
    expect_bad_header("#slots label\n", FL_ERR_CORRUPT,
                      "'label' in the header");
    expect_bad_header("#slots :u64\n", FL_ERR_CORRUPT, "':u64' in the header");
    expect_bad_header("#slots a:int\n", FL_ERR_CORRUPT,
                      "'a:int' in the header");
    expect_bad_header("#slots a:u64:0\n", FL_ERR_CORRUPT, "'a:u64:0'");
    expect_bad_header("#slots a:u64:x\n", FL_ERR_CORRUPT, "'a:u64:x'");
    expect_bad_header("#slots a:u64:4294967296\n", FL_ERR_CORRUPT,
                      "'a:u64:4294967296'");
}

static void a_header_format_needs_a_file_or_slots(void **state)
{
    (void)state;
    expect_spec_refused("multislot_header",
                        "the slots come from the first file");
    expect_wanted_refused("multislot_header", (fl_slot){ .name = "a b" },
                          "slot 'a b'");
    expect_wanted_refused("multislot_header", (fl_slot){ .name = "a:b" },
                          "slot 'a:b'");
}

static void a_line_without_a_header_is_bad(void **state)
{
    parsed f = open_three("multislot_header");

    (void)state;
    assert_ok(feed_lines(&f, "1 1 2 3 4 1 7\n", (fl_line){ .number = 1 }));
    assert_string_equal(f.bad.reason, "no header came before the line");
    close_format(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_names_are_refused_with_the_nearest),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(every_format_is_found_by_its_name),
        cmocka_unit_test(the_hash_tells_parsers_apart),
        cmocka_unit_test(lines_end_with_and_without_a_carriage_return),
        cmocka_unit_test(a_bad_line_is_told_by_number_and_leaves_nothing),
        cmocka_unit_test(the_job_ends_when_a_bad_line_ends_it),
        cmocka_unit_test(no_memory_ends_the_job),
        cmocka_unit_test(a_line_is_taken_as_it_is_read),
        cmocka_unit_test(a_slot_of_many_values_is_taken_as_it_is_read),
        cmocka_unit_test(a_line_that_is_cut_anywhere_reads_within_the_padding),
        cmocka_unit_test(multislot_lines_are_counts_and_values),
        cmocka_unit_test(blanks_and_tabs_may_be_many_and_trail),
        cmocka_unit_test(bad_multislot_lines_are_told_by_slot_and_reason),
        cmocka_unit_test(bad_values_of_multislot_lines_are_shown),
        cmocka_unit_test(an_absurd_count_is_refused_by_the_length_of_the_line),
        cmocka_unit_test(empty_slots_are_read_where_they_are_allowed),
        cmocka_unit_test(multislot_needs_slots),
        cmocka_unit_test(records_are_printed_as_multislot_lines),
        cmocka_unit_test(random_records_print_and_parse_to_the_same),
        cmocka_unit_test(lines_of_nonsense_never_crash),
        cmocka_unit_test(a_header_defines_the_slots_when_none_are_wanted),
        cmocka_unit_test(slots_of_a_file_are_matched_by_name),
        cmocka_unit_test(bad_lines_of_files_in_another_order_are_told),
        cmocka_unit_test(headers_that_do_not_fit_say_what_they_lack),
        cmocka_unit_test(a_header_format_needs_a_file_or_slots),
        cmocka_unit_test(a_line_without_a_header_is_bad),
    };

    return cmocka_run_group_tests_name("formats", tests, NULL, NULL);
}
