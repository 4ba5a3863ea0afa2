/* test_features.c - which columns come of a text of features, what is learnt
 * from statistics, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../api/api.h"
#include "../folder.h"
#include "../make.h"
#include "base/json.h"

static const fl_slot adult[] = {
    { .name = "label", .kind = FL_SLOT_IDS, .width = 1 },
    { .name = "age", .kind = FL_SLOT_FLOATS, .width = 1 },
    { .name = "gain", .kind = FL_SLOT_FLOATS, .width = 1 },
    { .name = "job", .kind = FL_SLOT_IDS, .width = 1, .height = 100 },
    { .name = "when", .kind = FL_SLOT_IDS, .width = 1 },
    { .name = "tags", .kind = FL_SLOT_IDS },
};
enum { N_SLOTS = sizeof(adult) / sizeof(adult[0]) };

static fl_status make(fl_features **out, const char *text, const char *stats)
{
    return fl_features_new(out, text, adult, N_SLOTS, .label = "label",
                           .stats = stats);
}

/* "age gain job": the columns in their order. */
static const char *columns_of(const char *text, char out[256])
{
    fl_features *f = NULL;
    fl_feature_column c = FL_INIT(fl_feature_column);

    assert_ok(make(&f, text, NULL));
    *out = '\0';
    for (size_t i = 0; i < fl_features_n_columns(f); i++) {
        assert_ok(fl_features_column_at(f, i, &c));
        snprintf(out + strlen(out), 256 - strlen(out), "%s%s", i ? " " : "",
                 c.name);
    }
    fl_features_free(f);
    return out;
}

static void without_a_text_the_columns_are_those_of_the_data(void **state)
{
    char buf[256];

    (void)state;
    assert_string_equal(columns_of(NULL, buf), "age gain job when tags");
    assert_string_equal(columns_of("", buf), "age gain job when tags");
    assert_string_equal(columns_of("# nothing\n\n ; \n", buf),
                        "age gain job when tags");
}

static void a_line_takes_the_place_of_its_column(void **state)
{
    char buf[256];

    (void)state;
    assert_string_equal(columns_of("ages = bucket(age, 18 25)\n"
                                   "age = log(age)  # the raw one is gone",
                                   buf),
                        "age gain job when tags ages");
}

static void dropped_columns_and_times_are_none(void **state)
{
    char buf[256];

    (void)state;
    assert_string_equal(columns_of("drop gain tags; h = hour(when)", buf),
                        "age job h");
}

static void a_star_stands_for_many_columns(void **state)
{
    static const fl_slot many[] = {
        { .name = "I1", .kind = FL_SLOT_FLOATS, .width = 1 },
        { .name = "I2x", .kind = FL_SLOT_FLOATS, .width = 1 },
        { .name = "C1", .kind = FL_SLOT_IDS, .width = 1 },
    };
    const char *text = "I* = log(fill(I*,\n  value=3)); gone_* = missing(I*)\n"
                       "b* = bucket(I*x, 1 2)";
    static const char *const want[] = { "I1",     "I2x",     "C1",
                                        "gone_1", "gone_2x", "b2" };
    fl_feature_column c = FL_INIT(fl_feature_column);
    fl_features *f = NULL;

    (void)state;
    assert_ok(fl_features_new(&f, text, many, 3, .label = NULL));
    assert_int_equal(fl_features_n_columns(f), 6);
    for (size_t i = 0; i < 6; i++) {
        assert_ok(fl_features_column_at(f, i, &c));
        assert_string_equal(c.name, want[i]);
    }
    fl_features_free(f);
}

static void only_what_is_needed_is_fed(void **state)
{
    fl_features *f = NULL;
    const char *const *feeds;
    size_t n;

    (void)state;
    assert_ok(make(&f, "a = log(age); drop age gain job tags when", NULL));
    feeds = fl_features_feeds(f, &n);
    assert_int_equal(n, 2);
    assert_string_equal(feeds[0], "label");
    assert_string_equal(feeds[1], "age");
    fl_features_free(f);
}

static void a_line_may_use_those_above(void **state)
{
    fl_ctx *c = make_ctx();
    fl_features *f = NULL;
    char *text;

    (void)state;
    assert_ok(make(&f,
                   "ages = bucket(age, 18 25 35);\n"
                   "who = cross(ages,\n"
                   "            job, size=1000)",
                   NULL));
    assert_ok(fl_features_build(f, c));
    text = fl_program_to_text(fl_default_main_program(c));
    assert_text_has(text, "bucketize");
    assert_text_has(text, "name=who");
    assert_null(strstr(strstr(text, "op bucketize") + 1, "op bucketize"));
    fl_text_free(text);
    assert_int_equal(fl_features_build(f, c), FL_ERR_INVAL);
    fl_features_free(f);
    fl_ctx_free(c);
}

