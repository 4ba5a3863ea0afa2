/* test_formats_more.c - libsvm, libffm and csv: what lines mean, and which are
 * refused. */
#include "format_kit.h"

#include "base/hash.h"

/* --- libsvm --------------------------------------------------------------- */

static void libsvm_lines_give_label_ids_and_values(void **state)
{
    (void)state;
    expect_parsed("libsvm", "-1 3:0.5 18446744073709551615:-2e3\n+1 7:1\r\n",
                  "label=-1 ids=3 18446744073709551615 values=0.5 -2000\n"
                  "label=1 ids=7 values=1\n");
    expect_parsed("libsvm", "  0.25\t 1:2  \t3:4 \n",
                  "label=0.25 ids=1 3 values=2 4\n");
}

static void an_index_alone_has_the_value_one(void **state)
{
    (void)state;
    expect_parsed("libsvm", "1 5 6:2 7", "label=1 ids=5 6 7 values=1 2 1\n");
}

static void labels_as_ids_turn_minus_one_into_zero(void **state)
{
    (void)state;
    expect_parsed("libsvm:label=ids", "-1 1\n+1 1\n0 1\n1 1\n12 1\n",
                  "label=0 ids=1 values=1\nlabel=1 ids=1 values=1\n"
                  "label=0 ids=1 values=1\nlabel=1 ids=1 values=1\n"
                  "label=12 ids=1 values=1\n");
    expect_bad("libsvm:label=ids", "0.5 1", "the label '0.5' is no id");
    expect_bad("libsvm:label=ids", "-10 1", "the label '-10' is no id");
    expect_bad("libsvm:label=ids", "+ 1", "the label '+' is no id");
}

static void wanted_slots_choose_order_and_kind(void **state)
{
    static const fl_slot wanted[] = {
        { .name = "values", .kind = FL_SLOT_FLOATS },
        { .name = "label", .kind = FL_SLOT_IDS, .width = 1 },
    };
    parsed f = open_format(
        &(fl_parser_args){ .spec = "libsvm", .wanted = wanted, .n_wanted = 2 });

    (void)state;
    assert_ok(feed_file(&f, "-1 9:4 8:3\n"));
    expect_records(&f, "values=4 3 label=0\n");
    close_format(&f);
}

static void slots_that_a_format_has_not_are_refused(void **state)
{
    (void)state;
    expect_wanted_refused("libsvm", (fl_slot){ .name = "idz" },
                          "no slot called idz: it has label, ids, values");
    expect_wanted_refused("libsvm",
                          (fl_slot){ .name = "ids", .kind = FL_SLOT_FLOATS },
                          "slot ids has ids in this format");
    expect_wanted_refused("libsvm", (fl_slot){ .name = "label", .width = 2 },
                          "slot label has 1 values");
    expect_spec_refused("libsvm:label=yes", "none of floats, ids and auto");
}

static void a_fixed_width_takes_exactly_so_many(void **state)
{
    static const fl_slot wanted[] = { { .name = "ids", .width = 2 } };
    parsed f = open_format(
        &(fl_parser_args){ .spec = "libsvm", .wanted = wanted, .n_wanted = 1 });

    (void)state;
    assert_ok(feed_file(&f, "1 2:1 3:1\n1 2:1\n1 5 6\n"));
    expect_records(&f, "ids=2 3\nids=5 6\n");
    assert_int_equal(f.bad_line, 2);
    assert_int_equal(f.bad.slot, 0);
    assert_string_equal(f.bad.reason,
                        "the line has 1 values, the slot takes 2");
    close_format(&f);
}

static void ids_must_be_below_the_height(void **state)
{
    static const fl_slot wanted[] = { { .name = "ids", .height = 10 } };
    parsed f = open_format(
        &(fl_parser_args){ .spec = "libsvm", .wanted = wanted, .n_wanted = 1 });

    (void)state;
    assert_ok(feed_file(&f, "1 9\n1 3 10 4\n1 0\n"));
    expect_records(&f, "ids=9\nids=0\n");
    assert_int_equal(f.bad_line, 2);
    assert_string_equal(f.bad.reason, "id 10 is not below 10");
    close_format(&f);
}

