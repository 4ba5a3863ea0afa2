/* test_own.c - operators, rules and formats that programs add: what is refused,
 * and what a format may not do. examples/own_op shows that they work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flotilla/experimental/format.h"
#include "flotilla/experimental/op.h"
#include "flotilla/experimental/rule.h"
#include "flotilla/flotilla.h"

static void assert_said(const char *text)
{
    if (!strstr(fl_last_error(), text))
        fail_msg("'%s' is not in: %s", text, fl_last_error());
}

static fl_status no_infer(fl_infer *c)
{
    return fl_infer_same(c, 0, 0);
}

static fl_status no_run(fl_op_ctx *c)
{
    (void)c;
    return FL_OK;
}

static void an_operator_needs_a_name_of_its_own(void **state)
{
    static const fl_op first = { .name = "own_first",
                                 .doc = "nothing",
                                 .in = { { "X", 0 } },
                                 .out = { { "Out", 0 } },
                                 .infer = no_infer,
                                 .run = no_run };
    static const fl_op second = {
        .name = "own_first", .doc = "nothing", .infer = no_infer, .run = no_run
    };
    fl_op other = first;

    (void)state;
    assert_int_equal(fl_op_add(&first), FL_OK);
    assert_int_equal(fl_op_add(&first), FL_OK);
    assert_int_equal(fl_op_add(&second), FL_ERR_EXISTS);
    assert_said("operator own_first exists already");
    other.name = "relu";
    assert_int_equal(fl_op_add(&other), FL_ERR_EXISTS);
    other.name = "";
    assert_int_equal(fl_op_add(&other), FL_ERR_INVAL);
    other.run = NULL;
    assert_int_equal(fl_op_add(&other), FL_ERR_INVAL);
    assert_said("needs infer, run and doc");
}

static void another_versions_descriptor_is_refused(void **state)
{
    static const fl_op op = { .name = "own_size" };
    static const fl_rule rule = { .name = "own_size" };
    static const fl_format_def format = { .size = 8, .name = "own_size" };

    (void)state;
    assert_int_equal(fl_op_add_sized(&op, sizeof(op) - 8), FL_ERR_UNSUPPORTED);
    assert_said("compile it anew");
    assert_int_equal(fl_rule_add_sized(&rule, sizeof(rule) + 8),
                     FL_ERR_UNSUPPORTED);
    assert_int_equal(fl_format_add(&format), FL_ERR_UNSUPPORTED);
}

static void an_operator_that_is_not_there_is_not_swept(void **state)
{
    (void)state;
    assert_int_equal(fl_op_sweep("rellu"), FL_ERR_NOTFOUND);
    assert_said("did you mean relu?");
    assert_int_equal(fl_op_sweep("relu"), FL_OK);
}

static void a_rule_needs_both_forms(void **state)
{
    static const fl_rule rule = { .name = "own_rule", .doc = "nothing" };

    (void)state;
    assert_int_equal(fl_rule_add(&rule), FL_ERR_INVAL);
    assert_said("update_f32");
}

/* --- a format with a fault of every kind, by the first letter of a line ------- */

static const fl_slot slots[] = { { .name = "one", .width = 1 },
                                 { .name = "x", .kind = FL_SLOT_FLOATS } };

static bool faulty_line(void *state, const char *at, const char *end,
                        fl_format_record *r)
{
    static const uint64_t ids[] = { 1, 2 };
    static const float x[] = { 0.5F, 0.25F };
    char what = at < end ? *at : ' ';

    (void)state;
    if (what == '#')
        return true;
    if (what == '?')
        return false;
    fl_format_put_floats(r, 1, x, 2);
    fl_format_put_ids(r, what == 'k' ? 1 : 0, ids, what == 'n' ? 2 : 1);
    if (what == 't')
        fl_format_put_ids(r, 0, ids, 1);
    if (what == 's')
        fl_format_put_ids(r, 7, ids, 1);
    return true;
}

static const fl_format_def faulty = {
    .size = sizeof(fl_format_def),
    .name = "faulty",
    .doc = "faults by letter",
    .slots = slots,
    .n_slots = 2,
    .line = faulty_line,
};

/* A file of this one line is read; what comes out. */
static fl_status read_line(const char *line, fl_dataset_stats *out)
{
    char path[] = "/tmp/test_own.XXXXXX";
    int fd = mkstemp(path);
    const char *files[] = { path };
    const fl_feed *feeds;
    fl_dataset *d;
    size_t n;
    fl_ctx *c;
    fl_status st;

    assert_true(fd >= 0 && dprintf(fd, "%s\n", line) > 0);
    close(fd);
    assert_int_equal(fl_ctx_new(&c), FL_OK);
    assert_int_equal(fl_ctx_set(c, "quarantine", ""), FL_OK);
    assert_int_equal(fl_ctx_set(c, "max_bad_lines", "0"), FL_OK);
    assert_int_equal(fl_dataset_new(&d, c, "QueueDataset"), FL_OK);
    assert_int_equal(fl_dataset_set_format(d, "faulty"), FL_OK);
    assert_int_equal(fl_dataset_set_filelist(d, files, 1), FL_OK);
    assert_int_equal(fl_dataset_begin(d, 1), FL_OK);
    do
        st = fl_dataset_next(d, 0, &feeds, &n);
    while (!st && feeds);
    *out = FL_INIT(fl_dataset_stats);
    assert_int_equal(fl_dataset_stats_get(d, out), FL_OK);
    fl_dataset_end(d);
    fl_dataset_free(d);
    fl_ctx_free(c);
    unlink(path);
    return st;
}

static void lines_of_an_own_format_are_checked(void **state)
{
    static const struct {
        const char *line, *why;
    } bad[] = { { "k", "values of another kind" },
                { "t", "puts one twice" },
                { "s", "puts slot 7, but has 2" },
                { "n", "one" },
                { "?", "does not take it" } };
    fl_dataset_stats s;

    (void)state;
    assert_int_equal(fl_format_add(&faulty), FL_OK);
    assert_int_equal(fl_format_add(&faulty), FL_OK);
    assert_int_equal(read_line("good", &s), FL_OK);
    assert_int_equal(s.records, 1);
    assert_int_equal(read_line("# a comment", &s), FL_OK);
    assert_int_equal(s.records, 0);
    assert_int_equal(s.skipped_lines, 1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_not_equal(read_line(bad[i].line, &s), FL_OK);
        assert_said(bad[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operator_needs_a_name_of_its_own),
        cmocka_unit_test(another_versions_descriptor_is_refused),
        cmocka_unit_test(an_operator_that_is_not_there_is_not_swept),
        cmocka_unit_test(a_rule_needs_both_forms),
        cmocka_unit_test(lines_of_an_own_format_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
