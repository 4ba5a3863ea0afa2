/* test_gradients.c - copies of gradients, and the parts of one step. */
#include "wait_kit.h"

#include "base/alloc.h"
#include "mode/gradients.h"

static const uint64_t keys[] = { 7, 0, 9 };

static fl_comm_request push_of(float *rows, size_t n, fl_worker_id worker)
{
    return (fl_comm_request){ .table = "emb",
                              .rows = { .keys = keys,
                                        .values = rows,
                                        .n = n,
                                        .lr = 0.5,
                                        .dim = 2,
                                        .scale = worker.scale },
                              .worker = worker };
}

static fl_gradient *part_of(fl_gradient_pool *s, float value,
                            fl_worker_id worker)
{
    float rows[] = { value, value };
    fl_comm_request r = push_of(rows, 1, worker);
    fl_gradient *g = NULL;

    assert_ok(fl_gradient_of_rows(s, &r, &g));
    return g;
}

static void a_copy_outlives_what_was_pushed(void **state)
{
    float rows[] = { 1, 2, 3, 4, 5, 6 }, clicks[] = { 0, 1, 0 };
    uint32_t counts[] = { 3, 2, 1 };
    fl_comm_request r = push_of(rows, 3, (fl_worker_id){ .scale = 0.25 });
    fl_gradient *g = NULL;
    fl_gradient_pool s;

    (void)state;
    fl_gradient_pool_init(&s);
    r.rows.clicks = clicks;
    r.rows.counts = counts;
    assert_ok(fl_gradient_of_rows(&s, &r, &g));
    memset(rows, 0, sizeof(rows));
    memset(clicks, 0, sizeof(clicks));
    memset(counts, 0, sizeof(counts));
    assert_int_equal(g->rows.n, 3);
    assert_true(g->rows.scale == 0.25 && g->rows.lr == 0.5);
    assert_memory_equal(g->rows.keys, keys, sizeof(keys));
    assert_true(g->rows.values[0] == 1 && g->rows.values[5] == 6);
    assert_null(g->rows.shows);
    assert_true(g->rows.clicks[1] == 1);
    assert_int_equal(g->rows.counts[0], 3);
    fl_gradients_give_back(&s, &g->entry);
    fl_gradient_pool_release(&s);
}

static void a_push_without_keys_is_a_gradient_too(void **state)
{
    fl_comm_request r = push_of(NULL, 0, (fl_worker_id){ 0 });
    fl_gradient *g = NULL;
    fl_gradient_pool s;

    (void)state;
    fl_gradient_pool_init(&s);
    assert_ok(fl_gradient_of_rows(&s, &r, &g));
    assert_int_equal(g->rows.n, 0);
    fl_gradients_give_back(&s, &g->entry);
    fl_gradient_pool_release(&s);
}

static void memory_that_came_back_is_used_again(void **state)
{
    float numbers[] = { 1, 2, 3, 4 };
    fl_param_values v = { "w", numbers, 4 };
    fl_gradient *g = NULL;
    uint64_t calls;
    fl_gradient_pool s;

    (void)state;
    fl_gradient_pool_init(&s);
    assert_ok(fl_gradient_of_param(&s, &v, &g));
    fl_gradients_give_back(&s, &g->entry);
    calls = fl_data_calls();
    for (int i = 0; i < 5; i++) {
        assert_ok(fl_gradient_of_param(&s, &v, &g));
        assert_memory_equal(g->rows.values, numbers, sizeof(numbers));
        fl_gradients_give_back(&s, &g->entry);
    }
    assert_true(fl_data_calls() == calls);
    fl_gradient_pool_release(&s);
}

static void no_memory_is_an_error_that_names_the_variable(void **state)
{
    float numbers[] = { 1 };
    fl_param_values v = { "w", numbers, 1 };
    fl_gradient *g = NULL;
    fl_gradient_pool s;

    (void)state;
    fl_gradient_pool_init(&s);
    fl_alloc_fail_after(1);
    assert_int_equal(fl_gradient_of_param(&s, &v, &g), FL_ERR_NOMEM);
    fl_alloc_fail_after(0);
    assert_says("w: no memory");
    assert_null(g);
    fl_gradient_pool_release(&s);
}

static void parts_become_one_gradient_in_their_order(void **state)
{
    const int order[] = { 2, 0, 1 };
    fl_gradient *whole = NULL;
    fl_gradient_pool s;

    (void)state;
    fl_gradient_pool_init(&s);
    for (int i = 0; i < 3; i++) {
        fl_worker_id worker = { .part = order[i], .n_parts = 3, .scale = 0.25 };

        assert_null(whole);
        whole = fl_gradient_collect(&s, &worker,
                                    part_of(&s, (float)order[i], worker));
    }
    assert_non_null(whole);
    for (int i = 0; i < 3; i++) {
        const fl_gradient *g = whole;

        for (int k = 0; k < i; k++)
            g = g->next_part;
        assert_true(g->rows.values[0] == (float)i && g->rows.scale == 0.25);
    }
    fl_gradients_give_back(&s, &whole->entry);
    fl_gradient_pool_release(&s);
}

static void threads_collect_their_parts_apart(void **state)
{
    fl_worker_id a = { .thread = 0, .n_parts = 2, .scale = 1 };
    fl_worker_id b = { .thread = 1, .n_parts = 2, .scale = 1 };
    fl_gradient *whole;
    fl_gradient_pool s;

    (void)state;
    fl_gradient_pool_init(&s);
    assert_null(fl_gradient_collect(&s, &a, part_of(&s, 1, a)));
    b.part = 1;
    assert_null(fl_gradient_collect(&s, &b, part_of(&s, 2, b)));
    a.part = 1;
    whole = fl_gradient_collect(&s, &a, part_of(&s, 3, a));
    assert_non_null(whole);
    assert_true(whole->next_part->rows.values[0] == 3);
    fl_gradients_give_back(&s, &whole->entry);
    fl_gradient_pool_release(&s);
}

static void a_part_that_comes_again_begins_a_new_step(void **state)
{
    fl_worker_id worker = { .n_parts = 2, .scale = 1 };
    fl_gradient *whole;
    fl_gradient_pool s;

    (void)state;
    fl_gradient_pool_init(&s);
    assert_null(fl_gradient_collect(&s, &worker, part_of(&s, 1, worker)));
    assert_null(fl_gradient_collect(&s, &worker, part_of(&s, 2, worker)));
    worker.part = 1;
    whole = fl_gradient_collect(&s, &worker, part_of(&s, 3, worker));
    assert_non_null(whole);
    assert_true(whole->rows.values[0] == 2);
    fl_gradients_give_back(&s, &whole->entry);
    fl_gradient_pool_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_outlives_what_was_pushed),
        cmocka_unit_test(a_push_without_keys_is_a_gradient_too),
        cmocka_unit_test(memory_that_came_back_is_used_again),
        cmocka_unit_test(no_memory_is_an_error_that_names_the_variable),
        cmocka_unit_test(parts_become_one_gradient_in_their_order),
        cmocka_unit_test(threads_collect_their_parts_apart),
        cmocka_unit_test(a_part_that_comes_again_begins_a_new_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
