/* test_coord.c - the coordinator's rules and sentences, with a clock of its
 * own. */
#include "coord_kit.h"

#define TRAINER FL_MEMBER_TRAINER
#define SERVER FL_MEMBER_SERVER

static const fl_coord_options two_and_three = { .n_servers = 2,
                                                .n_trainers = 3,
                                                .connect_timeout_ms = 30000,
                                                .restart_timeout_ms = 60000 };

static world *make_world(bool go_on_without)
{
    fl_coord_options o = two_and_three;

    o.go_on_without = go_on_without;
    return world_new(&o);
}

/* A world in which everybody is there: trainer R is process 70 + R, server R
   process 50 + R. */
static world *make_full(bool go_on_without)
{
    world *w = make_world(go_on_without);

    (void)join(w, SERVER, 1, 51);
    for (uint32_t i = 0; i < 3; i++)
        (void)join(w, TRAINER, i, 70 + i);
    forget_lines(w);
    return w;
}

static fl_status try_join(world *w, const fl_identity *who, const char *peer,
                          uint32_t *incarnation)
{
    return fl_coord_join(w->c, who, peer, w->now_ms, incarnation);
}

/* --- rendezvous ---------------------------------------------------------- */

static void the_missing_are_named_after_3_s_and_every_10_s(void **state)
{
    world *w = make_world(false);

    (void)state;
    (void)join(w, TRAINER, 0, 70);
    (void)join(w, TRAINER, 2, 72);
    pass_ms(w, 2900);
    expect_quiet(w);
    pass_ms(w, 100);
    expect_said(w, "waiting for trainer 1 and server 1 "
                   "(3 of 5 members are here)");
    pass_ms(w, 9900);
    expect_quiet(w);
    (void)join(w, SERVER, 1, 51);
    pass_ms(w, 100);
    expect_said(w, "waiting for trainer 1 (4 of 5 members are here)");
    pass_ms(w, 10000);
    expect_said(w, "waiting for trainer 1 (4 of 5 members are here)");
    assert_false(fl_coord_is_complete(w->c));
    world_free(w);
}

static void the_last_to_join_completes_the_rendezvous(void **state)
{
    world *w = make_world(false);

    (void)state;
    (void)join(w, TRAINER, 1, 71);
    (void)join(w, SERVER, 0, 50);
    (void)join(w, TRAINER, 0, 70);
    (void)join(w, TRAINER, 2, 72);
    pass_ms(w, 2100);
    assert_false(fl_coord_is_complete(w->c));
    (void)join(w, SERVER, 1, 51);
    assert_true(fl_coord_is_complete(w->c));
    expect_said(w, "all 5 members are here after 2.1 s");
    pass_ms(w, 100000);
    expect_quiet(w);
    assert_int_equal(w->n_over, 0);
    world_free(w);
}

static void a_rendezvous_that_takes_too_long_names_the_missing(void **state)
{
    world *w = make_world(false);
    size_t q;

    (void)state;
    (void)join(w, TRAINER, 0, 70);
    q = ask(w, 0, "start", 0);
    pass_ms(w, 29900);
    assert_int_equal(w->n_over, 0);
    assert_true(is_open(w, q));
    pass_ms(w, 100);
    expect_over(w, FL_ERR_TIMEOUT,
                "trainer 1, trainer 2 and server 1 did not come within 30 s "
                "(2 of 5 members are here): start them, or raise "
                "connect_timeout_ms");
    assert_true(has_answer(w, q, FL_ERR_TIMEOUT));
    assert_non_null(strstr(w->reason, "trainer 1, trainer 2 and server 1"));
    world_free(w);
}

static void barriers_wait_for_the_rendezvous(void **state)
{
    world *w = make_world(false);
    size_t q[3];

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        (void)join(w, TRAINER, i, 70 + i);
        q[i] = ask(w, i, "start", 0);
    }
    pass_ms(w, 12900);
    expect_said(w, "waiting for server 1 (4 of 5 members are here)");
    assert_true(is_open(w, q[0]) && is_open(w, q[1]) && is_open(w, q[2]));
    (void)join(w, SERVER, 1, 51);
    for (int i = 0; i < 3; i++)
        assert_true(has_answer(w, q[i], FL_OK));
    world_free(w);
}