static void an_empty_slot_needs_leave(void **state)
{
    parsed f =
        open_format(&(fl_parser_args){ .spec = "libsvm", .empty_slots = true });

    (void)state;
    expect_bad("libsvm", "1", "the slot has no value (empty_slots");
    assert_ok(feed_file(&f, "1\n"));
    expect_records(&f, "label=1 ids= values=\n");
    close_format(&f);
}

static void malformed_libsvm_lines_are_refused(void **state)
{
    static const char *const lines[] = {
        "1 a:1",    "1 1:",    "1 :1",   "1 1:x",
        "1 -1:1",   "1 1:1:1", "1 1,1",  "1 18446744073709551616:1",
        "1 1:1e99", "1 1:nan", "1 1: 2",
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(lines); i++)
        expect_bad("libsvm", lines[i], "is no feature: INDEX:VALUE or INDEX");
    expect_bad("libsvm", "\n", "the line is empty");
    expect_bad("libsvm", " \t ", "the line is empty");
    expect_bad("libsvm", "x 1:1", "the label 'x' is no number");
    expect_bad("libsvm", "1:1 2:1", "the label '1:1' is no number");
    expect_bad("libsvm", "1 \x01\xff:2", "'??:2' is no feature");
}

/* 255 values and more are counted in another way (rows.h). */
static void a_line_may_have_many_features(void **state)
{
    static const uint32_t counts[] = { 254, 255, 256, 5000 };

    (void)state;
    for (size_t i = 0; i < FL_LEN(counts); i++) {
        fl_str text = { 0 };
        fl_row_part parts[3];
        parsed f;

        fl_str_add(&text, "1");
        for (uint32_t k = 0; k < counts[i]; k++)
            fl_str_addf(&text, " %u:%u", k, k + 1);
        f = parse("libsvm", fl_str_text(&text));
        assert_int_equal(f.rows.n, 1);
        fl_help_parts(&f.parser->schema, fl_records_at(&f.rows, 0), parts);
        assert_int_equal(parts[1].n, counts[i]);
        assert_int_equal(fl_help_id(&parts[1], counts[i] - 1), counts[i] - 1);
        assert_true(fl_help_float(&parts[2], 0) == 1);
        close_format(&f);
        fl_str_release(&text);
    }
}

static void libsvm_records_print_and_come_back(void **state)
{
    parsed f = parse("libsvm", "-1 3:0.1 9 4:1e-40\n0.3 5:3.4e38\n");

    (void)state;
    expect_print(&f, "-1 3:0.1 9:1 4:9.99995e-41\n0.3 5:3.4e+38\n");
    close_format(&f);
    f = parse("libsvm:label=ids", "-1 3\n18446744073709551615 4:2\n");
    expect_print(&f, "0 3:1\n18446744073709551615 4:2\n");
    close_format(&f);
}

/* --- libffm --------------------------------------------------------------- */

static void libffm_fields_become_slots_in_any_order(void **state)
{
    (void)state;
    expect_parsed("libffm:fields=3", "1 2:7:1 0:5:0.5 1:6:1 0:8:2\n",
                  "label=1 F0=5 8 F1=6 F2=7\n");
    expect_parsed("libffm:fields=2,values=yes,label=ids",
                  "-1 1:7:3 0:5:0.5 1:6\n",
                  "label=0 F0=5 F1=7 6 V0=0.5 V1=3 1\n");
}

static void wanted_fields_are_enough(void **state)
{
    static const fl_slot wanted[] = { { .name = "F4" },
                                      { .name = "F1", .width = 1 } };
    parsed f = open_format(
        &(fl_parser_args){ .spec = "libffm", .wanted = wanted, .n_wanted = 2 });

    (void)state;
    assert_ok(feed_file(&f, "1 1:10:1 2:20:1 4:40:1 900:3:1\n"));
    expect_records(&f, "F4=40 F1=10\n");
    close_format(&f);
}

