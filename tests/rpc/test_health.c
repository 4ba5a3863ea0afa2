/* test_health.c - signs of life, silence, limits of time and of number. */
#include "host_kit.h"

#include "base/log.h"
#include "rpc/wire/heartbeat.h"

#define SUSPECT 2000

/* --- judging silence ------------------------------------------------------ */

static void silence_is_told_once_and_its_end_too(void **state)
{
    fl_heartbeat p;

    (void)state;
    fl_heartbeat_start(&p, 1000);
    assert_int_equal(fl_heartbeat_check(&p, 1000, 0, 2999, SUSPECT),
                     FL_HEARTBEAT_SAME);
    assert_int_equal(fl_heartbeat_check(&p, 1000, 0, 3000, SUSPECT),
                     FL_HEARTBEAT_SILENT);
    assert_int_equal(fl_heartbeat_check(&p, 1000, 0, 9000, SUSPECT),
                     FL_HEARTBEAT_SAME);
    assert_int_equal(fl_heartbeat_check(&p, 9001, 0, 9002, SUSPECT),
                     FL_HEARTBEAT_HEARD);
    assert_int_equal(fl_heartbeat_check(&p, 9001, 0, 9003, SUSPECT),
                     FL_HEARTBEAT_SAME);
}

/* A process that was stopped for a minute accuses nobody. */
static void time_in_which_this_process_slept_does_not_count(void **state)
{
    uint64_t slept = fl_heartbeat_paused_ms(1500, 61500, SUSPECT);
    fl_heartbeat p;

    (void)state;
    fl_heartbeat_start(&p, 1000);
    assert_int_equal(slept, 60000);
    assert_int_equal(fl_heartbeat_check(&p, 1000, slept, 61500, SUSPECT),
                     FL_HEARTBEAT_SAME);
    assert_int_equal(fl_heartbeat_silence_ms(&p, 61500), 500);
    assert_int_equal(fl_heartbeat_check(&p, 1000, 0, 62999, SUSPECT),
                     FL_HEARTBEAT_SAME);
    assert_int_equal(fl_heartbeat_check(&p, 1000, 0, 63000, SUSPECT),
                     FL_HEARTBEAT_SILENT);
}

static void nobody_is_judged_right_after_a_sleep(void **state)
{
    fl_heartbeat p;

    (void)state;
    fl_heartbeat_start(&p, 1000);
    assert_int_equal(fl_heartbeat_check(&p, 1000, 1500, 10000, SUSPECT),
                     FL_HEARTBEAT_SAME);
    assert_int_equal(fl_heartbeat_check(&p, 10001, 0, 10100, SUSPECT),
                     FL_HEARTBEAT_SAME);
}

static void a_timer_that_is_a_little_late_excuses_nothing(void **state)
{
    (void)state;
    assert_int_equal(fl_heartbeat_paused_ms(1000, 900, SUSPECT), 0);
    assert_int_equal(fl_heartbeat_paused_ms(1000, 2000, SUSPECT), 0);
    assert_int_equal(fl_heartbeat_paused_ms(1000, 2001, SUSPECT), 1001);
    assert_int_equal(fl_heartbeat_every_ms(500, 2000), 125);
    assert_int_equal(fl_heartbeat_every_ms(1, 1), 1);
}

/* --- links and hosts ------------------------------------------------------ */

static const fl_sim_faults near_by = { .seed = 1, .delay_hi_ms = 2 };

static void idle_ends_hear_of_each_other(void **state)
{
    fl_rpc_client_options o = kit_link_options(3);
    fl_rpc_client_info info;
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    stage_run(&s, 60000);
    fl_rpc_client_get(c.l, &info);
    assert_true(info.heard_ms_ago <= 1000);
    assert_int_equal(info.state, FL_RPC_CLIENT_UP);
    assert_string_equal(c.states, "U");
    assert_string_equal(s.b.log, "up 3;");
    client_close(&c);
    stage_release(&s);
}

static void a_frozen_server_is_told_of_and_so_is_its_thaw(void **state)
{
    fl_rpc_client_options o = kit_link_options(3);
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    stage_run(&s, 1000);
    fl_sim_freeze(s.sim, s.address, true);
    client_ask(&c, TYPE_READ, 0);
    stage_run(&s, 1300);
    assert_string_equal(c.states, "U");
    stage_run(&s, 1700); /* named within 3 s */
    assert_string_equal(c.states, "US");
    assert_string_equal(s.b.log, "up 3;silent 3;");
    stage_run(&s, 10000);
    assert_string_equal(c.states, "US");
    assert_int_equal(gate_count(&c.answers), 0);
    fl_sim_freeze(s.sim, s.address, false);
    stage_run(&s, 1000);
    assert_string_equal(c.states, "USU");
    assert_string_equal(s.b.log, "up 3;silent 3;heard 3;");
    assert_int_equal(atomic_load(&c.n_ok), 1);
    client_close(&c);
    stage_release(&s);
}

