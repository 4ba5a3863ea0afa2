/* test_conf.c - every row of keys.def, and the ways values come in and out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "conf/conf.h"
#include "conf/key.h"

static const char *source_root;

/* Each test starts from an environment that says nothing. */
static int clear_env(void **state)
{
    char buf[FL_KEY_ENV_MAX];

    (void)state;
    for (size_t i = 0; i < fl_n_keys; i++) {
        unsetenv(fl_key_env(&fl_keys[i], buf));
        if (fl_key_alias(&fl_keys[i]))
            unsetenv(fl_key_alias(&fl_keys[i]));
    }
    return 0;
}

static void assert_error_has(const char *part)
{
    if (!strstr(fl_last_error(), part))
        fail_msg("'%s' does not say '%s'", fl_last_error(), part);
}

static void assert_set(fl_conf *c, const char *name, const char *value)
{
    assert_int_equal(fl_conf_set(c, name, value), FL_OK);
    assert_string_equal(fl_conf_get(c, name), value);
}

static void assert_refused(fl_conf *c, const char *name, const char *value)
{
    char before[64];

    snprintf(before, sizeof(before), "%s", fl_conf_get(c, name));
    assert_int_equal(fl_conf_set(c, name, value), FL_ERR_INVAL);
    assert_error_has(name);
    assert_string_equal(fl_conf_get(c, name), before);
}

static void every_default_is_a_value_that_can_be_set(void **state)
{
    char buf[FL_KEY_NUMBER_MAX];
    fl_conf c;

    (void)state;
    assert_int_equal(fl_conf_init(&c), FL_OK);
    for (size_t i = 0; i < fl_n_keys; i++) {
        const fl_key *k = &fl_keys[i];
        const char *def = fl_key_print(k, &k->def, buf);

        assert_string_equal(fl_conf_get(&c, k->name), def);
        assert_set(&c, k->name, def);
    }
    fl_conf_release(&c);
}

static void both_ends_of_every_range_are_taken(void **state)
{
    char lo[FL_KEY_NUMBER_MAX], hi[FL_KEY_NUMBER_MAX];
    fl_conf c;

    (void)state;
    assert_int_equal(fl_conf_init(&c), FL_OK);
    for (size_t i = 0; i < fl_n_keys; i++) {
        const fl_key *k = &fl_keys[i];

        if (k->type == FL_KEY_STRING)
            continue;
        assert_set(&c, k->name, fl_key_print(k, &k->lo, lo));
        assert_set(&c, k->name, fl_key_print(k, &k->hi, hi));
    }
    fl_conf_release(&c);
}

static void one_step_past_a_whole_range_is_refused(void **state)
{
    char text[FL_KEY_NUMBER_MAX];
    fl_conf c;

    (void)state;
    assert_int_equal(fl_conf_init(&c), FL_OK);
    for (size_t i = 0; i < fl_n_keys; i++) {
        const fl_key *k = &fl_keys[i];

        if (k->type != FL_KEY_INT)
            continue;
        snprintf(text, sizeof(text), "%" PRId64, k->lo.i - 1);
        assert_refused(&c, k->name, text);
        snprintf(text, sizeof(text), "%" PRId64, k->hi.i + 1);
        assert_refused(&c, k->name, text);
    }
    fl_conf_release(&c);
}

static void every_choice_is_taken_and_nothing_else(void **state)
{
    fl_conf c;

    (void)state;
    assert_int_equal(fl_conf_init(&c), FL_OK);
    for (size_t i = 0; i < fl_n_keys; i++) {
        const fl_key *k = &fl_keys[i];
        char *choices, *rest, *word;

        if (k->type != FL_KEY_STRING || !*k->lo.s)
            continue;
        choices = rest = strdup(k->lo.s);
        while ((word = strsep(&rest, " ")))
            assert_set(&c, k->name, word);
        free(choices);
        assert_refused(&c, k->name, "no such choice");
        assert_refused(&c, k->name, "");
    }
    fl_conf_release(&c);
}

static void a_text_longer_than_its_room_is_refused(void **state)
{
    char text[5000];
    fl_conf c;

    (void)state;
    assert_int_equal(fl_conf_init(&c), FL_OK);
    memset(text, 'x', sizeof(text));
    text[4095] = '\0';
    assert_set(&c, "dump_ir", text);
    assert_int_equal(fl_conf_set(&c, "dump_ir", ""), FL_OK);
    text[4095] = 'x';
    text[4096] = '\0';
    assert_refused(&c, "dump_ir", text);
    fl_conf_release(&c);
}

