/* test_save_bytes.c - what members of a save send each other: recipes of models for
 * prediction, and files of servers that do not see the folder. Bytes that are none
 * of it are refused, and nothing outside of the version is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "ps/recipe.h"
#include "ps/server/save_files.h"

#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

static char folder[] = "/tmp/flotilla-bytes-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

/* --- recipes -------------------------------------------------------------- */

static void pack_recipe(fl_pack *out)
{
    const char *feeds[] = { "seen", "price" }, *targets[] = { "score" };
    fl_save_recipe r = { .feeds = { feeds, 2 },
                         .targets = { targets, 1 },
                         .passes = "opt_fc",
                         .model = { .seed = 7, .program = { "p", 1 } } };
    fl_part_table t = { .name = "emb", .settings = { "dim=4", 5 } };
    fl_named v = { .name = "fc.w_0",
                   .value = { .size = sizeof(v.value),
                              .shape = { 2, { 3, 4 } } } };

    fl_vec_push(&r.model.tables, t);
    fl_vec_push(&r.model.wholes, v);
    fl_save_recipe_pack(out, &r);
    fl_trainer_part_release(&r.model);
}

/* From memory of their own, so that a read beyond is seen. */
static fl_status read_bytes(const uint8_t *from, size_t n, fl_save_recipe *out,
                            uint8_t **copy)
{
    *copy = fl_try_alloc(n + !n);
    memcpy(*copy, from, n);
    return fl_save_recipe_read(out, (fl_msg_bytes){ *copy, n });
}

static void a_recipe_is_read_as_it_was_packed(void **state)
{
    fl_pack p = { 0 };
    fl_save_recipe r;
    uint8_t *copy;

    (void)state;
    pack_recipe(&p);
    assert_ok(read_bytes(p.data, p.len, &r, &copy));
    assert_int_equal(r.feeds.n, 2);
    assert_string_equal(r.feeds.names[1], "price");
    assert_int_equal(r.targets.n, 1);
    assert_string_equal(r.passes, "opt_fc");
    assert_int_equal(r.model.wholes.len, 1);
    assert_int_equal(r.model.wholes.data[0].value.shape.dim[1], 4);
    assert_true(fl_save_recipe_has_table(&r, "emb"));
    assert_false(fl_save_recipe_has_table(&r, "em"));
    fl_save_recipe_release(&r);
    fl_data_free(copy, p.len);
    fl_pack_release(&p);
}

static void expect_no_harm(const uint8_t *bytes, size_t n)
{
    fl_save_recipe r;
    uint8_t *copy;

    if (!read_bytes(bytes, n, &r, &copy))
        fl_save_recipe_release(&r);
    fl_data_free(copy, n + !n);
}

static void spoilt_recipes_do_no_harm(void **state)
{
    fl_pack p = { 0 };

    (void)state;
    pack_recipe(&p);
    for (size_t n = 0; n < p.len; n++)
        expect_no_harm(p.data, n);
    for (size_t i = 0; i < 4 * p.len; i++) {
        uint8_t was = p.data[i / 4];

        p.data[i / 4] = (uint8_t)fl_mix64(i);
        expect_no_harm(p.data, p.len);
        p.data[i / 4] = was;
    }
    fl_pack_release(&p);
}

/* --- files ---------------------------------------------------------------- */

/* A version that is being written, and what comes for it. */
typedef struct world {
    fl_model_version *version;
    fl_save_files files;
} world;

static void begin(world *w)
{
    *w = (world){ 0 };
    assert_ok(fl_version_begin(&w->version, folder, NULL));
}

static void end(world *w)
{
    fl_save_files_clear(&w->files);
    fl_version_close(w->version);
}

static fl_status put(world *w, const char *name, uint64_t offset,
                     const char *bytes, bool is_last)
{
    fl_save_file_request r = { .offset = offset, .is_last = is_last };
    fl_pack p = { 0 };
    fl_status st;

    fl_save_join(&p, name, (fl_msg_bytes){ bytes, strlen(bytes) });
    r.bytes = (fl_msg_bytes){ p.data, p.len };
    st = fl_save_files_add(&w->files, w->version, &r);
    fl_pack_release(&p);
    return st;
}

static void a_file_comes_in_pieces_that_may_repeat(void **state)
{
    const char name[] = "tables/emb/0512-1023.safetensors";
    char *path, *text = NULL;
    size_t len;
    world w;

    (void)state;
    begin(&w);
    assert_ok(put(&w, name, 0, "abc", false));
    assert_ok(put(&w, name, 0, "abc", false));
    assert_ok(put(&w, name, 3, "de", false));
    assert_ok(put(&w, name, 5, "", true));
    assert_ok(put(&w, name, 5, "", true));
    path = fl_version_file(w.version, name);
    assert_ok(fl_file_read(path, 100, &text, &len));
    assert_string_equal(text, "abcde");
    fl_free(text);
    fl_free(path);
    end(&w);
}

static void a_piece_that_does_not_follow_is_refused(void **state)
{
    const char name[] = "tables/emb/0512-1023.safetensors";
    world w;

    (void)state;
    begin(&w);
    assert_ok(put(&w, name, 0, "abc", false));
    assert_int_equal(put(&w, name, 7, "de", false), FL_ERR_CORRUPT);
    assert_non_null(strstr(fl_last_error(), "from 7 on came when 3"));
    assert_int_equal(put(&w, name, UINT64_MAX, "de", false), FL_ERR_CORRUPT);
    end(&w);
}

static void a_file_of_no_table_is_refused(void **state)
{
    static const char *const names[] = {
        "dense.safetensors", "MANIFEST.json",      "tables/../../x",
        "/tables/x",         "tables//x",          "tables/a b",
        "trainers/0.json",   "tables/emb/../../x", "../tables/x",
    };
    world w;

    (void)state;
    begin(&w);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(put(&w, names[i], 0, "abc", true), FL_ERR_CORRUPT);
        assert_non_null(strstr(fl_last_error(), "that no table has"));
    }
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recipe_is_read_as_it_was_packed),
        cmocka_unit_test(spoilt_recipes_do_no_harm),
        cmocka_unit_test(a_file_comes_in_pieces_that_may_repeat),
        cmocka_unit_test(a_piece_that_does_not_follow_is_refused),
        cmocka_unit_test(a_file_of_no_table_is_refused),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
