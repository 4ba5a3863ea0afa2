/* test_known.c - what others know of rows, and what they are told. */
#include "kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "table/known.h"
#include "table/restore.h"
#include "table/row.h"
#include "table/inside.h"

#define DIM 3

static fl_table *make_with(const char *settings)
{
    fl_table_config c;
    fl_table *t = NULL;

    assert_ok(fl_table_config_parse(&c, "emb", settings, 3));
    c.keeps_known = true;
    assert_ok(fl_table_create(&t, &c));
    return t;
}

static fl_table *make_table(void)
{
    return make_with("dim=3 init=uniform(-1,1) optimizer=sgd partitions=2");
}

static void push(fl_table *t, const uint64_t *keys, size_t n,
                 const float *grads)
{
    fl_rows r = { .keys = keys, .values = grads, .n = n, .lr = 1 };

    assert_ok(fl_table_push(t, &r));
}

static void pull(fl_table *t, uint64_t key, float out[DIM])
{
    assert_ok(fl_table_pull(t, &key, 1, FL_PULL_ONLY, out));
}

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Exactly these keys are listed, in the order of their hashes. */
static void assert_pushed(fl_table *t, const uint64_t *want, size_t n_want)
{
    fl_buf keys = { 0 };
    size_t n = 99;

    assert_ok(fl_table_take_pushed(t, &keys, &n));
    assert_int_equal(n, n_want);
    for (size_t i = 1; i < n; i++)
        assert_true(fl_hash_key(((uint64_t *)keys.data)[i - 1]) <
                    fl_hash_key(((uint64_t *)keys.data)[i]));
    qsort(keys.data, n, sizeof(*want), by_key);
    if (n)
        assert_memory_equal(keys.data, want, n * sizeof(*want));
    fl_buf_release(&keys);
}

static void a_row_is_listed_once_until_it_is_told(void **state)
{
    const uint64_t some[] = { 7, 0, UINT64_MAX }, more[] = { 7, 3, 7 };
    const uint64_t all[] = { 0, 3, 7, UINT64_MAX }, one[] = { 7 };
    float grads[3 * DIM] = { 1, 2, 3 }, out[DIM];
    fl_table *t = make_table();

    (void)state;
    push(t, some, 3, grads);
    push(t, more, 3, grads);
    assert_pushed(t, all, 4);
    push(t, one, 1, grads);
    assert_pushed(t, NULL, 0);
    assert_ok(fl_table_tell(t, one, 1, 1, out));
    push(t, one, 1, grads);
    assert_pushed(t, one, 1);
    fl_table_destroy(t);
}

static void a_share_of_what_was_learnt_is_told_and_known(void **state)
{
    const uint64_t key = 5;
    const float grad[DIM] = { 1, -2, 4 };
    float out[DIM], first[DIM], now[DIM];
    fl_table *t = make_table();

    (void)state;
    pull(t, key, first);
    push(t, &key, 1, grad);
    assert_ok(fl_table_tell(t, &key, 1, 0.5F, out));
    for (int i = 0; i < DIM; i++)
        assert_true(fabsf(out[i] - grad[i] / 2) < 1e-6F);
    /* The rest is there still. */
    assert_ok(fl_table_tell(t, &key, 1, 1, out));
    for (int i = 0; i < DIM; i++)
        assert_true(fabsf(out[i] - grad[i] / 2) < 1e-6F);
    pull(t, key, now);
    for (int i = 0; i < DIM; i++)
        assert_true(now[i] == first[i] - grad[i]);
    fl_table_destroy(t);
}

/* As they are saved: what others know is not among the fields. */
static void restore_by_columns(fl_table *t, uint64_t key, const float *value)
{
    fl_restore_rows r = {
        .kind = FL_CUT_FULL, .n = 1, .keys = &key, .columns = { { value, DIM } }
    };

    assert_ok(fl_table_restore_rows(t, &r));
}