static void a_value_that_is_no_number_is_refused(void **state)
{
    static const char *const bad[] = { "",   "x",   "3x",   " 3", "3 ",
                                       "3.", "1e2", "0x10", "--1" };
    fl_conf c;

    (void)state;
    assert_int_equal(fl_conf_init(&c), FL_OK);
    for (size_t i = 0; i < FL_LEN(bad); i++)
        assert_refused(&c, "cpu_num", bad[i]);
    assert_refused(&c, "seed", "99999999999999999999999");
    assert_error_has("'99999999999999999999999' is not a whole number in "
                     "0..4611686018427387904");
    assert_refused(&c, "profile", "maybe");
    assert_error_has("'maybe' is not one of true, false");
    fl_conf_release(&c);
}

static void fields_have_the_type_of_their_row(void **state)
{
    fl_conf c;

    (void)state;
    assert_int_equal(fl_conf_init(&c), FL_OK);
    assert_int_equal(c.cpu_num, 1);
    assert_false(c.profile);
    assert_true(c.optimize);
    assert_string_equal(c.log_level, "info");
    assert_int_equal(fl_conf_set(&c, "profile", "1"), FL_OK);
    assert_true(c.profile);
    assert_string_equal(fl_conf_get(&c, "profile"), "true");
    assert_int_equal(fl_conf_set(&c, "passes", "opt_dce,opt_fc"), FL_OK);
    assert_string_equal(c.passes, "opt_dce,opt_fc");
    assert_int_equal(fl_conf_set(&c, "passes", c.passes), FL_OK);
    assert_string_equal(c.passes, "opt_dce,opt_fc");
    fl_conf_release(&c);
}

/* No row is a float yet; the type has to work before the first one is. */
static void a_float_row_checks_its_range_and_reads_back(void **state)
{
    const fl_key rate = {
        .type = FL_KEY_FLOAT, .name = "rate", .lo.f = 0.25, .hi.f = 2
    };
    char buf[FL_KEY_NUMBER_MAX];
    fl_key_value v;

    (void)state;
    assert_int_equal(fl_key_parse(&rate, "0.1", &v), FL_ERR_INVAL);
    assert_error_has("'0.1' is not a number in 0.25..2");
    assert_int_equal(fl_key_parse(&rate, "nan", &v), FL_ERR_INVAL);
    assert_int_equal(fl_key_parse(&rate, "inf", &v), FL_ERR_INVAL);
    assert_int_equal(fl_key_parse(&rate, " 1", &v), FL_ERR_INVAL);
    assert_int_equal(fl_key_parse(&rate, "0.3", &v), FL_OK);
    assert_string_equal(fl_key_print(&rate, &v, buf), "0.3");
    v.f = 1.0 / 3;
    assert_true(strtod(fl_key_print(&rate, &v, buf), NULL) == v.f);
}

static void an_unknown_name_is_refused_with_the_nearest(void **state)
{
    fl_conf c;

    (void)state;
    assert_int_equal(fl_conf_init(&c), FL_OK);
    assert_int_equal(fl_conf_set(&c, "num_thread", "2"), FL_ERR_NOTFOUND);
    assert_error_has("'num_thread'; did you mean num_threads?");
    assert_null(fl_conf_get(&c, "wholly_else"));
    assert_error_has("there is no setting 'wholly_else'; docs/settings.md");
    fl_conf_release(&c);
}

static void a_misspelt_choice_is_refused_with_the_nearest(void **state)
{
    fl_conf c;

    (void)state;
    assert_int_equal(fl_conf_init(&c), FL_OK);
    assert_refused(&c, "log_level", "warning");
    assert_refused(&c, "log_level", "wran");
    assert_error_has("setting log_level: 'wran' is not one of debug, info, "
                     "warn, error; did you mean warn?");
    fl_conf_release(&c);
}

static void the_environment_comes_before_the_default(void **state)
{
    fl_conf c;

    (void)state;
    setenv("FLOTILLA_NUM_THREADS", "3", 1);
    setenv("FLOTILLA_PASSES", "opt_fc", 1);
    setenv("CPU_NUM", "4", 1);
    setenv("FLOTILLA_SEED", "", 1);
    assert_int_equal(fl_conf_init(&c), FL_OK);
    assert_int_equal(c.num_threads, 3);
    assert_string_equal(c.passes, "opt_fc");
    assert_int_equal(c.cpu_num, 4);
    assert_int_equal(c.seed, 0);
    fl_conf_release(&c);
}