static void libffm_needs_to_know_its_fields(void **state)
{
    (void)state;
    expect_spec_refused("libffm", "say fields=N");
    expect_spec_refused("libffm:fields=4096", "fields=4096");
    expect_spec_refused("libffm:fields=2048,values=yes", "4097 slots");
    expect_wanted_refused("libffm:fields=2", (fl_slot){ .name = "F2" },
                          "no slot called F2");
    expect_wanted_refused("libffm:fields=2", (fl_slot){ .name = "Fx" },
                          "no slot called Fx");
    expect_wanted_refused("libffm",
                          (fl_slot){ .name = "V0", .kind = FL_SLOT_FLOATS },
                          "no slot called V0");
}

static void malformed_libffm_lines_are_refused(void **state)
{
    const char *spec = "libffm:fields=2";

    (void)state;
    expect_bad(spec, "1 0:1:1 2:1:1", "field 2 is not below fields=2");
    expect_bad(spec, "1 0:1:1 5", "'5' does not begin with FIELD:");
    expect_bad(spec, "1 0:1:1 x:1:1", "'x:1:1' does not begin with FIELD:");
    expect_bad(spec, "1 0: 1:1:1", "is no feature");
    expect_bad(spec, "1 0:1:1 1:1:1:1", "is no feature");
    expect_bad(spec, "1 0:1:1 1:1:z", "is no feature");
    expect_bad(spec, "1 0:1:1", "the slot has no value");
    expect_bad(spec, "\n", "the line is empty");
    expect_bad(spec, "y 0:1:1 1:1:1", "the label 'y' is no number");
}

static void libffm_records_print_and_come_back(void **state)
{
    parsed f = parse("libffm:fields=2,values=yes", "-1 1:7:3 0:5:0.5 1:6\n");

    (void)state;
    expect_print(&f, "-1 0:5:0.5 1:7:3 1:6:1\n");
    close_format(&f);
    f = parse("libffm:fields=1", "1 0:5:0.5\n");
    expect_print(&f, "1 0:5:1\n");
    close_format(&f);
}

/* --- csv ------------------------------------------------------------------ */

static void csv_columns_become_slots(void **state)
{
    (void)state;
    expect_parsed("csv:columns=y:float a:id b:hex c:skip d:ids",
                  "1,10,fF,anything,3|4|5\n 0.5 , 7 ,0,, 1 | 2\n",
                  "y=1 a=10 b=255 d=3 4 5\ny=0.5 a=7 b=0 d=1 2\n");
}

static void an_empty_float_has_the_missing_value(void **state)
{
    (void)state;
    expect_parsed("csv:columns=a:float b:float", ",1\n 2,\n,\n",
                  "a=0 b=1\na=2 b=0\na=0 b=0\n");
    expect_parsed("csv:columns=a:float b:float,missing=-1.5", ",1\n",
                  "a=-1.5 b=1\n");
    expect_parsed("csv:columns=a:float", "\n", "a=0\n");
}

static void separators_have_names_or_are_a_few_characters(void **state)
{
    (void)state;
    expect_parsed("csv:columns=a:id b:id,sep=tab", "1\t2", "a=1 b=2\n");
    expect_parsed("csv:columns=a:id b:id,sep=semicolon", "1;2", "a=1 b=2\n");
    expect_parsed("csv:columns=a:id b:id,sep=space", "1 2", "a=1 b=2\n");
    expect_parsed("csv:columns=a:id b:id,sep=|", "1|2", "a=1 b=2\n");
    expect_parsed("csv:sep=:,columns=a:id :skip b:id", "1::2", "a=1 b=2\n");
    expect_spec_refused("csv:columns=a:id,sep=", "sep=: a separator is");
    expect_parsed("csv:columns=a:id b:hash,sep=::,hash_size=2", "1::a:b\n",
                  "a=1 b=0\n");
    expect_parsed("csv:columns=a:id b:id c:id,sep=::", "1::2::3\n",
                  "a=1 b=2 c=3\n");
    expect_bad("csv:columns=a:id b:id,sep=::", "1:2", "has 1 columns");
    expect_spec_refused("csv:columns=a:id,sep=ab", "sep=ab: a separator is");
    expect_spec_refused("csv:columns=a:id,sep=::::::::", "up to 7 characters");
    expect_spec_refused("csv:columns=a:id,sep=5", "sep=5: a separator is");
    expect_spec_refused("csv:columns=a:id,sep='\"'", "a separator is");
    expect_spec_refused("csv:columns=a:ids,sep=|", "column a is a list");
}

