/* test_faults.c - calls that do not fit, peers that are lost, parts that are
 * none, and no memory: every rank gets an error that says who and what. */
#include "coll_kit.h"

#include "coll/part.h"

static float v[KIT_RANKS][40000];

static fl_coll_call sum_of(int rank, size_t n)
{
    return (fl_coll_call){
        .kind = FL_COLL_ALLREDUCE, .in = v[rank], .out = v[rank], .n = n
    };
}

static void expect_all(kit *k, fl_status st, const char *words)
{
    for (int r = 0; r < k->n; r++) {
        assert_int_equal(k->ranks[r].n_done, 1);
        if (k->ranks[r].st != st || !strstr(k->ranks[r].text, words))
            fail_msg("rank %d has %d: %s\nand not: %s", r, k->ranks[r].st,
                     k->ranks[r].text, words);
    }
}

/* --- calls that do not fit --------------------------------------------------- */

typedef struct misfit {
    fl_coll_call theirs;
    const char *mine, *other; /* how the sentence names them */
} misfit;

static const misfit misfits[] = {
    { { .kind = FL_COLL_ALLREDUCE, .n = 8 },
      "allreduce of 9 f32 (sum)",
      "allreduce of 8 f32 (sum)" },
    { { .kind = FL_COLL_ALLREDUCE, .n = 9, .op = FL_COLL_MAX },
      "allreduce of 9 f32 (sum)",
      "allreduce of 9 f32 (max)" },
    { { .kind = FL_COLL_ALLREDUCE, .n = 9, .dtype = FL_DTYPE_I32 },
      "allreduce of 9 f32 (sum)",
      "allreduce of 9 i32 (sum)" },
    { { .kind = FL_COLL_BARRIER }, "allreduce of 9 f32 (sum)", "barrier" },
    { { .kind = FL_COLL_ALLGATHER, .n = 9 },
      "allreduce of 9 f32 (sum)",
      "allgather of 9 f32" },
};

static void a_call_that_does_not_fit_names_both(void **state)
{
    (void)state;
    for (size_t i = 0; i < FL_LEN(misfits); i++)
        for (int n_ranks = 2; n_ranks <= 5; n_ranks++) {
            fl_coll_call odd = misfits[i].theirs;
            kit k;

            kit_open(&k, n_ranks, i);
            odd.in = odd.out = v[0];
            for (int r = 0; r < n_ranks; r++)
                kit_begin(&k, r, r == 1 ? odd : sum_of(r, 9));
            kit_run(&k);
            expect_all(&k, FL_ERR_INVAL, "call 0 of ring 0 is ");
            expect_all(&k, FL_ERR_INVAL, misfits[i].mine);
            expect_all(&k, FL_ERR_INVAL, misfits[i].other);
            expect_all(&k, FL_ERR_INVAL, "worker 1");
            expect_all(&k, FL_ERR_INVAL, "the same calls in the same order");
            kit_close(&k);
        }
}

/* What came before its call is looked at when the call begins: the first part
   that does not fit ends all, and the others are no longer there. */
static void parts_that_came_early_do_not_fit(void **state)
{
    kit k;
    (void)state;

    kit_open(&k, 3, 1);
    for (int r = 0; r < 3; r += 2)
        kit_begin(&k, r,
                  (fl_coll_call){ .kind = FL_COLL_ALLGATHER,
                                  .in = v[r],
                                  .out = v[r + 4],
                                  .n = 9 });
    kit_run(&k);
    kit_begin(&k, 1, sum_of(1, 9));
    kit_run(&k);
    expect_all(&k, FL_ERR_INVAL, "call 0 of ring 0 is ");
    kit_close(&k);
}

typedef struct wrong_call {
    fl_coll_call call;
    fl_status st;
    const char *words;
} wrong_call;

