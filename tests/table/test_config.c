/* test_config.c - the settings of a table in words. */
#include "kit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SEED 11

static fl_table_config read_as(const char *name, const char *settings)
{
    fl_table_config c;

    assert_ok(fl_table_config_parse(&c, name, settings, SEED));
    return c;
}

static fl_table_config read(const char *settings)
{
    return read_as("emb", settings);
}

static void expect_refused(const char *settings, const char *said)
{
    fl_table_config c = { .dim = 123 };
    fl_status st = fl_table_config_parse(&c, "emb", settings, SEED);

    if (st != FL_ERR_INVAL && st != FL_ERR_NOTFOUND)
        fail_msg("'%s' gave status %d", settings, (int)st);
    if (!strstr(fl_last_error(), said))
        fail_msg("'%s' does not say '%s'", fl_last_error(), said);
    assert_non_null(strstr(fl_last_error(), "table emb"));
    assert_int_equal(c.dim, 123); /* untouched */
}

static void the_width_alone_is_enough(void **state)
{
    fl_table_config c = read("dim=10");

    (void)state;
    assert_string_equal(c.name, "emb");
    assert_int_equal(c.dim, 10);
    assert_null(c.accessor);
    assert_null(c.rule);
    assert_int_equal(c.entry.kind, FL_ENTRY_NONE);
    assert_true(c.height == 0 && c.max_rows == 0 && c.n_partitions == 0);
    assert_true(c.l1 == 0 && c.l2 == 0 && c.lr_scale == 0);
    assert_true(c.init.kind == FL_INIT_UNIFORM);
    assert_true(c.init.a == -c.init.b);
    assert_float_equal(c.init.b, sqrt(6.0 / 20), 1e-12);
}

static void ctr_has_its_defaults(void **state)
{
    fl_table_config c = read("dim=9 accessor=ctr");

    (void)state;
    assert_string_equal(c.accessor, "ctr");
    assert_true(c.nonclk_coeff == 0.1 && c.click_coeff == 1);
    assert_true(c.embedx_threshold == 10);
    assert_true(c.show_click_decay_rate == 0.98);
    assert_true(c.delete_threshold == 0.8);
    assert_int_equal(c.delete_after_unseen_days, 30);
    assert_true(c.base_threshold == 1.5 && c.delta_threshold == 0.25);
    assert_int_equal(c.delta_keep_days, 16);
}

static void every_word_is_read(void **state)
{
    fl_table_config c =
        read("dim=4096, height=1000 max_rows=9223372036854775807\n"
             "partitions=1024,,lr_scale=0.5\tregularization=l2( 0.01 ) "
             "accessor=ctr nonclk_coeff=0.2 click_coeff=2 embedx_threshold=0 "
             "show_click_decay_rate=1 delete_threshold=-1 "
             "delete_after_unseen_days=7 base_threshold=3 "
             "delta_threshold=-2 delta_keep_days=0 optimizer=sgd entry=none,");

    (void)state;
    assert_int_equal(c.dim, 4096);
    assert_int_equal(c.height, 1000);
    assert_true(c.max_rows == INT64_MAX);
    assert_int_equal(c.n_partitions, 1024);
    assert_true(c.lr_scale == 0.5 && c.l2 == 0.01 && c.l1 == 0);
    assert_true(c.nonclk_coeff == 0.2 && c.click_coeff == 2);
    assert_true(c.embedx_threshold == 0 && c.show_click_decay_rate == 1);
    assert_true(c.delete_threshold == -1);
    assert_int_equal(c.delete_after_unseen_days, 7);
    assert_true(c.base_threshold == 3 && c.delta_threshold == -2);
    assert_int_equal(c.delta_keep_days, 0);
    assert_string_equal(c.rule, "sgd");
}