/* The values are part of the format: they never change. */
static void hashes_are_pinned(void **state)
{
    char expected[128];

    (void)state;
    snprintf(expected, sizeof(expected), "site=%" PRIu64 " app=%" PRIu64 "\n",
             fl_hash_str("site=1fbe01fe"), fl_hash_str("app="));
    expect_parsed("csv:columns=site:hash app:hash,hash_size=0", "1fbe01fe,",
                  expected);
    expect_parsed("csv:columns=site:hash", "1fbe01fe", "site=171028\n");
    expect_parsed("csv:columns=a:hashes b:hashes,hash_size=1000", "x|y||x,y\n",
                  "a=110 266 355 110 b=41\n");
}

static void columns_that_count_are_described_at_once(void **state)
{
    (void)state;
    expect_parsed("csv:columns=y:id C1..C3:id x9..x10:float", "1,2,3,4,5,6",
                  "y=1 C1=2 C2=3 C3=4 x9=5 x10=6\n");
    expect_parsed("csv:columns=a..b:id", "1", "a..b=1\n");
    expect_parsed("csv:columns=C2..C1:id", "1", "C2..C1=1\n");
    expect_parsed("csv:columns=C1..D2:id", "1", "C1..D2=1\n");
    expect_spec_refused("csv:columns=C1:id C1..C3:id",
                        "two columns are called C1");
    expect_spec_refused("csv:columns=C1..C999999:id", "more than");
}

static void a_description_may_have_lines(void **state)
{
    (void)state;
    expect_parsed("csv:columns=a:id\n  b:id\r\n\tc:id", "1,2,3",
                  "a=1 b=2 c=3\n");
}

static void texts_become_labels(void **state)
{
    const char *spec = "csv:columns=a:id y:label(>50K|>50K.)";
    fl_slot wanted = { .name = "y", .kind = FL_SLOT_FLOATS, .width = 1 };
    parsed f = open_format(
        &(fl_parser_args){ .spec = spec, .wanted = &wanted, .n_wanted = 1 });

    (void)state;
    close_format(&f);
    expect_parsed(spec, "1, >50K\n2, <=50K\n3,>50K. \n",
                  "a=1 y=1\na=2 y=0\na=3 y=1\n");
    expect_bad(spec, "1, ", "column y: ' ' is no label");
    expect_spec_refused("csv:columns=y:label", "column y: which text is 1?");
    expect_spec_refused("csv:columns=y:label()", "column y: which text is 1?");
}

static void times_become_seconds(void **state)
{
    (void)state;
    expect_parsed("csv:columns=t:time(%y%m%d%H)", "14102100\n69010100\n",
                  "t=1413849600\nt=18446744073678015616\n");
    expect_parsed("csv:columns=t:time(%Y-%m-%d %H:%M:%S) a:id",
                  "2000-02-29 12:34:56,1\n1970-1-1 0:0:0,2\n",
                  "t=951827696 a=1\nt=0 a=2\n");
    expect_parsed("csv:columns=t:time", "1413849600\n", "t=1413849600\n");
    expect_parsed("csv:columns=t:time(%d/%m/%Y%%)", "01/03/2001%\n",
                  "t=983404800\n");
    expect_bad("csv:columns=t:time(%y%m%d%H)", "14132100",
               "column t: '14132100' is no time of the form %y%m%d%H");
    expect_bad("csv:columns=t:time(%y%m%d%H)", " \n", "is no time of the form");
    expect_bad("csv:columns=t:time(%y)", "14x", "is no time of the form");
    expect_spec_refused("csv:columns=t:time(%j)", "a form has %Y or %y");
    expect_spec_refused("csv:columns=t:time(x)", "a form has %Y or %y");
}

