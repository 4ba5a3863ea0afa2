/* test_args.c - structs of callers that are older or younger than the library.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/args.h"

typedef struct first {
    uint32_t size;
    int a;
} first;

typedef struct second {
    uint32_t size;
    int a;
    double b;
    const char *c;
} second;

static void an_old_struct_lacks_what_came_later(void **state)
{
    const first old = FL_INIT(first, .a = 7);
    second now = { .b = 1, .c = "left over" };

    (void)state;
    assert_int_equal(fl_args_read(&now, sizeof(now), &old, "second"), FL_OK);
    assert_int_equal(now.a, 7);
    assert_true(now.b == 0);
    assert_null(now.c);
    assert_int_equal(now.size, sizeof(second));
}

static void a_young_struct_is_taken_when_it_says_nothing_new(void **state)
{
    second young = FL_INIT(second, .a = 7);
    first now;

    (void)state;
    assert_int_equal(fl_args_read(&now, sizeof(now), &young, "first"), FL_OK);
    assert_int_equal(now.a, 7);
    young.b = 0.5;
    assert_int_equal(fl_args_read(&now, sizeof(now), &young, "first"),
                     FL_ERR_UNSUPPORTED);
    assert_non_null(strstr(fl_last_error(), "first"));
}

static void no_struct_at_all_says_nothing(void **state)
{
    second now;

    (void)state;
    memset(&now, 0xff, sizeof(now));
    assert_int_equal(FL_ARGS_READ(second, &now, NULL), FL_OK);
    assert_int_equal(now.a, 0);
    assert_null(now.c);
}

static void a_struct_without_its_size_is_told_the_macro(void **state)
{
    const uint32_t bad[] = { 0, 4, 4097, UINT32_MAX };
    second s = { .a = 7 }, now;

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++) {
        s.size = bad[i];
        assert_int_equal(FL_ARGS_READ(second, &now, &s), FL_ERR_INVAL);
        assert_non_null(strstr(fl_last_error(), "FL_INIT(second, ...)"));
        assert_int_equal(FL_ARGS_FILL(second, &s, &now), FL_ERR_INVAL);
    }
}

static void statistics_fill_as_much_as_there_is_room_for(void **state)
{
    const second full = FL_INIT(second, .a = 7, .b = 0.5, .c = "c");
    struct {
        first f;
        int untouched;
    } old = { .f = FL_INIT(first), .untouched = 3 };
    struct {
        second s;
        uint64_t later;
    } young = { .s = { .size = sizeof(young) }, .later = 9 };

    (void)state;
    assert_int_equal(fl_args_fill(&old.f, &full, sizeof(full), "second"),
                     FL_OK);
    assert_int_equal(old.f.a, 7);
    assert_int_equal(old.f.size, sizeof(first));
    assert_int_equal(old.untouched, 3);
    assert_int_equal(FL_ARGS_FILL(second, &young.s, &full), FL_OK);
    assert_string_equal(young.s.c, "c");
    assert_int_equal(young.later, 0);
    assert_int_equal(young.s.size, sizeof(young));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_old_struct_lacks_what_came_later),
        cmocka_unit_test(a_young_struct_is_taken_when_it_says_nothing_new),
        cmocka_unit_test(no_struct_at_all_says_nothing),
        cmocka_unit_test(a_struct_without_its_size_is_told_the_macro),
        cmocka_unit_test(statistics_fill_as_much_as_there_is_room_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
