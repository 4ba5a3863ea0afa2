/* test_paths.c - files out of paths, folders and patterns. */
#include "source_kit.h"

#include <sys/stat.h>

static void expect_paths(const char *const *patterns, size_t n,
                         const char *const *names, size_t n_names)
{
    fl_paths got;

    assert_ok(fl_paths_expand(patterns, n, &got));
    assert_int_equal(got.len, n_names);
    for (size_t i = 0; i < n_names; i++)
        assert_string_equal(got.data[i], in_folder(names[i]));
    fl_paths_release(&got);
}

static void make_tree(void)
{
    assert_int_equal(mkdir(in_folder("d"), 0700), 0);
    assert_int_equal(mkdir(in_folder("d/below"), 0700), 0);
    put("d/b", "");
    put("d/a", "");
    put("d/B", "");
    put("d/.h", "");
    put("d/below/c", "");
    put("x1", "");
    put("x2", "");
    put("x[12]", "");
    put(".hidden", "");
}

static void paths_folders_and_globs_give_files(void **state)
{
    static const char *const in_d[] = { "d/B", "d/a", "d/b" };
    static const char *const xs[] = { "x1", "x2", "x[12]" };
    static const char *const both[] = { "x2", "x1" };
    static const char *const odd[] = { "x[12]" };
    char slash[64], star[64], x2[64], x1[64], square[64], dees[64];
    const char *list[2];

    (void)state;
    make_tree();
    snprintf(slash, sizeof(slash), "%s/d/", folder);
    snprintf(star, sizeof(star), "%s/x*", folder);
    snprintf(x1, sizeof(x1), "%s/x1", folder);
    snprintf(x2, sizeof(x2), "%s/x2", folder);
    snprintf(square, sizeof(square), "%s/x[12]", folder);
    snprintf(dees, sizeof(dees), "%s/d*", folder);
    list[0] = slash;
    expect_paths(list, 1, in_d, 3);
    list[0] = dees; /* a folder that matches counts as a folder */
    expect_paths(list, 1, in_d, 3);
    list[0] = star;
    expect_paths(list, 1, xs, 3);
    list[0] = x2; /* the order of the list stays */
    list[1] = x1;
    expect_paths(list, 2, both, 2);
    list[0] = square; /* a name of a file before a pattern */
    expect_paths(list, 1, odd, 1);
    expect_paths(list, 0, NULL, 0);
}

static void expect_no_paths(const char *pattern, fl_status status,
                            const char *said)
{
    const char *list[] = { in_folder("x1"), pattern };
    fl_paths out = { .len = 42 };

    assert_int_equal(fl_paths_expand(list, 2, &out), status);
    assert_int_equal(out.len, 42);
    expect_said(pattern);
    expect_said(said);
}

static void paths_that_give_nothing_are_named(void **state)
{
    (void)state;
    make_tree();
    expect_no_paths(in_folder("none"), FL_ERR_NOTFOUND, "No such file");
    expect_no_paths("", FL_ERR_NOTFOUND, "No such file");
    expect_no_paths(in_folder("y*"), FL_ERR_NOTFOUND, "no file matches");
    expect_no_paths(in_folder("none/*"), FL_ERR_NOTFOUND, "No such file");
    expect_no_paths(in_folder("x1/z"), FL_ERR_IO, "Not a directory");
    unlink(in_folder("d/below/c"));
    expect_no_paths(in_folder("d/below"), FL_ERR_NOTFOUND, "no file in");
    expect_no_paths(in_folder("d/b?low"), FL_ERR_NOTFOUND, "no file in");
    symlink("loop", in_folder("loop"));
    expect_no_paths(in_folder("loop"), FL_ERR_IO, "symbolic links");
}

/* Root may read everything, so there is nothing to see then. */
static void a_folder_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    make_tree();
    if (geteuid() == 0)
        skip();
    chmod(in_folder("d"), 0);
    expect_no_paths(in_folder("d"), FL_ERR_IO, "Permission denied");
    expect_no_paths(in_folder("d/*"), FL_ERR_IO, "Permission denied");
    chmod(in_folder("d"), 0700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(paths_folders_and_globs_give_files),
        TEST(paths_that_give_nothing_are_named),
        TEST(a_folder_that_cannot_be_read_is_named),
    };

    return cmocka_run_group_tests_name("paths", tests, make_folder,
                                       remove_folder);
}