/* Whatever the order of five joins, the rendezvous is over with the last. */
static void members_may_join_in_any_order(void **state)
{
    (void)state;
    for (int order = 0; order < 5 * 4 * 3 * 2; order++) {
        world *w = make_world(false);
        int left[] = { 0, 1, 2, 3, 4 }, rest = order;

        for (int n = 5; n > 0; n--) {
            int k = rest % n, who = left[k];

            assert_false(fl_coord_is_complete(w->c) && who != 3);
            rest /= n;
            left[k] = left[n - 1];
            (void)join(w, who < 3 ? TRAINER : SERVER,
                       (uint32_t)(who < 3 ? who : who - 3), 70);
        }
        assert_true(fl_coord_is_complete(w->c));
        expect_said(w, "all 5 members are here after 0 s");
        world_free(w);
    }
}

static void times_are_told_as_people_tell_them(void **state)
{
    static const struct {
        uint64_t ms;
        const char *said;
    } cases[] = {
        { 0, "0 s" },
        { 99, "99 ms" },
        { 100, "0.1 s" },
        { 2000, "2 s" },
        { 9999, "9.9 s" },
        { 10999, "10 s" },
        { 120000, "120 s" },
        { 121000, "2 min 1 s" },
        { 180000, "3 min" },
        { 3600000, "1 h 0 min" },
        { 7384000, "2 h 3 min" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++) {
        world *w =
            world_new(&(fl_coord_options){ .n_servers = 1, .n_trainers = 1 });
        char line[64];

        w->now_ms += cases[i].ms;
        (void)join(w, TRAINER, 0, 70);
        (void)snprintf(line, sizeof(line), "all 2 members are here after %s",
                       cases[i].said);
        expect_said(w, line);
        world_free(w);
    }
}

/* --- who may join -------------------------------------------------------- */

static void strangers_are_refused_by_name(void **state)
{
    static const struct {
        fl_identity who;
        fl_status st;
        const char *said;
    } cases[] = {
        { { .role = FL_MEMBER_TRAINER, .rank = 3 },
          FL_ERR_INVAL,
          "trainer 3 cannot join: the job has 3 trainers, with ranks from 0 to "
          "2; give all members the same list of servers and number of "
          "trainers" },
        { { .role = FL_MEMBER_SERVER, .rank = 2 },
          FL_ERR_INVAL,
          "server 2 cannot join: the job has 2 servers, with ranks from 0 to "
          "1; give all members the same list of servers and number of "
          "trainers" },
        { { .role = FL_MEMBER_TOOL, .rank = 0 },
          FL_ERR_INVAL,
          "a tool cannot join: only servers and trainers are members" },
        { { .role = FL_MEMBER_TRAINER, .rank = 1, .process = 88 },
          FL_ERR_INVAL,
          "trainer 1 (10.0.0.1:4000, process 71) is here already, hence "
          "trainer 1 (10.0.0.9:1, process 88) is refused: give each trainer a "
          "rank of its own" },
        { { .role = FL_MEMBER_SERVER, .rank = 1, .process = 88, .boot_id = 7 },
          FL_ERR_INVAL,
          "server 1 (10.0.0.1:4000, process 51) is here already, hence "
          "server 1 (10.0.0.9:1, process 88) is refused: give each server a "
          "rank of its own" },
        { { .role = FL_MEMBER_TRAINER,
            .rank = 1,
            .process = 71,
            .incarnation = 4 },
          FL_ERR_CLOSED,
          "trainer 1 comes as incarnation 4, which was never given: it belongs "
          "to an earlier run of server 0; start it again" },
        /* Two containers may both have a process 71. */
        { { .role = FL_MEMBER_TRAINER, .rank = 1, .process = 71 },
          FL_ERR_INVAL,
          "trainer 1 (10.0.0.1:4000, process 71) is here already, hence "
          "trainer 1 (10.0.0.9:1, process 71) is refused: give each trainer a "
          "rank of its own" },
    };
    world *w = make_full(false);
    uint64_t epoch = fl_coord_epoch(w->c);

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++) {
        uint32_t incarnation = 99;

        assert_int_equal(try_join(w, &cases[i].who, "10.0.0.9:1", &incarnation),
                         cases[i].st);
        assert_string_equal(fl_last_error(), cases[i].said);
        assert_int_equal(incarnation, 99);
    }
    expect_quiet(w);
    assert_int_equal(fl_coord_epoch(w->c), epoch);
    world_free(w);
}

