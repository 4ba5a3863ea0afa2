/* test_order.c - results have the same bits on all ranks and on repetition,
 * whatever comes first; calls follow one another; bytes are counted. */
#include "coll_kit.h"

#define LARGE 150000
#define N_CALLS 5

static float in[KIT_RANKS][LARGE], out[KIT_RANKS][LARGE];

/* Numbers whose sum depends on the order of the additions. */
static void make_rough(int n_ranks, size_t n)
{
    for (int r = 0; r < n_ranks; r++)
        for (size_t i = 0; i < n; i++) {
            uint64_t x = fl_mix64(i * 64 + (uint64_t)r);

            in[r][i] =
                (float)((double)(int64_t)x / 9e18) * (float)(1 << (x & 15));
        }
}

static uint64_t hash_of(const float *x, size_t n)
{
    uint64_t h = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &x[i], sizeof(bits));
        h = fl_mix64(h ^ bits);
    }
    return h;
}

/* The hash that all ranks agree on. */
static uint64_t sum_once(int n_ranks, size_t n, uint64_t seed)
{
    uint64_t hash;
    kit k;

    kit_open(&k, n_ranks, seed);
    for (int r = 0; r < n_ranks; r++) {
        fl_coll_call a = {
            .kind = FL_COLL_ALLREDUCE, .in = in[r], .out = out[r], .n = n
        };

        kit_begin(&k, r, a);
    }
    kit_run(&k);
    kit_expect_done(&k, 1);
    hash = hash_of(out[0], n);
    for (int r = 1; r < n_ranks; r++)
        assert_int_equal(hash_of(out[r], n), hash);
    kit_close(&k);
    return hash;
}

static void sums_have_the_same_bits_whatever_comes_first(void **state)
{
    static const size_t sizes[] = { 1, 1000, LARGE };
    (void)state;

    for (int n_ranks = 2; n_ranks <= KIT_RANKS; n_ranks++)
        for (size_t i = 0; i < FL_LEN(sizes); i++) {
            uint64_t first;

            make_rough(n_ranks, sizes[i]);
            first = sum_once(n_ranks, sizes[i], 1);
            for (uint64_t seed = 2; seed < 5; seed++)
                assert_int_equal(sum_once(n_ranks, sizes[i], seed), first);
        }
}

/* Two NaNs with different bits: which one is kept depends on the order. */
static void a_nan_has_the_same_bits_on_all_ranks(void **state)
{
    (void)state;
    for (int n_ranks = 2; n_ranks <= 9; n_ranks++) {
        for (int r = 0; r < n_ranks; r++) {
            uint32_t bits = 0x7fc00000u + (uint32_t)r + 1;

            memcpy(&in[r][0], &bits, sizeof(bits));
        }
        (void)sum_once(n_ranks, 1, 3);
    }
}

/* --- several calls ----------------------------------------------------------- */

/* Ranks begin calls of two rings when they like. */
static void calls_of_several_rings_are_under_way_at_once(void **state)
{
    static int64_t v[4][2][N_CALLS][600];
    (void)state;

    for (uint64_t seed = 0; seed < 20; seed++) {
        int next[4][2] = { 0 }, left = 4 * 2 * N_CALLS;
        kit k;

        kit_open(&k, 4, seed);
        while (left) {
            int r = (int)kit_draw(&k, 4), ring = (int)kit_draw(&k, 2);
            int i = next[r][ring];
            fl_coll_call a = { .kind = FL_COLL_ALLREDUCE,
                               .dtype = FL_DTYPE_I64,
                               .ring = ring,
                               .n = 600 };

            if (i == N_CALLS)
                continue;
            for (size_t j = 0; j < a.n; j++)
                v[r][ring][i][j] = r + 10 * i + 100 * ring;
            a.in = a.out = v[r][ring][i];
            kit_begin(&k, r, a);
            next[r][ring]++;
            left--;
            if (kit_draw(&k, 3) == 0)
                (void)kit_bring_one(&k);
        }
        kit_run(&k);
        kit_expect_done(&k, 2 * N_CALLS);
        for (int r = 0; r < 4; r++)
            for (int ring = 0; ring < 2; ring++)
                for (int i = 0; i < N_CALLS; i++)
                    assert_int_equal(v[r][ring][i][599],
                                     6 + 4 * (10 * i + 100 * ring));
        kit_close(&k);
    }
}