static void a_wrong_call_is_refused_and_ends_the_others(void **state)
{
    static const wrong_call all[] = {
        { { .kind = FL_COLL_REDUCESCATTER, .n = 10 },
          FL_ERR_INVAL,
          "10 elements over 3 workers" },
        { { .kind = FL_COLL_REDUCE, .n = 1, .dtype = FL_DTYPE_U8 },
          FL_ERR_TYPE,
          "not added up" },
        { { .kind = FL_COLL_BROADCAST, .n = 1, .dtype = FL_DTYPE_BOOL },
          FL_ERR_TYPE,
          "cannot carry bool" },
        { { .kind = FL_COLL_BROADCAST, .root = 3 },
          FL_ERR_INVAL,
          "root 3 of a collective call is not in 0..2" },
        { { .kind = FL_COLL_BARRIER, .ring = FL_COLL_RING_MAX },
          FL_ERR_INVAL,
          "ring 64 is not in 0..63" },
        { { .kind = FL_COLL_ALLREDUCE, .n = SIZE_MAX / 8 },
          FL_ERR_INVAL,
          "is too large" },
    };
    (void)state;

    for (size_t i = 0; i < FL_LEN(all); i++) {
        kit k;

        kit_open(&k, 3, i);
        kit_begin(&k, 0, sum_of(0, 5));
        kit_begin(&k, 2, sum_of(2, 5));
        kit_begin(&k, 1, all[i].call);
        kit_run(&k);
        expect_all(&k, all[i].st, all[i].words);
        assert_non_null(strstr(k.ranks[0].text, "worker 1 has given up: "));
        kit_close(&k);
    }
}

static void ranks_count_from_0(void **state)
{
    fl_coll *c = NULL;
    (void)state;

    assert_int_equal(
        fl_coll_new(&c, &(fl_coll_options){ .rank = 2, .n_ranks = 2 }),
        FL_ERR_INVAL);
    assert_non_null(strstr(fl_last_error(), "worker 2 of 2"));
    assert_int_equal(
        fl_coll_new(&c, &(fl_coll_options){ .n_ranks = 1, .engine = "steam" }),
        FL_ERR_NOTFOUND);
    assert_non_null(strstr(fl_last_error(), "\"steam\"; there are: builtin"));
    assert_null(c);
}

/* --- peers that are lost ------------------------------------------------------ */

static void a_lost_peer_ends_what_is_under_way_and_what_follows(void **state)
{
    kit k;
    (void)state;

    kit_open(&k, 4, 1);
    k.is_cut[2] = true;
    for (int r = 0; r < 4; r++)
        if (r != 2)
            kit_begin(&k, r, sum_of(r, 9));
    kit_run(&k);
    for (int r = 0; r < 4; r++)
        assert_int_equal(k.ranks[r].n_done, 0);
    fl_coll_fail(k.ranks[0].c,
                 fl_err_set(FL_ERR_CLOSED, "worker 2 (here:1) is lost"));
    kit_run(&k);
    kit_begin(&k, 2, sum_of(2, 9));
    kit_run(&k);
    expect_all(&k, FL_ERR_CLOSED, "worker 2 (here:1) is lost");
    kit_begin(&k, 3, sum_of(3, 9));
    assert_int_equal(k.ranks[3].n_done, 2);
    assert_non_null(strstr(k.ranks[3].text, "worker 2 (here:1) is lost"));
    kit_close(&k);
}

static void a_part_that_does_not_arrive_names_the_worker(void **state)
{
    fl_coll_out o;
    kit k;
    (void)state;

    kit_open(&k, 2, 1);
    kit_begin(&k, 0, sum_of(0, 9));
    o = k.ways[0][1].data[k.first[0][1]++].o;
    o.ended(o.arg, fl_err_set(FL_ERR_TIMEOUT, "nothing was heard for 9 s"));
    assert_int_equal(k.ranks[0].st, FL_ERR_TIMEOUT);
    assert_string_equal(k.ranks[0].text, "worker 1: nothing was heard for 9 s");
    kit_close(&k);
}

static fl_status refuse(void *arg, const fl_coll_out *o)
{
    (void)arg, (void)o;
    FL_FAIL(FL_ERR_CLOSED, "the job is over");
}

static void a_link_that_refuses_ends_the_call(void **state)
{
    kit_rank r = { 0 };
    fl_coll_options o = { .n_ranks = 2, .machine = "", .link.send = refuse };
    fl_coll_call a = sum_of(0, 9);
    (void)state;

    assert_ok(fl_coll_new(&r.c, &o));
    a.done = kit_done;
    a.arg = &r;
    fl_coll_begin(r.c, &a);
    assert_int_equal(r.n_done, 1);
    assert_string_equal(r.text, "worker 1: the job is over");
    fl_coll_free(r.c);
}

static void calls_under_way_end_with_the_engine(void **state)
{
    kit k;
    (void)state;

    kit_open(&k, 3, 1);
    kit_begin(&k, 1, sum_of(1, 40000));
    kit_begin(&k, 1, sum_of(1, 9));
    for (int i = 0; i < 5; i++)
        (void)kit_bring_one(&k);
    kit_close(&k);
    assert_int_equal(k.ranks[1].n_done, 2);
    assert_int_equal(k.ranks[1].st, FL_ERR_CLOSED);
    assert_int_equal(k.ranks[0].n_done, 0);
}