static void the_same_process_keeps_its_incarnation(void **state)
{
    world *w = make_full(false);
    fl_identity who = member(TRAINER, 1, 71);
    uint32_t incarnation = 0;

    (void)state;
    /* Its first answer was lost: it asks again without an incarnation. */
    assert_int_equal(join(w, TRAINER, 1, 71), 1);
    (void)ask(w, 1, "start", 0);
    fl_coord_down(w->c, TRAINER, 1, "", w->now_ms);
    forget_lines(w);
    pass_ms(w, 1500);
    who.incarnation = 1;
    assert_ok(try_join(w, &who, "10.0.0.1:4999", &incarnation));
    assert_int_equal(incarnation, 1);
    expect_said(w, "trainer 1 (10.0.0.1:4999, process 71) is back after 1.5 s");
    world_free(w);
}

static void another_process_is_a_new_incarnation(void **state)
{
    world *w = make_full(false);
    fl_identity old = member(TRAINER, 1, 71);
    uint32_t incarnation = 0;
    size_t q0 = ask(w, 0, "epoch", 1), q1 = ask(w, 1, "epoch", 1), q2;

    (void)state;
    fl_coord_down(w->c, TRAINER, 1, "killed", w->now_ms);
    forget_lines(w);
    pass_ms(w, 12000);
    forget_lines(w);
    assert_int_equal(join(w, TRAINER, 1, 88), 2);
    expect_said(w, "trainer 1 is back as incarnation 2: 10.0.0.1:4000, "
                   "process 88, after 12 s");
    /* What the old one asked does not count for the new one. */
    assert_true(has_answer(w, q1, FL_ERR_CLOSED));
    assert_string_equal(w->reason, "trainer 1 was replaced by process 88 as "
                                   "incarnation 2");
    q2 = ask(w, 2, "epoch", 1);
    assert_true(is_open(w, q0) && is_open(w, q2));
    assert_true(has_answer(w, ask_as(w, 1, 1, "epoch", 1), FL_ERR_CLOSED));
    assert_string_equal(w->reason,
                        "incarnation 1 of trainer 1 asks for a barrier, but "
                        "incarnation 2 (process 88) is the one that counts");
    old.incarnation = 1;
    assert_int_equal(try_join(w, &old, "10.0.0.1:4000", &incarnation),
                     FL_ERR_CLOSED);
    assert_string_equal(fl_last_error(),
                        "incarnation 1 of trainer 1 was replaced by "
                        "incarnation 2 (process 88)");
    assert_true(has_answer(w, ask(w, 1, "epoch", 1), FL_OK));
    assert_true(has_answer(w, q0, FL_OK) && has_answer(w, q2, FL_OK));
    world_free(w);
}

/* Its process id tells nothing: in a container it is the same after a
   restart. Servers know its forerunner's sequence numbers. */
static void a_restart_with_the_same_process_id_is_seen(void **state)
{
    world *w = make_full(false);

    (void)state;
    (void)ask(w, 1, "start", 0);
    fl_coord_silent(w->c, TRAINER, 1, 2000, 5, w->now_ms);
    forget_lines(w);
    assert_int_equal(join(w, TRAINER, 1, 71), 2);
    expect_said(w, "trainer 1 is back as incarnation 2: 10.0.0.1:4000, "
                   "process 71, after 2 s");
    world_free(w);
}