static void the_long_variable_comes_before_cpu_num(void **state)
{
    fl_conf c;

    (void)state;
    setenv("CPU_NUM", "not even read", 1);
    setenv("FLOTILLA_CPU_NUM", "2", 1);
    assert_int_equal(fl_conf_init(&c), FL_OK);
    assert_int_equal(c.cpu_num, 2);
    fl_conf_release(&c);
}

static void a_bad_variable_is_named_with_value_and_range(void **state)
{
    fl_conf c;

    (void)state;
    setenv("FLOTILLA_LOG_LEVEL", "debug", 1);
    setenv("CPU_NUM", "many", 1);
    assert_int_equal(fl_conf_init(&c), FL_ERR_INVAL);
    assert_string_equal(fl_last_error(),
                        "environment variable CPU_NUM: 'many' is not a whole "
                        "number in 1..1024");
    fl_conf_release(&c);
}

static void a_value_knows_where_it_came_from(void **state)
{
    fl_conf c;

    (void)state;
    setenv("CPU_NUM", "3", 1);
    assert_int_equal(fl_conf_init(&c), FL_OK);
    assert_int_equal(fl_conf_from_of(&c, "cpu_num"), FL_FROM_ENVIRONMENT);
    assert_int_equal(fl_conf_from_of(&c, "num_threads"), FL_FROM_DEFAULT);
    assert_int_equal(fl_conf_set(&c, "num_threads", "0"), FL_ERR_INVAL);
    assert_int_equal(fl_conf_from_of(&c, "num_threads"), FL_FROM_DEFAULT);
    assert_int_equal(fl_conf_set(&c, "num_threads", "2"), FL_OK);
    assert_int_equal(fl_conf_from_of(&c, "num_threads"), FL_FROM_CALL);
    assert_int_equal(fl_conf_set_from(&c, "seed", "5", FL_FROM_DEFAULT), FL_OK);
    assert_int_equal(fl_conf_from_of(&c, "seed"), FL_FROM_DEFAULT);
    assert_int_equal(c.seed, 5);
    assert_string_equal(fl_conf_from_text(FL_FROM_CALL), "call");
    fl_conf_release(&c);
}

static void help_names_every_setting(void **state)
{
    char *plain = fl_conf_help(FL_HELP_PLAIN);
    char env[FL_KEY_ENV_MAX];

    (void)state;
    for (size_t i = 0; i < fl_n_keys; i++) {
        assert_non_null(strstr(plain, fl_keys[i].name));
        assert_non_null(strstr(plain, fl_keys[i].text));
        assert_non_null(strstr(plain, fl_key_env(&fl_keys[i], env)));
    }
    fl_free(plain);
}

static void the_settings_page_is_what_the_rows_say(void **state)
{
    char *page = fl_conf_help(FL_HELP_MARKDOWN);
    char path[4096];
    char *file = NULL;
    size_t len;

    (void)state;
    snprintf(path, sizeof(path), "%s/docs/settings.md", source_root);
    assert_int_equal(fl_file_read(path, 1 << 20, &file, &len), FL_OK);
    assert_string_equal(file, page);
    fl_free(file);
    fl_free(page);
}

int main(int argc, char **argv)
{
#define CASE(name) cmocka_unit_test_setup(name, clear_env)
    const struct CMUnitTest tests[] = {
        CASE(every_default_is_a_value_that_can_be_set),
        CASE(both_ends_of_every_range_are_taken),
        CASE(one_step_past_a_whole_range_is_refused),
        CASE(every_choice_is_taken_and_nothing_else),
        CASE(a_text_longer_than_its_room_is_refused),
        CASE(a_value_that_is_no_number_is_refused),
        CASE(fields_have_the_type_of_their_row),
        CASE(a_float_row_checks_its_range_and_reads_back),
        CASE(an_unknown_name_is_refused_with_the_nearest),
        CASE(a_misspelt_choice_is_refused_with_the_nearest),
        CASE(the_environment_comes_before_the_default),
        CASE(the_long_variable_comes_before_cpu_num),
        CASE(a_bad_variable_is_named_with_value_and_range),
        CASE(a_value_knows_where_it_came_from),
        CASE(help_names_every_setting),
        CASE(the_settings_page_is_what_the_rows_say),
    };

    if (argc != 2) {
        fprintf(stderr, "usage: %s SOURCE_ROOT\n", argv[0]);
        return 2;
    }
    source_root = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
