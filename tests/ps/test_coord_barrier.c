/* test_coord_barrier.c - barriers, the end of a job and its status page. */
#include "coord_kit.h"

#define TRAINER FL_MEMBER_TRAINER
#define SERVER FL_MEMBER_SERVER

/* One server and n trainers, all there; trainer R is process 70 + R. */
static world *make_full(int n_trainers)
{
    world *w = world_new(&(fl_coord_options){ .n_servers = 1,
                                              .n_trainers = n_trainers,
                                              .connect_timeout_ms = 30000,
                                              .restart_timeout_ms = 60000,
                                              .go_on_without = true });

    for (uint32_t i = 0; i < (uint32_t)n_trainers; i++)
        (void)join(w, TRAINER, i, 70 + i);
    forget_lines(w);
    return w;
}

/* --- barriers ------------------------------------------------------------ */

static void a_barrier_opens_when_the_last_trainer_comes(void **state)
{
    (void)state;
    for (int order = 0; order < 3 * 2; order++) {
        world *w = make_full(3);
        uint32_t left[] = { 0, 1, 2 }, rest = (uint32_t)order;
        size_t q[3];

        for (uint32_t n = 3; n > 0; n--) {
            uint32_t k = rest % n;

            for (uint32_t came = 3; came > n; came--)
                assert_true(is_open(w, q[3 - came]));
            q[3 - n] = ask(w, left[k], "epoch", 0);
            rest /= n;
            left[k] = left[n - 1];
        }
        for (int i = 0; i < 3; i++)
            assert_true(has_answer(w, q[i], FL_OK));
        expect_quiet(w);
        world_free(w);
    }
}

static void names_and_generations_are_barriers_of_their_own(void **state)
{
    world *w = make_full(2);
    size_t a0 = ask(w, 0, "a", 0), b0 = ask(w, 1, "b", 0);
    size_t a1 = ask(w, 1, "a", 1), b1;

    (void)state;
    assert_true(is_open(w, a0) && is_open(w, b0) && is_open(w, a1));
    assert_true(has_answer(w, ask(w, 1, "a", 0), FL_OK));
    assert_true(has_answer(w, a0, FL_OK));
    assert_true(is_open(w, b0) && is_open(w, a1));
    /* Its answer was lost on the way. */
    assert_true(has_answer(w, ask(w, 0, "a", 0), FL_OK));
    /* Older generations pass with a newer one. */
    assert_true(has_answer(w, ask(w, 0, "b", 5), FL_OK) == false);
    b1 = ask(w, 1, "b", 5);
    assert_true(has_answer(w, b1, FL_OK) && has_answer(w, b0, FL_OK));
    assert_true(is_open(w, a1));
    world_free(w);
}

static void a_trainer_that_asks_again_replaces_its_question(void **state)
{
    world *w = make_full(2);
    size_t first = ask(w, 0, "epoch", 0), second;

    (void)state;
    fl_coord_down(w->c, TRAINER, 0, "", w->now_ms);
    fl_coord_up(w->c, TRAINER, 0, w->now_ms);
    second = ask(w, 0, "epoch", 0);
    assert_true(has_answer(w, first, FL_ERR_CLOSED));
    assert_string_equal(w->reason, "trainer 0 asked again for barrier "
                                   "\"epoch\"");
    assert_true(is_open(w, second));
    assert_true(has_answer(w, ask(w, 1, "epoch", 0), FL_OK));
    assert_true(has_answer(w, second, FL_OK));
    assert_true(has_answer(w, first, FL_ERR_CLOSED));
    world_free(w);
}

static void who_came_is_told_with_the_share_of_each(void **state)
{
    world *w = make_full(3);
    size_t q;

    (void)state;
    (void)ask(w, 2, "epoch", 4);
    (void)ask(w, 0, "epoch", 4);
    assert_string_equal(w->came, "");
    (void)ask(w, 1, "epoch", 4);
    assert_string_equal(w->came, "0:1 1:11 2:21");
    /* The same for one whose answer was lost, as long as it is the last. */
    w->came[0] = '\0';
    q = ask(w, 1, "epoch", 4);
    assert_true(has_answer(w, q, FL_OK));
    assert_string_equal(w->came, "0:1 1:11 2:21");
    q = ask(w, 1, "epoch", 3);
    assert_true(has_answer(w, q, FL_OK));
    assert_string_equal(w->came, "");
    fl_coord_leave(w->c, TRAINER, 0, w->now_ms);
    (void)ask(w, 2, "epoch", 5);
    (void)ask(w, 1, "epoch", 5);
    assert_string_equal(w->came, "1:11 2:21");
    world_free(w);
}

