/* test_kinds.c - every kind of call, with every type, size and number of
 * ranks, against the plain definition. */
#include "kinds_kit.h"

#define MOST 300000 /* more than a chunk of every type */

static void one(fl_coll_call a, int n_ranks, uint64_t seed)
{
    values v;
    kit k;

    kinds_make_values(&v, n_ranks, a.dtype, a.n);
    kit_open(&k, n_ranks, seed);
    for (int r = 0; r < n_ranks; r++) {
        a.in = v.in[r];
        a.out = v.out[r];
        kit_begin(&k, r, a);
    }
    kit_run(&k);
    kit_expect_done(&k, 1);
    for (int r = 0; r < n_ranks; r++)
        kinds_check(&a, &v, n_ranks, r);
    kit_close(&k);
    kinds_free_values(&v, n_ranks);
}

static const fl_dtype types[] = { FL_DTYPE_F32, FL_DTYPE_F64, FL_DTYPE_I32,
                                  FL_DTYPE_I64, FL_DTYPE_U8 };

static void one_of_each_type(fl_coll_call a, int n_ranks)
{
    bool is_sum = a.kind == FL_COLL_ALLREDUCE || a.kind == FL_COLL_REDUCE ||
                  a.kind == FL_COLL_REDUCESCATTER;

    for (size_t t = 0; t < FL_LEN(types) - is_sum; t++) {
        a.dtype = types[t];
        one(a, n_ranks, a.n + t);
    }
}

static void every_kind_gives_what_it_says(void **state)
{
    static const size_t sizes[] = { 0, 1, 5, 48, 1001 };
    (void)state;

    for (int n_ranks = 1; n_ranks <= 9; n_ranks++)
        for (size_t i = 0; i < FL_LEN(sizes); i++)
            for (int kind = 0; kind < FL_COLL_KIND_COUNT; kind++) {
                fl_coll_call a = { .kind = (fl_coll_kind)kind, .n = sizes[i] };

                if (kind == FL_COLL_REDUCESCATTER)
                    a.n *= (size_t)n_ranks;
                a.root = n_ranks / 2;
                one_of_each_type(a, n_ranks);
            }
}

static void large_ones_travel_in_chunks(void **state)
{
    static const int numbers[] = { 2, 3, 5 };
    (void)state;

    for (size_t i = 0; i < FL_LEN(numbers); i++)
        for (int kind = 0; kind < FL_COLL_BARRIER; kind++) {
            fl_coll_call a = { .kind = (fl_coll_kind)kind, .root = 1 };

            a.n = MOST / 30 * 30 + (kind == FL_COLL_REDUCESCATTER ? 0 : 7);
            one(a, numbers[i], i);
        }
}

static void every_operation_combines_all_ranks(void **state)
{
    (void)state;
    for (int op = 0; op < FL_COLL_OP_COUNT; op++)
        for (int n_ranks = 1; n_ranks <= 6; n_ranks++)
            for (size_t n = 10; n <= 100000; n *= 10000) {
                fl_coll_call a = { .kind = FL_COLL_ALLREDUCE,
                                   .op = (fl_coll_op)op,
                                   .n = n };

                one_of_each_type(a, n_ranks);
            }
}

static void every_rank_can_be_the_root(void **state)
{
    (void)state;
    for (int root = 0; root < 7; root++) {
        fl_coll_call a = { .root = root, .n = 100 };

        a.kind = FL_COLL_BROADCAST;
        one(a, 7, 1);
        a.kind = FL_COLL_REDUCE;
        one(a, 7, 1);
    }
}

static void out_may_be_in(void **state)
{
    static const fl_coll_kind kinds[] = { FL_COLL_ALLREDUCE, FL_COLL_BROADCAST,
                                          FL_COLL_REDUCE };
    (void)state;

    for (size_t i = 0; i < FL_LEN(kinds); i++)
        for (size_t n = 9; n <= MOST; n += MOST - 9)
            for (uint64_t seed = 0; seed < 4; seed++) {
                fl_coll_call a = { .kind = kinds[i], .n = n, .root = 1 };
                values v;
                kit k;

                kinds_make_values(&v, 4, a.dtype, n);
                kit_open(&k, 4, seed);
                for (int r = 0; r < 4; r++) {
                    memcpy(v.out[r], v.in[r], n * sizeof(float));
                    a.in = a.out = v.out[r];
                    kit_begin(&k, r, a);
                }
                kit_run(&k);
                kit_expect_done(&k, 1);
                for (int r = 0; r < 4; r++)
                    if (a.kind != FL_COLL_REDUCE || r == a.root)
                        kinds_check(&a, &v, 4, r);
                kit_close(&k);
                kinds_free_values(&v, 4);
            }
}