static void people_are_told_who_is_waited_for(void **state)
{
    char text[200] = "";
    kit k;
    (void)state;

    kit_open(&k, 4, 1);
    assert_false(fl_coll_waits_for(k.ranks[0].c, text, sizeof(text)));
    kit_begin(&k, 0, sum_of(0, 40000));
    assert_true(fl_coll_waits_for(k.ranks[0].c, text, sizeof(text)));
    assert_string_equal(text, "allreduce of 40000 f32 (sum), call 0 of ring 0, "
                              "waits for worker 3");
    kit_begin(&k, 1, sum_of(1, 9));
    assert_true(fl_coll_waits_for(k.ranks[1].c, text, sizeof(text)));
    assert_non_null(strstr(text, "waits for worker 0"));
    kit_close(&k);
}

/* Before the first call ranks find out about each other: who has none yet is
   named as for any other. */
static void who_never_makes_a_call_is_named(void **state)
{
    char text[200] = "";
    kit_rank r = { 0 };
    kit k = { .n = 3 };
    fl_coll_options o = { .n_ranks = 3, .machine = "", .link.send = kit_send };
    fl_coll_call a = sum_of(0, 9);
    (void)state;

    r.k = &k;
    o.link.arg = &r;
    a.done = kit_done;
    a.arg = &r;
    assert_ok(fl_coll_new(&r.c, &o));
    fl_coll_begin(r.c, &a);
    assert_true(fl_coll_waits_for(r.c, text, sizeof(text)));
    assert_string_equal(text, "allreduce of 9 f32 (sum), call 0 of ring 0, "
                              "waits for worker 1");
    k.ranks[0].c = r.c;
    kit_close(&k);
    assert_int_equal(r.st, FL_ERR_CLOSED);
}

/* --- parts that are none ------------------------------------------------------ */

static void note_receipt(void *arg, fl_status st)
{
    *(fl_status *)arg = st;
}

static void hand_in(kit *k, int from, const void *bytes, size_t n)
{
    fl_status st = FL_OK;

    fl_coll_on_part(k->ranks[1].c, from, bytes, n,
                    (fl_coll_receipt){ note_receipt, &st });
}

typedef struct bad_part {
    fl_coll_part part;
    int from;
    size_t n;
    const char *words;
} bad_part;

#define SUM_9                                                                  \
    {                                                                          \
        .kind = FL_COLL_ALLREDUCE, .n = 9                                      \
    }

static void a_part_that_does_not_belong_there_is_refused(void **state)
{
    static const bad_part all[] = {
        { { .sign = SUM_9, .step = 1 },
          0,
          35,
          "with 35 bytes, which does not" },
        { { .sign = SUM_9, .step = 7 }, 0, 36, "step 7 of call 0" },
        { { .sign = SUM_9, .step = 1 }, 2, 36, "worker 2 sends worker 1" },
        { { .sign = SUM_9, .step = 1, .chunk = 1 }, 0, 36, "chunk 1" },
        { { .sign = SUM_9, .step = 1 }, 9, 36, "worker 9 sends" },
        { { .sign = SUM_9, .step = 1 }, 1, 36, "worker 1 sends" },
        { { .sign = SUM_9, .at.ring = 65 }, 0, 36, "ring 65" },
        { { .sign = { .kind = 77, .dtype = 99, .op = 50, .n = 3 } },
          0,
          36,
          "? of 3 ?" },
    };
    static uint8_t bytes[FL_COLL_HEAD_BYTES + 64];
    (void)state;

    for (size_t i = 0; i < FL_LEN(all); i++) {
        kit k;

        kit_open(&k, 3, i);
        kit_begin(&k, 1, sum_of(1, 9));
        fl_coll_part_pack(&all[i].part, bytes);
        hand_in(&k, all[i].from, bytes, FL_COLL_HEAD_BYTES + all[i].n);
        assert_int_equal(k.ranks[1].n_done, 1);
        if (!strstr(k.ranks[1].text, all[i].words))
            fail_msg("%s\nhas not: %s", k.ranks[1].text, all[i].words);
        kit_close(&k);
    }
}