static void who_left_may_start_again(void **state)
{
    world *w = make_full(false);
    size_t q0 = ask(w, 0, "epoch", 0), q2 = ask(w, 2, "epoch", 0);

    (void)state;
    fl_coord_leave(w->c, TRAINER, 1, w->now_ms);
    assert_true(has_answer(w, q0, FL_OK) && has_answer(w, q2, FL_OK));
    assert_true(has_answer(w, ask(w, 1, "epoch", 0), FL_ERR_CLOSED));
    assert_int_equal(join(w, TRAINER, 1, 88), 2);
    expect_said(w, "trainer 1 is back as incarnation 2: 10.0.0.1:4000, "
                   "process 88");
    q0 = ask(w, 0, "epoch", 1);
    q2 = ask(w, 2, "epoch", 1);
    assert_true(is_open(w, q0) && is_open(w, q2));
    /* It counts from the beginning and catches up. */
    assert_true(has_answer(w, ask(w, 1, "epoch", 0), FL_OK));
    assert_true(has_answer(w, ask(w, 1, "epoch", 1), FL_OK));
    assert_true(has_answer(w, q0, FL_OK) && has_answer(w, q2, FL_OK));
    world_free(w);
}

/* One process may close its side and connect again. */
static void a_process_that_left_joins_anew(void **state)
{
    world *w = make_full(false);

    (void)state;
    fl_coord_leave(w->c, TRAINER, 1, w->now_ms);
    assert_int_equal(join(w, TRAINER, 1, 71), 2);
    expect_said(w, "trainer 1 is back as incarnation 2: 10.0.0.1:4000, "
                   "process 71");
    fl_coord_leave(w->c, TRAINER, 0, w->now_ms);
    fl_coord_leave(w->c, TRAINER, 2, w->now_ms);
    assert_int_equal(w->n_over, 0);
    fl_coord_leave(w->c, TRAINER, 1, w->now_ms);
    assert_int_equal(w->n_over, 1);
    world_free(w);
}

/* --- being away ---------------------------------------------------------- */

static void
a_member_that_is_down_is_told_at_once_and_when_it_is_back(void **state)
{
    world *w = make_full(false);

    (void)state;
    fl_coord_heard(w->c, TRAINER, 1, 120, w->now_ms);
    expect_quiet(w);
    fl_coord_down(w->c, TRAINER, 1, "connection reset by peer", w->now_ms);
    expect_said(w, "trainer 1 (10.0.0.1:4000, process 71) is down (connection "
                   "reset by peer), last seen at step 120; waiting up to 60 s "
                   "for its return, then the job ends");
    fl_coord_down(w->c, TRAINER, 1, "again", w->now_ms);
    pass_ms(w, 59900);
    expect_quiet(w);
    fl_coord_up(w->c, TRAINER, 1, w->now_ms);
    expect_said(w, "trainer 1 (10.0.0.1:4000, process 71) is back after 59 s");
    fl_coord_up(w->c, TRAINER, 1, w->now_ms);
    pass_ms(w, 60000);
    expect_quiet(w);
    assert_int_equal(w->n_over, 0);
    world_free(w);
}

static void a_worker_is_one_though_it_is_two_members(void **state)
{
    fl_coord_options o = two_and_three;
    world *w;

    (void)state;
    o.are_workers = true;
    o.n_trainers = o.n_servers;
    w = world_new(&o);
    (void)join(w, TRAINER, 0, 70);
    pass_ms(w, 3000);
    expect_said(w, "waiting for worker 1 (1 of 2 workers are here)");
    (void)join(w, SERVER, 1, 71);
    (void)join(w, TRAINER, 1, 71);
    expect_said(w, "all 2 workers are here after 3 s");
    fl_coord_down(w->c, SERVER, 1, "killed", w->now_ms);
    fl_coord_down(w->c, TRAINER, 1, "killed", w->now_ms);
    expect_said(w, "worker 1 (10.0.0.1:4000, process 71) is down (killed); "
                   "waiting up to 60 s for its return, then the job ends");
    pass_ms(w, 1000);
    fl_coord_up(w->c, TRAINER, 1, w->now_ms);
    fl_coord_up(w->c, SERVER, 1, w->now_ms);
    expect_said(w, "worker 1 (10.0.0.1:4000, process 71) is back after 1 s");
    world_free(w);
}