static void a_round_goes_on_without_those_who_wait_elsewhere(void **state)
{
    world *w = make_full(3);
    size_t done = ask(w, 1, "epoch", 1), q0 = ask(w, 0, "round", 8), q2;

    (void)state;
    /* Trainer 2 still computes. */
    assert_true(is_open(w, q0));
    pass_ms(w, 3100);
    forget_lines(w);
    q2 = ask(w, 2, "round", 8);
    assert_true(has_answer(w, q0, FL_OK) && has_answer(w, q2, FL_OK));
    assert_string_equal(w->came, "0:1 2:21");
    /* The last one that trains goes on alone as soon as the other waits. */
    q2 = ask(w, 2, "round", 9);
    assert_true(is_open(w, q2));
    q0 = ask(w, 0, "epoch", 1);
    assert_true(has_answer(w, q2, FL_OK));
    assert_string_equal(w->came, "2:21");
    assert_true(is_open(w, q0) && is_open(w, done));
    assert_true(has_answer(w, ask(w, 2, "epoch", 1), FL_OK));
    assert_true(has_answer(w, q0, FL_OK) && has_answer(w, done, FL_OK));
    assert_string_equal(w->came, "0:1 1:11 2:21");
    world_free(w);
}

static void a_round_that_waits_names_only_those_who_train(void **state)
{
    world *w = make_full(4);

    (void)state;
    (void)ask(w, 1, "epoch", 1);
    (void)ask(w, 2, "round", 3);
    fl_coord_heard(w->c, TRAINER, 0, 9, w->now_ms);
    pass_ms(w, 2900);
    expect_quiet(w);
    fl_coord_down(w->c, TRAINER, 3, "killed", w->now_ms);
    forget_lines(w);
    pass_ms(w, 100);
    assert_int_equal(w->lines.len, 2);
    assert_string_equal(w->lines.data[1],
                        "trainer 2 has been waiting at barrier \"round\" for "
                        "3 s; missing are trainer 0 (last seen at step 9) "
                        "and trainer 3 (down for 0.1 s, last seen at step 0)");
    world_free(w);
}

static void a_trainer_in_an_older_round_is_waited_for(void **state)
{
    world *w = make_full(2);
    size_t ahead = ask(w, 0, "round", 6), behind = ask(w, 1, "round", 5);

    (void)state;
    assert_true(is_open(w, ahead) && has_answer(w, behind, FL_OK));
    assert_string_equal(w->came, "1:11");
    behind = ask(w, 1, "round", 6);
    assert_true(has_answer(w, ahead, FL_OK) && has_answer(w, behind, FL_OK));
    assert_string_equal(w->came, "0:1 1:11");
    world_free(w);
}

static void a_leave_lets_the_others_go_on(void **state)
{
    world *w = make_full(3);
    size_t q0 = ask(w, 0, "epoch", 0), q1 = ask(w, 1, "epoch", 0);
    size_t other = ask(w, 2, "other", 0);

    (void)state;
    fl_coord_leave(w->c, TRAINER, 2, w->now_ms);
    assert_true(has_answer(w, other, FL_ERR_CLOSED));
    assert_string_equal(w->reason, "trainer 2 has left the job");
    assert_true(has_answer(w, q0, FL_OK) && has_answer(w, q1, FL_OK));
    /* A left one that connects again only repeats its leave. */
    fl_coord_up(w->c, TRAINER, 2, w->now_ms);
    fl_coord_leave(w->c, TRAINER, 2, w->now_ms);
    fl_coord_down(w->c, TRAINER, 2, "bye", w->now_ms);
    pass_ms(w, 60000);
    expect_quiet(w);
    world_free(w);
}