static void the_rule_brings_its_own_settings(void **state)
{
    fl_table_config c = read("beta2=0.5, dim=3, optimizer=adam, beta1=0.25");

    (void)state;
    assert_string_equal(c.rule, "adam");
    assert_true(c.p[0] == 0.25 && c.p[1] == 0.5 && c.p[2] == 1e-8);
    c = read("dim=3 optimizer=momentum momentum=0.5 use_nesterov=true");
    assert_true(c.p[0] == 0.5 && c.p[1] == 1);
    c = read("dim=3 optimizer=momentum mu=0.75 use_nesterov=0");
    assert_true(c.p[0] == 0.75 && c.p[1] == 0);
    c = read("dim=3 optimizer=ftrl l1=0.5 l2=2 regularization=l1(3)");
    assert_true(c.p[0] == 0.5 && c.p[1] == 2 && c.p[2] == -0.5);
    assert_true(c.l1 == 3 && c.l2 == 0);
}

static void every_rule_can_be_named_and_has_its_defaults(void **state)
{
    char text[64];

    (void)state;
    for (size_t i = 0; i < fl_rule_count(); i++) {
        const fl_rule *r = fl_rule_at(i);
        fl_table_config c;

        if (r->whole)
            continue;
        snprintf(text, sizeof(text), "dim=3, optimizer=%s", r->name);
        c = read(text);
        assert_string_equal(c.rule, r->name);
        for (int p = 0; p < fl_rule_n_params(r); p++)
            assert_true(c.p[p] == r->params[p].value);
    }
}

static void later_words_win(void **state)
{
    fl_table_config c = read("dim=3 optimizer=adam dim=4 optimizer=sgd");

    (void)state;
    assert_int_equal(c.dim, 4);
    assert_string_equal(c.rule, "sgd");
}

static void entry_policies_have_their_limits(void **state)
{
    fl_table_config c = read("dim=3 entry=count_filter_entry:5");

    (void)state;
    assert_int_equal(c.entry.kind, FL_ENTRY_COUNT);
    assert_true(c.entry.limit == 5);
    c = read("dim=3 entry=probability_entry:0.3");
    assert_int_equal(c.entry.kind, FL_ENTRY_PROBABILITY);
    assert_true(c.entry.limit == 0.3);
    c = read("dim=3 entry=show_click_entry:2.5");
    assert_int_equal(c.entry.kind, FL_ENTRY_SHOW_CLICK);
    assert_true(c.entry.limit == 2.5);
}

static void values_are_those_of_a_parameter_of_that_name(void **state)
{
    fl_table_config c = read_as("fc_0.w_0", "dim=3 init=uniform(-2,3)");

    (void)state;
    assert_true(c.init.stream == fl_rng_stream(SEED, "fc_0.w_0"));
    assert_true(c.init.kind == FL_INIT_UNIFORM);
    assert_true(c.init.a == -2 && c.init.b == 3);
    c = read_as("fc_0.w_0", "dim=3 init=normal(0, 0.1, seed=7)");
    assert_true(c.init.stream == fl_rng_stream(7, ""));
    assert_true(c.init.kind == FL_INIT_GAUSSIAN);
}

static void fans_are_those_of_height_and_width(void **state)
{
    fl_table_config c = read("init=xavier height=20 dim=30");

    (void)state;
    assert_float_equal(c.init.b, sqrt(6.0 / 50), 1e-12);
    c = read("init=xavier(4,2) height=20 dim=30");
    assert_float_equal(c.init.b, 1, 1e-12);
}

static void a_configuration_outlives_its_text(void **state)
{
    char text[] = "dim=3 accessor=ctr optimizer=adagrad";
    fl_table_config c = read(text);

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    assert_string_equal(c.accessor, "ctr");
    assert_string_equal(c.rule, "adagrad");
}

static void malformed_words_are_refused(void **state)
{
    (void)state;
    expect_refused("", "dim=N");
    expect_refused(NULL, "dim=N");
    expect_refused("init=constant(0)", "dim=N");
    expect_refused("dim", "name=value");
    expect_refused("dim=", "'' is not a whole number");
    expect_refused("=3", "name=value");
    expect_refused("dim=3 init=uniform(-1,1", "do not come in pairs");
    expect_refused("dim=3 init=uniform(1)", "needs 2 numbers");
    expect_refused("dim=3 init=uniform(1,-1)", "above");
    expect_refused("dim=3 init=gauss", "no initialiser");
    expect_refused("dim=3)x", "do not come in pairs");
    expect_refused("dim=3 init=l2(1,)", "name(number,...)");
    expect_refused("dim=3 regularization=l3(1)", "no decay");
}