static void a_part_of_a_call_that_is_over_is_refused(void **state)
{
    fl_coll_part p = { .sign = SUM_9 };
    uint8_t bytes[FL_COLL_HEAD_BYTES];
    kit k;
    (void)state;

    kit_open(&k, 2, 1);
    kit_begin(&k, 0, sum_of(0, 9));
    kit_begin(&k, 1, sum_of(1, 9));
    kit_run(&k);
    kit_expect_done(&k, 1);
    fl_coll_part_pack(&p, bytes);
    hand_in(&k, 0, bytes, sizeof(bytes));
    kit_begin(&k, 1, sum_of(1, 9));
    assert_non_null(strstr(k.ranks[1].text, "is over on worker 1"));
    kit_close(&k);
}

/* Spoilt heads of every kind of call, too many parts, and pieces of them. */
static void random_parts_do_no_harm(void **state)
{
    static uint8_t bytes[FL_COLL_HEAD_BYTES + 1024];
    (void)state;

    for (uint64_t seed = 0; seed < 3000; seed++) {
        fl_coll_call a = { .kind = (fl_coll_kind)(seed % 6), .n = 9 };
        fl_coll_part p = { .sign = { .kind = (uint8_t)(seed % 6) } };
        kit k;

        kit_open(&k, 3, seed);
        p.sign.n = a.kind == FL_COLL_BARRIER ? 0 : 9;
        a.in = v[0];
        a.out = v[1];
        kit_begin(&k, 1, a);
        for (int i = 0; i < 12; i++) {
            p.step = (uint32_t)kit_draw(&k, 4);
            p.chunk = kit_draw(&k, 2);
            fl_coll_part_pack(&p, bytes);
            if (kit_draw(&k, 4) == 0)
                bytes[kit_draw(&k, FL_COLL_HEAD_BYTES)] =
                    (uint8_t)kit_draw(&k, 256);
            hand_in(&k, (int)kit_draw(&k, 2) * 2, bytes,
                    kit_draw(&k, 8) ? FL_COLL_HEAD_BYTES + p.sign.n * 4
                                    : kit_draw(&k, sizeof(bytes)));
        }
        kit_close(&k);
        assert_int_equal(k.ranks[1].n_done, 1);
    }
}

/* --- no memory ---------------------------------------------------------------- */

static void *some_room(void *arg, const uint64_t *counts, uint64_t sum)
{
    (void)arg, (void)counts, (void)sum;
    return v[9];
}

/* Whether one of the allocations failed. */
static bool runs_short(fl_coll_kind kind, uint64_t which)
{
    bool has_failed;
    kit k;

    kit_open(&k, 3, 1);
    fl_alloc_fail_after(which);
    for (int r = 0; r < 3; r++) {
        fl_coll_call a = { .kind = kind, .n = 30, .in = v[r], .out = v[r + 4] };

        if (kind == FL_COLL_ALLGATHER)
            a.room = some_room;
        kit_begin(&k, r, a);
        if (r == 0)
            kit_begin(&k, r, sum_of(r, 40000));
    }
    fl_alloc_fail_after(0);
    kit_run(&k);
    has_failed = k.ranks[0].st != FL_OK;
    for (int r = 0; r < 3 && has_failed; r++) {
        /* Who only had to send may be through before. */
        if (r && !k.ranks[r].st)
            continue;
        assert_int_equal(k.ranks[r].st, FL_ERR_NOMEM);
        assert_non_null(strstr(k.ranks[r].text, "has no memory for "));
    }
    kit_close(&k);
    return has_failed;
}

static void without_memory_all_end(void **state)
{
    (void)state;
    for (int kind = 0; kind < FL_COLL_BARRIER; kind++) {
        uint64_t which = 1;

        while (runs_short((fl_coll_kind)kind, which))
            which++;
        assert_true(which > 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_does_not_fit_names_both),
        cmocka_unit_test(parts_that_came_early_do_not_fit),
        cmocka_unit_test(a_wrong_call_is_refused_and_ends_the_others),
        cmocka_unit_test(ranks_count_from_0),
        cmocka_unit_test(a_lost_peer_ends_what_is_under_way_and_what_follows),
        cmocka_unit_test(a_part_that_does_not_arrive_names_the_worker),
        cmocka_unit_test(a_link_that_refuses_ends_the_call),
        cmocka_unit_test(calls_under_way_end_with_the_engine),
        cmocka_unit_test(people_are_told_who_is_waited_for),
        cmocka_unit_test(who_never_makes_a_call_is_named),
        cmocka_unit_test(a_part_that_does_not_belong_there_is_refused),
        cmocka_unit_test(a_part_of_a_call_that_is_over_is_refused),
        cmocka_unit_test(random_parts_do_no_harm),
        cmocka_unit_test(without_memory_all_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
