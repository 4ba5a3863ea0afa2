/* test_memory.c - memory that is not there: whichever allocation fails, the
 * call says so or copes, rows that were there stay as they were, the next call
 * works, and nothing leaks. */
#include "kit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define DIM 4
#define N_OLD 3000u /* rows before the call that fails */
#define N_NEW 3000u /* keys that it adds */
#define N_ALL (N_OLD + N_NEW)

/* No call of these tests makes as many allocations. */
#define K_MAX 2000

static uint64_t key_of(size_t i)
{
    return i ? fl_mix64(i) : UINT64_MAX;
}

static void fill_keys(uint64_t *keys, size_t lo, size_t n)
{
    for (size_t i = 0; i < n; i++)
        keys[i] = key_of(lo + i);
}

static fl_status push_ones(fl_table *t, const uint64_t *keys, size_t n)
{
    static float grads[N_ALL * DIM];
    fl_rows a = { .keys = keys, .values = grads, .n = n, .lr = 1 };

    for (size_t i = 0; i < n * DIM; i++)
        grads[i] = -1;
    return fl_table_push(t, &a);
}

/* The accessors that the tests go through. Rows of ctr grow from short to full
   at their second push. */
static fl_table_config config_of(const char *accessor)
{
    fl_table_config config = adding_config(DIM, 2);

    config.accessor = accessor;
    fl_table_config_ctr(&config);
    config.embedx_threshold = 0.15;
    config.delete_threshold = 0;
    return config;
}

/* A table with N_OLD rows that were pushed twice. */
static fl_table *filled_table(const char *accessor)
{
    fl_table_config config = config_of(accessor);
    uint64_t keys[N_OLD];
    fl_table *t;

    assert_ok(fl_table_create(&t, &config));
    fill_keys(keys, 0, N_OLD);
    assert_ok(push_ones(t, keys, N_OLD));
    assert_ok(push_ones(t, keys, N_OLD));
    return t;
}

static void pull_all(fl_table *t, float *values)
{
    uint64_t keys[N_ALL];

    fill_keys(keys, 0, N_ALL);
    assert_ok(fl_table_pull(t, keys, N_ALL, FL_PULL_ONLY, values));
}

/* --- what a table holds, by going through it ------------------------------ */

static bool count_row(void *arg, const fl_row_view *row)
{
    (void)row;
    ++*(size_t *)arg;
    return true;
}

static void assert_counts_agree(fl_table *t)
{
    size_t n = 0;

    for (uint32_t shard = 0; shard < FL_TABLE_SHARDS; shard++)
        assert_ok(fl_table_scan(t, shard, 0, count_row, &n));
    assert_int_equal(n, stats_of(t).rows);
}

/* --- one call at a time --------------------------------------------------- */

/* A call that may fail: it works on the keys [0, N_ALL), of which the first
   N_OLD have rows. */
typedef struct call {
    const char *name;
    fl_status (*run)(fl_table *t, const uint64_t *keys);
    /* What a column may hold after a call that failed, besides what it held
       before, and must hold after one that worked. */
    float (*after)(float before);
    /* A push changes some columns only of a row that is short. */
    bool for_full_rows;
} call;

static fl_status run_pull(fl_table *t, const uint64_t *keys)
{
    static float values[N_ALL * DIM];

    return fl_table_pull(t, keys, N_ALL, FL_PULL_CREATE, values);
}

static fl_status run_push(fl_table *t, const uint64_t *keys)
{
    return push_ones(t, keys, N_ALL);
}

static fl_status run_assign(fl_table *t, const uint64_t *keys)
{
    static float values[N_ALL * DIM];

    for (size_t i = 0; i < N_ALL * DIM; i++)
        values[i] = 77;
    return fl_table_assign(t, keys, N_ALL, values);
}

static fl_status run_shrink(fl_table *t, const uint64_t *keys)
{
    uint64_t n;

    (void)keys;
    return fl_table_shrink(t, 5, &n);
}

static float same(float before)
{
    return before;
}

static float one_more(float before)
{
    return before + 1;
}

static float assigned(float before)
{
    (void)before;
    return 77;
}

static const call calls[] = {
    { "pull", run_pull, same, false },
    { "push", run_push, one_more, true },
    { "assign", run_assign, assigned, false },
    { "shrink", run_shrink, same, false },
};

static void check_values(const call *c, fl_status st, const float *before,
                         const float *after)
{
    for (size_t i = 0; i < N_ALL * DIM; i++) {
        float done = c->after(before[i]);

        if (after[i] != done && (!st || after[i] != before[i]))
            fail_msg("%s: column %zu was %g and is %g", c->name, i,
                     (double)before[i], (double)after[i]);
    }
}