static void restore_whole(fl_table *t, uint64_t key, const float *value)
{
    char row[256] = { 0 };

    memcpy(row + FL_ROW_HEADER_BYTES, value, DIM * sizeof(*value));
    assert_ok(fl_table_restore(t, key, false, row));
}

static void others_know_what_a_restored_row_was_born_with(void **state)
{
    void (*const ways[])(fl_table * t, uint64_t key,
                         const float *value) = { restore_by_columns,
                                                 restore_whole };
    const float value[DIM] = { 4, 5, 6 };
    float first[DIM], out[DIM];

    (void)state;
    for (size_t way = 0; way < FL_LEN(ways); way++) {
        fl_table *t = make_table();

        pull(t, 5, first);
        ways[way](t, 5, value);
        assert_ok(fl_table_tell(t, &(uint64_t){ 5 }, 1, 1, out));
        for (int i = 0; i < DIM; i++)
            assert_true(out[i] == first[i] - value[i]);
        fl_table_destroy(t);
    }
}

static void what_others_have_is_added_to_what_was_learnt(void **state)
{
    const uint64_t keys[] = { 5, 6 };
    const float grads[2 * DIM] = { 1, 1, 1, 0, 0, 0 };
    float theirs[2 * DIM], first[2 * DIM], now[2 * DIM], out[2 * DIM];
    fl_table *t = make_table();

    (void)state;
    assert_ok(fl_table_pull(t, keys, 2, FL_PULL_ONLY, first));
    push(t, keys, 1, grads);
    for (int i = 0; i < 2 * DIM; i++)
        theirs[i] = first[i] + 8;
    assert_ok(fl_table_learn(t, keys, 2, theirs));
    assert_ok(fl_table_pull(t, keys, 2, FL_PULL_ONLY, now));
    for (int i = 0; i < 2 * DIM; i++)
        assert_true(fabsf(now[i] - (first[i] + 8 - grads[i])) < 1e-5F);
    /* A row that came from others alone is not for them. */
    assert_pushed(t, keys, 1);
    assert_ok(fl_table_tell(t, keys, 2, 1, out));
    for (int i = 0; i < 2 * DIM; i++)
        assert_true(fabsf(out[i] - grads[i]) < 1e-5F);
    fl_table_destroy(t);
}

static void what_all_know_changes_no_bit(void **state)
{
    const uint64_t key = 5;
    const float grad[DIM] = { 0.1F, -0.7F, 3 };
    float before[DIM], after[DIM], theirs[DIM], out[DIM];
    fl_table *t = make_table();

    (void)state;
    pull(t, key, theirs);
    push(t, &key, 1, grad);
    assert_ok(fl_table_tell(t, &key, 1, 1, out));
    for (int i = 0; i < DIM; i++)
        theirs[i] -= 1 * out[i];
    pull(t, key, before);
    assert_ok(fl_table_learn(t, &key, 1, theirs));
    pull(t, key, after);
    assert_memory_equal(before, after, sizeof(after));
    fl_table_destroy(t);
}

static void a_key_that_gets_no_row_has_nothing_to_tell(void **state)
{
    const uint64_t keys[] = { 1, 2 };
    const float grads[2 * DIM] = { 1, 1, 1, 1, 1, 1 };
    float out[2 * DIM];
    fl_table *t = make_with("dim=3 max_rows=1 partitions=1");

    (void)state;
    push(t, keys, 2, grads);
    assert_pushed(t, keys, 1);
    memset(out, 0xff, sizeof(out));
    assert_ok(fl_table_tell(t, keys, 2, 1, out));
    for (int i = 0; i < 2 * DIM; i++)
        assert_true(out[i] == (i < DIM ? 1.0F : 0.0F));
    assert_ok(fl_table_learn(t, keys, 2, grads));
    assert_int_equal(stats_of(t).rows, 1);
    fl_table_destroy(t);
}

