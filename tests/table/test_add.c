/* test_add.c - differences added to the values of rows: nothing but the value
 * changes. */
#include "kit.h"

#include <string.h>

#include "base/alloc.h"
#include "table/inside.h"
#include "table/row.h"

#define DIM 5
#define N_KEYS 3000

static fl_table *make_table(const char *settings)
{
    fl_table_config c;
    fl_table *t = NULL;

    assert_ok(fl_table_config_parse(&c, "emb", settings, 3));
    assert_ok(fl_table_create(&t, &c));
    return t;
}

static void fill(uint64_t *keys, float *deltas)
{
    for (size_t i = 0; i < N_KEYS; i++)
        keys[i] = fl_mix64(i);
    for (size_t i = 0; i < N_KEYS * DIM; i++)
        deltas[i] = (float)(i % 17) / 8 - 1;
}

/* A row's bytes. */
typedef struct copy {
    uint64_t key;
    uint32_t epoch;
    bool is_short, is_found;
    _Alignas(8) char bytes[512];
    size_t n;
} copy;

static bool copy_row(void *arg, const fl_row_view *v)
{
    copy *c = arg;

    if (v->key != c->key)
        return true;
    c->is_found = true;
    c->epoch = v->epoch;
    c->is_short = v->is_short;
    memcpy(c->bytes, v->row, c->n);
    return false;
}

static copy look_at(fl_table *t, uint64_t key)
{
    const fl_row_layout *l = &fl_table_acc(t)->layout;
    copy c = { .key = key, .n = l->short_bytes ? l->short_bytes : l->bytes };

    assert_true(c.n <= sizeof(c.bytes));
    assert_ok(fl_table_scan(t, fl_table_shard_of(key), 0, copy_row, &c));
    return c;
}

static void push_once(fl_table *t, const uint64_t *keys, const float *grads,
                      size_t n)
{
    assert_ok(fl_table_push(t, &(fl_rows){ .keys = keys,
                                           .values = grads,
                                           .n = n,
                                           .lr = 0.5,
                                           .merged = true }));
}

static void values_move_by_what_is_added(void **state)
{
    static uint64_t keys[N_KEYS];
    static float deltas[N_KEYS * DIM], was[N_KEYS * DIM], is[N_KEYS * DIM];
    fl_table *t = make_table("dim=5 init=uniform(-1,1) partitions=512");

    (void)state;
    fill(keys, deltas);
    /* Half of the rows are there before, the others come to be. */
    assert_ok(fl_table_pull(t, keys, N_KEYS / 2, FL_PULL_CREATE, was));
    assert_ok(fl_table_pull(t, keys, N_KEYS, FL_PULL_ONLY, was));
    assert_int_equal(stats_of(t).rows, N_KEYS / 2);
    assert_ok(fl_table_add(t, keys, N_KEYS, deltas));
    assert_int_equal(stats_of(t).rows, N_KEYS);
    assert_ok(fl_table_pull(t, keys, N_KEYS, FL_PULL_ONLY, is));
    for (size_t i = 0; i < N_KEYS * DIM; i++)
        assert_true(is[i] == was[i] + deltas[i]);
    fl_table_destroy(t);
}

static void a_key_that_comes_twice_is_added_twice(void **state)
{
    const uint64_t keys[] = { 7, 9, 7 };
    const float deltas[] = { 1, 2, 4 };
    fl_table *t = make_table("dim=1 init=constant(0)");
    float got[3];

    (void)state;
    assert_ok(fl_table_add(t, keys, 3, deltas));
    assert_ok(fl_table_pull(t, keys, 3, FL_PULL_ONLY, got));
    assert_true(got[0] == 5 && got[1] == 2 && got[2] == 5);
    fl_table_destroy(t);
}

