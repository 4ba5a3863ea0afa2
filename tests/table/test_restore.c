/* test_restore.c - rows put back by columns: by any number of threads, in any
 * order, with less or more in them than the table has. */
#include "kit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "table/inside.h"
#include "table/restore.h"
#include "table/row.h"

#define DIM 3
#define N 20000u

static fl_table *make(const char *settings)
{
    fl_table_config config;
    fl_table *t;

    assert_ok(fl_table_config_parse(&config, "rows", settings, 7));
    assert_ok(fl_table_create(&t, &config));
    return t;
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = fl_hash_key(*(const uint64_t *)a);
    uint64_t y = fl_hash_key(*(const uint64_t *)b);

    return (x > y) - (x < y);
}

/* Keys in the order of the hash, and values that follow from them. */
static uint64_t *make_keys(size_t n)
{
    uint64_t *keys = malloc(n * sizeof(*keys));

    for (size_t i = 0; i < n; i++)
        keys[i] = i;
    qsort(keys, n, sizeof(*keys), by_hash);
    return keys;
}

static float *make_values(const uint64_t *keys, size_t n, uint32_t len)
{
    float *values = malloc(n * len * sizeof(*values));

    for (size_t i = 0; i < n * len; i++)
        values[i] = (float)(keys[i / len] * 10 + i % len);
    return values;
}

typedef struct share {
    fl_table *t;
    const uint64_t *keys;
    const float *values;
    size_t lo, hi;
} share;

static void restore_share(void *arg)
{
    share *s = arg;

    for (size_t lo = s->lo; lo < s->hi; lo += 777) {
        size_t n = s->hi - lo < 777 ? s->hi - lo : 777;

        assert_ok(fl_table_restore_rows(
            s->t, &(fl_restore_rows){
                      .n = n,
                      .keys = s->keys + lo,
                      .columns = { { s->values + lo * DIM, DIM } } }));
    }
}

static void threads_restore_rows_and_all_are_there(void **state)
{
    fl_table *t = make("dim=3 partitions=4");
    uint64_t *keys = make_keys(N);
    float *values = make_values(keys, N, DIM);
    float *got = malloc(N * DIM * sizeof(*got));
    share s[2] = { { t, keys, values, 0, N / 3 },
                   { t, keys, values, N / 3, N } };
    fl_thread *thread;

    (void)state;
    assert_ok(fl_table_reserve(t, 0, FL_TABLE_SHARDS - 1, N));
    assert_ok(fl_thread_start(&thread, "restore", restore_share, &s[0]));
    restore_share(&s[1]);
    fl_thread_join(thread);
    assert_int_equal(stats_of(t).rows, N);
    assert_int_equal(stats_of(t).slots_moved, 0);
    assert_ok(fl_table_pull(t, keys, N, FL_PULL_ONLY, got));
    assert_memory_equal(got, values, N * DIM * sizeof(*got));
    free(got);
    free(keys);
    free(values);
    fl_table_destroy(t);
}

/* A server has a range of the shards, and so all of its rows in a part of one
   partition. */
static void room_for_some_shards_is_room_for_their_rows(void **state)
{
    fl_table *t = make("dim=3 partitions=2");
    uint64_t *keys = make_keys(N);
    float *values = make_values(keys, N, DIM);
    size_t lo = 0, hi;

    (void)state;
    while (fl_table_shard_of(keys[lo]) < 128)
        lo++;
    for (hi = lo; fl_table_shard_of(keys[hi]) < 256;)
        hi++;
    assert_ok(fl_table_reserve(t, 128, 255, hi - lo));
    restore_share(&(share){ t, keys, values, lo, hi });
    assert_int_equal(stats_of(t).rows, hi - lo);
    assert_int_equal(stats_of(t).slots_moved, 0);
    free(keys);
    free(values);
    fl_table_destroy(t);
}

typedef struct copy {
    uint64_t key;
    char bytes[256];
    uint32_t epoch;
    bool is_found, is_short;
    size_t n;
} copy;