static void a_long_wait_is_told_with_those_who_are_missing(void **state)
{
    world *w = make_full(4);

    (void)state;
    fl_coord_step(w->c, 12);
    fl_coord_heard(w->c, TRAINER, 1, 9, w->now_ms);
    (void)ask(w, 0, "epoch", 0);
    (void)ask(w, 3, "other", 0);
    pass_ms(w, 2900);
    expect_quiet(w);
    fl_coord_down(w->c, TRAINER, 2, "killed", w->now_ms);
    forget_lines(w);
    pass_ms(w, 100);
    assert_int_equal(w->lines.len, 2);
    assert_string_equal(
        w->lines.data[0],
        "trainer 0 has been waiting at barrier \"epoch\" for 3 s; missing are "
        "trainer 1 (last seen at step 9), trainer 2 (down for 0.1 s, last "
        "seen at step 0) and trainer 3 (waits at barrier \"other\" instead, "
        "last seen at step 12)");
    forget_lines(w);
    fl_coord_leave(w->c, TRAINER, 3, w->now_ms);
    (void)ask(w, 1, "epoch", 0);
    pass_ms(w, 9900);
    expect_quiet(w);
    pass_ms(w, 100);
    expect_said(w, "trainer 0 and trainer 1 have been waiting at barrier "
                   "\"epoch\" for 13 s; missing is trainer 2 (down for 10 s, "
                   "last seen at step 0)");
    pass_ms(w, 10000);
    expect_said(w, "trainer 0 and trainer 1 have been waiting at barrier "
                   "\"epoch\" for 23 s; missing is trainer 2 (down for 20 s, "
                   "last seen at step 0)");
    world_free(w);
}

static void a_line_about_many_trainers_stays_a_line(void **state)
{
    world *w = make_full(64);
    size_t q[64];

    (void)state;
    for (uint32_t i = 0; i < 32; i++)
        q[i] = ask(w, i, "start", 0);
    fl_coord_silent(w->c, TRAINER, 32, 4000, 3, w->now_ms);
    forget_lines(w);
    pass_ms(w, 3000);
    expect_said(
        w, "trainer 0, trainer 1, trainer 2, trainer 3, trainer 4, trainer 5, "
           "trainer 6, trainer 7 and 24 others have been waiting at barrier "
           "\"start\" for 3 s; missing are trainer 32 (silent for 7 s, last "
           "seen at step 3), trainer 33 (last seen at step 0), trainer 34 "
           "(last seen at step 0), trainer 35 (last seen at step 0), trainer "
           "36 (last seen at step 0), trainer 37 (last seen at step 0), "
           "trainer 38 (last seen at step 0), trainer 39 (last seen at step 0) "
           "and 24 others");
    for (uint32_t i = 32; i < 64; i++) {
        assert_true(is_open(w, q[0]));
        q[i] = ask(w, i, "start", 0);
    }
    for (int i = 0; i < 64; i++)
        assert_true(has_answer(w, q[i], FL_OK));
    for (uint32_t i = 0; i < 64; i++)
        fl_coord_leave(w->c, TRAINER, i, w->now_ms);
    expect_said(w, "all 64 trainers are done; the job is over after 3 s, at "
                   "step 0");
    expect_over(w, FL_OK, "");
    world_free(w);
}

static void names_of_barriers_have_limits(void **state)
{
    world *w = make_full(1);
    char name[65];

    (void)state;
    memset(name, 'x', sizeof(name));
    name[64] = '\0';
    assert_true(has_answer(w, ask(w, 0, name, 0), FL_ERR_INVAL));
    assert_string_equal(w->reason,
                        "a barrier's name has at most 63 characters, not 64");
    assert_true(has_answer(w, ask(w, 0, name + 1, 0), FL_OK));
    assert_true(has_answer(w, ask(w, 0, "a\033[2J", 0), FL_ERR_INVAL));
    assert_string_equal(w->reason, "a barrier's name has the byte 0x1b in it, "
                                   "which cannot be printed");
    for (int i = 1; i < 1024; i++) {
        (void)snprintf(name, sizeof(name), "name %d", i);
        assert_true(has_answer(w, ask(w, 0, name, 0), FL_OK));
    }
    assert_true(has_answer(w, ask(w, 0, "more", 0), FL_ERR_INVAL));
    assert_string_equal(w->reason,
                        "barrier \"more\" is one too many: a job has at most "
                        "1024 names of barriers, and as many that wait; use a "
                        "name again with the next generation");
    assert_true(has_answer(w, ask(w, 0, name, 1), FL_OK));
    world_free(w);
}

/* --- the end ------------------------------------------------------------- */

