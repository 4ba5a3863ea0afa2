/* test_json_in.c - JSON of others, good and bad. */
#include "kit.h"

#include "ckpt/json_in.h"

static cJSON *parsed(const char *text)
{
    cJSON *root = NULL;

    assert_ok(fl_json_in_parse(&root, text, strlen(text), "x.json"));
    return root;
}

static void fields_of_every_type_are_read(void **state)
{
    cJSON *root = parsed("{\"o\": {}, \"a\": [1], \"t\": \"text\", \"n\": 7,"
                         "\"large\": \"18446744073709551615\","
                         "\"sum\": \"00000000000000ff\"}");
    const cJSON *item;
    const char *text;
    uint64_t n;

    (void)state;
    assert_ok(fl_json_in_object(root, "o", "x.json", &item));
    assert_ok(fl_json_in_array(root, "a", "x.json", &item));
    assert_ok(fl_json_in_text(root, "t", "x.json", &text));
    assert_string_equal(text, "text");
    assert_ok(fl_json_in_u64(root, "n", "x.json", &n));
    assert_int_equal(n, 7);
    assert_ok(fl_json_in_u64(root, "large", "x.json", &n));
    assert_true(n == UINT64_MAX);
    assert_ok(fl_json_in_hex(root, "sum", "x.json", &n));
    assert_int_equal(n, 255);
    assert_null(fl_json_in_find(root, "N"));
    cJSON_Delete(root);
}

static void what_is_missing_or_of_another_type_is_named(void **state)
{
    cJSON *root = parsed("{\"t\": 1, \"n\": \"x\"}");
    const cJSON *item;
    const char *text;
    uint64_t n;

    (void)state;
    assert_refused(fl_json_in_u64(root, "step", "x.json", &n), FL_ERR_CORRUPT,
                   "x.json has no field \"step\"");
    assert_refused(fl_json_in_text(root, "t", "x.json", &text), FL_ERR_CORRUPT,
                   "\"t\" is of another type");
    assert_refused(fl_json_in_array(root, "t", "x.json", &item), FL_ERR_CORRUPT,
                   "\"t\" is of another type");
    assert_refused(fl_json_in_u64(root, "n", "x.json", &n), FL_ERR_CORRUPT,
                   "\"n\" is no number of 0, 1, 2, ...");
    assert_refused(fl_json_in_hex(root, "n", "x.json", &n), FL_ERR_CORRUPT,
                   "no checksum of 16 hexadecimal digits");
    cJSON_Delete(root);
}

static void numbers_that_are_not_whole_are_refused(void **state)
{
    static const char *const bad[] = { "-1",
                                       "0.5",
                                       "1e300",
                                       "\"-1\"",
                                       "\" 1\"",
                                       "\"\"",
                                       "null",
                                       "9007199254740994",
                                       "\"18446744073709551616\"" };

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++) {
        fl_str s = { 0 };
        cJSON *root;
        uint64_t n;

        fl_str_addf(&s, "{\"n\": %s}", bad[i]);
        root = parsed(s.data);
        assert_refused(fl_json_in_u64(root, "n", "x.json", &n), FL_ERR_CORRUPT,
                       "x.json: \"n\"");
        cJSON_Delete(root);
        fl_str_release(&s);
    }
}

static void what_is_no_object_is_refused(void **state)
{
    static const char *const bad[] = { "", "[]", "1", "{\"a\": ", "{]", "nul" };
    cJSON *root = NULL;

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++)
        assert_refused(
            fl_json_in_parse(&root, bad[i], strlen(bad[i]), "x.json"),
            FL_ERR_CORRUPT, "x.json is no JSON object");
    assert_null(root);
}

/* Two bytes of text would be sixty-four of memory. */
static void a_text_that_would_fill_the_memory_is_refused(void **state)
{
    fl_str s = { 0 };
    cJSON *root = NULL;

    (void)state;
    fl_str_add(&s, "{\"a\":[");
    while (s.len < (size_t)1 << 20)
        fl_str_add(&s, "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,");
    assert_refused(fl_json_in_parse(&root, s.data, s.len, "x.json"),
                   FL_ERR_CORRUPT, "more values than its");
    fl_str_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(fields_of_every_type_are_read),
        KIT_TEST(what_is_missing_or_of_another_type_is_named),
        KIT_TEST(numbers_that_are_not_whole_are_refused),
        KIT_TEST(what_is_no_object_is_refused),
        KIT_TEST(a_text_that_would_fill_the_memory_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