static void check_after(const call *c, fl_table *t, fl_status st,
                        const float *before)
{
    static float after[N_ALL * DIM];

    assert_true(st == FL_OK || st == FL_ERR_NOMEM);
    assert_counts_agree(t);
    assert_true(stats_of(t).rows >= N_OLD && stats_of(t).rows <= N_ALL);
    pull_all(t, after);
    check_values(c, st, before, after);
}

/* Fails the k-th allocation of the call. True when it made as many. */
static bool try_call(const call *c, const char *accessor, uint64_t k)
{
    static float before[N_ALL * DIM];
    size_t start = fl_data_bytes();
    fl_table *t = filled_table(accessor);
    uint64_t keys[N_ALL], calls_before;
    bool reached;
    fl_status st;

    fill_keys(keys, 0, N_ALL);
    pull_all(t, before);
    calls_before = fl_data_calls();
    fl_alloc_fail_after(k);
    st = c->run(t, keys);
    fl_alloc_fail_after(0);
    reached = fl_data_calls() - calls_before >= k;
    check_after(c, t, st, before);
    if (!reached)
        assert_ok(st);

    pull_all(t, before);
    assert_ok(c->run(t, keys));
    check_after(c, t, FL_OK, before);
    fl_table_destroy(t);
    assert_int_equal(fl_data_bytes(), start);
    return reached;
}

static void try_all(const call *c, const char *accessor)
{
    uint64_t k = 1;

    while (k < K_MAX && try_call(c, accessor, k))
        k++;
    assert_true(k < K_MAX);
}

static void a_call_without_memory_leaves_a_table_that_works(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(calls); i++) {
        try_all(&calls[i], "plain");
        if (!calls[i].for_full_rows)
            try_all(&calls[i], "ctr");
    }
}

/* --- all of a table's life ------------------------------------------------ */

static void a_table_that_cannot_be_made_leaves_nothing_behind(void **state)
{
    size_t start = fl_data_bytes();

    (void)state;
    for (uint64_t k = 1; k < K_MAX; k++) {
        fl_table_config config = config_of("plain");
        uint64_t calls_before = fl_data_calls();
        fl_table *t = NULL;
        fl_status st;

        fl_alloc_fail_after(k);
        st = fl_table_create(&t, &config);
        fl_alloc_fail_after(0);
        assert_true(st == FL_OK || (st == FL_ERR_NOMEM && !t));
        fl_table_destroy(t);
        assert_int_equal(fl_data_bytes(), start);
        if (fl_data_calls() - calls_before < k)
            break;
    }
}

#define LIFE 40000u
#define LIFE_CALL 500u

/* Calls once more after a failure; there is one failure at most. */
static void push_stubbornly(fl_table *t, const uint64_t *keys, size_t n,
                            int *n_failed)
{
    fl_status st = push_ones(t, keys, n);

    if (st) {
        assert_int_equal(st, FL_ERR_NOMEM);
        ++*n_failed;
        assert_ok(push_ones(t, keys, n));
    }
}

/* Every key was pushed twice, and those of the failed call perhaps once more;
   no row is torn. Returns how many rows have one more. */
static size_t check_life(fl_table *t)
{
    uint64_t *keys = malloc(LIFE * sizeof(*keys));
    float *values = malloc(LIFE * DIM * sizeof(*values));
    size_t n_more = 0;

    fill_keys(keys, 0, LIFE);
    assert_int_equal(stats_of(t).rows, LIFE);
    assert_counts_agree(t);
    assert_ok(fl_table_pull(t, keys, LIFE, FL_PULL_ONLY, values));
    for (size_t i = 0; i < LIFE; i++) {
        const float *v = values + i * DIM;

        assert_true(v[0] == 2 || v[0] == 3);
        assert_true(v[1] == v[0] && v[2] == v[0] && v[3] == v[0]);
        n_more += v[0] == 3;
    }
    free(keys);
    free(values);
    return n_more;
}

/* Grows a table from nothing, and takes most of it away again, with the k-th
   allocation failing. True when there were as many. */
