/* test_json.c - what is written reads back with a parser of others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/stats.h"

static cJSON *read_back(fl_json *j)
{
    char *text = fl_json_take(j);
    cJSON *root = cJSON_ParseWithOpts(text, NULL, 1);

    assert_non_null(root);
    fl_free(text);
    return root;
}

static void levels_keys_and_commas_are_as_json_wants_them(void **state)
{
    fl_json j = { 0 };
    char *text;

    (void)state;
    fl_json_object(&j, NULL);
    fl_json_text(&j, "name", "emb");
    fl_json_array(&j, "rows");
    fl_json_u64(&j, NULL, 12);
    fl_json_object(&j, NULL);
    fl_json_end(&j);
    fl_json_array(&j, NULL);
    fl_json_end(&j);
    fl_json_end(&j);
    fl_json_bool(&j, "is_up", true);
    fl_json_text(&j, "none", NULL);
    fl_json_raw(&j, "raw", "[1,2] and more", 5);
    fl_json_i64(&j, "below", -3);
    fl_json_end(&j);
    text = fl_json_take(&j);
    assert_string_equal(text, "{\"name\":\"emb\",\"rows\":[12,{},[]],"
                              "\"is_up\":true,\"none\":null,\"raw\":[1,2],"
                              "\"below\":-3}");
    fl_free(text);
}

static void text_of_any_bytes_reads_back(void **state)
{
    static const char *const same[] = {
        "", "a \"b\" \\ /", "tab\tline\nend\x01",
        "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x9A\xA2"
    };
    /* Cut, overlong, a surrogate, beyond the last code point, a lone tail. */
    static const char *const bad[] = { "\xC3",         "\xC0\xAF",
                                       "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                       "\x80",         "\xFF" };

    (void)state;
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        fl_json j = { 0 };
        cJSON *root;

        fl_json_text(&j, NULL, same[i]);
        root = read_back(&j);
        assert_string_equal(cJSON_GetStringValue(root), same[i]);
        cJSON_Delete(root);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        fl_json j = { 0 };
        cJSON *root;

        fl_json_text(&j, NULL, bad[i]);
        root = read_back(&j);
        assert_memory_equal(cJSON_GetStringValue(root), "\xEF\xBF\xBD", 3);
        cJSON_Delete(root);
    }
}

static void numbers_read_back_as_the_same_and_others_are_null(void **state)
{
    static const double numbers[] = { 0,     -1.5,   0.1,          1.0 / 3,
                                      1e300, 5e-324, 123456789.125 };
    static const double none[] = { NAN, INFINITY, -INFINITY };
    fl_json j = { 0 };
    cJSON *root;

    (void)state;
    fl_json_array(&j, NULL);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        fl_json_f64(&j, NULL, numbers[i]);
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        fl_json_f64(&j, NULL, none[i]);
    fl_json_end(&j);
    root = read_back(&j);
    for (int i = 0; i < cJSON_GetArraySize(root); i++) {
        const cJSON *item = cJSON_GetArrayItem(root, i);

        if (i < (int)(sizeof(numbers) / sizeof(numbers[0])))
            assert_true(cJSON_GetNumberValue(item) == numbers[i]);
        else
            assert_true(cJSON_IsNull(item));
    }
    cJSON_Delete(root);
}

#define TEST_STATS(X)                                                          \
    X(lines, COUNT)                                                            \
    X(read, BYTES)                                                             \
    X(waited, SECONDS)                                                         \
    X(open, GAUGE)
FL_STATS(test_stats, TEST_STATS);

static void a_snapshot_has_every_counter_with_its_unit(void **state)
{
    test_stats s = { 0 };
    fl_json j = { 0 };
    char *text;

    (void)state;
    fl_stat_add(&s.lines, 3);
    fl_stat_add(&s.read, 4096);
    fl_stat_add(&s.waited, 2500000000);
    fl_stat_add(&s.open, 2);
    fl_stat_add(&s.open, (uint64_t)-1);
    fl_json_object(&j, NULL);
    fl_stats_json(&j, &test_stats_list, &s);
    fl_json_end(&j);
    text = fl_json_take(&j);
    assert_string_equal(text, "{\"lines\":3,\"read_bytes\":4096,"
                              "\"waited_seconds\":2.5,\"open\":1}");
    fl_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_keys_and_commas_are_as_json_wants_them),
        cmocka_unit_test(text_of_any_bytes_reads_back),
        cmocka_unit_test(numbers_read_back_as_the_same_and_others_are_null),
        cmocka_unit_test(a_snapshot_has_every_counter_with_its_unit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
