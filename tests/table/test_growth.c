/* test_growth.c - millions of keys: no call pays for all of the growth, memory
 * follows the rows up and down, and no key is lost or doubled on the way. */
#include "kit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "table/index.h"

#define N_KEYS 2000000u
#define CALL 10000u
#define DIM 2
#define N_PARTITIONS 4
#define KEPT 20 /* one key of so many survives the removal */

/* Beyond the value of a row: its header, the index, what growth keeps ready. */
#define OVERHEAD_MAX 32

/* Consecutive ids and ids from all over, in turn. */
static uint64_t key_of(size_t i)
{
    return i % 2 ? fl_mix64(i) : i / 2;
}

/* A row holds its own number, in two floats that are exact. */
static void number_to_value(size_t i, float sign, float *value)
{
    value[0] = sign * (float)(i % 4096);
    value[1] = sign * (float)(i / 4096);
}

static size_t value_to_number(const float *value)
{
    return (size_t)value[0] + 4096 * (size_t)value[1];
}

/* A pull of CALL new keys and a push that gives them their numbers. Returns
   how many slots the pull has moved. */
static uint64_t add_keys(fl_table *t, size_t lo)
{
    static uint64_t keys[CALL];
    static float values[CALL * DIM];
    fl_rows push = {
        .keys = keys, .values = values, .n = CALL, .lr = 1, .merged = true
    };
    uint64_t moved = stats_of(t).slots_moved;

    for (size_t i = 0; i < CALL; i++)
        keys[i] = key_of(lo + i);
    assert_ok(fl_table_pull(t, keys, CALL, FL_PULL_CREATE, values));
    moved = stats_of(t).slots_moved - moved;
    for (size_t i = 0; i < CALL; i++)
        number_to_value(lo + i, -1, values + i * DIM);
    assert_ok(fl_table_push(t, &push));
    return moved;
}

/* More is set aside than is in use: slabs take memory as they are touched. */
static void check_memory(fl_table *t, size_t data_before)
{
    fl_table_stats s = stats_of(t);
    uint64_t bytes = s.index_bytes + s.row_bytes;

    assert_true(bytes >= s.rows * DIM * sizeof(float));
    assert_true(bytes <= s.rows * (DIM * sizeof(float) + OVERHEAD_MAX));
    assert_true(fl_data_bytes() - data_before >= bytes);
}

typedef FL_VEC(uint64_t) key_list;

static bool keep_key(void *arg, const fl_row_view *row)
{
    key_list *keys = arg;

    fl_vec_push(keys, row->key);
    return true;
}

/* Goes through all shards and ticks off every row by its number; `step` says
   which numbers must be there. */
static void check_every_key_once(fl_table *t, size_t step)
{
    unsigned char *seen = calloc(N_KEYS, 1);
    key_list keys = { 0 };
    size_t n_rows = 0;

    for (uint32_t shard = 0; shard < FL_TABLE_SHARDS; shard++) {
        float *values;

        keys.len = 0;
        assert_ok(fl_table_scan(t, shard, 0, keep_key, &keys));
        values = malloc((keys.len + 1) * DIM * sizeof(*values));
        assert_ok(fl_table_pull(t, keys.data, keys.len, FL_PULL_ONLY, values));
        for (size_t k = 0; k < keys.len; k++) {
            size_t i = value_to_number(values + k * DIM);

            assert_int_equal(fl_table_shard_of(keys.data[k]), shard);
            assert_true(i < N_KEYS && i % step == 0 && !seen[i]);
            assert_true(keys.data[k] == key_of(i));
            seen[i] = 1;
        }
        n_rows += keys.len;
        free(values);
    }
    assert_int_equal(n_rows, (N_KEYS + step - 1) / step);
    fl_vec_release(&keys);
    free(seen);
}

static void remove_most_keys(fl_table *t)
{
    static uint64_t keys[CALL];
    size_t n = 0, n_removed, sum = 0;

    for (size_t i = 0; i < N_KEYS; i++) {
        if (i % KEPT)
            keys[n++] = key_of(i);
        if (n == CALL || i + 1 == N_KEYS) {
            fl_table_remove(t, keys, n, &n_removed);
            assert_int_equal(n_removed, n);
            sum += n_removed;
            n = 0;
        }
    }
    assert_int_equal(sum, N_KEYS - N_KEYS / KEPT);
}