static void silence_and_what_follows_count_together(void **state)
{
    world *w = make_full(true);

    (void)state;
    fl_coord_silent(w->c, TRAINER, 2, 2100, 40, w->now_ms);
    expect_said(w, "trainer 2 (10.0.0.2:4000, process 72) has been silent for "
                   "2.1 s, last seen at step 40; waiting up to 57 s for its "
                   "return, then going on without it");
    fl_coord_silent(w->c, TRAINER, 2, 2200, 40, w->now_ms);
    pass_ms(w, 2900);
    expect_quiet(w);
    fl_coord_down(w->c, TRAINER, 2, NULL, w->now_ms);
    expect_said(w, "trainer 2 (10.0.0.2:4000, process 72) is down after 5 s of "
                   "silence, last seen at step 40; waiting up to 55 s for its "
                   "return, then going on without it");
    fl_coord_heard(w->c, TRAINER, 2, 40, w->now_ms);
    expect_quiet(w);
    pass_ms(w, 2300);
    fl_coord_up(w->c, TRAINER, 2, w->now_ms);
    expect_said(w, "trainer 2 (10.0.0.2:4000, process 72) is back after 7.3 s");
    fl_coord_silent(w->c, TRAINER, 2, 2000, 41, w->now_ms);
    forget_lines(w);
    pass_ms(w, 1000);
    fl_coord_heard(w->c, TRAINER, 2, 41, w->now_ms);
    expect_said(w, "trainer 2 (10.0.0.2:4000, process 72) is back after 3 s");
    world_free(w);
}

static void a_lost_trainer_ends_the_job_by_name(void **state)
{
    world *w = make_full(false);
    size_t q = ask(w, 0, "epoch", 0);
    uint32_t incarnation;
    fl_identity who = member(TRAINER, 1, 99);

    (void)state;
    fl_coord_step(w->c, 7);
    fl_coord_report(w->c, 1, &(fl_report_request){ "train", 700, 0.5, 0.7, 0 },
                    w->now_ms);
    fl_coord_down(w->c, TRAINER, 1, "killed", w->now_ms);
    pass_ms(w, 60000);
    expect_over(w, FL_ERR_CLOSED,
                "trainer 1 (10.0.0.1:4000, process 71) did not come back "
                "within 60 s, last seen at step 7, and the job cannot go on "
                "without it: start the job again, or raise restart_timeout_ms "
                "if it only needs more time");
    assert_true(has_answer(w, q, FL_ERR_CLOSED));
    assert_string_equal(w->reason, w->over.text);
    /* Nothing begins in a job that is over. */
    assert_int_equal(try_join(w, &who, "", &incarnation), FL_ERR_CLOSED);
    assert_non_null(strstr(fl_last_error(), "the job is over: trainer 1 ("));
    assert_true(has_answer(w, ask(w, 2, "epoch", 0), FL_ERR_CLOSED));
    fl_coord_leave(w->c, TRAINER, 0, w->now_ms);
    forget_lines(w);
    pass_ms(w, 60000);
    expect_quiet(w);
    assert_int_equal(w->n_over, 1);
    world_free(w);
}

static void the_job_goes_on_without_a_lost_trainer(void **state)
{
    world *w = make_full(true);
    size_t q0 = ask(w, 0, "epoch", 0), q1 = ask(w, 1, "epoch", 0), q2;

    (void)state;
    fl_coord_report(w->c, 2, &(fl_report_request){ "train", 1200, NAN, NAN, 0 },
                    w->now_ms);
    fl_coord_down(w->c, TRAINER, 2, "killed", w->now_ms);
    pass_ms(w, 59900);
    forget_lines(w);
    assert_true(is_open(w, q0) && is_open(w, q1));
    pass_ms(w, 100);
    expect_said(w, "trainer 2 (10.0.0.2:4000, process 72) did not come back "
                   "within 60 s, last seen at step 0; going on without it, "
                   "and what it had not trained yet stays untrained (it "
                   "reported 1200 samples)");
    assert_true(has_answer(w, q0, FL_OK) && has_answer(w, q1, FL_OK));
    assert_true(has_answer(w, ask(w, 2, "epoch", 0), FL_ERR_CLOSED));
    pass_ms(w, 5000);
    fl_coord_up(w->c, TRAINER, 2, w->now_ms);
    expect_said(w, "trainer 2 (10.0.0.2:4000, process 72) is back after 65 s "
                   "and counts again");
    q0 = ask(w, 0, "epoch", 1);
    q1 = ask(w, 1, "epoch", 1);
    assert_true(is_open(w, q0) && is_open(w, q1));
    q2 = ask(w, 2, "epoch", 0);
    assert_true(has_answer(w, q2, FL_OK));
    assert_true(has_answer(w, ask(w, 2, "epoch", 1), FL_OK));
    assert_true(has_answer(w, q0, FL_OK) && has_answer(w, q1, FL_OK));
    world_free(w);
}

