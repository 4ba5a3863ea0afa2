/* test_launch_status.c - the status of a job in one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "fleetrun_watch.h"
#include "ps/status.h"

static fl_member_status worker(int rank, const char *phase, double rate,
                               double loss, double auc)
{
    return (fl_member_status){ .size = sizeof(fl_member_status),
                               .role = FL_ROLE_WORKER,
                               .rank = rank,
                               .state = "up",
                               .away_seconds = NAN,
                               .address = "127.0.0.1:4321",
                               .phase = phase,
                               .samples_per_second = rate,
                               .loss = loss,
                               .auc = auc,
                               .reported_seconds_ago = 0.2,
                               .left_seconds = NAN,
                               .waits_for = "" };
}

static fl_job_status *running(void)
{
    fl_job_status *s = fl_job_status_new();

    s->summary = (fl_job_summary){ .size = sizeof(s->summary),
                                   .is_complete = true,
                                   .left_seconds = NAN,
                                   .waits_for = "",
                                   .why_over = "" };
    return s;
}

static void expect(fl_job_status *s, const char *line)
{
    char out[256];

    status_line(s, out, sizeof(out));
    assert_string_equal(out, line);
    fl_job_status_free(s);
}

static void rates_add_up_and_the_slowest_is_named(void **state)
{
    fl_job_status *s = running();
    fl_member_status server = worker(0, "", 9, 9, 9);

    (void)state;
    server.role = FL_ROLE_SERVER;
    fl_vec_push(&s->members, worker(0, "train", 12000, 0.45, 0.78));
    fl_vec_push(&s->members, worker(1, "train", 3500, 0.47, 0.8));
    fl_vec_push(&s->members, server);
    expect(s, "train, 15.5k samples/s, loss 0.4600, AUC 0.7900, slowest is "
              "worker 1 (3.5k/s)");
}

static void the_end_of_the_pass_is_told(void **state)
{
    fl_job_status *s = running();

    (void)state;
    s->summary.left_seconds = 95;
    fl_vec_push(&s->members, worker(0, "train", 12000, NAN, NAN));
    expect(s, "train, 12.0k samples/s, 95 s left");
}

static void what_is_not_known_is_left_out(void **state)
{
    fl_job_status *s = running();

    (void)state;
    fl_vec_push(&s->members, worker(0, "train", NAN, NAN, NAN));
    expect(s, "train");
    s = running();
    fl_vec_push(&s->members, worker(0, "", NAN, NAN, NAN));
    expect(s, "");
    expect(running(), "");
}

static void who_is_waited_for_and_who_is_silent_is_told(void **state)
{
    fl_job_status *s = running();

    (void)state;
    for (int i = 0; i < 3; i++)
        fl_vec_push(&s->members, worker(i, "train", 400 - 100 * i, NAN, NAN));
    s->members.data[0].waits_for = "trainer 1";
    s->members.data[1].state = "silent";
    s->members.data[1].away_seconds = 4.2;
    s->members.data[2].state = "left";
    expect(s, "train, 700 samples/s, slowest is worker 1 (300/s), waiting for "
              "worker 1, worker 1 is silent 4.2 s");
}

static void a_job_that_waits_or_is_over_says_so(void **state)
{
    fl_job_status *s = running();

    (void)state;
    s->summary.is_complete = false;
    s->summary.waits_for = "trainer 0";
    s->summary.n_here = 1;
    s->summary.n_members = 2;
    expect(s, "the job waits for trainer 0 (1 of 2 members are here)");
    s = running();
    s->summary.is_over = true;
    expect(s, "the job is over: its trainers are done");
    s = running();
    s->summary.is_over = true;
    s->summary.why_over = "trainer 1 is lost";
    expect(s, "the job is over: trainer 1 is lost");
}

static void a_long_line_is_cut(void **state)
{
    fl_job_status *s = running();
    char name[501] = { 0 }, out[16];

    (void)state;
    memset(name, 'x', sizeof(name) - 1);
    s->summary.is_complete = false;
    s->summary.waits_for = name;
    status_line(s, out, sizeof(out));
    assert_int_equal(strlen(out), sizeof(out) - 1);
    fl_job_status_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_add_up_and_the_slowest_is_named),
        cmocka_unit_test(the_end_of_the_pass_is_told),
        cmocka_unit_test(what_is_not_known_is_left_out),
        cmocka_unit_test(who_is_waited_for_and_who_is_silent_is_told),
        cmocka_unit_test(a_job_that_waits_or_is_over_says_so),
        cmocka_unit_test(a_long_line_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
