/* test_merge.c - several batches of rows made into one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "kernel/merge.h"

#define DIM 2

static int set_up(void **state)
{
    static fl_merger m;

    m = (fl_merger){ 0 };
    *state = &m;
    return 0;
}

static int tear_down(void **state)
{
    fl_merger_release(*state);
    return 0;
}

/* --- rows ----------------------------------------------------------------- */

static void one_batch_is_given_as_it_is(void **state)
{
    const uint64_t keys[] = { 9, 0 };
    const float rows[] = { 1, 2, 3, 4 };
    fl_rows p = { .keys = keys,
                  .values = rows,
                  .n = 2,
                  .merged = true,
                  .dim = DIM,
                  .scale = 1 };
    fl_rows out;

    assert_int_equal(fl_merge_rows(*state, &p, 1, &out), FL_OK);
    assert_ptr_equal(out.keys, keys);
    assert_ptr_equal(out.values, rows);
    assert_null(out.counts);
    assert_true(out.merged);
}

static void one_batch_is_scaled(void **state)
{
    const uint64_t keys[] = { 9, 0 };
    const float rows[] = { 1, 2, 3, 4 }, want[] = { 0.5f, 1, 1.5f, 2 };
    fl_rows p = { .keys = keys,
                  .values = rows,
                  .n = 2,
                  .merged = true,
                  .dim = DIM,
                  .scale = 0.5 };
    fl_rows out;

    assert_int_equal(fl_merge_rows(*state, &p, 1, &out), FL_OK);
    assert_int_equal(out.n, 2);
    assert_memory_equal(out.keys, keys, sizeof(keys));
    assert_memory_equal(out.values, want, sizeof(want));
    assert_null(out.shows);
}

static void keys_are_united_in_order_of_appearance(void **state)
{
    const uint64_t a[] = { 5, UINT64_MAX }, b[] = { 0, 5 };
    const float x[] = { 1, 2, 3, 4 }, y[] = { 10, 20, 30, 40 };
    const uint64_t keys[] = { 5, UINT64_MAX, 0 };
    const float want[] = { 16, 22, 3, 4, 5, 10 };
    fl_rows p[] = { { .keys = a,
                      .values = x,
                      .n = 2,
                      .merged = true,
                      .dim = DIM,
                      .scale = 1 },
                    { .keys = b,
                      .values = y,
                      .n = 2,
                      .merged = true,
                      .dim = DIM,
                      .scale = 0.5 } };
    fl_rows out;

    assert_int_equal(fl_merge_rows(*state, p, 2, &out), FL_OK);
    assert_int_equal(out.n, 3);
    assert_memory_equal(out.keys, keys, sizeof(keys));
    assert_memory_equal(out.values, want, sizeof(want));
}

/* What was seen twice was seen twice, whatever the weights. */
static void counts_shows_and_clicks_are_added_up(void **state)
{
    const uint64_t a[] = { 1, 2 }, b[] = { 2 };
    const float x[] = { 0, 0, 0, 0 }, shows[] = { 3, 4 }, clicks[] = { 1, 0 };
    const uint32_t counts[] = { 7, 8 }, want_counts[] = { 7, 9 };
    const float want_shows[] = { 3, 5 };
    fl_rows p[] = { { .keys = a,
                      .values = x,
                      .shows = shows,
                      .clicks = clicks,
                      .counts = counts,
                      .n = 2,
                      .merged = true,
                      .dim = DIM,
                      .scale = 0.5 },
                    { .keys = b,
                      .values = x,
                      .n = 1,
                      .merged = true,
                      .dim = DIM,
                      .scale = 0.5 } };
    fl_rows out;

    assert_int_equal(fl_merge_rows(*state, p, 2, &out), FL_OK);
    assert_memory_equal(out.counts, want_counts, sizeof(want_counts));
    assert_memory_equal(out.shows, want_shows, sizeof(want_shows));
    assert_memory_equal(out.clicks, clicks, sizeof(clicks));
}