static bool copy_row(void *arg, const fl_row_view *row)
{
    copy *c = arg;

    if (row->key != c->key)
        return true;
    c->is_found = true;
    c->is_short = row->is_short;
    c->epoch = row->epoch;
    memcpy(c->bytes, row->row, c->n);
    return false;
}

static copy look_at(fl_table *t, uint64_t key)
{
    const fl_row_layout *l = &fl_table_acc(t)->layout;
    copy c = { .key = key, .n = l->short_bytes ? l->short_bytes : l->bytes };

    assert_ok(fl_table_scan(t, fl_table_shard_of(key), 0, copy_row, &c));
    return c;
}

static void a_column_that_is_missing_or_narrow_is_as_in_a_new_row(void **state)
{
    fl_table *t = make("dim=3 optimizer=adagrad init=constant(9)");
    const uint64_t key = 4;
    const float narrow[] = { 1, 2 }, wide[] = { 5, 6, 7, 8 };
    float row[7], got[3];
    copy c;

    (void)state;
    assert_ok(fl_table_restore_rows(
        t, &(fl_restore_rows){ .n = 1,
                               .keys = &key,
                               .columns = { { wide, 3 }, { wide, 3 } } }));
    assert_ok(fl_table_restore_rows(
        t, &(fl_restore_rows){ .n = 1,
                               .keys = &key,
                               .epochs = &(uint32_t){ 12 },
                               .columns = { { narrow, 2 } } }));
    c = look_at(t, key);
    assert_int_equal(c.epoch, 12);
    assert_int_equal(fl_table_epoch(t), 12);
    memcpy(row, c.bytes, sizeof(row));
    assert_true(row[1] == 1 && row[2] == 2 && row[3] == 9);
    assert_true(row[4] == 0 && row[5] == 0 && row[6] == 0);
    assert_ok(fl_table_restore_rows(
        t, &(fl_restore_rows){
               .n = 1, .keys = &key, .columns = { { wide, 4 } } }));
    assert_ok(fl_table_pull(t, &key, 1, FL_PULL_ONLY, got));
    assert_true(got[0] == 5 && got[1] == 6 && got[2] == 7);
    assert_int_equal(stats_of(t).rows, 1);
    fl_table_destroy(t);
}

static void a_row_takes_the_form_that_is_restored(void **state)
{
    fl_table *t = make("dim=3 accessor=ctr init=constant(2)");
    const uint64_t key = 8;
    const float one = 1, two[2] = { 3, 4 };
    fl_restore_rows r = { .kind = FL_CUT_SHORT,
                          .n = 1,
                          .keys = &key,
                          .columns = { [3] = { &one, 1 } } };
    float got[3];

    (void)state;
    assert_ok(fl_table_restore_rows(t, &r));
    assert_true(look_at(t, key).is_short);
    r.kind = FL_CUT_FULL;
    r.columns[4] = (fl_restore_column){ two, 2 };
    assert_ok(fl_table_restore_rows(t, &r));
    assert_false(look_at(t, key).is_short);
    assert_int_equal(stats_of(t).rows, 1);
    assert_int_equal(stats_of(t).short_rows, 0);
    assert_ok(fl_table_pull(t, &key, 1, FL_PULL_ONLY, got));
    assert_true(got[0] == 1 && got[1] == 3 && got[2] == 4);
    fl_table_destroy(t);
}

/* The second push makes the row: the first was counted before the save. */
static void a_candidate_goes_on_counting(void **state)
{
    fl_table *t = make("dim=3 entry=count_filter_entry:3");
    const uint64_t key = 77;
    const float two = 2, grads[DIM] = { 0 };

    (void)state;
    assert_ok(fl_table_restore_rows(
        t, &(fl_restore_rows){ .kind = FL_CUT_CANDIDATE,
                               .n = 1,
                               .keys = &key,
                               .columns = { { &two, 1 } } }));
    assert_int_equal(stats_of(t).candidates, 1);
    assert_ok(fl_table_push(
        t,
        &(fl_rows){
            .keys = &key, .values = grads, .n = 1, .lr = 1, .merged = true }));
    assert_int_equal(stats_of(t).candidates, 0);
    assert_int_equal(stats_of(t).rows, 1);
    fl_table_destroy(t);
}

