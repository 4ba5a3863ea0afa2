/* test_load_plan.c - what goes where, as text. */
#include "kit.h"

#include "ckpt/load_plan.h"

static const char good[] = "some new\nfc.w_0 fc.w_0 =\nemb rows ~\n";

static void a_plan_is_read_as_it_was_printed(void **state)
{
    const fl_load_item *item;
    fl_load_plan p;
    char *text;

    (void)state;
    assert_ok(fl_load_plan_parse(&p, good, strlen(good)));
    assert_false(p.is_all);
    assert_true(p.is_fresh_state);
    assert_int_equal(p.items.len, 2);
    item = fl_load_plan_find(&p, "emb");
    assert_non_null(item);
    assert_string_equal(item->saved, "rows");
    assert_true(item->is_resized);
    assert_null(fl_load_plan_find(&p, "rows"));
    text = fl_load_plan_print(&p);
    assert_string_equal(text, good);
    fl_free(text);
    fl_load_plan_release(&p);
}

static void what_is_no_plan_is_refused(void **state)
{
    static const char *const bad[] = {
        "",           "none\n",        "all",
        "all\nx\n",   "all\nx y\n",    "all\nx y z\n",
        "all\nx y =", "all\n x y =\n", "some\nx y = z\n",
    };
    fl_load_plan p;

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++) {
        assert_int_equal(fl_load_plan_parse(&p, bad[i], strlen(bad[i])),
                         FL_ERR_CORRUPT);
        assert_non_null(strstr(fl_last_error(), "does not parse"));
    }
    for (size_t n = 0; n < strlen(good); n++) /* cut short anywhere */
        if (!fl_load_plan_parse(&p, good, n)) {
            assert_true(good[n - 1] == '\n');
            fl_load_plan_release(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_read_as_it_was_printed),
        cmocka_unit_test(what_is_no_plan_is_refused),
    };

    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