static void numbers_that_nobody_asks_for_are_left_out(void **state)
{
    const uint64_t keys[] = { 1, 2 };
    const float x[] = { 1, 2, 3, 4 }, shows[] = { 3, 4 };
    const float want[] = { 2, 4, 6, 8 };
    fl_rows p = { .keys = keys,
                  .values = x,
                  .shows = shows,
                  .n = 2,
                  .merged = true,
                  .dim = DIM,
                  .scale = 1 };
    fl_merger *m = *state;
    fl_rows out;

    m->values_only = true;
    assert_int_equal(fl_merge_rows(m, (fl_rows[]){ p, p }, 2, &out), FL_OK);
    assert_memory_equal(out.values, want, sizeof(want));
    assert_null(out.shows);
    assert_null(out.clicks);
    assert_null(out.counts);
}

static void equal_keys_of_one_batch_are_added_up(void **state)
{
    const uint64_t all[] = { 4, 7, 4 }, keys[] = { 4, 7 };
    const float x[] = { 1, 2, 3, 4, 5, 6 }, want[] = { 6, 8, 3, 4 };
    const uint32_t want_counts[] = { 2, 1 };
    const float want_shows[] = { 2, 1 };
    fl_rows p = {
        .keys = all, .values = x, .n = 3, .lr = 0.5, .dim = DIM, .scale = 1
    };
    fl_rows out;

    assert_int_equal(fl_merge_rows(*state, &p, 1, &out), FL_OK);
    assert_int_equal(out.n, 2);
    assert_memory_equal(out.keys, keys, sizeof(keys));
    assert_memory_equal(out.values, want, sizeof(want));
    assert_memory_equal(out.counts, want_counts, sizeof(want_counts));
    assert_memory_equal(out.shows, want_shows, sizeof(want_shows));
    assert_null(out.clicks);
    assert_true(out.merged && out.lr == 0.5 && out.dim == DIM);
}

static void batches_may_be_empty(void **state)
{
    fl_rows p[] = { { .merged = true, .dim = DIM, .scale = 1 },
                    { .merged = true, .dim = DIM, .scale = 1 } };
    fl_rows out;

    assert_int_equal(fl_merge_rows(*state, p, 2, &out), FL_OK);
    assert_int_equal(out.n, 0);
}

static void a_merger_is_used_again(void **state)
{
    uint64_t keys[100];
    float rows[100 * DIM];
    fl_rows out;

    for (uint64_t i = 0; i < 100; i++) {
        keys[i] = i * 7;
        rows[2 * i] = rows[2 * i + 1] = (float)i;
    }
    for (size_t n = 1; n <= 100; n++) {
        fl_rows p[] = { { .keys = keys,
                          .values = rows,
                          .n = n,
                          .merged = true,
                          .dim = DIM,
                          .scale = 1 },
                        { .keys = keys,
                          .values = rows,
                          .n = n,
                          .merged = true,
                          .dim = DIM,
                          .scale = 1 } };

        assert_int_equal(fl_merge_rows(*state, p, 2, &out), FL_OK);
        assert_int_equal(out.n, n);
        assert_true(out.values[2 * n - 1] == 2 * (float)(n - 1));
    }
}

/* --- dense ---------------------------------------------------------------- */

static void dense_gradients_are_added_up_by_weight(void **state)
{
    const float a[] = { 1, 2, 3 }, b[] = { 10, 20, 30 };
    const float *from[] = { a, b };
    const float want[] = { 3, 6, 9 };
    float to[3];

    (void)state;
    fl_merge_dense(to, from, (double[]){ 0.5, 0.25 }, 2, 3);
    assert_memory_equal(to, want, sizeof(want));
}

static void a_sum_may_lie_where_its_first_term_lies(void **state)
{
    float a[] = { 1, 2, 3 };
    const float b[] = { 1, 1, 1 };
    const float *from[] = { a, b };
    const float want[] = { 2, 3, 4 };

    (void)state;
    fl_merge_dense(a, from, (double[]){ 1, 1 }, 2, 3);
    assert_memory_equal(a, want, sizeof(want));
    fl_merge_dense(a, NULL, NULL, 0, 3);
    assert_true(a[0] == 0 && a[2] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_batch_is_given_as_it_is, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_batch_is_scaled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_are_united_in_order_of_appearance,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(counts_shows_and_clicks_are_added_up,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            numbers_that_nobody_asks_for_are_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(equal_keys_of_one_batch_are_added_up,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(batches_may_be_empty, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_merger_is_used_again, set_up,
                                        tear_down),
        cmocka_unit_test(dense_gradients_are_added_up_by_weight),
        cmocka_unit_test(a_sum_may_lie_where_its_first_term_lies),
    };

    return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
