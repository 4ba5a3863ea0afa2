/* test_threads.c - two threads at one table. Every count comes out right: rows
 * are read and written under the lock of their partition, so no update is lost
 * and no row is seen half written. */
#include "kit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "table/partition.h"

#define DIM 5
#define N_THREADS 2
#define N_KEYS 3000u
#define BATCH 300u
#define N_ROUNDS 300

/* What one thread does: its own keys, or those of all. */
typedef struct worker {
    fl_table *t;
    uint64_t seed;
    uint64_t keys[N_KEYS];
    uint32_t pushed[N_KEYS]; /* how often this thread has pushed the key */
    atomic_int *n_working;
} worker;

static void pull_and_check(fl_table *t, const uint64_t *keys)
{
    float values[BATCH * DIM];

    assert_ok(fl_table_pull(t, keys, BATCH, FL_PULL_CREATE, values));
    for (size_t i = 0; i < BATCH; i++)
        for (size_t d = 1; d < DIM; d++)
            assert_true(values[i * DIM + d] == values[i * DIM]);
}

/* Batches of random keys, repeats included. */
static void push_and_pull(void *arg)
{
    worker *w = arg;
    uint64_t keys[BATCH];
    float grads[BATCH * DIM];
    fl_rows a = { .keys = keys, .values = grads, .n = BATCH, .lr = 1 };

    for (size_t i = 0; i < BATCH * DIM; i++)
        grads[i] = -1;
    for (int round = 0; round < N_ROUNDS; round++) {
        for (size_t i = 0; i < BATCH; i++) {
            size_t k = draw(&w->seed) % N_KEYS;

            keys[i] = w->keys[k];
            w->pushed[k]++;
        }
        pull_and_check(w->t, keys);
        assert_ok(fl_table_push(w->t, &a));
    }
    atomic_fetch_sub(w->n_working, 1);
}

static void init_workers(worker *w, fl_table *t, atomic_int *n_working)
{
    *n_working = N_THREADS;
    for (size_t i = 0; i < N_THREADS; i++)
        w[i] = (worker){ .t = t, .seed = i, .n_working = n_working };
}

/* Runs the workers, and `beside` on this thread until they are done. */
static void run_workers(worker *w, void (*beside)(fl_table *t))
{
    fl_thread *threads[N_THREADS];

    for (size_t i = 0; i < N_THREADS; i++)
        assert_ok(fl_thread_start(&threads[i], "worker", push_and_pull, &w[i]));
    while (beside && atomic_load(w->n_working))
        beside(w->t);
    for (size_t i = 0; i < N_THREADS; i++)
        fl_thread_join(threads[i]);
}

static void assert_count(fl_table *t, uint64_t key, uint32_t count)
{
    float value[DIM];

    assert_ok(fl_table_pull(t, &key, 1, FL_PULL_ONLY, value));
    for (size_t d = 0; d < DIM; d++)
        assert_true(value[d] == (float)count);
}

static fl_table *new_table(int n_partitions)
{
    fl_table_config config = adding_config(DIM, n_partitions);
    fl_table *t;

    assert_ok(fl_table_create(&t, &config));
    return t;
}

/* --- partitions of their own ---------------------------------------------- */

static void
threads_on_different_partitions_do_not_disturb_each_other(void **state)
{
    worker *w = malloc(N_THREADS * sizeof(*w));
    fl_table *t = new_table(N_THREADS);
    uint64_t key = 0, rows = 0;
    atomic_int n_working;

    (void)state;
    init_workers(w, t, &n_working);
    for (uint32_t i = 0; i < N_THREADS; i++)
        for (size_t k = 0; k < N_KEYS; k++) {
            while (fl_table_shard_of(key) / (FL_TABLE_SHARDS / N_THREADS) != i)
                key++;
            w[i].keys[k] = key++;
        }
    run_workers(w, NULL);
    for (size_t i = 0; i < N_THREADS; i++)
        for (size_t k = 0; k < N_KEYS; k++) {
            assert_count(t, w[i].keys[k], w[i].pushed[k]);
            rows += w[i].pushed[k] > 0;
        }
    assert_int_equal(stats_of(t).rows, rows);
    fl_table_destroy(t);
    free(w);
}

/* --- the same keys ------------------------------------------------------- */

static void count_together(int n_partitions, void (*beside)(fl_table *t))
{
    worker *w = malloc(N_THREADS * sizeof(*w));
    fl_table *t = new_table(n_partitions);
    uint64_t rows = 0;
    atomic_int n_working;

    init_workers(w, t, &n_working);
    for (size_t i = 0; i < N_THREADS; i++)
        for (size_t k = 0; k < N_KEYS; k++)
            w[i].keys[k] = fl_mix64(k);
    run_workers(w, beside);
    for (size_t k = 0; k < N_KEYS; k++) {
        uint32_t sum = w[0].pushed[k] + w[1].pushed[k];

        assert_count(t, w[0].keys[k], sum);
        rows += sum > 0;
    }
    assert_int_equal(stats_of(t).rows, rows);
    fl_table_destroy(t);
    free(w);
}

static void threads_on_the_same_keys_lose_no_update(void **state)
{
    (void)state;
    count_together(1, NULL);
    count_together(2, NULL);
    count_together(32, NULL);
}

/* A few keys at a time, of partitions that are still empty, as are those between
   them. */
#define N_FIRST 60

static void pull_a_few(void *arg)
{
    const worker *w = arg;
    float values[3 * DIM];

    for (size_t k = 0; k < N_FIRST; k += 3)
        assert_ok(fl_table_pull(w->t, w->keys + k, 3, FL_PULL_CREATE, values));
}