static void unknown_words_name_the_nearest(void **state)
{
    (void)state;
    expect_refused("dimm=3", "did you mean dim?");
    expect_refused("dim=3 max_row=4", "did you mean max_rows?");
    expect_refused("dim=3 optimizer=adam beta_1=0.9", "did you mean beta1?");
    expect_refused("dim=3 xyzzy=1", "has no setting xyzzy; there are dim");
    expect_refused("dim=3 beta1=0.9", "optimizer sgd");
    expect_refused("dim=3 optimizer=adem", "there are sgd");
    expect_refused("dim=3 optimizer=lars_momentum",
                   "lars_momentum needs all of a parameter");
    expect_refused("dim=3 optimizer=lamb", "lamb needs all of a parameter");
    expect_refused("dim=3 optimizer=dpsgd", "dpsgd needs all of a parameter");
    expect_refused("dim=3 accessor=ctrl", "there are plain, ctr");
}

static void numbers_out_of_range_are_refused(void **state)
{
    static const char *const bad[][2] = {
        { "dim=0", "1..4096" },
        { "dim=4097", "1..4096" },
        { "dim=-1", "whole" },
        { "dim=1.5", "whole" },
        { "dim=3 max_rows=18446744073709551616", "whole" },
        { "dim=3 height=9223372036854775808", "0..9223372036854775807" },
        { "dim=3 partitions=1025", "0..1024" },
        { "dim=3 lr_scale=0", "..inf" },
        { "dim=3 lr_scale=nan", "not a number" },
        { "dim=3 lr_scale=1x", "not a number" },
        { "dim=3 show_click_decay_rate=1.1", "0..1" },
        { "dim=3 delete_after_unseen_days=2147483648", "0..2147483647" },
        { "dim=3 optimizer=momentum use_nesterov=maybe", "true, false" },
        { "dim=3 optimizer=adam beta1=inf", "not a number" },
        { "dim=3 optimizer=adam beta1=1", "0..0.999999999" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++)
        expect_refused(bad[i][0], bad[i][1]);
}

static void bad_entry_policies_are_refused(void **state)
{
    static const char *const bad[][2] = {
        { "dim=3 entry=all", "no entry policy" },
        { "dim=3 entry=count_filter_entry", "no entry policy" },
        { "dim=3 entry=count_filter:5", "no entry policy" },
        { "dim=3 entry=none:5", "no entry policy" },
        { "dim=3 entry=count_filter_entry:", "whole" },
        { "dim=3 entry=count_filter_entry:0", "1..16777216" },
        { "dim=3 entry=count_filter_entry:1.5", "whole" },
        { "dim=3 entry=count_filter_entry:16777217", "1..16777216" },
        { "dim=3 entry=probability_entry:0", "..0.999999999" },
        { "dim=3 entry=probability_entry:1", "1e-09..0.999999999" },
        { "dim=3 entry=probability_entry:x", "not a number" },
        { "dim=3 entry=show_click_entry:-1", "0..inf" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++)
        expect_refused(bad[i][0], bad[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_width_alone_is_enough),
        cmocka_unit_test(ctr_has_its_defaults),
        cmocka_unit_test(every_word_is_read),
        cmocka_unit_test(the_rule_brings_its_own_settings),
        cmocka_unit_test(every_rule_can_be_named_and_has_its_defaults),
        cmocka_unit_test(later_words_win),
        cmocka_unit_test(entry_policies_have_their_limits),
        cmocka_unit_test(values_are_those_of_a_parameter_of_that_name),
        cmocka_unit_test(fans_are_those_of_height_and_width),
        cmocka_unit_test(a_configuration_outlives_its_text),
        cmocka_unit_test(malformed_words_are_refused),
        cmocka_unit_test(unknown_words_name_the_nearest),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(bad_entry_policies_are_refused),
    };

    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
