/* test_import.c - rows by id that PaddlePaddle 1.8 saved become a table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api.h"
#include "flotilla/saved.h"
#include "../make.h"

/* What its operator `save` wrote for a SelectedRows of height 100 with the rows
   7, 2 and 90 of three numbers, which count from 0. */
static const uint8_t saved_rows[] = {
    0,   0, 0,    0,                    /* version */
    3,   0, 0,    0,    0,  0, 0,    0, /* rows */
    7,   0, 0,    0,    0,  0, 0,    0,    2, 0, 0,    0,
    0,   0, 0,    0,    90, 0, 0,    0,    0, 0, 0,    0,
    100, 0, 0,    0,    0,  0, 0,    0, /* height */
    0,   0, 0,    0,    6,  0, 0,    0,    8, 5, 16,   3,
    16,  3, /* f32[3,3] */
    0,   0, 0,    0,    0,  0, 0x80, 0x3f, 0, 0, 0,    0x40,
    0,   0, 0x40, 0x40, 0,  0, 0x80, 0x40, 0, 0, 0xa0, 0x40,
    0,   0, 0xc0, 0x40, 0,  0, 0xe0, 0x40, 0, 0, 0,    0x41,
};
#define SECOND_ROW 20 /* where its id lies */
#define DTYPE (sizeof(saved_rows) - 9 * sizeof(float) - 5)

static char folder[64];

static const char *path_of(const char *name)
{
    static char path[160];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(path_of(name), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/flotilla-import-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(mkdir(path_of("theirs"), 0777), 0);
    return 0;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    return system(command);
}

static fl_status import(fl_ctx *c)
{
    char from[160];

    snprintf(from, sizeof(from), "%s", path_of("theirs"));
    return fl_import_paddle(c, from, path_of("ours"), NULL);
}

/* A network that reads a table of that name. */
static fl_executor *build(fl_ctx *c, const char *optimizer)
{
    fl_var *ids =
        fl_layers_data(c, "ids", FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 }, 0);
    fl_var *loss =
        fl_layers_mean(fl_layers_sparse_embedding(ids, 3, .param.name = "emb"));
    fl_executor *e;

    assert_non_null(loss);
    assert_ok(
        fl_minimize(make_optimizer(c, optimizer, "learning_rate=0.1"), loss));
    e = make_executor(c);
    assert_ok(fl_run(e, fl_default_startup_program(c), NULL));
    return e;
}

static void expect_rows(fl_ctx *c)
{
    static const uint64_t keys[] = { 90, 7, 2 };
    static const float want[] = { 6, 7, 8, 0, 1, 2, 3, 4, 5 };
    fl_table_stats s = FL_INIT(fl_table_stats);
    fl_table *t;
    float got[9];

    assert_ok(fl_ctx_table(c, "emb", &t));
    assert_ok(fl_table_stats_get(t, &s));
    assert_int_equal(s.rows, 3);
    assert_ok(fl_table_pull(t, keys, 3, FL_PULL_ONLY, got));
    assert_memory_equal(got, want, sizeof(want));
}

static void rows_by_id_become_a_table_that_programs_load(void **state)
{
    static const char *const rules[] = { "sgd", "adam" };

    (void)state;
    write_file("theirs/emb", saved_rows, sizeof(saved_rows));
    for (size_t i = 0; i < 2; i++) {
        fl_ctx *c = make_ctx();
        fl_executor *e = build(c, rules[i]);
        const char *names[] = { "emb" };

        assert_ok(import(c));
        assert_ok(fl_load_vars(e, path_of("ours"), NULL,
                               FL_OPTIONS(fl_load_args, .fresh_state = true,
                                          .names = names, .n_names = 1)));
        expect_rows(c);
        fl_executor_free(e);
        fl_ctx_free(c);
    }
}

static void rows_that_are_no_table_are_refused(void **state)
{
    uint8_t bytes[sizeof(saved_rows)];
    fl_ctx *c = make_ctx();

    (void)state;
    memcpy(bytes, saved_rows, sizeof(bytes));
    bytes[SECOND_ROW] = 7;
    write_file("theirs/emb", bytes, sizeof(bytes));
    assert_int_equal(import(c), FL_ERR_CORRUPT);
    assert_said("variable emb has 3 rows for 2 ids: one is there twice");
    memcpy(bytes, saved_rows, sizeof(bytes));
    bytes[DTYPE] = 2; /* i32 */
    write_file("theirs/emb", bytes, sizeof(bytes));
    assert_int_equal(import(c), FL_ERR_UNSUPPORTED);
    assert_said("has rows that are i32[3,3]");
    fl_ctx_free(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(rows_by_id_become_a_table_that_programs_load),
        TEST(rows_that_are_no_table_are_refused),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
