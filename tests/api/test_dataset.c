/* test_dataset.c - datasets that feed the variables of a program. */
#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "flotilla/data.h"
#include "../make.h"

static char folder[] = "/tmp/flotilla_feed_XXXXXX";
static char path[64], quarantine[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/lines", folder);
    snprintf(quarantine, sizeof(quarantine), "%s/quarantine", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    unlink(quarantine);
    return rmdir(folder);
}

static fl_ctx *new_ctx(void)
{
    fl_ctx *c = make_ctx();

    assert_non_null(c);
    assert_ok(fl_ctx_set(c, "quarantine", quarantine));
    return c;
}

static fl_var *ids_var(fl_ctx *c, const char *name, int lod_level)
{
    return fl_layers_data(c, name, FL_DTYPE_I64, 2, (int64_t[]){ -1, 1 },
                          lod_level);
}

static fl_dataset *dataset_of(fl_ctx *c, const char *text,
                              const char *const *names, size_t n_names)
{
    fl_dataset *d = NULL;
    const char *paths[] = { path };

    assert_ok(fl_file_write(path, text, strlen(text)));
    assert_ok(fl_dataset_new(&d, c, "QueueDataset"));
    assert_ok(
        fl_dataset_set_use_var(d, fl_default_main_program(c), names, n_names));
    assert_ok(fl_dataset_set_filelist(d, paths, 1));
    return d;
}

static void heights_are_those_of_the_smallest_table(void **state)
{
    const char *const names[] = { "a", "b", "free", "x" };
    fl_ctx *c = new_ctx();
    fl_var *a = ids_var(c, "a", 1), *b = ids_var(c, "b", 0);
    const fl_slot *slots;
    fl_dataset *d;
    size_t n;

    (void)state;
    assert_non_null(ids_var(c, "free", 1));
    assert_non_null(data2(c, "x", 13));
    assert_non_null(fl_layers_embedding(a, 100, 4));
    assert_non_null(fl_layers_embedding(a, 50, 4));
    assert_non_null(fl_layers_embedding(b, 70, 4, .is_distributed = true));
    assert_non_null(fl_layers_embedding(b, 0, 4, .is_distributed = true));
    d = dataset_of(c, "1 1 1 1 1 1 1 1\n", names, 4);
    slots = fl_dataset_slots(d, &n);
    assert_int_equal(n, 4);
    assert_int_equal(slots[0].height, 50);
    assert_int_equal(slots[0].width, 0);
    assert_int_equal(slots[1].height, 70);
    assert_int_equal(slots[1].width, 1);
    assert_int_equal(slots[2].height, 0);
    assert_int_equal(slots[3].kind, FL_SLOT_FLOATS);
    assert_int_equal(slots[3].width, 13);
    fl_dataset_free(d);
    fl_ctx_free(c);
}

static void without_names_everything_that_is_fed_is_a_slot(void **state)
{
    fl_ctx *c = new_ctx();
    fl_program *p = fl_default_main_program(c);
    const fl_slot *slots;
    fl_dataset *d = NULL;
    size_t n;

    (void)state;
    assert_ok(fl_dataset_new(&d, c, "QueueDataset"));
    assert_int_equal(fl_dataset_set_use_var(d, p, NULL, 0), FL_ERR_INVAL);
    assert_said("the program feeds no variable");
    assert_non_null(data2(c, "x", 4));
    assert_non_null(fl_layers_embedding(ids_var(c, "a", 1), 10, 4));
    assert_ok(fl_program_add(p, "op relu (X=x) -> (Out=h)\n"));
    assert_ok(fl_dataset_set_use_var(d, p, NULL, 0));
    slots = fl_dataset_slots(d, &n);
    assert_int_equal(n, 2);
    assert_string_equal(slots[0].name, "x");
    assert_string_equal(slots[1].name, "a");
    assert_int_equal(slots[1].height, 10);
    fl_dataset_free(d);
    fl_ctx_free(c);
}

static void variables_that_are_not_fed_are_refused(void **state)
{
    const char *const hidden[] = { "h" }, *const absent[] = { "xx" };
    fl_ctx *c = new_ctx();
    fl_program *p = fl_default_main_program(c);
    fl_dataset *d = NULL;

    (void)state;
    assert_non_null(data2(c, "x", 4));
    assert_ok(fl_program_add(p, "op relu (X=x) -> (Out=h)\n"));
    assert_ok(fl_dataset_new(&d, c, "InMemoryDataset"));
    assert_int_equal(fl_dataset_set_use_var(d, p, hidden, 1), FL_ERR_INVAL);
    assert_said("variable h");
    assert_int_equal(fl_dataset_set_use_var(d, p, absent, 1), FL_ERR_NOTFOUND);
    assert_said("xx");
    fl_dataset_free(d);
    fl_ctx_free(c);
}

static void ids_above_the_height_are_bad_lines(void **state)
{
    const char *const names[] = { "a" };
    fl_ctx *c = new_ctx();
    const fl_feed *feeds;
    fl_dataset *d;
    size_t n;

    (void)state;
    assert_non_null(fl_layers_embedding(ids_var(c, "a", 1), 10, 4));
    d = dataset_of(c, "2 9 0\n1 10\n1 5\n", names, 1);
    assert_ok(fl_dataset_begin(d, 1));
    assert_ok(fl_dataset_next(d, 0, &feeds, &n));
    assert_int_equal(n, 2);
    assert_ok(fl_dataset_next(d, 0, &feeds, &n));
    assert_null(feeds);
    fl_dataset_end(d);
    assert_int_equal(dataset_stats(d).bad_lines, 1);
    fl_dataset_free(d);
    fl_ctx_free(c);
}

/* Rank 1, rank 3, a list and a dense row: each goes into a run as it comes. */
static void batches_run_in_the_program_as_they_come(void **state)
{
    const char *const names[] = { "one", "cube", "list", "x" };
    const char *const fetches[] = { "one_out", "cube_out", "list_out",
                                    "x_out" };
    fl_ctx *c = new_ctx();
    fl_program *p = fl_default_main_program(c);
    fl_executor *e = make_executor(c);
    fl_tensor out[4];
    const fl_feed *feeds;
    fl_dataset *d;
    size_t n;

    (void)state;
    assert_non_null(
        fl_layers_data(c, "one", FL_DTYPE_F32, 1, (int64_t[]){ -1 }, 0));
    assert_non_null(
        fl_layers_data(c, "cube", FL_DTYPE_F32, 3, (int64_t[]){ -1, 2, 3 }, 0));
    assert_non_null(ids_var(c, "list", 1));
    assert_non_null(data2(c, "x", 2));
    assert_ok(fl_program_add(p, "op relu (X=one) -> (Out=one_out)\n"
                                "op relu (X=cube) -> (Out=cube_out)\n"
                                "op assign (X=list) -> (Out=list_out)\n"
                                "op relu (X=x) -> (Out=x_out)\n"));
    d = dataset_of(c,
                   "1 1 6 1 2 3 4 5 6 2 7 8 2 1 -1\n"
                   "1 2 6 1 2 3 4 5 6 1 9 2 3 -1\n",
                   names, 4);
    assert_ok(fl_dataset_begin(d, 1));
    assert_ok(fl_dataset_next(d, 0, &feeds, &n));
    assert_int_equal(n, 2);
    assert_ok(
        fl_run(e, p,
               FL_OPTIONS(fl_run_args, .feeds = feeds, .n_feeds = 4,
                          .fetches = fetches, .n_fetches = 4, .out = out)));
    assert_int_equal(out[0].shape.rank, 1);
    assert_int_equal(out[1].shape.rank, 3);
    assert_int_equal(out[1].shape.dim[2], 3);
    assert_int_equal(out[2].shape.dim[0], 3);
    assert_true(((float *)out[3].data)[2] == 3);
    fl_dataset_free(d);
    fl_executor_free(e);
    fl_ctx_free(c);
}

static void an_unknown_kind_names_the_known_ones(void **state)
{
    fl_ctx *c = new_ctx();
    fl_dataset *d = NULL;

    (void)state;
    assert_int_equal(fl_dataset_new(&d, c, "queue"), FL_ERR_NOTFOUND);
    assert_said("QueueDataset");
    assert_said("InMemoryDataset");
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heights_are_those_of_the_smallest_table),
        cmocka_unit_test(without_names_everything_that_is_fed_is_a_slot),
        cmocka_unit_test(variables_that_are_not_fed_are_refused),
        cmocka_unit_test(ids_above_the_height_are_bad_lines),
        cmocka_unit_test(batches_run_in_the_program_as_they_come),
        cmocka_unit_test(an_unknown_kind_names_the_known_ones),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
