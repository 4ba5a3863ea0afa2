/* test_coord_dispatch.c - work that the coordinator dispatches: every item once, what
 * its trainer does not finish again, and an end that everybody learns of. */
#include "coord_kit.h"

#define TRAINER FL_MEMBER_TRAINER
#define NONE FL_DISPATCH_NONE
#define LATER FL_DISPATCH_LATER

static world *make_full(int n_trainers)
{
    world *w = world_new(&(fl_coord_options){ .n_servers = 1,
                                              .n_trainers = n_trainers,
                                              .connect_timeout_ms = 30000,
                                              .restart_timeout_ms = 5000,
                                              .go_on_without = true });

    for (uint32_t i = 0; i < (uint32_t)n_trainers; i++)
        (void)join(w, TRAINER, i, 70 + i);
    forget_lines(w);
    return w;
}

static size_t dispatch_as(world *w, uint32_t rank, uint32_t incarnation,
                          const fl_dispatch_request *work)
{
    size_t i = w->n_asked++;

    fl_coord_dispatch(
        w->c,
        &(fl_coord_asker){ rank, incarnation, &w->n_answers[i], w->now_ms },
        work);
    return i;
}

static size_t dispatch(world *w, uint32_t rank, const fl_dispatch_request *work)
{
    return dispatch_as(w, rank, fl_coord_incarnation(w->c, TRAINER, rank),
                       work);
}

/* Questions are numbered for each trainer by who asks here. */
static size_t wish(world *w, uint32_t rank, uint64_t n, uint64_t question)
{
    return dispatch(w, rank,
                    &(fl_dispatch_request){ .name = "train",
                                            .number = 1,
                                            .n = n,
                                            .question = question,
                                            .finished = NONE });
}

static void finish(world *w, uint32_t rank, uint64_t n, uint64_t item)
{
    size_t q =
        dispatch(w, rank,
                 &(fl_dispatch_request){
                     .name = "train", .number = 1, .n = n, .finished = item });

    assert_true(has_answer(w, q, FL_OK));
}

static void expect_item(const world *w, size_t q, uint64_t item)
{
    assert_true(has_answer(w, q, FL_OK));
    assert_true(w->items[q] == item);
}

static void items_are_dispatched_in_order_and_once(void **state)
{
    world *w = make_full(2);

    (void)state;
    for (uint64_t i = 0; i < 6; i++) {
        expect_item(w, wish(w, i % 2, 6, i / 2 + 1), i);
        finish(w, i % 2, 6, i);
    }
    expect_item(w, wish(w, 0, 6, 4), NONE);
    expect_item(w, wish(w, 1, 6, 4), NONE);
    expect_quiet(w);
    world_free(w);
}

static void nobody_is_sent_home_while_others_have_work(void **state)
{
    world *w = make_full(2);
    size_t q;

    (void)state;
    expect_item(w, wish(w, 0, 2, 1), 0);
    expect_item(w, wish(w, 1, 2, 1), 1);
    finish(w, 0, 2, 0);
    q = wish(w, 0, 2, 2);
    assert_true(is_open(w, q));
    finish(w, 1, 2, 1);
    expect_item(w, q, NONE);
    world_free(w);
}

/* What it has itself cannot come back to it. */
static void who_has_the_last_item_is_sent_home(void **state)
{
    world *w = make_full(2);
    size_t q;

    (void)state;
    expect_item(w, wish(w, 0, 1, 1), 0);
    q = wish(w, 1, 1, 1);
    expect_item(w, wish(w, 0, 1, 2), NONE);
    assert_true(is_open(w, q));
    finish(w, 0, 1, 0);
    expect_item(w, q, NONE);
    world_free(w);
}

static void who_is_hasty_does_not_wait_for_others(void **state)
{
    world *w = make_full(2);
    fl_dispatch_request work = { .name = "train",
                                 .number = 1,
                                 .n = 1,
                                 .question = 1,
                                 .finished = NONE,
                                 .is_hasty = true };

    (void)state;
    expect_item(w, dispatch(w, 0, &work), 0);
    expect_item(w, dispatch(w, 1, &work), NONE);
    world_free(w);
}

static void a_wait_ends_after_a_while_and_can_be_begun_again(void **state)
{
    world *w = make_full(2);
    size_t q;

    (void)state;
    expect_item(w, wish(w, 0, 1, 1), 0);
    q = wish(w, 1, 1, 1);
    pass_ms(w, 300);
    assert_true(is_open(w, q));
    pass_ms(w, 300);
    expect_item(w, q, LATER);
    q = wish(w, 1, 1, 2);
    assert_true(is_open(w, q));
    finish(w, 0, 1, 0);
    expect_item(w, q, NONE);
    world_free(w);
}