static void an_emptied_table_lists_nothing(void **state)
{
    const uint64_t key = 9;
    const float grad[DIM] = { 1, 1, 1 };
    float out[DIM];
    fl_table *t = make_table();

    (void)state;
    push(t, &key, 1, grad);
    fl_table_clear(t);
    assert_pushed(t, NULL, 0);
    assert_ok(fl_table_tell(t, &key, 1, 1, out));
    for (int i = 0; i < DIM; i++)
        assert_true(out[i] == 0);
    fl_table_destroy(t);
}

static void a_value_that_is_assigned_is_told_whole(void **state)
{
    const uint64_t key = 9;
    const float value[DIM] = { 1, 2, 3 };
    float first[DIM], out[DIM];
    fl_table *t = make_table();

    (void)state;
    pull(t, key, first);
    assert_ok(fl_table_assign(t, &key, 1, value));
    assert_ok(fl_table_tell(t, &key, 1, 1, out));
    for (int i = 0; i < DIM; i++)
        assert_true(out[i] == first[i] - value[i]);
    fl_table_destroy(t);
}

/* Partitions are told apart by the hash, and a list goes through them in order;
   blocks end anywhere in them. */
static void listed_keys_are_looked_up_as_any_others(void **state)
{
    enum { N = 9000 };
    static uint64_t keys[N];
    static float grads[N * DIM], told[N * DIM], values[N * DIM];
    static const char *const tables[] = {
        "dim=3 init=constant(0) partitions=1",
        "dim=3 init=constant(0) partitions=4",
        "dim=3 init=constant(0) partitions=32"
    };

    (void)state;
    for (uint64_t i = 0; i < N; i++)
        keys[i] = i;
    for (size_t i = 0; i < N * DIM; i++)
        grads[i] = (float)(i / DIM);
    for (size_t i = 0; i < FL_LEN(tables); i++) {
        fl_table *t = make_with(tables[i]);
        fl_buf list = { 0 };
        size_t n;

        push(t, keys, N, grads);
        assert_ok(fl_table_take_pushed(t, &list, &n));
        assert_int_equal(n, N);
        assert_ok(fl_table_tell(t, list.data, n, 1, told));
        assert_ok(fl_table_pull(t, list.data, n, FL_PULL_ONLY, values));
        for (size_t k = 0; k < n; k++) {
            float x = (float)((uint64_t *)list.data)[k];

            assert_true(told[k * DIM] == x && values[k * DIM + 1] == -x);
        }
        fl_buf_release(&list);
        fl_table_destroy(t);
    }
}

/* Every third key of a list has no row yet. */
static void
what_is_learnt_of_listed_keys_makes_rows_where_none_are(void **state)
{
    enum { N = 6000 };
    static uint64_t keys[N];
    static float theirs[N * DIM], told[N * DIM], values[N * DIM];
    fl_table *t = make_with("dim=3 init=constant(1) partitions=32"),
             *list = make_with("dim=3 partitions=2");
    fl_buf all = { 0 };
    size_t n;

    (void)state;
    for (uint64_t i = 0; i < N; i++)
        keys[i] = i;
    push(list, keys, N, theirs);
    assert_ok(fl_table_take_pushed(list, &all, &n));
    for (size_t i = 0; i < N; i++) {
        theirs[i * DIM] = (float)i;
        if (i % 3)
            push(t, (uint64_t *)all.data + i, 1, values);
    }
    assert_ok(fl_table_learn(t, all.data, n, theirs));
    assert_int_equal(stats_of(t).rows, N);
    assert_ok(fl_table_pull(t, all.data, n, FL_PULL_ONLY, values));
    assert_memory_equal(values, theirs, sizeof(values));
    assert_ok(fl_table_tell(t, all.data, n, 1, told));
    for (size_t i = 0; i < N * DIM; i++)
        assert_true(told[i] == 0);
    fl_buf_release(&all);
    fl_table_destroy(list);
    fl_table_destroy(t);
}