static void without_a_timeout_a_member_is_lost_at_once(void **state)
{
    fl_coord_options o = two_and_three;
    world *w;

    (void)state;
    o.restart_timeout_ms = 0;
    w = world_new(&o);
    (void)join(w, TRAINER, 0, 70);
    fl_coord_down(w->c, TRAINER, 0, "killed", w->now_ms);
    expect_said(w, "trainer 0 (10.0.0.0:4000, process 70) is down (killed), "
                   "last seen at step 0; the job ends");
    expect_over(w, FL_ERR_CLOSED,
                "trainer 0 (10.0.0.0:4000, process 70) is lost, last seen at "
                "step 0, and the job cannot go on without it: start the job "
                "again, or raise restart_timeout_ms if it only needs more "
                "time");
    world_free(w);

    o.go_on_without = true;
    w = world_new(&o);
    (void)join(w, TRAINER, 0, 70);
    fl_coord_silent(w->c, TRAINER, 0, 2000, 0, w->now_ms);
    assert_int_equal(w->lines.len, 2);
    assert_string_equal(w->lines.data[0],
                        "trainer 0 (10.0.0.0:4000, process 70) has been silent "
                        "for 2 s, last seen at step 0; going on without it");
    assert_string_equal(w->lines.data[1],
                        "trainer 0 (10.0.0.0:4000, process 70) is lost, last "
                        "seen at step 0; going on without it, and what it had "
                        "not trained yet stays untrained");
    assert_int_equal(w->n_over, 0);
    world_free(w);
}

static void when_every_trainer_is_lost_the_job_fails(void **state)
{
    world *w = make_full(true);

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        fl_coord_down(w->c, TRAINER, i, "killed", w->now_ms);
    pass_ms(w, 60000);
    expect_over(w, FL_ERR_CLOSED,
                "every trainer of the job (3) is lost: see why they ended, and "
                "start the job again");
    world_free(w);
}

static void a_lost_server_ends_the_job_whatever_the_policy(void **state)
{
    world *w = make_full(true);

    (void)state;
    fl_coord_down(w->c, SERVER, 1, "killed", w->now_ms);
    expect_said(w, "server 1 (10.0.0.1:4000, process 51) is down (killed); "
                   "waiting up to 60 s for its return, then the job ends");
    pass_ms(w, 60000);
    expect_over(w, FL_ERR_CLOSED,
                "server 1 (10.0.0.1:4000, process 51) did not come back within "
                "60 s, and the job cannot go on without the rows that it held: "
                "start the job again, or raise restart_timeout_ms if it only "
                "needs more time");
    world_free(w);
}

static void a_server_without_its_rows_is_not_taken_back(void **state)
{
    world *w = make_full(true);
    fl_identity who = member(SERVER, 1, 88);
    uint32_t incarnation = 0;

    (void)state;
    fl_coord_down(w->c, SERVER, 1, "", w->now_ms);
    who.boot_id = 51;
    assert_ok(try_join(w, &who, "10.0.0.1:4000", &incarnation));
    assert_int_equal(incarnation, 2);
    fl_coord_down(w->c, SERVER, 1, "", w->now_ms);
    who.boot_id = 52;
    assert_int_equal(try_join(w, &who, "10.0.0.1:4000", &incarnation),
                     FL_ERR_CLOSED);
    expect_over(w, FL_ERR_CLOSED,
                "server 1 (10.0.0.1:4000, process 88) came back without the "
                "rows that it held: start the job again");
    assert_string_equal(fl_last_error(), w->over.text);
    world_free(w);

    /* Before the rendezvous there are no rows yet. */
    w = make_world(true);
    (void)join(w, SERVER, 1, 51);
    fl_coord_down(w->c, SERVER, 1, "", w->now_ms);
    assert_int_equal(join(w, SERVER, 1, 88), 2);
    assert_int_equal(w->n_over, 0);
    world_free(w);
}