static void variables_that_are_there_are_used(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *age = data2(c, "age", 1);
    fl_feature_column column = FL_INIT(fl_feature_column);
    fl_features *f = NULL;

    (void)state;
    assert_ok(make(&f, NULL, NULL));
    assert_ok(fl_features_build(f, c));
    assert_ok(fl_features_column_at(f, 0, &column));
    assert_ptr_equal(column.var, age);
    assert_int_equal(fl_features_column_at(f, 9, &column), FL_ERR_NOTFOUND);
    fl_features_free(f);
    fl_ctx_free(c);
}

static void heights_and_widths_are_known(void **state)
{
    fl_features *f = NULL;
    fl_feature_column c = FL_INIT(fl_feature_column);

    (void)state;
    assert_ok(make(&f,
                   "a = bucket(age, 1 2); b = cross(job, tags, size=50);"
                   "drop age gain when tags",
                   NULL));
    assert_ok(fl_features_column_at(f, 0, &c));
    assert_int_equal(c.height, 100);
    assert_ok(fl_features_column_at(f, 1, &c));
    assert_int_equal(c.height, 4);
    assert_int_equal(c.width, 1);
    assert_ok(fl_features_column_at(f, 2, &c));
    assert_int_equal(c.height, 50);
    assert_int_equal(c.width, 0);
    fl_features_free(f);
}

/* --- statistics ------------------------------------------------------------ */

#define PATH_BYTES (FOLDER_BYTES + 8)

/* Statistics of age (0 to 1000, evenly) and of job, which is no number. */
static const char *write_stats(char path[PATH_BYTES])
{
    char folder[FOLDER_BYTES], *text;
    fl_json j = { 0 };
    FILE *file;

    fl_json_object(&j, NULL);
    fl_json_u64(&j, "version", 1);
    fl_json_object(&j, "columns");
    fl_json_object(&j, "age");
    fl_json_f64(&j, "mean", 500);
    fl_json_f64(&j, "deviation", 250);
    fl_json_array(&j, "quantiles");
    for (int i = 0; i <= 1000; i++)
        fl_json_f64(&j, NULL, i);
    fl_json_end(&j);
    fl_json_end(&j);
    fl_json_object(&j, "job");
    fl_json_end(&j);
    fl_json_end(&j);
    fl_json_end(&j);
    text = fl_json_take(&j);
    assert_true(folder_make(folder, "features"));
    snprintf(path, PATH_BYTES, "%s/stats", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    fl_text_free(text);
    return path;
}

static void remove_stats(char path[PATH_BYTES])
{
    assert_int_equal(unlink(path), 0);
    *strrchr(path, '/') = '\0';
    assert_int_equal(rmdir(path), 0);
}

static void what_is_left_out_is_learnt(void **state)
{
    char path[PATH_BYTES], *text;
    fl_ctx *c = make_ctx();
    fl_features *f = NULL;

    (void)state;
    assert_ok(make(&f,
                   "a = standard(age); b = quantiles(age, 4);"
                   "d = scale(clip(age, 100, 300), most=500)",
                   write_stats(path)));
    assert_ok(fl_features_build(f, c));
    text = fl_program_to_text(fl_default_main_program(c));
    assert_text_has(text, "scale=0.004, bias=-500, bias_after_scale=false");
    assert_text_has(text, "boundaries=[250,500,750]");
    assert_text_has(text, "scale=0.0025, bias=-100, bias_after_scale=false");
    fl_text_free(text);
    fl_features_free(f);
    fl_ctx_free(c);
    remove_stats(path);
}

/* ln(1 + x) over 0..1000 has the mean 5.9156 and the deviation 0.9758. */
static void statistics_go_through_functions(void **state)
{
    char path[PATH_BYTES];
    fl_ctx *c = make_ctx();
    fl_features *f = NULL;
    fl_feature_column column = FL_INIT(fl_feature_column);
    fl_executor *e = make_executor(c);
    float x = 1000;
    fl_feed feed = { .name = "age" };
    fl_tensor out = { 0 };

    (void)state;
    assert_ok(make(&f, "age = standard(log(age)); drop gain job when tags",
                   write_stats(path)));
    assert_ok(fl_features_build(f, c));
    assert_ok(fl_features_column_at(f, 0, &column));
    feed.value = fl_tensor_of(FL_DTYPE_F32, &x, 2, (int64_t[]){ 1, 1 });
    assert_ok(fl_run(
        e, fl_default_main_program(c),
        FL_OPTIONS(fl_run_args, .feeds = &feed, .n_feeds = 1,
                   .fetches = FL_ARRAY(const char *, fl_var_name(column.var)),
                   .n_fetches = 1, .out = &out)));
    assert_true(fabs(*(const float *)out.data - 1.0177) < 0.002);
    fl_features_free(f);
    fl_executor_free(e);
    fl_ctx_free(c);
    remove_stats(path);
}

static void bad_statistics_are_named(void **state)
{
    char path[PATH_BYTES];
    fl_features *f = NULL;

    (void)state;
    write_stats(path);
    assert_int_equal(make(&f, "gain = standard(gain)", path), FL_ERR_NOTFOUND);
    assert_said("features: gain: standard: ");
    assert_said("has no column gain");
    assert_int_equal(make(&f, "j = standard(number(job))", path), FL_ERR_INVAL);
    assert_said("there are no statistics of what number gives");
    assert_int_equal(make(&f, "age = standard(age)", "no-such-file"),
                     FL_ERR_NOTFOUND);
    assert_int_equal(make(&f, "age = standard(age)", NULL), FL_ERR_INVAL);
    assert_said("flotilla data count --stats FILE");
    remove_stats(path);
}

/* --- what is refused ------------------------------------------------------- */

static void wrong_texts_are_told_with_the_way_out(void **state)
{
    static const struct {
        const char *text, *said;
    } wrong[] = {
        { "a = lgo(age)", "line 1: there is no function 'lgo'; did you mean "
                          "log?" },
        { "a = zzzzzz(age)", "`flotilla data features` lists them" },
        { "\n\na = log(aeg)", "line 3: no column of the data and no line above "
                              "is called 'aeg'; did you mean age?" },
        { "a = log(job)", "log takes a number, but column 1 is a category" },
        { "a = cross(job, age)",
          "cross takes a category (ids), but column 2 is a number" },
        { "a = log(age, gain)", "log takes one column: write log(x)" },
        { "a = log(3)", "3 is too much for log: write log(x)" },
        { "a = log()", "a column is missing before ')'" },
        { "a = log(age", "closing parenthesis is missing before 'the end" },
        { "a = log(age) b", "'b' is too much" },
        { "a =", "a = what?" },
        { "log(age)", "write NAME = FUNCTION(COLUMN, ...)" },
        { "age = log(age); age = log(gain)", "'age' has a line above already" },
        { "drop", "drop which columns?" },
        { "drop agee", "did you mean age?" },
        { "a = clip(age, 5, 1)", "clip: least=5 is not below most=1" },
        { "a = clip(age, 5)",
          "its most is missing: write clip(x, least, most)" },
        { "a = clip(age, 1, 2, most=3)", "clip has two values for most" },
        { "a = clip(age, 1 2, 3)", "least of clip is one number, not 2" },
        { "a = clip(age, 1, 2, 3)", "3 is too much for clip" },
        { "a = clip(age, high=1)", "clip has no parameter 'high'" },
        { "a = clip(age, most=)", "a number is missing before ')'" },
        { "a = clip(age, most=x)", "'x' is no number" },
        { "a = bucket(age, 3 2)", "2 follows 3; limits ascend" },
        { "a = standard(age, mean=1, deviation=0)", "is not above 0" },
        { "a = quantiles(age, 1)", "no whole number from 2 to 1000" },
        { "a = hash(job, 2.5)", "size=2.5 is no whole number" },
        { "a = hour(when, zone=99)", "zone=99 is not in -24..24" },
        { "label = log(age)", "label is the label, and not to be changed" },
        { "@no-such-file", "no-such-file" },
        { "a* = log(age)", "write it behind the = as well" },
        { "\nx* = log(zz*)", "line 2: no column of the data is like 'zz*'" },
        { "drop a*", "write it behind the = as well" },
        { "x* = lgo(ag*)", "line 1: there is no function 'lgo'" },
    };
    fl_features *f = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (!make(&f, wrong[i].text, NULL))
            fail_msg("'%s' was taken", wrong[i].text);
        assert_said(wrong[i].said);
    }
    assert_int_equal(
        fl_features_new(&f, NULL, adult, N_SLOTS, .label = "lable"),
        FL_ERR_NOTFOUND);
    assert_said("that could be the label; did you mean label?");
}