static void the_job_is_over_when_all_trainers_left(void **state)
{
    world *w = make_full(2);

    (void)state;
    fl_coord_step(w->c, 1200);
    pass_ms(w, 185000);
    fl_coord_leave(w->c, TRAINER, 1, w->now_ms);
    assert_int_equal(w->n_over, 0);
    expect_quiet(w);
    fl_coord_leave(w->c, TRAINER, 0, w->now_ms);
    expect_said(w, "all 2 trainers are done; the job is over after 3 min 5 s, "
                   "at step 1200");
    expect_over(w, FL_OK, "");
    fl_coord_leave(w->c, TRAINER, 0, w->now_ms);
    fl_coord_leave(w->c, SERVER, 0, w->now_ms);
    assert_true(has_answer(w, ask(w, 0, "late", 0), FL_ERR_CLOSED));
    assert_string_equal(w->reason, "the job is over: its trainers are done");
    assert_int_equal(w->n_over, 1);
    world_free(w);
}

static void a_job_that_lost_trainers_says_so_at_its_end(void **state)
{
    world *w = make_full(3);

    (void)state;
    fl_coord_down(w->c, TRAINER, 1, "killed", w->now_ms);
    fl_coord_leave(w->c, TRAINER, 0, w->now_ms);
    pass_ms(w, 60000);
    forget_lines(w);
    fl_coord_leave(w->c, TRAINER, 2, w->now_ms);
    expect_said(w, "2 of 3 trainers are done and 1 is lost; the job is over "
                   "after 60 s, at step 0");
    expect_over(w, FL_OK, "");
    world_free(w);

    w = make_full(1);
    fl_coord_leave(w->c, TRAINER, 0, w->now_ms);
    expect_said(w, "the only trainer is done; the job is over after 0 s, at "
                   "step 0");
    world_free(w);
}

static void an_end_from_outside_answers_everybody(void **state)
{
    world *w = make_full(3);
    size_t q0 = ask(w, 0, "a", 0), q1 = ask(w, 1, "b", 0);

    (void)state;
    (void)fl_err_set(FL_ERR_CLOSED, "server 0 was asked to end");
    fl_coord_end(w->c, FL_ERR_CLOSED);
    assert_true(has_answer(w, q0, FL_ERR_CLOSED));
    assert_true(has_answer(w, q1, FL_ERR_CLOSED));
    assert_string_equal(w->reason, "server 0 was asked to end");
    expect_over(w, FL_ERR_CLOSED, "server 0 was asked to end");
    fl_coord_end(w->c, FL_ERR_CLOSED);
    assert_int_equal(w->n_over, 1);
    world_free(w);
}

static void steps_add_up_and_never_wrap(void **state)
{
    world *w = make_full(1);

    (void)state;
    assert_int_equal(fl_coord_step(w->c, 0), 0);
    assert_int_equal(fl_coord_step(w->c, 3), 3);
    assert_int_equal(fl_coord_step(w->c, 4), 7);
    assert_true(fl_coord_step(w->c, UINT64_MAX) == UINT64_MAX);
    world_free(w);
}

static void every_change_moves_the_epoch(void **state)
{
    world *w = make_full(2);
    uint64_t last = fl_coord_epoch(w->c);

    (void)state;
    for (int event = 0; event < 6; event++) {
        switch (event) {
        case 0:
            fl_coord_silent(w->c, TRAINER, 0, 2000, 0, w->now_ms);
            break;
        case 1:
            fl_coord_heard(w->c, TRAINER, 0, 0, w->now_ms);
            break;
        case 2:
            fl_coord_down(w->c, TRAINER, 0, "", w->now_ms);
            break;
        case 3:
            (void)join(w, TRAINER, 0, 99);
            break;
        case 4:
            fl_coord_leave(w->c, TRAINER, 1, w->now_ms);
            break;
        default:
            fl_coord_leave(w->c, TRAINER, 0, w->now_ms);
        }
        assert_true(fl_coord_epoch(w->c) > last);
        last = fl_coord_epoch(w->c);
    }
    world_free(w);
}

/* --- the status page ----------------------------------------------------- */

static void expect_status(world *w, const char *page)
{
    char *text = page_of(w, w->now_ms);

    assert_string_equal(text, page);
    free(text);
}