static void a_server_that_leaves_early_ends_the_job(void **state)
{
    world *w = make_full(true);

    (void)state;
    fl_coord_leave(w->c, SERVER, 1, w->now_ms);
    expect_over(w, FL_ERR_CLOSED,
                "server 1 (10.0.0.1:4000, process 51) left before the trainers "
                "were done, and the rows that it held are gone: start the job "
                "again");
    world_free(w);
}

static void news_of_nobody_changes_nothing(void **state)
{
    world *w = make_world(false);
    uint64_t epoch = fl_coord_epoch(w->c);

    (void)state;
    fl_coord_down(w->c, TRAINER, 1, "never joined", w->now_ms);
    fl_coord_up(w->c, TRAINER, 1, w->now_ms);
    fl_coord_silent(w->c, TRAINER, 1, 2000, 9, w->now_ms);
    fl_coord_leave(w->c, TRAINER, 1, w->now_ms);
    fl_coord_leave(w->c, TRAINER, 77, w->now_ms);
    fl_coord_down(w->c, SERVER, 0, "that is here", w->now_ms);
    fl_coord_silent(w->c, SERVER, 0, 2000, 9, w->now_ms);
    fl_coord_down(w->c, FL_MEMBER_TOOL, 0, "a tool", w->now_ms);
    fl_coord_report(w->c, 1, &(fl_report_request){ "train", 1, 1, 1, 0 },
                    w->now_ms);
    fl_coord_report(w->c, 77, &(fl_report_request){ "train", 1, 1, 1, 0 },
                    w->now_ms);
    expect_quiet(w);
    assert_int_equal(fl_coord_epoch(w->c), epoch);
    assert_true(has_answer(w, ask(w, 1, "start", 0), FL_ERR_INVAL));
    assert_true(has_answer(w, ask(w, 77, "start", 0), FL_ERR_INVAL));
    assert_string_equal(w->reason,
                        "trainer 77 asks for a barrier and has not joined");
    assert_int_equal(fl_coord_incarnation(w->c, TRAINER, 1), 0);
    assert_int_equal(fl_coord_incarnation(w->c, TRAINER, 77), 0);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_missing_are_named_after_3_s_and_every_10_s),
        cmocka_unit_test(the_last_to_join_completes_the_rendezvous),
        cmocka_unit_test(a_rendezvous_that_takes_too_long_names_the_missing),
        cmocka_unit_test(barriers_wait_for_the_rendezvous),
        cmocka_unit_test(members_may_join_in_any_order),
        cmocka_unit_test(times_are_told_as_people_tell_them),
        cmocka_unit_test(strangers_are_refused_by_name),
        cmocka_unit_test(the_same_process_keeps_its_incarnation),
        cmocka_unit_test(another_process_is_a_new_incarnation),
        cmocka_unit_test(a_restart_with_the_same_process_id_is_seen),
        cmocka_unit_test(who_left_may_start_again),
        cmocka_unit_test(a_process_that_left_joins_anew),
        cmocka_unit_test(
            a_member_that_is_down_is_told_at_once_and_when_it_is_back),
        cmocka_unit_test(a_worker_is_one_though_it_is_two_members),
        cmocka_unit_test(silence_and_what_follows_count_together),
        cmocka_unit_test(a_lost_trainer_ends_the_job_by_name),
        cmocka_unit_test(the_job_goes_on_without_a_lost_trainer),
        cmocka_unit_test(without_a_timeout_a_member_is_lost_at_once),
        cmocka_unit_test(when_every_trainer_is_lost_the_job_fails),
        cmocka_unit_test(a_lost_server_ends_the_job_whatever_the_policy),
        cmocka_unit_test(a_server_without_its_rows_is_not_taken_back),
        cmocka_unit_test(a_server_that_leaves_early_ends_the_job),
        cmocka_unit_test(news_of_nobody_changes_nothing),
    };

    return cmocka_run_group_tests_name("coord", tests, NULL, NULL);
}
