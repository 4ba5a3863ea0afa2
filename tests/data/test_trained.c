/* test_trained.c - pieces of blocks, told in any order, become records. */
#include "dataset_kit.h"

#include "base/rng.h"
#include "base/thread.h"
#include "data/dataset/trained.h"

#define BLOCKS 40

static void add(fl_trained *t, uint32_t file, uint32_t block, uint64_t lo,
                uint64_t hi)
{
    fl_row_run run = { file, block, lo, hi - lo };

    fl_trained_add(t, &(fl_row_runs){ &run, 1, 1 });
}

static void assert_ranges(const fl_ranges *r, const char *text)
{
    fl_str s = { 0 };

    for (size_t i = 0; i < r->len; i++)
        fl_str_addf(&s, "[%d,%d)", (int)r->data[i].lo, (int)r->data[i].hi);
    assert_string_equal(fl_str_text(&s), text);
    fl_str_release(&s);
}

static void expect(fl_trained *t, uint32_t file, const char *ranges,
                   bool is_done)
{
    fl_file_position got = { 0 };

    assert_ok(fl_trained_of(t, file, &got));
    assert_ranges(&got.trained, ranges);
    assert_int_equal(got.is_done, is_done);
    fl_vec_release(&got.trained);
}

static void batches_in_their_order_are_one_range(void **state)
{
    fl_trained *t = fl_trained_new(2);

    (void)state;
    fl_trained_block(t, 1, 0, 10);
    expect(t, 1, "", false);
    add(t, 1, 0, 0, 4);
    expect(t, 1, "[0,4)", false);
    add(t, 1, 0, 4, 10);
    fl_trained_block(t, 1, 1, 0);
    fl_trained_block(t, 1, 2, 5);
    expect(t, 1, "[0,10)", false);
    add(t, 1, 2, 0, 5);
    expect(t, 1, "[0,15)", false);
    fl_trained_end(t, 1);
    expect(t, 1, "[0,15)", true);
    expect(t, 0, "", false);
    fl_trained_free(t);
}

static void what_was_not_trained_is_a_gap(void **state)
{
    fl_trained *t = fl_trained_new(1);

    (void)state;
    fl_trained_block(t, 0, 0, 10);
    fl_trained_block(t, 0, 1, 10);
    add(t, 0, 1, 2, 4);
    add(t, 0, 0, 6, 8);
    expect(t, 0, "[6,8)[12,14)", false);
    add(t, 0, 0, 8, 10);
    add(t, 0, 1, 0, 2);
    expect(t, 0, "[6,14)", false);
    add(t, 0, 0, 0, 6);
    expect(t, 0, "[0,14)", false);
    fl_trained_end(t, 0);
    add(t, 0, 1, 4, 10);
    expect(t, 0, "[0,20)", true);
    fl_trained_free(t);
}

/* All pieces of all blocks in a drawn order: one range at the end, and in
   between as many records as were told. */
static void pieces_in_any_order_come_to_the_same(void **state)
{
    fl_row_run pieces[BLOCKS * 3];
    fl_trained *t = fl_trained_new(1);
    fl_file_position got = { 0 };
    uint64_t sum = 0;
    size_t n = 0;

    (void)state;
    for (uint32_t b = 0; b < BLOCKS; b++) {
        fl_trained_block(t, 0, b, b % 5 ? 9 : 0);
        for (uint64_t k = 0; b % 5 && k < 3; k++)
            pieces[n++] = (fl_row_run){ 0, b, 3 * k, 3 };
    }
    fl_trained_end(t, 0);
    for (size_t i = n; i > 0; i--) {
        size_t at = (size_t)(fl_rng_bits(7, 1, i) % i);
        fl_row_run one = pieces[at];

        pieces[at] = pieces[i - 1];
        fl_trained_add(t, &(fl_row_runs){ &one, 1, 1 });
        sum += one.n;
        got.trained.len = 0;
        assert_ok(fl_trained_of(t, 0, &got));
        assert_int_equal(fl_ranges_sum(&got.trained), sum);
    }
    assert_int_equal(got.trained.len, 1);
    assert_true(got.is_done);
    fl_vec_release(&got.trained);
    fl_trained_free(t);
}

