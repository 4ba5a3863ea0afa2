/* test_match.c - names of a program against names of a model. */
#include "kit.h"

#include "ckpt/match.h"

static const fl_match_item program_items[] = {
    { .name = "w", .shape = { 2, { 3, 4 } } },
    { .name = "w_moment1_0", .shape = { 2, { 3, 4 } } },
    { .name = "step", .type = FL_ST_I64, .shape = { 1, { 1 } } },
    { .name = "emb", .is_table = true, .shape = { 2, { -1, 8 } } },
};
static const fl_match_set program = { "the program", program_items,
                                      FL_LEN(program_items) };

static fl_match_pairs pairs;

static fl_status match(const fl_match_item *items, size_t n,
                       const fl_match_options *o)
{
    static const fl_match_options none;
    fl_match_set model = { "model m", items, n };

    fl_vec_release(&pairs);
    return fl_match(&program, &model, o ? o : &none, &pairs);
}

/* The items of the program, to be changed and given out as a model's. */
static void copy_items(fl_match_item *to)
{
    memcpy(to, program_items, sizeof(program_items));
}

static int tear_down(void **state)
{
    fl_vec_release(&pairs);
    return kit_tear_down(state);
}

static void the_same_names_match_in_any_order(void **state)
{
    fl_match_item items[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        items[i] = program_items[3 - i];
    assert_ok(match(items, 4, NULL));
    assert_int_equal(pairs.len, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pairs.data[i].want, i);
        assert_int_equal(pairs.data[i].have, 3 - i);
        assert_false(pairs.data[i].is_resized);
    }
}

static void all_differences_are_listed_at_once(void **state)
{
    fl_match_item items[4];

    (void)state;
    copy_items(items);
    items[0].shape.dim[1] = 5;
    items[1].name = "w_moment2_0";
    items[2].type = FL_ST_I32;
    items[3].is_table = false;
    assert_refused(match(items, 4, NULL), FL_ERR_INVAL,
                   "model m does not fit the program: ");
    assert_said("w is F32[3,4], but was saved as F32[3,5]");
    assert_said("w_moment1_0 was not saved (the nearest is w_moment2_0)");
    assert_said("step is I64[1], but was saved as I32[1]");
    assert_said("emb is a table of rows of 8, but was saved as F32[-1,8]");
    assert_said("w_moment2_0 was saved, but the program has none (the nearest "
                "is w_moment1_0)");
}

static void what_is_too_much_for_a_sentence_is_in_the_log(void **state)
{
    fl_match_item items[204];
    char names[200][32];

    (void)state;
    copy_items(items);
    for (int i = 0; i < 200; i++) {
        snprintf(names[i], sizeof(names[i]), "variable_number_%d", i);
        items[4 + i] = items[0];
        items[4 + i].name = names[i];
    }
    assert_refused(match(items, 204, NULL), FL_ERR_INVAL,
                   "more, which the log has");
    assert_logged("variable_number_199 was saved, but the program has none");
}

static void a_list_takes_these_alone(void **state)
{
    static const char *const names[] = { "step" }, *const bad[] = { "stop" };
    fl_match_item items[2] = { program_items[2], { .name = "other" } };

    (void)state;
    assert_ok(
        match(items, 2, &(fl_match_options){ .names = names, .n_names = 1 }));
    assert_int_equal(pairs.len, 1);
    assert_int_equal(pairs.data[0].want, 2);
    assert_refused(
        match(items, 2, &(fl_match_options){ .names = bad, .n_names = 1 }),
        FL_ERR_NOTFOUND, "has no variable stop (the nearest is step)");
}

static void a_renaming_takes_the_state_along(void **state)
{
    static const char *const renames[] = { "v=w" };
    fl_match_item items[4];

    (void)state;
    copy_items(items);
    items[0].name = "v";
    items[1].name = "v_moment1_0";
    assert_ok(match(items, 4,
                    &(fl_match_options){ .renames = renames, .n_renames = 1 }));
    assert_int_equal(pairs.len, 4);
    assert_logged("loading w_moment1_0 from what was saved as v_moment1_0");
}

