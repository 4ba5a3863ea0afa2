/* test_rows.c - 100 million rows in one process, and what they cost.
 *
 *     usage: test_rows [millions of rows]
 *
 * Two threads pull keys of their own, as two trainers would. What is beyond the
 * values themselves - headers, the index, what growing keeps ready - may cost
 * 24 bytes a row, by the table's own account and by the system's.
 */
#include "kit.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "table/table.h"

#define CALL 10000u
#define DIM 8
#define VALUE_BYTES (DIM * sizeof(float))
#define N_THREADS 2
#define OVERHEAD_MAX 24.0
#define PROCESS_MAX ((uint64_t)8 << 30)

static uint64_t n_rows = 100000000;

static const fl_init init = {
    .kind = FL_INIT_UNIFORM, .a = -1, .b = 1, .stream = 3
};

typedef struct worker {
    fl_table *t;
    uint64_t lo, hi;
    fl_status st;
    uint64_t keys[CALL];
    float values[CALL * DIM];
} worker;

static void pull_keys(void *arg)
{
    worker *w = arg;

    for (uint64_t lo = w->lo; lo < w->hi && !w->st; lo += CALL) {
        for (uint64_t i = 0; i < CALL; i++)
            w->keys[i] = fl_mix64(lo + i);
        w->st = fl_table_pull(w->t, w->keys, CALL, FL_PULL_CREATE, w->values);
    }
}

static void fill(fl_table *t)
{
    worker *w = calloc(N_THREADS, sizeof(*w));
    fl_thread *threads[N_THREADS];

    for (uint64_t i = 0; i < N_THREADS; i++) {
        w[i].t = t;
        w[i].lo = n_rows / N_THREADS * i;
        w[i].hi = n_rows / N_THREADS * (i + 1);
        assert_ok(fl_thread_start(&threads[i], "fill", pull_keys, &w[i]));
    }
    for (int i = 0; i < N_THREADS; i++) {
        fl_thread_join(threads[i]);
        assert_int_equal(w[i].st, FL_OK);
    }
    free(w);
}

/* Some of the rows, from all over: each holds what it was born with. */
static void check_sample(fl_table *t)
{
    float got[DIM], want[DIM];
    uint64_t s = 1;

    for (int i = 0; i < 100000; i++) {
        uint64_t key = fl_mix64(draw(&s) % n_rows);

        assert_ok(fl_table_pull(t, &key, 1, FL_PULL_ONLY, got));
        fl_init_row(&init, key, want, DIM);
        assert_memory_equal(got, want, sizeof(got));
    }
}

static void hundred_million_rows_fit(void **state)
{
    fl_table_config config = { .name = "rows", .dim = DIM, .init = init };
    uint64_t before = process_bytes("VmHWM"), most;
    fl_table_stats stats = FL_INIT(fl_table_stats);
    double by_table, by_system;
    fl_table *t;

    (void)state;
    assert_ok(fl_table_create(&t, &config));
    fill(t);
    fl_table_count(t, &stats);
    assert_true(stats.rows == n_rows);
    check_sample(t);

    most = process_bytes("VmHWM");
    by_table = (double)(stats.index_bytes + stats.row_bytes) / (double)n_rows -
               VALUE_BYTES;
    by_system = (double)(most - before) / (double)n_rows - VALUE_BYTES;
    printf("%.0f million rows of %d floats: %.2f GB at most; beyond the values "
           "%.1f bytes a row by the table, %.1f by the system at its most\n",
           (double)n_rows / 1e6, DIM, (double)most / (1 << 30), by_table,
           by_system);
    fl_table_destroy(t);
    assert_true(most <= PROCESS_MAX);
    assert_true(by_table <= OVERHEAD_MAX);
    assert_true(by_system <= OVERHEAD_MAX);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hundred_million_rows_fit),
    };

    n_rows = first_argument(argc, argv, 100) * 1000000;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