/* As servers get it: rows are there, or are born on the way. */
static void a_push_of_listed_keys_is_like_any_other(void **state)
{
    enum { N = 6000 };
    static uint64_t keys[N];
    static float grads[N * DIM], first[N * DIM], second[N * DIM];
    fl_table *list = make_with("dim=3 partitions=2");
    fl_table *t[2];
    fl_buf all = { 0 };
    size_t n;

    (void)state;
    for (uint64_t i = 0; i < N; i++)
        keys[i] = i;
    push(list, keys, N, grads);
    assert_ok(fl_table_take_pushed(list, &all, &n));
    for (int i = 0; i < 2; i++) {
        fl_table_config c;

        assert_ok(fl_table_config_parse(
            &c, "emb", "dim=3 optimizer=adagrad partitions=2", 3));
        assert_ok(fl_table_create(&t[i], &c));
        push(t[i], keys, N / 2, grads);
    }
    for (size_t i = 0; i < N * DIM; i++)
        grads[i] = (float)(i % 7) - 3;
    for (int times = 0; times < 2; times++)
        for (size_t i = 0; i < N; i++) {
            size_t back = N - 1 - i;

            push(t[0], (uint64_t *)all.data + back, 1, grads + back * DIM);
        }
    for (int times = 0; times < 2; times++)
        push(t[1], all.data, N, grads);
    assert_ok(fl_table_pull(t[0], keys, N, FL_PULL_ONLY, first));
    assert_ok(fl_table_pull(t[1], keys, N, FL_PULL_ONLY, second));
    assert_memory_equal(first, second, sizeof(first));
    fl_buf_release(&all);
    for (int i = 0; i < 2; i++)
        fl_table_destroy(t[i]);
    fl_table_destroy(list);
}

static void without_memory_for_the_list_it_is_an_error(void **state)
{
    enum { N = 1100 }; /* more than a list has room for at first */
    static uint64_t keys[N];
    static float grads[N * DIM];
    fl_rows r = {
        .keys = keys, .values = grads, .n = 1, .lr = 1, .merged = true
    };
    fl_table *t = make_with("dim=3 partitions=1");
    fl_buf list = { 0 };
    size_t n;

    (void)state;
    for (uint64_t i = 0; i < N; i++)
        keys[i] = i;
    /* The rows are there, and none of them is listed. */
    assert_ok(fl_table_learn(t, keys, N, grads));
    fl_alloc_fail_after(1);
    assert_int_equal(fl_table_push(t, &r), FL_ERR_NOMEM);
    fl_alloc_fail_after(0);
    assert_non_null(strstr(fl_last_error(), "table emb: no memory for a list"));
    r.n = N;
    assert_ok(fl_table_push(t, &r));
    fl_alloc_fail_after(1);
    assert_int_equal(fl_table_take_pushed(t, &list, &n), FL_ERR_NOMEM);
    fl_alloc_fail_after(0);
    assert_ok(fl_table_take_pushed(t, &list, &n));
    assert_int_equal(n, N);
    fl_buf_release(&list);
    fl_table_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_listed_once_until_it_is_told),
        cmocka_unit_test(a_share_of_what_was_learnt_is_told_and_known),
        cmocka_unit_test(others_know_what_a_restored_row_was_born_with),
        cmocka_unit_test(what_others_have_is_added_to_what_was_learnt),
        cmocka_unit_test(what_all_know_changes_no_bit),
        cmocka_unit_test(a_key_that_gets_no_row_has_nothing_to_tell),
        cmocka_unit_test(an_emptied_table_lists_nothing),
        cmocka_unit_test(a_value_that_is_assigned_is_told_whole),
        cmocka_unit_test(listed_keys_are_looked_up_as_any_others),
        cmocka_unit_test(
            what_is_learnt_of_listed_keys_makes_rows_where_none_are),
        cmocka_unit_test(a_push_of_listed_keys_is_like_any_other),
        cmocka_unit_test(without_memory_for_the_list_it_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