static void a_name_that_became_another_is_not_taken_twice(void **state)
{
    static const char *const renames[] = { "w=step" };
    fl_match_item items[4];

    (void)state;
    copy_items(items);
    assert_refused(
        match(items, 4,
              &(fl_match_options){ .renames = renames, .n_renames = 1 }),
        FL_ERR_INVAL, "w was not saved");
    assert_said("step is I64[1], but was saved as F32[3,4]");
}

static void renamings_that_cannot_be_are_refused(void **state)
{
    static const char *const bad[][2] = {
        { "w", "'w' is no renaming: write old=new" },
        { "=w", "is no renaming" },
        { "w=", "is no renaming" },
        { "ww=w", "model m has no ww (the nearest is w" },
        { "w=stop", "the program has no stop (the nearest is step)" },
    };
    static const char *const both[] = { "w=step", "step=step" };

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++) {
        assert_int_not_equal(
            match(program_items, 4,
                  &(fl_match_options){ .renames = &bad[i][0], .n_renames = 1 }),
            FL_OK);
        assert_said(bad[i][1]);
    }
    assert_refused(
        match(program_items, 4,
              &(fl_match_options){ .renames = both, .n_renames = 2 }),
        FL_ERR_INVAL, "there are two for step");
}

static void another_shape_is_taken_where_it_was_asked_for(void **state)
{
    static const char *const names[] = { "w", "emb" };
    const fl_match_options o = { .resizes = names, .n_resizes = 2 };
    fl_match_item items[4];

    (void)state;
    copy_items(items);
    items[0].shape.dim[1] = items[1].shape.dim[1] = 2;
    items[3].shape.dim[1] = 4;
    assert_ok(match(items, 4, &o));
    assert_true(pairs.data[0].is_resized);
    assert_true(pairs.data[1].is_resized);
    assert_false(pairs.data[2].is_resized);
    assert_true(pairs.data[3].is_resized);
    assert_logged("loading w: F32[3,2] becomes F32[3,4]");
    assert_logged("loading emb: a table of rows of 4 becomes a table of rows "
                  "of 8");
    items[0].shape.rank = 1;
    assert_refused(match(items, 4, &o), FL_ERR_INVAL,
                   "w is F32[3,4], but was saved as F32[3]");
}

static void another_optimizer_begins_anew_where_it_was_asked_for(void **state)
{
    const fl_match_options o = { .is_fresh_state = true };
    fl_match_item items[4];

    (void)state;
    copy_items(items);
    items[1].name = "w_velocity_0";
    assert_ok(match(items, 4, &o));
    assert_int_equal(pairs.len, 3);
    assert_logged("w_moment1_0 begins anew");
    items[1].name = "w_speed_0";
    assert_refused(match(items, 4, &o), FL_ERR_INVAL,
                   "w_speed_0 was saved, but the program has none");
}

static void the_state_of_a_parameter_is_known_by_its_name(void **state)
{
    (void)state;
    assert_int_equal(fl_match_state_of("fc_0.w_0_moment1_0"), 8);
    assert_int_equal(fl_match_state_of("w_beta1_pow_acc_12"), 1);
    assert_int_equal(fl_match_state_of("w_moment1"), 0);
    assert_int_equal(fl_match_state_of("moment1_0"), 0);
    assert_int_equal(fl_match_state_of("_moment1_0"), 0);
    assert_int_equal(fl_match_state_of("0"), 0);
    assert_int_equal(fl_match_state_of(""), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_same_names_match_in_any_order),
        TEST(all_differences_are_listed_at_once),
        TEST(what_is_too_much_for_a_sentence_is_in_the_log),
        TEST(a_list_takes_these_alone),
        TEST(a_renaming_takes_the_state_along),
        TEST(a_name_that_became_another_is_not_taken_twice),
        TEST(renamings_that_cannot_be_are_refused),
        TEST(another_shape_is_taken_where_it_was_asked_for),
        TEST(another_optimizer_begins_anew_where_it_was_asked_for),
        TEST(the_state_of_a_parameter_is_known_by_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