static void lists_have_separators_of_their_own(void **state)
{
    (void)state;
    expect_parsed("csv:columns=a:ids(;) b:ids( )", "1;2,3 4\n",
                  "a=1 2 b=3 4\n");
    expect_spec_refused("csv:columns=a:ids(;;)", "one character lies between");
    expect_spec_refused("csv:columns=a:ids(;),sep=semicolon",
                        "that cannot be the separator as well");
    expect_spec_refused("csv:columns=a:id(;)", "describes no column");
    expect_spec_refused("csv:columns=a:ids(;", "brackets");
}

static void what_is_missing_may_be_said(void **state)
{
    (void)state;
    expect_parsed("csv:columns=a:float b:float(-1) c:float(nan),missing=2,na=?",
                  ",,\n?, ?,?\n1,2,3\n",
                  "a=2 b=-1 c=nan\na=2 b=-1 c=nan\na=1 b=2 c=3\n");
    expect_parsed("csv:columns=a:float,missing=nan", "\n", "a=nan\n");
    expect_spec_refused("csv:columns=a:float(x)", "is a number, or nan");
}

static void hashed_slots_have_the_hash_size_as_height(void **state)
{
    fl_slot small = { .name = "a", .width = 1, .height = 100 };
    parsed f = parse("csv:columns=a:hash b:id", "x,1\n");

    (void)state;
    assert_int_equal(f.parser->schema.slots[0].height, 1000001);
    assert_int_equal(f.parser->schema.slots[1].height, 0);
    close_format(&f);
    expect_wanted_refused("csv:columns=a:hash", small, "ids below 1000001");
    expect_wanted_refused("csv:columns=a:hash,hash_size=0", small,
                          "set hash_size to 100 or less");
}

static void quotes_follow_rfc_4180(void **state)
{
    char expected[128];
    const char *spec = "csv:columns=a:hash b:id,hash_size=0";
    static const char *const texts[][2] = {
        { "\"x,y\",1", "a=x,y" },
        { "\"say \"\"hi\"\"\",1", "a=say \"hi\"" },
        { "\"\",1", "a=" },
        { "\"\"\"\",1", "a=\"" },
        { "plain,\"1\"", "a=plain" },
        { "in\"side,1", "a=in\"side" },
        { " x ,1", "a= x " },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(texts); i++) {
        snprintf(expected, sizeof(expected), "a=%" PRIu64 " b=1\n",
                 fl_hash_str(texts[i][1]));
        expect_parsed(spec, texts[i][0], expected);
    }
    expect_bad(spec, "\"x,1", "a quote is not closed in its line");
    expect_bad(spec, "\"x\"y,1", "text follows a closing quote");
    expect_bad(spec, "\"x\" ,1", "text follows a closing quote");
    snprintf(expected, sizeof(expected), "a=%" PRIu64 " b=1\n",
             fl_hash_str("a=\"x\""));
    expect_parsed("csv:columns=a:hash b:id,hash_size=0,quote=no", "\"x\",1",
                  expected);
}

/* The text is read as these words in the column t. */
static void expect_hashed(const char *spec, const char *text,
                          const char *const *words)
{
    fl_str expected = { 0 };

    fl_str_add(&expected, "t=");
    for (size_t i = 0; words[i]; i++) {
        char named[64];

        snprintf(named, sizeof(named), "t=%s", words[i]);
        fl_str_addf(&expected, "%s%" PRIu64, i ? " " : "", fl_hash_str(named));
    }
    fl_str_add(&expected, "\n");
    expect_parsed(spec, text, expected.data);
    fl_str_release(&expected);
}