static void expect(fl_status got, fl_status wanted, const char *why)
{
    assert_int_equal(got, wanted);
    if (!strstr(fl_last_error(), why))
        fail_msg("'%s' does not say '%s'", fl_last_error(), why);
}

static void what_cannot_be_is_refused(void **state)
{
    fl_table *t = make("dim=3 optimizer=adam height=100 max_rows=1");
    const uint64_t keys[] = { 1, 2 }, high = 100;
    const double scalars[] = { 1, 2 };
    fl_table_cut *c;

    (void)state;
    expect(fl_table_restore_rows(t, &(fl_restore_rows){ .kind = FL_CUT_SHORT,
                                                        .n = 1,
                                                        .keys = keys }),
           FL_ERR_INVAL, "no short rows");
    expect(
        fl_table_restore_rows(t, &(fl_restore_rows){ .n = 1, .keys = &high }),
        FL_ERR_INVAL, "is not below its height 100");
    expect(fl_table_restore_rows(
               t, &(fl_restore_rows){ .n = 1,
                                      .keys = keys,
                                      .epochs = &(uint32_t){ UINT32_MAX } }),
           FL_ERR_CORRUPT, "which is none");
    expect(fl_table_restore_rows(t, &(fl_restore_rows){ .n = 2, .keys = keys }),
           FL_ERR_INVAL, "max_rows");
    expect(fl_table_restore_moment(t, &(fl_cut_moment){ 0 }), FL_ERR_CORRUPT,
           "0 is no epoch");
    expect(fl_table_restore_moment(
               t, &(fl_cut_moment){ .epoch = 5,
                                    .days = (uint32_t[]){ 3, 2 },
                                    .n_days = 2 }),
           FL_ERR_CORRUPT, "out of order");
    expect(fl_table_restore_moment(t, &(fl_cut_moment){ .epoch = 5,
                                                        .scalars = scalars,
                                                        .n_scalars = 1 }),
           FL_ERR_INVAL, "adam has 2 scalars and not 1");
    assert_ok(fl_table_cut_begin(&c, t, NULL));
    expect(fl_table_restore_rows(t, &(fl_restore_rows){ .n = 1, .keys = keys }),
           FL_ERR_INVAL, "load when the save has ended");
    fl_table_cut_end(c);
    fl_table_destroy(t);
}

static void days_and_scalars_go_on_where_they_were(void **state)
{
    fl_table *t = make("dim=3 optimizer=adam");
    const double scalars[] = { 0.25, 0.5 };
    const uint32_t days[] = { 3, 7 };
    const fl_cut_moment *m;
    fl_table_cut *c;

    (void)state;
    assert_ok(fl_table_restore_moment(t, &(fl_cut_moment){ .epoch = 9,
                                                           .days = days,
                                                           .n_days = 2,
                                                           .scalars = scalars,
                                                           .n_scalars = 2 }));
    fl_table_end_day(t);
    assert_ok(fl_table_cut_begin(&c, t, NULL));
    m = fl_table_cut_moment(c);
    assert_int_equal(m->epoch, 11);
    assert_int_equal(m->n_days, 3);
    assert_int_equal(m->days[1], 7);
    assert_int_equal(m->days[2], 10);
    assert_true(m->scalars[0] == 0.25 && m->scalars[1] == 0.5);
    fl_table_cut_end(c);
    fl_table_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_restore_rows_and_all_are_there),
        cmocka_unit_test(room_for_some_shards_is_room_for_their_rows),
        cmocka_unit_test(a_column_that_is_missing_or_narrow_is_as_in_a_new_row),
        cmocka_unit_test(a_row_takes_the_form_that_is_restored),
        cmocka_unit_test(a_candidate_goes_on_counting),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(days_and_scalars_go_on_where_they_were),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