static void a_server_that_stays_silent_is_given_up(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    stage_run(&s, 1000);
    fl_sim_freeze(s.sim, s.address, true);
    client_ask(&c, TYPE_READ, 0);
    stage_run(&s, o.restart_timeout_ms - 1000);
    assert_string_equal(c.states, "US");
    stage_run(&s, 2000);
    assert_string_equal(c.states, "USF");
    assert_int_equal(c.st, FL_ERR_TIMEOUT);
    assert_text(c.text, "server 0 at server0:1: said nothing for");
    fl_sim_freeze(s.sim, s.address, false);
    client_close(&c);
    stage_release(&s);
}

static void a_server_that_does_not_come_back_is_given_up(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    stage_run(&s, 1000);
    fl_rpc_server_free(s.host);
    s.host = NULL;
    client_ask(&c, TYPE_READ, 0);
    stage_run(&s, o.restart_timeout_ms - 1000);
    assert_string_equal(c.states, "UD");
    stage_run(&s, 2000);
    assert_string_equal(c.states, "UDF");
    assert_int_equal(c.st, FL_ERR_TIMEOUT);
    assert_text(c.text, "did not come back in 30000 ms");
    client_close(&c);
    stage_release(&s);
}

/* A frozen place still listens. */
static void who_cannot_return_is_lost_when_nobody_listens(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);
    stage s;
    client c;

    (void)state;
    o.no_return = true;
    o.peer_name = "worker";
    stage_init(&s, &near_by);
    stage_client(&s, &c, &o);
    stage_run(&s, 1000);
    fl_sim_freeze(s.sim, s.address, true);
    stage_run(&s, 5000);
    fl_sim_freeze(s.sim, s.address, false);
    stage_run(&s, 1000);
    assert_string_equal(c.states, "USU");
    fl_rpc_server_free(s.host);
    s.host = NULL;
    client_ask(&c, TYPE_READ, 0);
    stage_run(&s, 1000);
    assert_string_equal(c.states, "USUDF");
    assert_int_equal(c.st, FL_ERR_CLOSED);
    assert_text(c.text, "worker 0 at server0:1: has ended; server0:1 refused");
    client_close(&c);
    stage_release(&s);
}

static void nobody_there_is_an_error_after_the_connect_timeout(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    client_open(&c, s.loop, s.net, "server9:1", &o);
    client_ask(&c, TYPE_READ, 0);
    stage_run(&s, 11000);
    assert_string_equal(c.states, "F");
    assert_int_equal(c.st, FL_ERR_TIMEOUT);
    assert_text(c.text, "could not be reached in 10000 ms");
    assert_int_equal(fl_rpc_client_why(c.l), FL_ERR_TIMEOUT);
    assert_says("refused the connection");
    client_ask(&c, TYPE_READ, 0); /* too late, and answered all the same */
    assert_int_equal(gate_count(&c.answers), 1);
    stage_run(&s, 10);
    assert_int_equal(gate_count(&c.answers), 2);
    client_close(&c);
    stage_release(&s);
}

/* --- handshakes that do not end ------------------------------------------- */

#define IDLE_MAX 1000

/* Streams that say nothing. */
typedef struct idlers {
    fl_conn *conns[IDLE_MAX];
    int n, n_closed;
} idlers;

static void idler_heard(void *arg, fl_conn *c, const fl_frame *f,
                        fl_payload *payload)
{
    (void)arg;
    (void)c;
    (void)f;
    fl_payload_free(payload);
}

static void idler_closed(void *arg, fl_conn *c, fl_status why)
{
    (void)c;
    (void)why;
    ((idlers *)arg)->n_closed++;
}

static void idler_dialled(void *arg, fl_stream *s)
{
    static const fl_conn_events events = { .on_message = idler_heard,
                                           .on_close = idler_closed };
    fl_conn_options o = { .max_bytes = 1 << 20,
                          .window_bytes = 1 << 20,
                          .names = type_name };
    idlers *d = arg;

    if (s)
        d->conns[d->n++] = fl_conn_new(s, &o, &events, d);
}

