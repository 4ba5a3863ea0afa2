/* test_growth.c - 20 million inserts: no single call pays for the growth.
 *
 *     usage: test_growth [millions of keys]
 *
 * Pulls of 10 000 new keys are timed one by one in CPU time of the thread. Each
 * run has the same keys, hence the same growth at the same calls, and of each
 * call the quickest time counts: what the machine does besides is slow once,
 * what the table does is slow every time. A virtual machine may have to ask its
 * host for pages that nobody has used lately, which takes longer than a whole
 * pull; so, outside the time, pages are used and given back all along.
 */
#include "kit.h"

#include <sys/mman.h>

#include "base/thread.h"
#include "table/table.h"
#include "table/index.h"

#define CALL 10000u
#define DIM 8
#define N_PARTITIONS 2
#define SLOWEST_MAX 3.0 /* times the median */
#define N_RUNS 3
#define WARM_CALLS 25 /* so many pulls take less than so many bytes */
#define WARM_BYTES ((size_t)128 << 20)

static uint64_t n_keys = 20000000;

static void use_pages(void)
{
    char *p = mmap(NULL, WARM_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(p != MAP_FAILED);
    madvise(p, WARM_BYTES, MADV_HUGEPAGE);
    memset(p, 1, WARM_BYTES);
    munmap(p, WARM_BYTES);
}

static void time_pulls(uint64_t *ns)
{
    fl_table_config config = {
        .name = "growth",
        .dim = DIM,
        .init = { .kind = FL_INIT_UNIFORM, .a = -1, .b = 1, .stream = 3 },
        .n_partitions = N_PARTITIONS
    };
    static uint64_t keys[CALL];
    static float values[CALL * DIM];
    fl_table_stats stats = FL_INIT(fl_table_stats);
    fl_table *t;

    assert_ok(fl_table_create(&t, &config));
    for (uint64_t lo = 0; lo < n_keys; lo += CALL) {
        uint64_t start, spent;

        if (lo % (WARM_CALLS * CALL) == 0)
            use_pages();
        for (uint64_t i = 0; i < CALL; i++)
            keys[i] = fl_mix64(lo + i);
        start = fl_thread_cpu_ns();
        assert_ok(fl_table_pull(t, keys, CALL, FL_PULL_CREATE, values));
        spent = fl_thread_cpu_ns() - start;
        if (spent < ns[lo / CALL])
            ns[lo / CALL] = spent;
    }
    fl_table_count(t, &stats);
    assert_true(stats.rows == n_keys);
    assert_true(stats.most_moved_in_a_call <=
                FL_TABLE_MOVES_PER_KEY * CALL +
                    FL_TABLE_RUN_MAX * N_PARTITIONS);
    printf("moved %.2f slots for each key, %.2f at most in a call\n",
           (double)stats.slots_moved / (double)n_keys,
           (double)stats.most_moved_in_a_call / CALL);
    fl_table_destroy(t);
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void no_pull_takes_three_times_the_median(void **state)
{
    size_t n_calls = (size_t)(n_keys / CALL);
    uint64_t *ns = malloc(n_calls * sizeof(*ns));
    double median, slowest;

    (void)state;
    assert_non_null(ns);
    memset(ns, 0xff, n_calls * sizeof(*ns));
    for (int i = 0; i < N_RUNS; i++)
        time_pulls(ns);
    qsort(ns, n_calls, sizeof(*ns), by_size);
    median = (double)ns[n_calls / 2];
    slowest = (double)ns[n_calls - 1];
    printf("pulls of %u new keys: median %.0f us, 99 of 100 under %.0f us, "
           "slowest %.0f us = %.2f x median\n",
           CALL, median / 1e3, (double)ns[n_calls * 99 / 100] / 1e3,
           slowest / 1e3, slowest / median);
    free(ns);
    assert_true(slowest <= SLOWEST_MAX * median);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_pull_takes_three_times_the_median),
    };

    n_keys = first_argument(argc, argv, 20) * 1000000;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
