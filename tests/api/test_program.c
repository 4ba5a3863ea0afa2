/* test_program.c - contexts, settings, programs in text, randomness. */
#include "api.h"
#include "../make.h"

#include <stdlib.h>

static fl_var *build(fl_ctx *c)
{
    fl_var *h = fl_layers_dropout(
        fl_layers_fc(data2(c, "x", 3), 4, .act = "relu"), 0.5);

    return fl_layers_mean(fl_layers_fc(h, 2, ));
}

static void a_built_program_prints_and_parses_back(void **state)
{
    fl_ctx *c = make_ctx();
    fl_program *p;
    char *a, *b;

    (void)state;
    assert_ok(fl_minimize(make_optimizer(c, "momentum", NULL), build(c)));
    a = fl_program_to_text(fl_default_main_program(c));
    assert_ok(fl_program_from_text(&p, c, a));
    b = fl_program_to_text(p);
    assert_string_equal(a, b);
    fl_text_free(a);
    fl_text_free(b);
    fl_program_free(p);
    fl_ctx_free(c);
}

static void a_program_for_test_has_no_training_in_it(void **state)
{
    fl_ctx *c = make_ctx();
    fl_program *p;
    char *text;

    (void)state;
    assert_ok(fl_minimize(make_optimizer(c, "adam", NULL), build(c)));
    assert_ok(fl_program_for_test(&p, fl_default_main_program(c)));
    text = fl_program_to_text(p);
    assert_null(strstr(text, "@backward"));
    assert_null(strstr(text, "@optimize"));
    assert_null(strstr(text, "moment"));
    assert_text_has(text, "is_test=true");
    fl_text_free(text);
    fl_program_free(p);
    fl_ctx_free(c);
}

/* The place of the largest row is not wanted there. */
static void a_program_for_test_keeps_a_pool_of_the_largest(void **state)
{
    fl_ctx *c = make_ctx();
    fl_var *x =
        fl_layers_data(c, "x", FL_DTYPE_F32, 2, (int64_t[]){ -1, 4 }, 1);
    fl_program *p;

    (void)state;
    assert_non_null(fl_layers_sequence_pool(x, "max"));
    assert_ok(fl_program_for_test(&p, fl_default_main_program(c)));
    fl_program_free(p);
    fl_ctx_free(c);
}

static void a_pruned_program_keeps_what_its_targets_need(void **state)
{
    static const char *const target[] = { "fc_0.tmp_2" };
    fl_ctx *c = make_ctx();
    fl_program *p;
    char *text;

    (void)state;
    assert_non_null(build(c));
    assert_ok(fl_program_pruned(&p, fl_default_main_program(c), target, 1));
    text = fl_program_to_text(p);
    assert_null(strstr(text, "fc_1"));
    assert_text_has(text, "fetch fc_0.tmp_2");
    fl_text_free(text);
    fl_program_free(p);
    assert_int_equal(fl_program_pruned(&p, fl_default_main_program(c),
                                       (const char *const[]){ "nothing" }, 1),
                     FL_ERR_NOTFOUND);
    assert_said("target nothing");
    fl_ctx_free(c);
}

static float *first_weights(const char *seed, float *room)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_tensor t;

    assert_ok(fl_ctx_set(c, "seed", seed));
    build(c);
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    assert_ok(fl_scope_get(fl_current_scope(c), "fc_0.w_0", &t));
    memcpy(room, t.data, 12 * sizeof(float));
    fl_executor_free(e);
    fl_ctx_free(c);
    return room;
}

static void first_values_follow_from_seed_and_name_alone(void **state)
{
    float a[12], b[12];

    (void)state;
    assert_memory_equal(first_weights("7", a), first_weights("7", b),
                        sizeof(a));
    assert_memory_not_equal(first_weights("7", a), first_weights("8", b),
                            sizeof(a));
}

static void settings_are_checked(void **state)
{
    fl_ctx *c = make_ctx();

    (void)state;
    assert_ok(fl_ctx_set(c, "cpu_num", "4"));
    assert_string_equal(fl_ctx_get(c, "cpu_num"), "4");
    assert_int_equal(fl_ctx_set(c, "cpu_num", "0"), FL_ERR_INVAL);
    assert_int_not_equal(fl_ctx_set(c, "cpu_nun", "1"), FL_OK);
    assert_said("cpu_num");
    assert_null(fl_ctx_get(c, "nothing"));
    fl_ctx_free(c);
}

static void a_bad_environment_is_named(void **state)
{
    fl_ctx *c = NULL;

    (void)state;
    setenv("CPU_NUM", "many", 1);
    assert_int_equal(fl_ctx_new(&c), FL_ERR_INVAL);
    assert_int_equal(fl_last_status(), FL_ERR_INVAL);
    assert_said("CPU_NUM");
    assert_null(c);
    unsetenv("CPU_NUM");
}

static void version_and_operators_can_be_asked(void **state)
{
    char *v = fl_version_text();
    char *op = fl_operator_help("relu");
    char *all = fl_operator_help(NULL);

    (void)state;
    assert_text_has(v, "flotilla 0.");
    assert_text_has(v, "\ncjson 1.");
    assert_text_has(v, "\nxxhash 0.");
    assert_text_has(v, "\nhiredis ");
    assert_text_has(v, "\nlibmicrohttpd ");
    assert_text_has(op, "op relu\n");
    assert_text_has(all, "op lookup_table\n");
    assert_null(fl_operator_help("reul"));
    assert_said("did you mean relu?");
    fl_text_free(v);
    fl_text_free(op);
    fl_text_free(all);
}

static void freeing_a_default_program_leaves_it_to_its_context(void **state)
{
    fl_ctx *c = make_ctx();

    (void)state;
    fl_program_free(fl_default_main_program(c));
    fl_program_free(fl_default_startup_program(c));
    fl_program_free(NULL);
    assert_non_null(
        fl_layers_data(c, "x", FL_DTYPE_F32, 1, (int64_t[]){ -1 }, 0));
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_built_program_prints_and_parses_back),
        cmocka_unit_test(a_program_for_test_has_no_training_in_it),
        cmocka_unit_test(a_program_for_test_keeps_a_pool_of_the_largest),
        cmocka_unit_test(a_pruned_program_keeps_what_its_targets_need),
        cmocka_unit_test(first_values_follow_from_seed_and_name_alone),
        cmocka_unit_test(freeing_a_default_program_leaves_it_to_its_context),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(a_bad_environment_is_named),
        cmocka_unit_test(version_and_operators_can_be_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
