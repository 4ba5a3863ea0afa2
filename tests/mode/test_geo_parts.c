/* test_geo_parts.c - the parts of mode geo that need no servers: what it
 * refuses and what it needs of memory. */
#include "geo_kit.h"

#include "mode/geo_check.h"

/* --- what it refuses ------------------------------------------------------ */

/* A layer on rows of a table, with one optimizer for both. */
static fl_status check_model(const char *optimizer, const char *settings,
                             const char *entry, const char *accessor)
{
    fl_ctx *c = make_ctx();
    fl_var *ids =
        fl_layers_data(c, "ids", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *rows = fl_layers_embedding(ids, 1000, 4, .is_distributed = true,
                                       .entry = entry, .accessor = accessor);
    fl_status st;

    assert_non_null(rows);
    assert_ok(fl_minimize(make_optimizer(c, optimizer, settings),
                          fl_layers_mean(fl_layers_fc(rows, 2, ))));
    st = fl_mode_geo.check(&c->conf, c->main, c->startup);
    fl_ctx_free(c);
    return st;
}

static void sgd_and_adagrad_are_safe(void **state)
{
    (void)state;
    assert_ok(check_model("sgd", NULL, NULL, NULL));
    assert_ok(check_model("adagrad", NULL, NULL, "plain"));
}

static void optimizers_with_other_state_are_refused(void **state)
{
    (void)state;
    assert_int_equal(check_model("adam", NULL, NULL, NULL), FL_ERR_INVAL);
    assert_says("adam, whose state belongs to the gradients of one trainer");
    assert_says("one of sgd, adagrad");
    assert_int_equal(check_model("momentum", "momentum=0.9", NULL, NULL),
                     FL_ERR_INVAL);
    assert_int_equal(check_model("ftrl", NULL, NULL, NULL), FL_ERR_INVAL);
}

/* In main its update is only marked: the settings decide. */
static void a_table_with_an_unsafe_optimizer_is_refused(void **state)
{
    fl_program *main = program_of("");
    fl_program *startup =
        program_of("op init_table () -> () {table=emb, settings=\"dim=4 "
                   "optimizer=adam\"}\n");

    (void)state;
    assert_int_equal(fl_mode_geo.check(NULL, main, startup), FL_ERR_INVAL);
    assert_says("table emb is trained with adam");
    fl_program_free(main);
    fl_program_free(startup);
}

static void tables_that_count_are_refused(void **state)
{
    (void)state;
    assert_int_equal(check_model("sgd", NULL, "count_filter_entry:5", NULL),
                     FL_ERR_INVAL);
    assert_says("has an entry policy");
    assert_int_equal(check_model("sgd", NULL, NULL, "ctr"), FL_ERR_INVAL);
    assert_says("has the accessor ctr");
}

/* --- memory --------------------------------------------------------------- */

static void too_little_memory_is_told_with_both_numbers(void **state)
{
    fl_geo_needs needs = { .dense_bytes = 3 << 20, .table_bytes = 7 << 20 };

    (void)state;
    assert_ok(fl_geo_check_memory(&needs, 10 << 20));
    assert_int_equal(fl_geo_check_memory(&needs, 9 << 20), FL_ERR_NOMEM);
    assert_says("up to 10 MB (tables 7 MB, dense parameters 3 MB)");
    assert_says("has 9 MB left");
    needs.table_bytes = UINT64_MAX;
    assert_int_equal(fl_geo_check_memory(&needs, UINT64_MAX - 1), FL_ERR_NOMEM);
}

static fl_geo_needs needs_of(const char *settings)
{
    fl_str text = { 0 };
    fl_geo_needs needs;
    fl_dist d = { 0 };

    fl_str_addf(&text, "op init_table () -> () {table=emb, settings=\"%s\"}\n",
                settings);
    d.startup = program_of(fl_str_text(&text));
    fl_vec_push(&d.params, ((fl_dist_param){ .name = "w", .n = 1000 }));
    assert_ok(fl_geo_needs_of(&d, &needs));
    fl_vec_release(&d.params);
    fl_program_free(d.startup);
    fl_str_release(&text);
    return needs;
}

static void needs_are_two_copies_and_the_rows_of_all_ids(void **state)
{
    uint64_t sgd = needs_of("dim=8 height=1000").table_bytes;
    uint64_t adagrad =
        needs_of("dim=8 height=1000 optimizer=adagrad").table_bytes;

    (void)state;
    assert_int_equal(needs_of("dim=8").dense_bytes, 2 * 1000 * sizeof(float));
    assert_true(sgd >= 2 * 1000 * 8 * sizeof(float));
    /* The copy needs no state. */
    assert_int_equal(adagrad - sgd, 1000 * 8 * sizeof(float));
    assert_int_equal(needs_of("dim=8 height=1000000 max_rows=1000").table_bytes,
                     sgd);
    assert_int_equal(needs_of("dim=8").table_bytes, 0);
    assert_int_equal(needs_of("dim=8").n_unknown, 1);
    assert_int_equal(needs_of("dim=8 height=9").n_unknown, 0);
    assert_true(needs_of("dim=8 height=9223372036854775807").table_bytes ==
                UINT64_MAX);
}

static void the_system_says_what_it_has_left(void **state)
{
    (void)state;
    assert_true(fl_geo_available() > 1 << 20);
    assert_true(fl_geo_available() < UINT64_C(1) << 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_and_adagrad_are_safe),
        cmocka_unit_test(optimizers_with_other_state_are_refused),
        cmocka_unit_test(a_table_with_an_unsafe_optimizer_is_refused),
        cmocka_unit_test(tables_that_count_are_refused),
        cmocka_unit_test(too_little_memory_is_told_with_both_numbers),
        cmocka_unit_test(needs_are_two_copies_and_the_rows_of_all_ids),
        cmocka_unit_test(the_system_says_what_it_has_left),
    };

    be_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