/* --- unequal numbers -------------------------------------------------------- */

typedef struct bag {
    kit_rank *rank;
    uint64_t counts[KIT_RANKS], sum;
    int32_t *all;
} bag;

static void *make_room(void *arg, const uint64_t *counts, uint64_t sum)
{
    bag *b = arg;

    memcpy(b->counts, counts, (size_t)b->rank->k->n * sizeof(*counts));
    b->sum = sum;
    b->all = fl_try_alloc((size_t)sum * sizeof(int32_t) + 1);
    return b->all;
}

static void bag_done(void *arg, fl_status st)
{
    kit_done(((bag *)arg)->rank, st);
}

static void fill(int32_t *at, int rank, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at[i] = (int32_t)(i * 100) + rank;
}

static void check_bag(const bag *b, const size_t *n, int n_ranks)
{
    size_t at = 0;

    for (int r = 0; r < n_ranks; r++) {
        assert_int_equal(b->counts[r], n[r]);
        for (size_t i = 0; i < n[r]; i++, at++)
            assert_int_equal(b->all[at], (int)(i * 100) + r);
    }
    assert_int_equal(b->sum, at);
}

static void unequal_numbers_are_gathered_in_the_order_of_ranks(void **state)
{
    static const size_t n[] = { 3, 0, 100000, 1, 70000, 2 };
    static int32_t in[FL_LEN(n)][100000];
    (void)state;

    for (int n_ranks = 1; n_ranks <= (int)FL_LEN(n); n_ranks++)
        for (uint64_t seed = 0; seed < 5; seed++) {
            bag bags[FL_LEN(n)] = { 0 };
            kit k;

            kit_open(&k, n_ranks, seed);
            for (int r = 0; r < n_ranks; r++) {
                fl_coll_call a = { .kind = FL_COLL_ALLGATHER,
                                   .dtype = FL_DTYPE_I32,
                                   .in = in[r],
                                   .n = n[r],
                                   .room = make_room,
                                   .done = bag_done,
                                   .arg = &bags[r] };

                fill(in[r], r, n[r]);
                bags[r].rank = &k.ranks[r];
                fl_coll_begin(k.ranks[r].c, &a);
            }
            kit_run(&k);
            kit_expect_done(&k, 1);
            for (int r = 0; r < n_ranks; r++) {
                check_bag(&bags[r], n, n_ranks);
                fl_data_free(bags[r].all,
                             (size_t)bags[r].sum * sizeof(int32_t) + 1);
            }
            kit_close(&k);
        }
}

static void *no_room(void *arg, const uint64_t *counts, uint64_t sum)
{
    (void)arg, (void)counts, (void)sum;
    return NULL;
}

static void without_room_all_end_and_say_who_had_none(void **state)
{
    kit k;
    (void)state;

    kit_open(&k, 3, 1);
    for (int r = 0; r < 3; r++) {
        fl_coll_call a = { .kind = FL_COLL_ALLGATHER,
                           .dtype = FL_DTYPE_I32,
                           .in = &(int32_t){ 5 },
                           .n = 1,
                           .room = no_room };

        kit_begin(&k, r, a);
    }
    kit_run(&k);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(k.ranks[r].n_done, 1);
        assert_int_equal(k.ranks[r].st, FL_ERR_NOMEM);
        assert_non_null(strstr(k.ranks[r].text, "has no memory for the 3"));
    }
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_gives_what_it_says),
        cmocka_unit_test(large_ones_travel_in_chunks),
        cmocka_unit_test(every_operation_combines_all_ranks),
        cmocka_unit_test(every_rank_can_be_the_root),
        cmocka_unit_test(out_may_be_in),
        cmocka_unit_test(unequal_numbers_are_gathered_in_the_order_of_ranks),
        cmocka_unit_test(without_room_all_end_and_say_who_had_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