static void texts_become_their_words(void **state)
{
    const char *spec = "csv:columns=t:words,hash_size=0";

    (void)state;
    expect_hashed(spec, " The  cat\tsat. ",
                  (const char *[]){ "the", "cat", "sat.", NULL });
    expect_hashed(spec, "\"a \"\"B\"\", c\"",
                  (const char *[]){ "a", "\"b\",", "c", NULL });
    expect_bad(spec, "  ", "the slot has no value");
}

static void texts_become_the_trigrams_of_their_words(void **state)
{
    const char *spec = "csv:columns=t:trigrams,hash_size=0";

    (void)state;
    expect_hashed(spec, "Cats a",
                  (const char *[]){ "#ca", "cat", "ats", "ts#", "#a#", NULL });
    expect_hashed(spec, "\"x\"\"\"", (const char *[]){ "#x\"", "x\"#", NULL });
}

static void a_column_is_read_in_several_ways(void **state)
{
    parsed f = parse("csv:columns=t:words+trigrams n:id", "A b,7\n");

    (void)state;
    assert_int_equal(f.parser->schema.n_slots, 3);
    assert_string_equal(f.parser->schema.slots[0].name, "t");
    assert_string_equal(f.parser->schema.slots[1].name, "t.trigrams");
    assert_int_equal(f.rows.n, 1);
    close_format(&f);
    expect_parsed("csv:header=yes,columns=a:id+float b:float", "b,a\n1,2\n",
                  "a=2 a.float=2 b=1\n");
    expect_bad("csv:columns=t:words+trigrams", "a,b", "described are 1");
    expect_spec_refused("csv:columns=t:words+", "'t:words+' describes no");
    expect_spec_refused("csv:columns=t:words+skip", "describes no column");
    expect_spec_refused("csv:columns=t:skip+words", "describes no column");
}

static void columns_may_share_the_ids_of_their_texts(void **state)
{
    parsed f = parse("csv:columns=a:words b:hash,shared=yes", "Cat,cat\n");
    fl_row_part parts[2];

    (void)state;
    fl_help_parts(&f.parser->schema, fl_records_at(&f.rows, 0), parts);
    assert_int_equal(fl_help_id(&parts[0], 0), fl_help_id(&parts[1], 0));
    assert_int_equal(fl_help_id(&parts[0], 0), fl_hash_str("=cat") % 1000001);
    close_format(&f);
}

static void a_header_gives_the_order(void **state)
{
    const char *spec = "csv:header=yes,columns=b:id a:float";

    (void)state;
    expect_parsed(spec, "a,b\n1,2\n3,4\n", "b=2 a=1\nb=4 a=3\n");
    expect_parsed(spec, "\xef\xbb\xbf\"b\", a\n1,2\n", "b=1 a=2\n");
    expect_parsed("csv:header=yes,columns=b:id *", "x,b,y\n,2,\n", "b=2\n");
    expect_parsed("csv:header=yes,columns=b:id x:skip y:skip", "y,b\n1,2\n",
                  "b=2\n");
}