/* `most` was seen from outside. */
static void check_moves(fl_table *t, uint64_t most)
{
    assert_true(most > 0);
    assert_true(most <= FL_TABLE_MOVES_PER_KEY * CALL +
                            FL_TABLE_RUN_MAX * N_PARTITIONS);
    assert_int_equal(stats_of(t).most_moved_in_a_call, most);
}

static void a_table_grows_step_by_step_and_shrinks_with_its_rows(void **state)
{
    fl_table_config config = adding_config(DIM, N_PARTITIONS);
    size_t data_before = fl_data_bytes();
    fl_table_stats grown, shrunk;
    uint64_t most = 0;
    fl_table *t;

    (void)state;
    assert_ok(fl_table_create(&t, &config));
    for (size_t lo = 0; lo < N_KEYS; lo += CALL) {
        uint64_t moved = add_keys(t, lo);

        most = moved > most ? moved : most;
        assert_int_equal(stats_of(t).rows, lo + CALL);
        if ((lo + CALL) % (N_KEYS / 8) == 0)
            check_memory(t, data_before);
    }
    check_moves(t, most);
    check_every_key_once(t, 1);

    grown = stats_of(t);
    remove_most_keys(t);
    shrunk = stats_of(t);
    assert_int_equal(shrunk.rows, N_KEYS / KEPT);
    assert_true(shrunk.index_bytes < grown.index_bytes / 2);
    assert_true(shrunk.row_bytes < grown.row_bytes / 2);
    check_moves(t, most);
    check_every_key_once(t, KEPT);

    fl_table_clear(t);
    assert_int_equal(stats_of(t).rows, 0);
    assert_true(fl_data_bytes() - data_before < grown.index_bytes / 2);
    fl_table_destroy(t);
    assert_int_equal(fl_data_bytes(), data_before);
}

/* Two arrays take longer to look into than one. */
static void a_table_that_is_only_looked_into_soon_stands_still(void **state)
{
    fl_table_config config = adding_config(DIM, N_PARTITIONS);
    static uint64_t keys[CALL];
    static float values[CALL * DIM];
    uint64_t before, moved = 1, sum = 0;
    fl_table *t;

    (void)state;
    assert_ok(fl_table_create(&t, &config));
    for (size_t lo = 0; lo < N_KEYS / 2; lo += CALL)
        (void)add_keys(t, lo);
    for (size_t i = 0; i < CALL; i++)
        keys[i] = key_of(i);
    for (size_t n = 0; moved; n++) {
        assert_true(n < N_KEYS / CALL);
        before = stats_of(t).slots_moved;
        assert_ok(fl_table_pull(t, keys, CALL, FL_PULL_ONLY, values));
        moved = stats_of(t).slots_moved - before;
        assert_true(moved <= CALL + FL_TABLE_RUN_MAX * N_PARTITIONS);
        sum += moved;
    }
    assert_true(sum > CALL);
    for (size_t i = 0; i < CALL; i++)
        assert_int_equal(value_to_number(values + i * DIM), i);
    fl_table_destroy(t);
}

/* Keys that come, go and come again neither fill the table with the remains
   of those that left nor make it grow. */
static void a_table_that_is_replaced_over_and_over_keeps_its_size(void **state)
{
    enum { LIVE = 20000, ROUNDS = 40 };
    fl_table_config config = adding_config(DIM, 1);
    static uint64_t keys[LIVE];
    static float values[LIVE * DIM];
    fl_table_stats first = FL_INIT(fl_table_stats), last;
    fl_table *t;

    (void)state;
    assert_ok(fl_table_create(&t, &config));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (uint64_t i = 0; i < LIVE; i++)
            keys[i] = fl_mix64(round * LIVE + i);
        assert_ok(fl_table_pull(t, keys, LIVE, FL_PULL_CREATE, values));
        if (round == 0)
            first = stats_of(t);
        assert_int_equal(stats_of(t).rows, LIVE);
        if (round + 1 < ROUNDS)
            fl_table_remove(t, keys, LIVE, NULL);
    }
    last = stats_of(t);
    assert_true(last.index_bytes <= 2 * first.index_bytes);
    assert_true(last.row_bytes <= 2 * first.row_bytes);
    fl_table_destroy(t);
}

/* Rows so wide that each slab holds few of them: most go, and those that stay
   move together into the first slabs. */
