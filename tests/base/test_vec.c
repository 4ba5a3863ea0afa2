/* test_vec.c - growing arrays and strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/vec.h"

static void pushed_items_stay_in_order(void **state)
{
    FL_VEC(int) v = { 0 };

    (void)state;
    for (int i = 0; i < 1000; i++)
        fl_vec_push(&v, 3 * i);
    assert_int_equal(v.len, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(v.data[i], 3 * i);
    fl_vec_release(&v);
    assert_null(v.data);
    assert_int_equal(v.len + v.cap, 0);
}

static void growth_is_geometric(void **state)
{
    FL_VEC(char) v = { 0 };
    size_t cap = 0;
    int grown = 0;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        fl_vec_push(&v, 'x');
        grown += v.cap != cap;
        cap = v.cap;
    }
    assert_true(grown <= 17);
    fl_vec_release(&v);
}

static void structs_can_be_pushed(void **state)
{
    struct pair {
        const char *name;
        double x;
    };
    FL_VEC(struct pair) v = { 0 };

    (void)state;
    fl_vec_push(&v, ((struct pair){ "a", 1.5 }));
    fl_vec_push(&v, ((struct pair){ "b", 2.5 }));
    assert_string_equal(v.data[0].name, "a");
    assert_true(v.data[1].x == 2.5);
    fl_vec_release(&v);
}

static void text_grows_by_pieces(void **state)
{
    fl_str s = { 0 };

    (void)state;
    assert_string_equal(fl_str_text(&s), "");
    fl_str_add(&s, "");
    fl_str_add(&s, "pull");
    fl_str_addf(&s, " keys=%d us=%s", 12, "34");
    assert_string_equal(fl_str_text(&s), "pull keys=12 us=34");
    assert_int_equal(s.len, strlen(s.data));
    fl_str_release(&s);
    assert_string_equal(fl_str_text(&s), "");
}

/* Every length crosses the capacity once, by copy and by format. */
static void the_text_is_always_terminated(void **state)
{
    fl_str s = { 0 };

    (void)state;
    for (size_t i = 1; i <= 300; i++) {
        if (i % 2)
            fl_str_add(&s, "x");
        else
            fl_str_addf(&s, "%c", 'y');
        assert_int_equal(s.len, i);
        assert_int_equal(strlen(s.data), i);
        assert_true(s.cap > i);
    }
    fl_str_release(&s);
}

static void a_piece_larger_than_the_doubled_room_fits(void **state)
{
    fl_str s = { 0 };

    (void)state;
    fl_str_add(&s, "ab");
    fl_str_addf(&s, "%05000d", 1);
    assert_int_equal(s.len, 5002);
    assert_int_equal(s.data[5001], '1');
    fl_str_release(&s);
}

static void taken_text_belongs_to_the_taker(void **state)
{
    fl_str s = { 0 };
    char *a, *b;

    (void)state;
    fl_str_add(&s, "first");
    a = fl_str_take(&s);
    b = fl_str_take(&s);
    fl_str_add(&s, "second");
    assert_string_equal(a, "first");
    assert_string_equal(b, "");
    assert_string_equal(fl_str_text(&s), "second");
    fl_free(a);
    fl_free(b);
    fl_str_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushed_items_stay_in_order),
        cmocka_unit_test(growth_is_geometric),
        cmocka_unit_test(structs_can_be_pushed),
        cmocka_unit_test(text_grows_by_pieces),
        cmocka_unit_test(the_text_is_always_terminated),
        cmocka_unit_test(a_piece_larger_than_the_doubled_room_fits),
        cmocka_unit_test(taken_text_belongs_to_the_taker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