static void tell_later(void *arg)
{
    fl_trained_block(arg, 0, 0, 7);
}

static void a_block_that_is_being_parsed_is_waited_for(void **state)
{
    fl_trained *t = fl_trained_new(1);
    fl_thread *other;

    (void)state;
    fl_trained_block(t, 0, 1, 5);
    add(t, 0, 1, 0, 5);
    assert_ok(fl_thread_start(&other, "teller", tell_later, t));
    expect(t, 0, "[7,12)", false);
    fl_thread_join(other);
    fl_trained_free(t);
}

static void nobody_waits_for_a_block_of_a_pass_that_failed(void **state)
{
    fl_trained *t = fl_trained_new(1);
    fl_file_position got = { 0 };

    (void)state;
    fl_trained_block(t, 0, 1, 5);
    add(t, 0, 1, 0, 5);
    fl_trained_close(t);
    assert_int_equal(fl_trained_of(t, 0, &got), FL_ERR_TIMEOUT);
    assert_said("the pass over the data has failed");
    fl_trained_free(t);
}

static void runs_are_cut_where_a_batch_ends(void **state)
{
    fl_row_runs r = { 0 }, to = { 0 };

    (void)state;
    fl_row_runs_add(&r, (fl_row_run){ 0, 0, 5, 3 });
    fl_row_runs_add(&r, (fl_row_run){ 0, 0, 8, 2 });
    fl_row_runs_add(&r, (fl_row_run){ 1, 0, 0, 4 });
    assert_int_equal(r.len, 2);
    fl_row_runs_move(&r, 6, &to);
    assert_int_equal(to.len, 2);
    assert_int_equal(to.data[0].n, 5);
    assert_int_equal(to.data[1].n, 1);
    assert_int_equal(r.len, 1);
    assert_int_equal(r.data[0].at, 1);
    fl_row_runs_move(&r, 3, &to);
    assert_int_equal(to.len, 2);
    assert_int_equal(to.data[1].n, 4);
    assert_int_equal(r.len, 0);
    fl_vec_release(&r);
    fl_vec_release(&to);
}

static void processes_that_share_files_unite_what_they_trained(void **state)
{
    fl_position a = { 0 }, b = { 0 };

    (void)state;
    fl_ranges_add(&fl_position_add(&a, "x")->trained, 0, 10);
    fl_ranges_add(&fl_position_find(&a, "x")->trained, 20, 30);
    fl_ranges_add(&fl_position_add(&b, "x")->trained, 5, 20);
    fl_ranges_add(&fl_position_find(&b, "x")->trained, 40, 50);
    fl_ranges_add(&fl_position_add(&b, "y")->trained, 0, 3);
    fl_position_find(&b, "y")->is_done = true;
    fl_position_unite(&a, &b);
    fl_position_unite(&a, &b);
    assert_int_equal(a.files.len, 2);
    assert_ranges(&a.files.data[0].trained, "[0,30)[40,50)");
    assert_ranges(&a.files.data[1].trained, "[0,3)");
    assert_true(a.files.data[1].is_done && !a.files.data[0].is_done);
    fl_position_release(&a);
    fl_position_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_in_their_order_are_one_range),
        cmocka_unit_test(what_was_not_trained_is_a_gap),
        cmocka_unit_test(pieces_in_any_order_come_to_the_same),
        cmocka_unit_test(a_block_that_is_being_parsed_is_waited_for),
        cmocka_unit_test(nobody_waits_for_a_block_of_a_pass_that_failed),
        cmocka_unit_test(runs_are_cut_where_a_batch_ends),
        cmocka_unit_test(processes_that_share_files_unite_what_they_trained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