static void headers_that_do_not_fit_end_the_job(void **state)
{
    static const char *const cases[][2] = {
        { "a\n1\n", "the header has no column called b" },
        { "a,b,c\n", "has a column 'c' that is not described: add c:skip" },
        { "a,b,a\n", "the header has the column 'a' twice" },
        { "a,\"b\n", "the header cannot be read: a quote is not closed" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++) {
        parsed f = open_format(
            &(fl_parser_args){ .spec = "csv:header=yes,columns=a:id b:id" });

        assert_int_equal(feed_file(&f, cases[i][0]), FL_ERR_INVAL);
        assert_says(fl_last_error(), cases[i][1]);
        close_format(&f);
    }
}

static void lines_have_as_many_columns_as_described(void **state)
{
    (void)state;
    expect_bad("csv:columns=a:id b:id", "1", "has 1 columns, described are 2");
    expect_bad("csv:columns=a:id b:id", "1,2,3",
               "has 3 columns, described are 2");
    expect_bad("csv:columns=a:id b:id", "1,2,", "has 3 columns");
    expect_parsed("csv:columns=a:id b:id *", "1,2,3,x\n1,2\n",
                  "a=1 b=2\na=1 b=2\n");
    expect_bad("csv:columns=a:id b:id *", "1", "has 1 columns");
    expect_bad("csv:header=yes,columns=a:id *", "a,b\n1\n",
               "has 1 columns, its header 2");
    expect_bad("csv:header=yes,columns=a:id *", "a,b\n1,2,3\n",
               "has 3 columns, its header 2");
}

static void malformed_fields_are_refused_with_their_column(void **state)
{
    const char *spec = "csv:columns=f:float i:id h:hex l:ids";

    (void)state;
    expect_bad(spec, "x,1,1,1", "column f: 'x' is no number");
    expect_bad(spec, "1 2,1,1,1", "column f: '1 2' is no number");
    expect_bad(spec, "1,,1,1", "column i: '' is no decimal id");
    expect_bad(spec, "1,-1,1,1", "column i: '-1' is no decimal id");
    expect_bad(spec, "1,1.0,1,1", "column i: '1.0' is no decimal id");
    expect_bad(spec, "1,1,g,1", "column h: 'g' is no hexadecimal id");
    expect_bad(spec, "1,1,00000000000000000,1", "is no hexadecimal id");
    expect_bad(spec, "1,1,1,1||2", "column l: '' is no decimal id");
    expect_bad(spec, "1,1,1,1|", "column l: '' is no decimal id");
    expect_bad(spec, "1,1,1,", "the slot has no value");
}

static void column_descriptions_are_checked(void **state)
{
    (void)state;
    expect_spec_refused("csv", "no column is described");
    expect_spec_refused("csv:columns=*", "no column is described");
    expect_spec_refused("csv:columns=a", "'a' describes no column");
    expect_spec_refused("csv:columns=a:int", "'a:int' describes no column");
    expect_spec_refused("csv:columns=:id", "column 1 has no name");
    expect_spec_refused("csv:columns=a:id a:skip", "two columns are called a");
    expect_spec_refused("csv:columns=* a:id", "'a:id' follows the *");
    expect_spec_refused("csv:columns=a:skip", "0 slots");
    expect_spec_refused("csv:columns=a:id,missing=x",
                        "missing=x is no number and not nan");
    expect_spec_refused("csv:columns=a:id,hash_size=-1", "hash_size=-1");
    expect_spec_refused("csv:columns=a;b:id,header=yes,sep=semicolon,quote=no",
                        "has the separator in its name");
    expect_spec_refused("csv:columns=a\"b:id,header=yes",
                        "has a quote in its name");
}

static void wanted_csv_slots_are_matched_by_name(void **state)
{
    static const fl_slot wanted[] = {
        { .name = "c", .kind = FL_SLOT_IDS, .width = 2 },
        { .name = "a", .kind = FL_SLOT_FLOATS },
    };
    parsed f =
        open_format(&(fl_parser_args){ .spec = "csv:columns=a:float b:id c:ids",
                                       .wanted = wanted,
                                       .n_wanted = 2 });

    (void)state;
    assert_ok(feed_file(&f, "1,not looked at,8|9\n2,,7\n"));
    expect_records(&f, "c=8 9 a=1\n");
    assert_int_equal(f.bad_line, 2);
    assert_int_equal(f.bad.slot, 0);
    close_format(&f);
}

static void csv_records_print_and_come_back(void **state)
{
    parsed f = open_format(&(fl_parser_args){
        .spec = "csv:sep=tab,header=yes,columns=a:float x:skip b:hex c:ids",
        .empty_slots = true });

    (void)state;
    assert_ok(feed_file(&f, "c\tx\tb\ta\n\tz\tFF\t0.1\n1|2\t\t0\t\n"));
    expect_print(&f, "a\tx\tb\tc\n0.1\t\tff\t\n0\t\t0\t1|2\n");
    close_format(&f);
}

static void hashed_columns_print_their_ids(void **state)
{
    parsed f = parse("csv:columns=a:hash", "x\n");
    fl_str text = { 0 };
    char expected[32];

    (void)state;
    f.parser->format->print(f.parser, fl_records_at(&f.rows, 0), &text);
    snprintf(expected, sizeof(expected), "%" PRIu64,
             fl_hash_str("a=x") % 1000001);
    assert_string_equal(fl_str_text(&text), expected);
    fl_str_release(&text);
    close_format(&f);
}

/* --- all ------------------------------------------------------------------ */

/* Rows come in blocks of their own; no record is left half when one fails. */
static void a_line_without_memory_fails_and_leaves_nothing(void **state)
{
    static const char *const specs[] = { "libsvm", "libffm:fields=1",
                                         "csv:columns=a:float" };
    static const char *const lines[] = { "1 2:3", "1 0:2:3", "1" };

    (void)state;
    for (size_t i = 0; i < FL_LEN(specs); i++) {
        parsed f = open_format(&(fl_parser_args){ .spec = specs[i] });

        fl_alloc_fail_after(1);
        assert_int_equal(feed_file(&f, lines[i]), FL_ERR_NOMEM);
        fl_alloc_fail_after(0);
        assert_int_equal(f.rows.n, 0);
        assert_ok(feed_file(&f, lines[i]));
        assert_int_equal(f.rows.n, 1);
        close_format(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libsvm_lines_give_label_ids_and_values),
        cmocka_unit_test(an_index_alone_has_the_value_one),
        cmocka_unit_test(labels_as_ids_turn_minus_one_into_zero),
        cmocka_unit_test(wanted_slots_choose_order_and_kind),
        cmocka_unit_test(slots_that_a_format_has_not_are_refused),
        cmocka_unit_test(a_fixed_width_takes_exactly_so_many),
        cmocka_unit_test(ids_must_be_below_the_height),
        cmocka_unit_test(an_empty_slot_needs_leave),
        cmocka_unit_test(malformed_libsvm_lines_are_refused),
        cmocka_unit_test(a_line_may_have_many_features),
        cmocka_unit_test(libsvm_records_print_and_come_back),
        cmocka_unit_test(libffm_fields_become_slots_in_any_order),
        cmocka_unit_test(wanted_fields_are_enough),
        cmocka_unit_test(libffm_needs_to_know_its_fields),
        cmocka_unit_test(malformed_libffm_lines_are_refused),
        cmocka_unit_test(libffm_records_print_and_come_back),
        cmocka_unit_test(csv_columns_become_slots),
        cmocka_unit_test(columns_that_count_are_described_at_once),
        cmocka_unit_test(a_description_may_have_lines),
        cmocka_unit_test(texts_become_labels),
        cmocka_unit_test(times_become_seconds),
        cmocka_unit_test(lists_have_separators_of_their_own),
        cmocka_unit_test(what_is_missing_may_be_said),
        cmocka_unit_test(an_empty_float_has_the_missing_value),
        cmocka_unit_test(separators_have_names_or_are_a_few_characters),
        cmocka_unit_test(hashes_are_pinned),
        cmocka_unit_test(hashed_slots_have_the_hash_size_as_height),
        cmocka_unit_test(quotes_follow_rfc_4180),
        cmocka_unit_test(texts_become_their_words),
        cmocka_unit_test(texts_become_the_trigrams_of_their_words),
        cmocka_unit_test(a_column_is_read_in_several_ways),
        cmocka_unit_test(columns_may_share_the_ids_of_their_texts),
        cmocka_unit_test(a_header_gives_the_order),
        cmocka_unit_test(headers_that_do_not_fit_end_the_job),
        cmocka_unit_test(lines_have_as_many_columns_as_described),
        cmocka_unit_test(malformed_fields_are_refused_with_their_column),
        cmocka_unit_test(column_descriptions_are_checked),
        cmocka_unit_test(wanted_csv_slots_are_matched_by_name),
        cmocka_unit_test(csv_records_print_and_come_back),
        cmocka_unit_test(hashed_columns_print_their_ids),
        cmocka_unit_test(a_line_without_memory_fails_and_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