static void the_status_page_shows_who_waits_for_whom(void **state)
{
    world *w = make_full(4);
    fl_identity server_0 = member(SERVER, 0, 50);
    uint32_t incarnation;

    (void)state;
    (void)snprintf(server_0.address, sizeof(server_0.address), "10.0.0.9:6174");
    assert_ok(fl_coord_join(w->c, &server_0, "", w->now_ms, &incarnation));
    fl_coord_report(w->c, 0, &(fl_report_request){ "train", 1000, 0.7, NAN, 0 },
                    w->now_ms);
    pass_ms(w, 2000);
    fl_coord_step(w->c, 120);
    fl_coord_report(w->c, 0,
                    &(fl_report_request){ "train", 6000, 0.693147, 0.75, 0 },
                    w->now_ms);
    fl_coord_report(w->c, 1,
                    &(fl_report_request){ "load\tdata", 0, NAN, NAN, 0 },
                    w->now_ms);
    (void)ask(w, 0, "epoch", 3);
    fl_coord_silent(w->c, TRAINER, 1, 2000, 119, w->now_ms);
    fl_coord_down(w->c, TRAINER, 2, "", w->now_ms);
    fl_coord_leave(w->c, TRAINER, 3, w->now_ms);
    w->now_ms += 2500;
    expect_status(
        w, "member     address        process  phase      state         "
           "incarnation  step  samples  samples/s  to go     loss   AUC  "
           "reported   waits for\n"
           "trainer 0  10.0.0.0:4000       70  train      up                "
           "      1   120     6000       2500      -  0.69315  0.75  2.5 s "
           "ago  trainer 1 and trainer 2\n"
           "trainer 1  10.0.0.1:4000       71  load?data  silent 4.5 s      "
           "      1   120        0          -      -        -     -  2.5 s "
           "ago  -\n"
           "trainer 2  10.0.0.2:4000       72  -          down 2.5 s        "
           "      1     0        -          -      -        -     -  -      "
           "    -\n"
           "trainer 3  10.0.0.3:4000       73  -          left              "
           "      1     0        -          -      -        -     -  -      "
           "    -\n"
           "server 0   10.0.0.9:6174       50  -          up                "
           "      1     -        -          -      -        -     -  -      "
           "    -\n"
           "\n"
           "barrier \"epoch\": open for 2.5 s, waits for trainer 1 (silent "
           "for 4.5 s, last seen at step 120) and trainer 2 (down for 2.5 "
           "s, last seen at step 0) (1 of 3 trainers came)\n"
           "\n"
           "the job began 4.5 s ago and is at step 120\n"
           "all trainers together: 6000 samples, 2500 samples/s\n");
    world_free(w);
}

static void the_status_page_shows_the_rendezvous_and_the_end(void **state)
{
    world *w = world_new(&(fl_coord_options){
        .n_servers = 1, .n_trainers = 2, .connect_timeout_ms = 30000 });

    (void)state;
    (void)join(w, TRAINER, 0, 70);
    (void)ask(w, 0, "start", 0);
    expect_status(
        w, "member     address        process  phase  state         "
           "incarnation  step  samples  samples/s  to go  loss  AUC  "
           "reported  waits for\n"
           "trainer 0  10.0.0.0:4000       70  -      up                    "
           "  1     0        -          -      -     -    -  -         "
           "trainer 1\n"
           "trainer 1  -                    -  -      not here yet          "
           "  -     -        -          -      -     -    -  -         -\n"
           "server 0   -                    -  -      up                    "
           "  1     -        -          -      -     -    -  -         -\n"
           "\n"
           "barrier \"start\": open for 0 s, waits for trainer 1 (1 of 2 "
           "trainers came)\n"
           "\n"
           "the job waits for trainer 1 (2 of 3 members are here)\n"
           "the job began 0 s ago and is at step 0\n");
    pass_ms(w, 30000);
    expect_status(
        w, "member     address        process  phase  state         "
           "incarnation  step  samples  samples/s  to go  loss  AUC  "
           "reported  waits for\n"
           "trainer 0  10.0.0.0:4000       70  -      up                    "
           "  1     0        -          -      -     -    -  -         -\n"
           "trainer 1  -                    -  -      not here yet          "
           "  -     -        -          -      -     -    -  -         -\n"
           "server 0   -                    -  -      up                    "
           "  1     -        -          -      -     -    -  -         -\n"
           "\n"
           "the job is over: trainer 1 did not come within 30 s (2 of 3 "
           "members are here): start it, or raise connect_timeout_ms\n"
           "the job began 30 s ago and is at step 0\n");
    world_free(w);
}