static void a_repeated_question_gets_the_same_item(void **state)
{
    world *w = make_full(2);
    size_t first, second;

    (void)state;
    expect_item(w, wish(w, 0, 2, 1), 0);
    expect_item(w, wish(w, 0, 2, 1), 0);
    expect_item(w, wish(w, 1, 2, 1), 1);
    finish(w, 0, 2, 0);
    first = wish(w, 0, 2, 2);
    second = wish(w, 0, 2, 2);
    assert_true(has_answer(w, first, FL_ERR_CLOSED));
    assert_true(is_open(w, second));
    finish(w, 1, 2, 1);
    expect_item(w, second, NONE);
    assert_true(has_answer(w, wish(w, 0, 2, 1), FL_ERR_INVAL));
    world_free(w);
}

static void who_leaves_gives_back_what_is_not_finished(void **state)
{
    world *w = make_full(2);
    size_t q;

    (void)state;
    expect_item(w, wish(w, 0, 3, 1), 0);
    expect_item(w, wish(w, 0, 3, 2), 1);
    expect_item(w, wish(w, 1, 3, 1), 2);
    finish(w, 0, 3, 1);
    finish(w, 1, 3, 2);
    q = wish(w, 1, 3, 2);
    assert_true(is_open(w, q));
    fl_coord_leave(w->c, TRAINER, 0, w->now_ms);
    expect_item(w, q, 0);
    finish(w, 1, 3, 0);
    expect_item(w, wish(w, 1, 3, 3), NONE);
    assert_true(has_answer(w, wish(w, 0, 3, 3), FL_ERR_CLOSED));
    world_free(w);
}

static void who_is_lost_gives_back_and_may_come_again(void **state)
{
    world *w = make_full(3);
    size_t lost, q;

    (void)state;
    expect_item(w, wish(w, 0, 2, 1), 0);
    expect_item(w, wish(w, 1, 2, 1), 1);
    lost = wish(w, 0, 2, 2);
    fl_coord_down(w->c, TRAINER, 0, "gone", w->now_ms);
    pass_ms(w, 4900);
    q = wish(w, 2, 2, 1);
    expect_item(w, lost, LATER);
    assert_true(is_open(w, q));
    pass_ms(w, 300);
    expect_item(w, q, 0);
    /* The lost one is back, and has finished its item in spite of all. */
    fl_coord_up(w->c, TRAINER, 0, w->now_ms);
    finish(w, 0, 2, 0);
    q = wish(w, 0, 2, 3);
    assert_true(is_open(w, q));
    finish(w, 1, 2, 1);
    assert_true(is_open(w, q));
    finish(w, 2, 2, 0);
    expect_item(w, q, NONE);
    world_free(w);
}

static void a_new_process_begins_anew_and_the_old_one_has_nothing(void **state)
{
    world *w = make_full(2);

    (void)state;
    expect_item(w, wish(w, 0, 2, 1), 0);
    expect_item(w, wish(w, 0, 2, 2), 1);
    fl_coord_down(w->c, TRAINER, 0, "gone", w->now_ms);
    assert_int_equal(join(w, TRAINER, 0, 99), 2);
    expect_item(w, wish(w, 0, 2, 1), 0);
    expect_item(w, wish(w, 1, 2, 1), 1);
    assert_true(has_answer(
        w,
        dispatch_as(w, 0, 1,
                    &(fl_dispatch_request){
                        .name = "train", .number = 1, .n = 2, .finished = 1 }),
        FL_ERR_CLOSED));
    world_free(w);
}

static void passes_do_not_know_each_other(void **state)
{
    world *w = make_full(2);
    fl_dispatch_request work = {
        .name = "a", .number = 1, .n = 1, .question = 1, .finished = NONE
    };

    (void)state;
    expect_item(w, dispatch(w, 0, &work), 0);
    work.number = 2;
    expect_item(w, dispatch(w, 0, &work), 0);
    fl_msg_text(work.name, "b");
    expect_item(w, dispatch(w, 1, &work), 0);
    work.n = 2;
    assert_true(has_answer(w, dispatch(w, 0, &work), FL_ERR_INVAL));
    assert_string_equal(w->reason,
                        "pass \"b\" has 1 files for some trainers and 2 for "
                        "others: give all of them the same list");
    world_free(w);
}

static void strange_questions_are_refused(void **state)
{
    static const fl_dispatch_request bad[] = {
        { .name = "0123456789012345678901234567890123456789012345678901234567"
                  "890123",
          .n = 1,
          .question = 1,
          .finished = NONE },
        { .name = "a\n", .n = 1, .question = 1, .finished = NONE },
        { .name = "a", .n = UINT64_MAX, .question = 1, .finished = NONE },
        { .name = "a", .n = 1, .question = 1, .finished = 1 },
    };
    world *w = make_full(1);

    (void)state;
    for (size_t i = 0; i < FL_LEN(bad); i++) {
        size_t q = dispatch(w, 0, &bad[i]);

        assert_true(!is_open(w, q) && w->answers[q] != FL_OK);
    }
    world_free(w);
}