/* The root of many broadcasts waits for receipts: parts do not pile up where
   nobody has asked for them yet. */
static void who_is_ahead_is_slowed_down(void **state)
{
    static float to[20][LARGE];
    kit k;
    (void)state;

    kit_open(&k, 2, 7);
    for (int i = 0; i < 20; i++) {
        fl_coll_call a = { .kind = FL_COLL_BROADCAST, .n = LARGE };

        a.in = a.out = in[0];
        kit_begin(&k, 0, a);
    }
    kit_run(&k);
    assert_true(k.most_under_way <= 8);
    assert_true(k.ranks[0].n_done < 10);
    for (int i = 0; i < 20; i++) {
        fl_coll_call a = { .kind = FL_COLL_BROADCAST,
                           .n = LARGE,
                           .out = to[i] };

        kit_begin(&k, 1, a);
    }
    kit_run(&k);
    kit_expect_done(&k, 20);
    assert_memory_equal(to[19], in[0], sizeof(to[19]));
    kit_close(&k);
}

/* One has begun all calls, the others begin each when the one before has
   ended. */
static void who_begins_many_does_not_hold_up_who_begins_one(void **state)
{
    static float v[3][20][LARGE / 2];
    fl_coll_call a = { .kind = FL_COLL_ALLREDUCE, .n = LARGE / 2 };
    kit k;
    (void)state;

    kit_open(&k, 3, 3);
    for (int i = 0; i < 20; i++) {
        a.in = a.out = v[0][i];
        kit_begin(&k, 0, a);
    }
    for (int i = 0; i < 20; i++) {
        kit_run(&k);
        assert_int_equal(k.ranks[1].n_done, i);
        for (int r = 1; r < 3; r++) {
            a.in = a.out = v[r][i];
            kit_begin(&k, r, a);
        }
    }
    kit_run(&k);
    kit_expect_done(&k, 20);
    kit_close(&k);
}

static void a_barrier_holds_until_the_last_has_come(void **state)
{
    (void)state;
    for (int n_ranks = 2; n_ranks <= 9; n_ranks++) {
        fl_coll_call a = { .kind = FL_COLL_BARRIER };
        kit k;

        kit_open(&k, n_ranks, 1);
        for (int r = 0; r < n_ranks - 1; r++)
            kit_begin(&k, r, a);
        kit_run(&k);
        kit_expect_done(&k, 0);
        kit_begin(&k, n_ranks - 1, a);
        kit_run(&k);
        kit_expect_done(&k, 1);
        kit_close(&k);
    }
}

/* --- bytes ------------------------------------------------------------------- */

static void a_large_sum_sends_no_more_than_it_must(void **state)
{
    (void)state;
    for (int n_ranks = 2; n_ranks <= KIT_RANKS; n_ranks++) {
        size_t n = (size_t)n_ranks * (LARGE / (size_t)n_ranks), bytes;
        kit k;

        kit_open(&k, n_ranks, 1);
        for (int r = 0; r < n_ranks; r++) {
            fl_coll_call a = { .kind = FL_COLL_ALLREDUCE, .n = n };

            a.in = a.out = in[r];
            kit_begin(&k, r, a);
        }
        kit_run(&k);
        kit_expect_done(&k, 1);
        bytes = 2 * n / (size_t)n_ranks * (size_t)(n_ranks - 1) * sizeof(float);
        for (int r = 0; r < n_ranks; r++) {
            const fl_coll_stats *s = fl_coll_stats_of(k.ranks[r].c);

            assert_int_equal(fl_stat_get(&s->calls), 2);
            assert_int_equal(fl_stat_get(&s->sent), bytes);
            assert_int_equal(fl_stat_get(&s->received), bytes);
        }
        kit_close(&k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_have_the_same_bits_whatever_comes_first),
        cmocka_unit_test(a_nan_has_the_same_bits_on_all_ranks),
        cmocka_unit_test(calls_of_several_rings_are_under_way_at_once),
        cmocka_unit_test(who_is_ahead_is_slowed_down),
        cmocka_unit_test(who_begins_many_does_not_hold_up_who_begins_one),
        cmocka_unit_test(a_barrier_holds_until_the_last_has_come),
        cmocka_unit_test(a_large_sum_sends_no_more_than_it_must),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