static void rates_are_measured_over_a_second_and_begin_anew(void **state)
{
    world *w = make_full(1);
    static const struct {
        uint64_t after_ms, samples;
        const char *rate;
    } reports[] = {
        { 0, 500, " -  " },      { 400, 700, " 500 " },
        { 600, 1500, " 1000 " }, { 400, 9999, " 1000 " },
        { 600, 2500, " 1000 " }, { 2000, 100, " -  " },
        { 2000, 500, " 200 " },  { 50000, 500, " 0 " },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(reports); i++) {
        char *text, *row;

        w->now_ms += reports[i].after_ms;
        fl_coord_report(
            w->c, 0,
            &(fl_report_request){ "a phase with a long name that is cut",
                                  reports[i].samples, 0, 0, 0 },
            w->now_ms);
        text = page_of(w, w->now_ms);
        row = strchr(text, '\n');
        assert_non_null(strstr(row, "a phase with a long name  up"));
        if (!strstr(row, reports[i].rate))
            fail_msg("%zu: no%sin%s", i, reports[i].rate, row);
        free(text);
    }
    world_free(w);
}

static void
the_rate_of_the_job_and_the_end_of_its_pass_are_added_up(void **state)
{
    world *w = make_full(3);
    fl_job_summary j = FL_INIT(fl_job_summary);
    fl_member_status m = FL_INIT(fl_member_status);
    fl_job_status *s;

    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        fl_coord_report(w->c, 0,
                        &(fl_report_request){ "train", 100 * i, 0, 0, 1100 },
                        w->now_ms);
        fl_coord_report(w->c, 1,
                        &(fl_report_request){ "train", 50 * i, 0, 0, 1050 },
                        w->now_ms);
        w->now_ms += 1000;
    }
    assert_float_equal(fl_coord_rate(w->c), 150, 1e-6);
    s = fl_coord_status(w->c, w->now_ms);
    assert_ok(fl_job_status_summary(s, &j));
    assert_int_equal(j.samples, 150);
    assert_float_equal(j.samples_per_second, 150, 1e-6);
    assert_float_equal(j.left_seconds, 20, 1e-6);
    assert_true(fl_job_status_member(s, 0, &m));
    assert_int_equal(m.samples_expected, 1100);
    assert_float_equal(m.left_seconds, 10, 1e-6);
    assert_true(fl_job_status_member(s, 2, &m));
    assert_true(isnan(m.left_seconds));
    fl_job_status_free(s);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_barrier_opens_when_the_last_trainer_comes),
        cmocka_unit_test(names_and_generations_are_barriers_of_their_own),
        cmocka_unit_test(a_trainer_that_asks_again_replaces_its_question),
        cmocka_unit_test(who_came_is_told_with_the_share_of_each),
        cmocka_unit_test(a_round_goes_on_without_those_who_wait_elsewhere),
        cmocka_unit_test(a_round_that_waits_names_only_those_who_train),
        cmocka_unit_test(a_trainer_in_an_older_round_is_waited_for),
        cmocka_unit_test(a_leave_lets_the_others_go_on),
        cmocka_unit_test(a_long_wait_is_told_with_those_who_are_missing),
        cmocka_unit_test(a_line_about_many_trainers_stays_a_line),
        cmocka_unit_test(names_of_barriers_have_limits),
        cmocka_unit_test(the_job_is_over_when_all_trainers_left),
        cmocka_unit_test(a_job_that_lost_trainers_says_so_at_its_end),
        cmocka_unit_test(an_end_from_outside_answers_everybody),
        cmocka_unit_test(steps_add_up_and_never_wrap),
        cmocka_unit_test(every_change_moves_the_epoch),
        cmocka_unit_test(the_status_page_shows_who_waits_for_whom),
        cmocka_unit_test(the_status_page_shows_the_rendezvous_and_the_end),
        cmocka_unit_test(rates_are_measured_over_a_second_and_begin_anew),
        cmocka_unit_test(
            the_rate_of_the_job_and_the_end_of_its_pass_are_added_up),
    };

    return cmocka_run_group_tests_name("coord_barrier", tests, NULL, NULL);
}
