/* test_passes.c - how far the passes over data are, in print and back. */
#include <math.h>

#include "api.h"
#include "base/alloc.h"
#include "ctx/passes.h"

static fl_status ask(void *arg, fl_pass_counts *counts, fl_position *position)
{
    fl_file_position *f;

    *counts = *(const fl_pass_counts *)arg;
    position->pass = 2;
    f = fl_position_add(position, "logs/a \"quoted\" name");
    f->is_done = true;
    fl_ranges_add(&f->trained, 0, 601);
    f = fl_position_add(position, "logs/b");
    f->is_cached = true;
    fl_ranges_add(&f->trained, 0, 32);
    fl_ranges_add(&f->trained, 64, 96);
    return FL_OK;
}

static const fl_pass_counts first = {
    .samples = 1000, .batches = 10, .seconds = 1.5, .loss_sum = 0.1, .auc = NAN
};
static const fl_pass_counts second = {
    .is_infer = true, .samples = 10, .loss_sum = NAN, .auc = 0.75
};
static fl_pass_counts third = {
    .samples = 665, .batches = 7, .seconds = 0.25, .loss_sum = 1.0 / 3, .auc = 0
};

/* Two passes are over, the third is under way. */
static fl_passes *make_passes(void)
{
    fl_passes *p = fl_passes_new();

    fl_passes_end(p, &first);
    fl_passes_end(p, &second);
    fl_passes_begin(p, &(fl_pass_now){ ask, &third });
    return p;
}

static char *print(fl_passes *p)
{
    char *text = NULL;

    assert_ok(fl_passes_print(p, &text));
    return text;
}

static void assert_same_print(fl_passes *p, const char *text)
{
    char *now = print(p);

    assert_string_equal(now, text);
    fl_free(now);
}

static void what_was_printed_is_gone_on_from(void **state)
{
    fl_passes *p = make_passes();
    char *text = print(p);
    const fl_position *from = NULL;
    fl_pass_start start;
    fl_pass_counts c;

    (void)state;
    assert_ok(fl_passes_read(p, text, strlen(text), "there"));
    fl_passes_leave(p);
    assert_ok(fl_passes_next(p, false, &start, &c, &from));
    assert_int_equal(start, FL_PASS_IS_OVER);
    assert_int_equal(c.samples, 1000);
    assert_true(c.loss_sum == 0.1 && isnan(c.auc));
    fl_passes_end(p, &c);
    assert_ok(fl_passes_next(p, true, &start, &c, &from));
    assert_int_equal(start, FL_PASS_IS_OVER);
    assert_true(isnan(c.loss_sum) && c.auc == 0.75);
    fl_passes_end(p, &c);
    assert_ok(fl_passes_next(p, false, &start, &c, &from));
    assert_int_equal(start, FL_PASS_GOES_ON);
    assert_true(c.loss_sum == 1.0 / 3);
    assert_int_equal(from->pass, 2);
    assert_string_equal(from->files.data[0].path, "logs/a \"quoted\" name");
    assert_true(from->files.data[0].is_done && from->files.data[1].is_cached);
    assert_int_equal(from->files.data[1].trained.data[1].lo, 64);
    fl_passes_end(p, &c);
    assert_ok(fl_passes_next(p, false, &start, &c, &from));
    assert_int_equal(start, FL_PASS_NEW);
    fl_free(text);
    fl_passes_free(p);
}

/* A program that saves after each pass does so after those that it passes over,
   when the values are those of later. */
static void a_save_before_it_is_reached_says_the_same(void **state)
{
    fl_passes *p = make_passes();
    char *text = print(p);

    (void)state;
    assert_ok(fl_passes_read(p, text, strlen(text), "there"));
    fl_passes_leave(p);
    assert_same_print(p, text);
    fl_passes_end(p, &first);
    assert_same_print(p, text);
    fl_passes_end(p, &second);
    assert_same_print(p, text);
    fl_passes_begin(p, &(fl_pass_now){ ask, &third });
    assert_same_print(p, text);
    fl_free(text);
    fl_passes_free(p);
}

static void texts_that_are_none_are_refused(void **state)
{
    static const char *const all[][2] = {
        { "{}", "format" },
        { "{\"format\":2,\"passes\":[]}", "format 2 cannot be read" },
        { "{\"format\":1}", "passes" },
        { "{\"format\":1,\"passes\":[{\"kind\":\"learn\"}]}",
          "kind \"learn\" is neither train nor infer" },
        { "{\"format\":1,\"passes\":[{\"kind\":\"train\",\"samples\":1,"
          "\"batches\":1,\"seconds\":\"1\"}]}",
          "\"seconds\" is not there, or no number" },
        { "{\"format\":1,\"passes\":[],\"now\":{\"kind\":\"train\","
          "\"samples\":1,\"batches\":1,\"seconds\":1,\"loss_sum\":null,"
          "\"auc\":null},\"data\":{\"kind\":\"memory\",\"dispatched\":false,"
          "\"pass\":1,"
          "\"shuffles\":0,\"records\":9,\"trained\":[[3,5],[4,6]],"
          "\"files\":[]}}",
          "not in ascending order" },
        { "{\"format\":1,\"passes\":[],\"now\":{\"kind\":\"train\","
          "\"samples\":1,\"batches\":1,\"seconds\":1,\"loss_sum\":null,"
          "\"auc\":null},\"data\":{\"kind\":\"memory\",\"dispatched\":false,"
          "\"pass\":1,"
          "\"shuffles\":0,\"records\":9,\"trained\":[[3]],\"files\":[]}}",
          "is not two numbers" },
        { "{\"format\":1,\"passes\":[],\"now\":{\"kind\":\"train\","
          "\"samples\":1,\"batches\":1,\"seconds\":1,\"loss_sum\":null,"
          "\"auc\":null},\"data\":{\"kind\":\"queue\",\"dispatched\":false,"
          "\"pass\":1,"
          "\"shuffles\":0,\"records\":9,\"trained\":[],\"files\":[{\"path\":"
          "\"a\",\"done\":1}]}}",
          "\"done\" is not there, or no boolean" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        fl_passes *p = fl_passes_new();

        assert_int_not_equal(
            fl_passes_read(p, all[i][0], strlen(all[i][0]), "there"), FL_OK);
        assert_said(all[i][1]);
        assert_said("there");
        fl_passes_free(p);
    }
}

/* Every text that is cut off is refused, none is taken for something else. */
static void a_text_that_is_cut_off_is_refused(void **state)
{
    fl_passes *p = make_passes();
    char *text = print(p);

    (void)state;
    for (size_t len = 0; len < strlen(text); len++)
        assert_int_not_equal(fl_passes_read(p, text, len, "there"), FL_OK);
    fl_free(text);
    fl_passes_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_printed_is_gone_on_from),
        cmocka_unit_test(a_save_before_it_is_reached_says_the_same),
        cmocka_unit_test(texts_that_are_none_are_refused),
        cmocka_unit_test(a_text_that_is_cut_off_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
