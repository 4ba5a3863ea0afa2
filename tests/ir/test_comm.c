/* test_comm.c - the port to tables, with the array backend behind it. */
#include "kit.h"

#include "ir/comm.h"

#define DIM 3

static const fl_table_spec table = { .name = "emb",
                                     .dim = DIM,
                                     .height = 10,
                                     .init = { FL_INIT_UNIFORM, -1, 1, 42 },
                                     .rule = "sgd" };

static fl_comm *with_table(const fl_table_spec *spec)
{
    fl_comm *c = fl_comm_array_new();

    if (c->declare(c, spec))
        fail_msg("%s", fl_last_error());
    return c;
}

static fl_status pull(fl_comm *c, const uint64_t *keys, size_t n, float *rows)
{
    fl_comm_request r = {
        .table = "emb", .dim = DIM, .keys = keys, .n = n, .rows = rows
    };

    return c->pull(c, &r);
}

static fl_status push(fl_comm *c, const uint64_t *keys, size_t n, float *grads,
                      double lr)
{
    fl_comm_request r = { .table = "emb",
                          .dim = DIM,
                          .keys = keys,
                          .n = n,
                          .rows = grads,
                          .lr = lr,
                          .merged = true };

    return c->push(c, &r);
}

static void rows_begin_as_the_initialiser_says(void **state)
{
    const uint64_t keys[] = { 7, 0 };
    float rows[2 * DIM], want[DIM];
    fl_comm *c = with_table(&table);

    (void)state;
    assert_int_equal(pull(c, keys, 2, rows), FL_OK);
    fl_init_row(&table.init, 7, want, DIM);
    assert_memory_equal(rows, want, sizeof(want));
    fl_init_row(&table.init, 0, want, DIM);
    assert_memory_equal(rows + DIM, want, sizeof(want));
    fl_comm_free(c);
}