static void make_first_rows(worker *w)
{
    fl_table *t = new_table(32);
    fl_thread *threads[N_THREADS];

    for (size_t i = 0; i < N_THREADS; i++) {
        w[i].t = t;
        for (size_t k = 0; k < N_FIRST; k++)
            w[i].keys[k] = fl_mix64((k * 7 + i * 11) % N_FIRST);
        assert_ok(fl_thread_start(&threads[i], "pulls", pull_a_few, &w[i]));
    }
    for (size_t i = 0; i < N_THREADS; i++)
        fl_thread_join(threads[i]);
    assert_int_equal(stats_of(t).rows, N_FIRST);
    fl_table_destroy(t);
}

static void threads_that_pull_a_few_keys_make_each_row_once(void **state)
{
    worker *w = calloc(N_THREADS, sizeof(*w));

    (void)state;
    for (int round = 0; round < 100; round++)
        make_first_rows(w);
    free(w);
}

/* --- looking on meanwhile ------------------------------------------------ */

typedef struct look {
    uint32_t shard, offset;
    uint64_t n;
} look;

static bool look_at_row(void *arg, const fl_row_view *row)
{
    look *l = arg;
    float value[DIM];

    memcpy(value, (const char *)row->row + l->offset, sizeof(value));
    for (size_t d = 1; d < DIM; d++)
        assert_true(value[d] == value[0]);
    assert_int_equal(fl_table_shard_of(row->key), l->shard);
    assert_true(row->epoch >= 1);
    l->n++;
    return true;
}

static void scan_all(fl_table *t)
{
    fl_table_config config = adding_config(DIM, 1);
    look l = { .offset = row_layout(&config).value };
    uint64_t rows_before = stats_of(t).rows;

    for (l.shard = 0; l.shard < FL_TABLE_SHARDS; l.shard++)
        assert_ok(fl_table_scan(t, l.shard, 0, look_at_row, &l));
    assert_true(l.n >= rows_before && l.n <= N_KEYS);
    fl_table_advance_epoch(t);
    fl_table_end_day(t);
}

static void a_scan_sees_whole_rows_while_others_push(void **state)
{
    (void)state;
    count_together(1, scan_all);
    count_together(4, scan_all);
    count_together(32, scan_all);
}

/* Nothing is unseen for so long, so nothing may go. */
static void shrink_and_ask(fl_table *t)
{
    uint64_t key = UINT64_MAX, n_removed;
    float value[DIM] = { 0 };

    assert_ok(fl_table_shrink(t, 1 << 20, &n_removed));
    assert_int_equal(n_removed, 0);
    assert_ok(fl_table_assign(t, &key, 1, value));
    fl_table_remove(t, &key, 1, NULL);
    assert_true(fl_table_epoch(t) >= 1);
    assert_true(stats_of(t).rows <= N_KEYS);
}

static void care_of_a_table_disturbs_no_one(void **state)
{
    (void)state;
    count_together(2, shrink_and_ask);
}

/* Rows come and go under the hands of the pushers; none may be half there. */
static void clear_now_and_then(fl_table *t)
{
    uint64_t keys[N_KEYS / 10];

    for (size_t k = 0; k < FL_LEN(keys); k++)
        keys[k] = fl_mix64(k * 10);
    fl_table_remove(t, keys, FL_LEN(keys), NULL);
    if (stats_of(t).rows > N_KEYS / 2)
        fl_table_clear(t);
}

static void rows_may_go_while_others_push(void **state)
{
    worker *w = malloc(N_THREADS * sizeof(*w));
    fl_table *t = new_table(2);
    atomic_int n_working;

    (void)state;
    init_workers(w, t, &n_working);
    for (size_t i = 0; i < N_THREADS; i++)
        for (size_t k = 0; k < N_KEYS; k++)
            w[i].keys[k] = fl_mix64(k);
    run_workers(w, clear_now_and_then);
    assert_true(stats_of(t).rows <= N_KEYS);
    scan_all(t);
    fl_table_clear(t);
    assert_int_equal(stats_of(t).rows, 0);
    fl_table_destroy(t);
    free(w);
}

/* A server of several has keys of one range alone: its threads have as many
   partitions for these as they would have for all. */
static void a_range_of_keys_has_partitions_of_its_own(void **state)
{
    fl_table_config config = adding_config(1, 2);
    bool is_met[2 * 3 * 2] = { false };
    uint64_t seed = 1;
    size_t n = 0;
    fl_table *t;

    (void)state;
    config.n_holders = 3;
    assert_ok(fl_table_create(&t, &config));
    assert_true(t->n_parts <= (int)FL_LEN(is_met));
    for (int i = 0; i < 1000; i++) {
        uint64_t key = draw(&seed);
        size_t part = (size_t)(fl_table_part(t, fl_hash_key(key)) - t->parts);

        if (fl_server_of(key, 3) != 1)
            continue;
        n += !is_met[part];
        is_met[part] = true;
    }
    assert_true(n >= 2);
    fl_table_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            threads_on_different_partitions_do_not_disturb_each_other),
        cmocka_unit_test(threads_on_the_same_keys_lose_no_update),
        cmocka_unit_test(threads_that_pull_a_few_keys_make_each_row_once),
        cmocka_unit_test(a_scan_sees_whole_rows_while_others_push),
        cmocka_unit_test(care_of_a_table_disturbs_no_one),
        cmocka_unit_test(rows_may_go_while_others_push),
        cmocka_unit_test(a_range_of_keys_has_partitions_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