static bool try_life(uint64_t k)
{
    size_t start = fl_data_bytes();
    fl_table_config config = config_of("plain");
    uint64_t keys[LIFE_CALL], calls_before;
    int n_failed = 0;
    bool reached;
    fl_table *t;

    assert_ok(fl_table_create(&t, &config));
    calls_before = fl_data_calls();
    fl_alloc_fail_after(k);
    for (size_t lo = 0; lo < LIFE; lo += LIFE_CALL) {
        fill_keys(keys, lo, LIFE_CALL);
        push_stubbornly(t, keys, LIFE_CALL, &n_failed);
        push_stubbornly(t, keys, LIFE_CALL, &n_failed);
    }
    assert_true(n_failed <= 1);
    assert_true(check_life(t) <= (n_failed ? LIFE_CALL : 0));
    assert_true(stats_of(t).row_bytes <= LIFE * row_layout(&config).bytes);
    for (size_t lo = LIFE_CALL; lo < LIFE; lo += LIFE_CALL) {
        fill_keys(keys, lo, LIFE_CALL);
        fl_table_remove(t, keys, LIFE_CALL, NULL);
    }
    reached = fl_data_calls() - calls_before >= k;
    fl_alloc_fail_after(0);
    assert_int_equal(stats_of(t).rows, LIFE_CALL);
    assert_counts_agree(t);
    fl_table_destroy(t);
    assert_int_equal(fl_data_bytes(), start);
    return reached;
}

/* Most allocations of a life are alike: after the first ones, samples do. */
static void a_table_outlives_any_failed_allocation_of_its_growth(void **state)
{
    uint64_t k = 1, s = 1;

    (void)state;
    while (try_life(k))
        k += k < 20 ? 1 : 1 + draw(&s) % (k / 4);
}

/* Rows of ctr grow from short to full when they are pushed: that needs memory,
   too. A row whose growth failed is short and whole, and grows later. */
static bool try_row_growth(uint64_t k)
{
    size_t start = fl_data_bytes();
    fl_table_config config = config_of("ctr");
    uint64_t keys[N_OLD], calls_before;
    bool reached;
    fl_table *t;
    fl_status st;

    assert_ok(fl_table_create(&t, &config));
    fill_keys(keys, 0, N_OLD);
    assert_ok(push_ones(t, keys, N_OLD));
    assert_int_equal(stats_of(t).short_rows, N_OLD);
    calls_before = fl_data_calls();
    fl_alloc_fail_after(k);
    st = push_ones(t, keys, N_OLD);
    fl_alloc_fail_after(0);
    reached = fl_data_calls() - calls_before >= k;
    assert_true(st == FL_OK || (reached && st == FL_ERR_NOMEM));
    assert_int_equal(stats_of(t).rows, N_OLD);
    assert_counts_agree(t);
    assert_true(st || stats_of(t).short_rows < N_OLD);
    assert_ok(push_ones(t, keys, N_OLD));
    assert_int_equal(stats_of(t).rows, N_OLD);
    assert_int_equal(stats_of(t).short_rows, 0);
    assert_counts_agree(t);
    fl_table_destroy(t);
    assert_int_equal(fl_data_bytes(), start);
    return reached;
}

static void a_short_row_that_cannot_grow_stays_whole(void **state)
{
    uint64_t k = 1;

    (void)state;
    while (k < K_MAX && try_row_growth(k))
        k++;
    assert_true(k < K_MAX);
}

/* Candidates of an entry policy take memory as well. */
static bool try_candidates(uint64_t k)
{
    size_t start = fl_data_bytes();
    fl_table_config config = config_of("plain");
    uint64_t keys[N_ALL], calls_before;
    bool reached;
    fl_table *t;
    fl_status st;

    config.entry = (fl_entry){ FL_ENTRY_COUNT, 3 };
    assert_ok(fl_table_create(&t, &config));
    fill_keys(keys, 0, N_ALL);
    assert_ok(push_ones(t, keys, N_OLD));
    calls_before = fl_data_calls();
    fl_alloc_fail_after(k);
    st = push_ones(t, keys, N_ALL);
    fl_alloc_fail_after(0);
    reached = fl_data_calls() - calls_before >= k;
    assert_true(st == FL_OK || (reached && st == FL_ERR_NOMEM));
    for (int again = 0; again < 3; again++)
        assert_ok(push_ones(t, keys, N_ALL));
    assert_int_equal(stats_of(t).rows, N_ALL);
    assert_int_equal(stats_of(t).candidates, 0);
    assert_counts_agree(t);
    fl_table_destroy(t);
    assert_int_equal(fl_data_bytes(), start);
    return reached;
}

static void candidates_that_find_no_memory_come_in_later(void **state)
{
    uint64_t k = 1;

    (void)state;
    while (k < K_MAX && try_candidates(k))
        k++;
    assert_true(k < K_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_that_cannot_be_made_leaves_nothing_behind),
        cmocka_unit_test(a_call_without_memory_leaves_a_table_that_works),
        cmocka_unit_test(a_table_outlives_any_failed_allocation_of_its_growth),
        cmocka_unit_test(a_short_row_that_cannot_grow_stays_whole),
        cmocka_unit_test(candidates_that_find_no_memory_come_in_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