static void a_push_changes_the_rows_it_names(void **state)
{
    const uint64_t all[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    const uint64_t keys[] = { 3, 8 };
    float before[10 * DIM], after[10 * DIM];
    float grads[] = { 1, 2, 3, 4, 5, 6 };
    fl_comm *c = with_table(&table);

    (void)state;
    assert_int_equal(pull(c, all, 10, before), FL_OK);
    assert_int_equal(push(c, keys, 2, grads, 0.5), FL_OK);
    assert_int_equal(pull(c, all, 10, after), FL_OK);
    for (size_t row = 0; row < 10; row++)
        for (size_t j = 0; j < DIM; j++) {
            size_t at = row * DIM + j;
            float g = row == 3 ? grads[j] : row == 8 ? grads[DIM + j] : 0;

            assert_true(after[at] == before[at] - 0.5F * g);
        }
    fl_comm_free(c);
}

static void state_lives_beside_the_row(void **state)
{
    fl_table_spec spec = table;
    const uint64_t keys[] = { 2 };
    float row[3][DIM], grad[DIM] = { 1, 1, 1 };
    fl_comm *c;

    (void)state;
    spec.rule = "adagrad";
    spec.p[0] = 1e-6;
    c = with_table(&spec);
    assert_int_equal(pull(c, keys, 1, row[0]), FL_OK);
    assert_int_equal(push(c, keys, 1, grad, 0.1), FL_OK);
    assert_int_equal(pull(c, keys, 1, row[1]), FL_OK);
    assert_int_equal(push(c, keys, 1, grad, 0.1), FL_OK);
    assert_int_equal(pull(c, keys, 1, row[2]), FL_OK);
    for (size_t j = 0; j < DIM; j++) {
        float first = row[0][j] - row[1][j], second = row[1][j] - row[2][j];

        /* 0.1 / sqrt(1), then 0.1 / sqrt(2) */
        assert_true(first > 0.0999F && first < 0.1001F);
        assert_true(second > 0.0706F && second < 0.0708F);
    }
    fl_comm_free(c);
}

static void an_empty_request_is_fine(void **state)
{
    fl_comm *c = with_table(&table);

    (void)state;
    assert_int_equal(pull(c, NULL, 0, NULL), FL_OK);
    assert_int_equal(push(c, NULL, 0, NULL, 1), FL_OK);
    fl_comm_free(c);
}

static void an_id_beyond_the_height_is_refused(void **state)
{
    const uint64_t keys[] = { 1, 10 };
    float rows[2 * DIM] = { 0 };
    fl_comm *c = with_table(&table);

    (void)state;
    assert_int_equal(pull(c, keys, 2, rows), FL_ERR_INVAL);
    expect_said("table emb: id 10 at place 1 is not below its height 10");
    assert_int_equal(push(c, keys, 2, rows, 1), FL_ERR_INVAL);
    fl_comm_free(c);
}

static void an_undeclared_table_is_refused(void **state)
{
    const uint64_t keys[] = { 1 };
    float row[DIM] = { 0 };
    fl_comm *c = fl_comm_array_new();

    (void)state;
    assert_int_equal(pull(c, keys, 1, row), FL_ERR_NOTFOUND);
    expect_said("table emb was not declared to the array backend");
    assert_int_equal(push(c, keys, 1, row, 1), FL_ERR_NOTFOUND);
    fl_comm_free(c);
}

static void rows_that_are_not_merged_are_refused(void **state)
{
    const uint64_t keys[] = { 1, 1 };
    float rows[2 * DIM] = { 0 };
    fl_comm_request r = {
        .table = "emb", .dim = DIM, .keys = keys, .n = 2, .rows = rows, .lr = 1
    };
    fl_comm *c = with_table(&table);

    (void)state;
    assert_int_equal(c->push(c, &r), FL_ERR_INVAL);
    expect_said("not merged");
    fl_comm_free(c);
}

static void rows_of_another_length_are_refused(void **state)
{
    const uint64_t keys[] = { 1 };
    float rows[DIM + 1] = { 0 };
    fl_comm_request r = { .table = "emb",
                          .dim = DIM + 1,
                          .keys = keys,
                          .n = 1,
                          .rows = rows,
                          .merged = true };
    fl_comm *c = with_table(&table);

    (void)state;
    assert_int_equal(c->pull(c, &r), FL_ERR_INVAL);
    expect_said("table emb has rows of 3, not of 4");
    assert_int_equal(c->push(c, &r), FL_ERR_INVAL);
    fl_comm_free(c);
}

static void a_table_that_cannot_be_is_refused(void **state)
{
    fl_comm *c = with_table(&table);
    fl_table_spec spec = table;

    (void)state;
    assert_int_equal(c->declare(c, &spec), FL_ERR_INVAL);
    expect_said("table emb is declared twice");
    spec.name = "other";
    spec.rule = "magic";
    assert_int_equal(c->declare(c, &spec), FL_ERR_NOTFOUND);
    expect_said("no update rule is called magic");
    spec.rule = "sgd";
    spec.height = 0;
    assert_int_equal(c->declare(c, &spec), FL_ERR_INVAL);
    spec.height = UINT64_MAX / 2;
    assert_int_equal(c->declare(c, &spec), FL_ERR_INVAL);
    expect_said("too large");
    fl_comm_free(c);
}

static void a_table_without_memory_is_refused(void **state)
{
    fl_comm *c = fl_comm_array_new();

    (void)state;
    fl_alloc_fail_after(1);
    assert_int_equal(c->declare(c, &table), FL_ERR_NOMEM);
    fl_alloc_fail_after(0);
    assert_int_equal(c->declare(c, &table), FL_OK);
    fl_comm_free(c);
}

/* --- pending requests ----------------------------------------------------- */

static int wakes;

static void count_wake(fl_waker *w)
{
    (void)w;
    wakes++;
}

static void finishing_wakes_and_carries_the_error(void **state)
{
    fl_waker waker = { .wake = count_wake };
    fl_comm_request r = { .waker = &waker };

    (void)state;
    fl_comm_finish(&r, fl_err_set(FL_ERR_IO, "the wire is cut"));
    assert_true(atomic_load(&r.finished));
    assert_int_equal(wakes, 1);
    assert_int_equal(fl_err_restore(&r.error), FL_ERR_IO);
    expect_said("the wire is cut");
}

static void freeing_nothing_is_fine(void **state)
{
    (void)state;
    fl_comm_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_begin_as_the_initialiser_says),
        cmocka_unit_test(a_push_changes_the_rows_it_names),
        cmocka_unit_test(state_lives_beside_the_row),
        cmocka_unit_test(an_empty_request_is_fine),
        cmocka_unit_test(an_id_beyond_the_height_is_refused),
        cmocka_unit_test(an_undeclared_table_is_refused),
        cmocka_unit_test(rows_that_are_not_merged_are_refused),
        cmocka_unit_test(rows_of_another_length_are_refused),
        cmocka_unit_test(a_table_that_cannot_be_is_refused),
        cmocka_unit_test(a_table_without_memory_is_refused),
        cmocka_unit_test(finishing_wakes_and_carries_the_error),
        cmocka_unit_test(freeing_nothing_is_fine),
    };

    return cmocka_run_group_tests_name("comm", tests, NULL, NULL);
}