static void old_passes_are_forgotten_once_they_are_over(void **state)
{
    world *w = make_full(1);
    fl_dispatch_request work = { .name = "train", .n = 1, .finished = NONE };
    size_t q;

    (void)state;
    for (work.number = 1; work.number <= 200; work.number++) {
        work.question = 1;
        work.finished = NONE;
        expect_item(w, dispatch(w, 0, &work), 0);
        work.question = 0;
        work.finished = 0;
        expect_item(w, dispatch(w, 0, &work), NONE);
    }
    /* One that was forgotten is over, and not begun again. */
    work.number = 1;
    work.question = 2;
    work.finished = NONE;
    expect_item(w, dispatch(w, 0, &work), NONE);
    for (work.number = 201; work.number < 201 + 64; work.number++)
        expect_item(w, dispatch(w, 0, &work), 0);
    q = dispatch(w, 0, &work);
    assert_true(has_answer(w, q, FL_ERR_INVAL));
    world_free(w);
}

static void the_end_of_the_job_answers_who_waits(void **state)
{
    world *w = make_full(2);
    size_t q;

    (void)state;
    expect_item(w, wish(w, 0, 1, 1), 0);
    q = wish(w, 1, 1, 1);
    fl_err_set(FL_ERR_CLOSED, "enough");
    fl_coord_end(w->c, FL_ERR_CLOSED);
    assert_true(has_answer(w, q, FL_ERR_CLOSED));
    assert_true(has_answer(w, wish(w, 1, 1, 2), FL_ERR_CLOSED));
    world_free(w);
}

/* Trainers that come, go, finish and get lost by chance: every item is finished
   in the end, and no trainer is sent home too early. */
static void every_item_is_finished_whatever_happens(void **state)
{
    enum { N = 50, T = 4 };

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        world *w = make_full(T);
        uint64_t number[T] = { 0 }, held[T], done = 0, dice = seed;
        size_t q[T];
        bool is_home[T] = { false }, has_q[T] = { false };
        bool is_done[N] = { false };

        for (int i = 0; i < T; i++)
            held[i] = NONE;
        for (int turn = 0; turn < 3000; turn++) {
            uint32_t r = (uint32_t)(fl_mix64(++dice) % T);

            pass_ms(w, 20);
            if (is_home[r])
                continue;
            if (has_q[r] && !is_open(w, q[r])) {
                has_q[r] = false;
                is_home[r] = w->items[q[r]] == NONE;
                if (w->items[q[r]] < N)
                    held[r] = w->items[q[r]];
            } else if (held[r] != NONE && fl_mix64(++dice) % 10 == 0 && r) {
                /* Killed, and started again. */
                fl_coord_down(w->c, TRAINER, r, "", w->now_ms);
                (void)join(w, TRAINER, r, 1000 + (uint32_t)turn);
                held[r] = NONE;
                number[r] = 0;
            } else if (held[r] != NONE) {
                assert_false(is_done[held[r]]);
                is_done[held[r]] = true;
                done++;
                finish(w, r, N, held[r]);
                held[r] = NONE;
            } else if (!has_q[r]) {
                q[r] = wish(w, r, N, ++number[r]);
                has_q[r] = true;
            }
        }
        assert_int_equal(done, N);
        for (int i = 0; i < T; i++)
            assert_true(is_home[i]);
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_dispatched_in_order_and_once),
        cmocka_unit_test(nobody_is_sent_home_while_others_have_work),
        cmocka_unit_test(who_has_the_last_item_is_sent_home),
        cmocka_unit_test(who_is_hasty_does_not_wait_for_others),
        cmocka_unit_test(a_wait_ends_after_a_while_and_can_be_begun_again),
        cmocka_unit_test(a_repeated_question_gets_the_same_item),
        cmocka_unit_test(who_leaves_gives_back_what_is_not_finished),
        cmocka_unit_test(who_is_lost_gives_back_and_may_come_again),
        cmocka_unit_test(a_new_process_begins_anew_and_the_old_one_has_nothing),
        cmocka_unit_test(passes_do_not_know_each_other),
        cmocka_unit_test(strange_questions_are_refused),
        cmocka_unit_test(old_passes_are_forgotten_once_they_are_over),
        cmocka_unit_test(the_end_of_the_job_answers_who_waits),
        cmocka_unit_test(every_item_is_finished_whatever_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