static void state_stays_and_the_epoch_is_that_of_the_change(void **state)
{
    static uint64_t keys[N_KEYS];
    static float deltas[N_KEYS * DIM];
    fl_table *t = make_table("dim=5 init=constant(0) optimizer=adam");
    const size_t value = FL_ROW_HEADER_BYTES + DIM * sizeof(float);
    copy before, after;

    (void)state;
    fill(keys, deltas);
    push_once(t, keys, deltas, N_KEYS);
    before = look_at(t, keys[1]);
    assert_int_equal(fl_table_advance_epoch(t), 2);
    assert_ok(fl_table_add(t, keys, N_KEYS, deltas));
    after = look_at(t, keys[1]);
    assert_int_equal(before.epoch, 1);
    assert_int_equal(after.epoch, 2);
    assert_memory_not_equal(after.bytes + FL_ROW_HEADER_BYTES,
                            before.bytes + FL_ROW_HEADER_BYTES,
                            value - FL_ROW_HEADER_BYTES);
    assert_memory_equal(after.bytes + value, before.bytes + value,
                        before.n - value);
    fl_table_destroy(t);
}

static void a_short_row_grows_when_its_wide_part_is_added_to(void **state)
{
    const uint64_t keys[] = { 1, 2 };
    const float deltas[] = { 0.5f, 0, 0, 0.25f, 0, 1 };
    fl_table *t = make_table("dim=3 init=constant(2) accessor=ctr "
                             "embedx_threshold=100");
    copy row;
    float got[6];

    (void)state;
    push_once(t, keys, (float[6]){ 0 }, 2);
    assert_int_equal(stats_of(t).short_rows, 2);
    assert_ok(fl_table_add(t, keys, 2, deltas));
    row = look_at(t, 1);
    assert_true(row.is_found && row.is_short);
    row = look_at(t, 2);
    assert_true(row.is_found && !row.is_short);
    assert_ok(fl_table_pull(t, keys, 2, FL_PULL_ONLY, got));
    assert_true(got[0] == 0.5f && got[1] == 0 && got[2] == 0);
    assert_true(got[3] == 0.25f && got[4] == 2 && got[5] == 3);
    /* It has its one show and no click, as before. */
    assert_true(((float *)(row.bytes + FL_ROW_HEADER_BYTES))[0] == 1);
    fl_table_destroy(t);
}

static void a_full_table_makes_no_row_and_a_high_key_is_refused(void **state)
{
    const uint64_t keys[] = { 1, 2, 3 };
    const float deltas[] = { 1, 1, 1 };
    fl_table *t = make_table("dim=1 height=4 max_rows=2 init=constant(0) "
                             "partitions=1 entry=count_filter_entry:5");

    (void)state;
    assert_ok(fl_table_add(t, keys, 3, deltas));
    assert_int_equal(stats_of(t).rows, 2);
    assert_int_equal(fl_table_add(t, &(uint64_t){ 4 }, 1, deltas),
                     FL_ERR_INVAL);
    fl_table_destroy(t);
}

static void without_memory_it_is_an_error_and_the_table_lives_on(void **state)
{
    fl_table *t = make_table("dim=1 init=constant(0) partitions=1");
    const float one = 1;
    float got;

    (void)state;
    fl_alloc_fail_after(1);
    assert_int_equal(fl_table_add(t, &(uint64_t){ 1 }, 1, &one), FL_ERR_NOMEM);
    fl_alloc_fail_after(0);
    assert_ok(fl_table_add(t, &(uint64_t){ 1 }, 1, &one));
    assert_ok(fl_table_pull(t, &(uint64_t){ 1 }, 1, FL_PULL_ONLY, &got));
    assert_true(got == 1);
    fl_table_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_move_by_what_is_added),
        cmocka_unit_test(a_key_that_comes_twice_is_added_twice),
        cmocka_unit_test(state_stays_and_the_epoch_is_that_of_the_change),
        cmocka_unit_test(a_short_row_grows_when_its_wide_part_is_added_to),
        cmocka_unit_test(a_full_table_makes_no_row_and_a_high_key_is_refused),
        cmocka_unit_test(without_memory_it_is_an_error_and_the_table_lives_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