static void wide_rows_close_up_over_many_slabs(void **state)
{
    enum { WIDE = 1024, N_WIDE = 9000, STAY = 3 };
    fl_table_config config = adding_config(WIDE, 1);
    float *value = malloc(WIDE * sizeof(*value));
    fl_table_stats grown = FL_INIT(fl_table_stats);
    size_t held;
    fl_table *t;

    (void)state;
    assert_ok(fl_table_create(&t, &config));
    for (uint64_t key = 0; key < N_WIDE; key++) {
        for (int d = 0; d < WIDE; d++)
            value[d] = (float)key;
        assert_ok(fl_table_assign(t, &key, 1, value));
    }
    grown = stats_of(t);
    held = fl_data_bytes();
    for (uint64_t key = 0; key < N_WIDE; key++)
        if (key % STAY)
            fl_table_remove(t, &key, 1, NULL);
    assert_int_equal(stats_of(t).rows, N_WIDE / STAY);
    assert_true(stats_of(t).row_bytes <= grown.row_bytes / 3 * 2);
    assert_true(fl_data_bytes() <= held / 3 * 2);
    for (uint64_t key = 0; key < N_WIDE; key++) {
        assert_ok(fl_table_pull(t, &key, 1, FL_PULL_ONLY, value));
        for (int d = 0; d < WIDE; d++)
            assert_true(value[d] == (key % STAY ? 0 : (float)key));
    }
    fl_table_destroy(t);
    free(value);
}

/* Rows of the accessor ctr grow on the way; a key that comes twice although the
   caller says that none does must find the grown row, not the freed one. */
static void a_key_that_comes_twice_harms_no_row(void **state)
{
    enum { KEYS = 100, N = 2 * KEYS, WIDTH = 4 };
    fl_table_config c = adding_config(WIDTH, 1);
    uint64_t keys[N];
    float grads[N * WIDTH] = { 0 }, shows[N], out[KEYS * WIDTH];
    fl_table_stats s = FL_INIT(fl_table_stats);
    fl_table *t;

    (void)state;
    c.accessor = "ctr";
    fl_table_config_ctr(&c);
    c.embedx_threshold = 0;
    assert_ok(fl_table_create(&t, &c));
    for (size_t i = 0; i < N; i++) {
        keys[i] = i / 2;
        shows[i] = 100;
    }
    for (int round = 0; round < 3; round++)
        assert_ok(fl_table_push(t, &(fl_rows){ .keys = keys,
                                               .values = grads,
                                               .shows = shows,
                                               .n = N,
                                               .lr = 1,
                                               .merged = true }));
    s = stats_of(t);
    assert_int_equal(s.rows, KEYS);
    assert_int_equal(s.short_rows, 0);
    for (size_t i = 0; i < KEYS; i++)
        keys[i] = i;
    assert_ok(fl_table_pull(t, keys, KEYS, FL_PULL_ONLY, out));
    for (size_t i = 0; i < KEYS * WIDTH; i++)
        assert_true(out[i] == out[i % WIDTH]);
    fl_table_destroy(t);
}

/* A part of a table that gets no key of a push stays in step with the
   others. */
static void a_push_without_keys_is_a_step(void **state)
{
    const float grads[2] = { 1, 2 };
    const uint64_t key = 7;
    float a[2], b[2];

    (void)state;
    for (int empty = 0; empty < 2; empty++) {
        fl_table_config c = adding_config(2, 1);
        fl_rows push = { .lr = 0.1, .merged = true };
        const fl_rule *adam = fl_rule_find("adam");
        fl_table *t;

        c.rule = "adam";
        for (int i = 0; i < fl_rule_n_params(adam); i++)
            c.p[i] = adam->params[i].value;
        assert_ok(fl_table_create(&t, &c));
        if (empty)
            assert_ok(fl_table_push(t, &push));
        push.keys = &key;
        push.values = grads;
        push.n = 1;
        assert_ok(fl_table_push(t, &push));
        assert_ok(fl_table_pull(t, &key, 1, FL_PULL_ONLY, empty ? b : a));
        fl_table_destroy(t);
    }
    assert_true(a[0] != b[0] && a[1] != b[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_grows_step_by_step_and_shrinks_with_its_rows),
        cmocka_unit_test(a_table_that_is_only_looked_into_soon_stands_still),
        cmocka_unit_test(a_table_that_is_replaced_over_and_over_keeps_its_size),
        cmocka_unit_test(wide_rows_close_up_over_many_slabs),
        cmocka_unit_test(a_key_that_comes_twice_harms_no_row),
        cmocka_unit_test(a_push_without_keys_is_a_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