static void functions_that_go_too_deep_are_refused(void **state)
{
    char text[256] = "a = ";
    fl_features *f = NULL;

    (void)state;
    for (int i = 0; i < 20; i++)
        strcat(text, "log(");
    assert_int_equal(make(&f, text, NULL), FL_ERR_INVAL);
    assert_said("more than 16 functions inside each other");
}

static void help_has_every_function(void **state)
{
    char *all = fl_features_help(NULL), *one = fl_features_help("cross");

    (void)state;
    assert_text_has(all, "standard(x, mean=M, deviation=D)");
    assert_text_has(one, "category, any number of them -> category");
    assert_null(fl_features_help("no such"));
    fl_text_free(all);
    fl_text_free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_text_the_columns_are_those_of_the_data),
        cmocka_unit_test(a_line_takes_the_place_of_its_column),
        cmocka_unit_test(dropped_columns_and_times_are_none),
        cmocka_unit_test(a_star_stands_for_many_columns),
        cmocka_unit_test(only_what_is_needed_is_fed),
        cmocka_unit_test(a_line_may_use_those_above),
        cmocka_unit_test(variables_that_are_there_are_used),
        cmocka_unit_test(heights_and_widths_are_known),
        cmocka_unit_test(what_is_left_out_is_learnt),
        cmocka_unit_test(statistics_go_through_functions),
        cmocka_unit_test(bad_statistics_are_named),
        cmocka_unit_test(wrong_texts_are_told_with_the_way_out),
        cmocka_unit_test(functions_that_go_too_deep_are_refused),
        cmocka_unit_test(help_has_every_function),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