static void idlers_come(idlers *d, stage *s, int n)
{
    void *handle;

    for (int i = 0; i < n; i++)
        assert_ok(s->net->ops->dial(
            s->net,
            &(fl_dial_args){ s->loop, s->address, 1000, idler_dialled, d },
            &handle));
}

static void idlers_go(idlers *d)
{
    for (int i = 0; i < d->n; i++)
        fl_conn_free(d->conns[i]);
    d->n = 0;
}

static void who_does_not_shake_hands_in_time_is_closed(void **state)
{
    idlers d = { 0 };
    stage s;

    (void)state;
    stage_init(&s, &near_by);
    idlers_come(&d, &s, 10);
    stage_run(&s, 4900);
    assert_int_equal(d.n, 10);
    assert_int_equal(d.n_closed, 0);
    stage_run(&s, 300);
    assert_int_equal(d.n_closed, 10);
    idlers_go(&d);
    stage_release(&s);
}

static void keep_stream(void *arg, fl_stream *s)
{
    *(fl_stream **)arg = s;
}

static void a_server_that_never_answers_is_given_up(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);
    fl_stream *accepted = NULL;
    char address[FL_ADDRESS_MAX];
    fl_listener *door;
    stage s;
    client c;

    (void)state;
    o.connect_timeout_ms = 3000;
    stage_init(&s, &near_by);
    assert_ok(s.net->ops->listen(
        s.net,
        &(fl_listen_args){ "mute:1", s.loop, NULL, keep_stream, &accepted },
        &door, address));
    client_open(&c, s.loop, s.net, address, &o);
    stage_run(&s, 3500);
    assert_string_equal(c.states, "F");
    assert_text(c.text, "no answer in the handshake");
    assert_non_null(accepted);
    accepted->ops->close(accepted);
    s.net->ops->unlisten(door);
    client_close(&c);
    stage_release(&s);
}

static void a_thousand_idlers_keep_nobody_out(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);
    idlers d = { 0 };
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    fl_rpc_server_free(s.host);
    s.ho.max_connections = IDLE_MAX;
    s.ho.handshake_ms = 600000;
    stage_host(&s);
    idlers_come(&d, &s, IDLE_MAX);
    stage_run(&s, 1000);
    assert_int_equal(d.n, IDLE_MAX);
    assert_int_equal(d.n_closed, 0);
    stage_client(&s, &c, &o);
    client_ask(&c, TYPE_READ, 0);
    stage_run(&s, 1000);
    assert_int_equal(atomic_load(&c.n_ok), 1);
    assert_int_equal(d.n_closed, 1);
    idlers_go(&d);
    client_close(&c);
    stage_release(&s);
}

static void members_do_not_give_way(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);
    stage s;
    client c[3];

    (void)state;
    stage_init(&s, &near_by);
    fl_rpc_server_free(s.host);
    s.ho.max_connections = 2;
    stage_host(&s);
    for (uint32_t i = 0; i < 3; i++) {
        o.me.rank = i;
        stage_client(&s, &c[i], &o);
        stage_run(&s, 500);
    }
    assert_string_equal(c[0].states, "U");
    assert_string_equal(c[1].states, "U");
    assert_string_equal(c[2].states, "");
    client_close(&c[0]);
    stage_run(&s, 2000);
    assert_string_equal(c[2].states, "U");
    assert_string_equal(c[1].states, "U");
    client_close(&c[1]);
    client_close(&c[2]);
    stage_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_told_once_and_its_end_too),
        cmocka_unit_test(time_in_which_this_process_slept_does_not_count),
        cmocka_unit_test(nobody_is_judged_right_after_a_sleep),
        cmocka_unit_test(a_timer_that_is_a_little_late_excuses_nothing),
        cmocka_unit_test(idle_ends_hear_of_each_other),
        cmocka_unit_test(a_frozen_server_is_told_of_and_so_is_its_thaw),
        cmocka_unit_test(a_server_that_stays_silent_is_given_up),
        cmocka_unit_test(a_server_that_does_not_come_back_is_given_up),
        cmocka_unit_test(who_cannot_return_is_lost_when_nobody_listens),
        cmocka_unit_test(nobody_there_is_an_error_after_the_connect_timeout),
        cmocka_unit_test(who_does_not_shake_hands_in_time_is_closed),
        cmocka_unit_test(a_server_that_never_answers_is_given_up),
        cmocka_unit_test(a_thousand_idlers_keep_nobody_out),
        cmocka_unit_test(members_do_not_give_way),
    };

    fl_log_set_level(FL_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
