/* test_order.c - 10 million rows in the order of a scan, as every load has them,
 * take no longer than in a random order: by the work of the index, which is
 * counted.
 *
 *     usage: test_order [millions of rows]
 */
#include "kit.h"

#include "base/alloc.h"
#include "table/index.h"
#include "table/inside.h"
#include "table/restore.h"
#include "table/table.h"

#define STEP 4096u

static uint64_t n_rows = 10000000;

static int by_hash(const void *a, const void *b)
{
    uint64_t x = fl_index_hash(*(const uint64_t *)a);
    uint64_t y = fl_index_hash(*(const uint64_t *)b);

    return (x > y) - (x < y);
}

/* Slots that were moved to bring the keys in, in this order. */
static uint64_t count_moves(const uint64_t *keys, bool reserves)
{
    fl_table_config config;
    fl_table_stats s = FL_INIT(fl_table_stats);
    fl_table *t;

    assert_ok(fl_table_config_parse(&config, "rows", "dim=1 partitions=2", 1));
    assert_ok(fl_table_create(&t, &config));
    if (reserves)
        assert_ok(fl_table_reserve(t, 0, FL_TABLE_SHARDS - 1, n_rows));
    for (uint64_t lo = 0; lo < n_rows; lo += STEP) {
        size_t n = n_rows - lo < STEP ? n_rows - lo : STEP;

        assert_ok(fl_table_restore_rows(
            t, &(fl_restore_rows){ .n = n, .keys = keys + lo }));
    }
    fl_table_count(t, &s);
    assert_int_equal(s.rows, n_rows);
    fl_table_destroy(t);
    return s.slots_moved;
}

static void rows_in_the_order_of_a_scan_take_no_longer(void **state)
{
    uint64_t *keys = fl_alloc(n_rows * sizeof(*keys));
    uint64_t scan, any;

    (void)state;
    for (uint64_t i = 0; i < n_rows; i++)
        keys[i] = i;
    any = count_moves(keys, false);
    qsort(keys, n_rows, sizeof(*keys), by_hash);
    scan = count_moves(keys, false);
    printf("slots moved: %llu in a random order, %llu in that of a scan\n",
           (unsigned long long)any, (unsigned long long)scan);
    assert_true(scan <= any);
    assert_int_equal(count_moves(keys, true), 0);
    fl_free(keys);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_the_order_of_a_scan_take_no_longer),
    };

    n_rows = first_argument(argc, argv, 10) * 1000000;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
