/* test_role.c - roles from the environment and from the user: what is read,
 * what is missing, what contradicts what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "fleet/role.h"

#define SERVERS "127.0.0.1:6170,127.0.0.1:6171"

/* An environment: name, value, name, value, ..., NULL. */
static const char *get(void *arg, const char *name)
{
    for (const char *const *e = arg; *e; e += 2)
        if (!strcmp(e[0], name))
            return e[1];
    return NULL;
}

#define ENV(...) ((const char *[]){ __VA_ARGS__, NULL })

static fl_status read_env(fl_fleet_role *r, const char **env)
{
    return fl_fleet_role_of_env(r, get, env);
}

static void has_all(const char *const *parts)
{
    for (; *parts; parts++)
        if (!strstr(fl_last_error(), *parts))
            fail_msg("'%s' does not say '%s'", fl_last_error(), *parts);
}

#define refuses(env, ...)                                                      \
    do {                                                                       \
        fl_fleet_role refused_role;                                            \
        assert_int_equal(read_env(&refused_role, env), FL_ERR_INVAL);          \
        has_all((const char *[]){ __VA_ARGS__, NULL });                        \
    } while (0)

/* --- the environment ------------------------------------------------------ */

static void without_servers_there_is_one_process(void **state)
{
    fl_fleet_role r;

    (void)state;
    assert_int_equal(read_env(&r, ENV("HOME", "/")), FL_OK);
    assert_true(r.is_single);
    assert_int_equal(r.kind, FL_ROLE_WORKER);
    assert_int_equal(r.index, 0);
    assert_int_equal(r.n_workers, 1);
    assert_int_equal(r.n_servers, 0);
    assert_string_equal(r.server_endpoints, "");
    assert_string_equal(r.worker_endpoints, "");
    fl_fleet_role_release(&r);
    assert_int_equal(
        read_env(&r, ENV("PADDLE_PSERVERS_IP_PORT_LIST", "", "TRAINING_ROLE",
                         "TRAINER", "PADDLE_TRAINERS_NUM", "2")),
        FL_OK);
    assert_true(r.is_single);
    assert_int_equal(r.n_workers, 1);
    fl_fleet_role_release(&r);
}

static void a_worker_is_what_its_variables_say(void **state)
{
    fl_fleet_role r;

    (void)state;
    assert_int_equal(
        read_env(&r, ENV("PADDLE_PSERVERS_IP_PORT_LIST",
                         " 127.0.0.1:6170, "
                         "127.0.0.1:6171 ",
                         "TRAINING_ROLE", "TRAINER", "PADDLE_TRAINERS_NUM", "3",
                         "PADDLE_TRAINER_ID", "2")),
        FL_OK);
    assert_false(r.is_single);
    assert_int_equal(r.kind, FL_ROLE_WORKER);
    assert_int_equal(r.index, 2);
    assert_int_equal(r.n_workers, 3);
    assert_int_equal(r.n_servers, 2);
    assert_string_equal(r.server_endpoints, SERVERS);
    assert_string_equal(r.servers.data[1], "127.0.0.1:6171");
    fl_fleet_role_release(&r);
}

static void endpoints_of_workers_count_them(void **state)
{
    fl_fleet_role r;

    (void)state;
    assert_int_equal(
        read_env(&r, ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS,
                         "TRAINING_ROLE", "TRAINER", "PADDLE_TRAINER_ENDPOINTS",
                         "10.0.0.1:1, 10.0.0.2:2", "PADDLE_TRAINER_ID", "1")),
        FL_OK);
    assert_int_equal(r.n_workers, 2);
    assert_string_equal(r.worker_endpoints, "10.0.0.1:1,10.0.0.2:2");
    fl_fleet_role_release(&r);
}

static void a_server_finds_itself_by_its_address(void **state)
{
    fl_fleet_role r;

    (void)state;
    assert_int_equal(
        read_env(&r, ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS,
                         "TRAINING_ROLE", "PSERVER", "PADDLE_TRAINERS_NUM", "2",
                         "POD_IP", "127.0.0.1", "PADDLE_PORT", "6171")),
        FL_OK);
    assert_int_equal(r.kind, FL_ROLE_SERVER);
    assert_int_equal(r.index, 1);
    fl_fleet_role_release(&r);
}

static void a_servers_number_wins_over_an_address_of_nobody(void **state)
{
    fl_fleet_role r;

    (void)state;
    assert_int_equal(
        read_env(&r, ENV("PADDLE_PSERVERS_IP_PORT_LIST",
                         "ps-0.job:6170,ps-1.job:"
                         "6170",
                         "TRAINING_ROLE", "PSERVER", "PADDLE_TRAINERS_NUM", "2",
                         "POD_IP", "10.1.2.3", "PADDLE_PORT", "6170",
                         "PADDLE_PSERVER_ID", "1")),
        FL_OK);
    assert_int_equal(r.index, 1);
    fl_fleet_role_release(&r);
}

static void a_missing_variable_is_named_with_an_example(void **state)
{
    (void)state;
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS), "TRAINING_ROLE",
            "TRAINING_ROLE=TRAINER");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "TRAINER", "PADDLE_TRAINER_ID", "0"),
            "PADDLE_TRAINERS_NUM is not set", "PADDLE_TRAINERS_NUM=2");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "TRAINER", "PADDLE_TRAINERS_NUM", "2"),
            "PADDLE_TRAINER_ID is not set", "PADDLE_TRAINER_ID=0");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "PSERVER", "PADDLE_TRAINERS_NUM", "2"),
            "POD_IP is not set", "POD_IP=127.0.0.1", "PADDLE_PORT=6170");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "PSERVER", "PADDLE_TRAINERS_NUM", "2", "POD_IP", "127.0.0.1"),
            "PADDLE_PORT is not set", "PADDLE_PORT=6170");
    refuses(ENV("TRAINING_ROLE", "PSERVER"), "TRAINING_ROLE=PSERVER",
            "PADDLE_PSERVERS_IP_PORT_LIST is not set",
            "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6170,127.0.0.1:6171");
}

static void contradictions_name_both_sides(void **state)
{
    (void)state;
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "TRAINER", "PADDLE_TRAINERS_NUM", "3", "PADDLE_TRAINER_ID", "0",
                "PADDLE_TRAINER_ENDPOINTS", "a:1,b:1"),
            "PADDLE_TRAINERS_NUM=3", "PADDLE_TRAINER_ENDPOINTS",
            "PADDLE_TRAINERS_NUM=2");
    refuses(
        ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE", "TRAINER",
            "PADDLE_TRAINERS_NUM", "2", "PADDLE_TRAINER_ID", "2"),
        "PADDLE_TRAINER_ID=2", "PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ID=1");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "PSERVER", "PADDLE_TRAINERS_NUM", "2", "POD_IP", "127.0.0.1",
                "PADDLE_PORT", "6171", "PADDLE_PSERVER_ID", "0"),
            "PADDLE_PSERVER_ID=0", "PADDLE_PORT=6171", "server 1");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "PSERVER", "PADDLE_TRAINERS_NUM", "2", "PADDLE_PSERVER_ID",
                "2"),
            "PADDLE_PSERVER_ID=2", "PADDLE_PSERVER_ID=1");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "PSERVER", "PADDLE_TRAINERS_NUM", "2", "POD_IP", "10.0.0.9",
                "PADDLE_PORT", "6171"),
            "POD_IP=10.0.0.9", "PADDLE_PSERVERS_IP_PORT_LIST", SERVERS);
}

static void bad_texts_are_named_with_an_example(void **state)
{
    (void)state;
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1", "TRAINING_ROLE",
                "TRAINER"),
            "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1 ",
            "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6170,127.0.0.1:6171");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", "a:1,a:1", "TRAINING_ROLE",
                "TRAINER"),
            "PADDLE_PSERVERS_IP_PORT_LIST", "twice");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "TRAINERS"),
            "TRAINING_ROLE=TRAINERS", "TRAINING_ROLE=TRAINER");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "TRAINER", "PADDLE_TRAINERS_NUM", "two"),
            "PADDLE_TRAINERS_NUM=two", "PADDLE_TRAINERS_NUM=2");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "TRAINER", "PADDLE_TRAINERS_NUM", "0"),
            "PADDLE_TRAINERS_NUM=0");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "TRAINER", "PADDLE_TRAINERS_NUM", "2", "PADDLE_TRAINER_ID",
                "-1"),
            "PADDLE_TRAINER_ID=-1");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "TRAINER", "PADDLE_TRAINERS_NUM", "2", "PADDLE_TRAINER_ID", "0",
                "PADDLE_TRAINER_ENDPOINTS", "a:1,,b:1"),
            "PADDLE_TRAINER_ENDPOINTS=a:1,,b:1", "worker 1");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "PSERVER", "PADDLE_TRAINERS_NUM", "2", "POD_IP", "127.0.0.1",
                "PADDLE_PORT", "70000"),
            "PADDLE_PORT=70000", "PADDLE_PORT=6170");
}

static void members_of_other_jobs_are_refused_by_name(void **state)
{
    (void)state;
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "HETER_TRAINER"),
            "TRAINING_ROLE=HETER_TRAINER");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "COORDINATOR"),
            "TRAINING_ROLE=COORDINATOR");
    refuses(ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS, "TRAINING_ROLE",
                "TRAINER", "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST", "a:1"),
            "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST=a:1");
    refuses(ENV("PADDLE_CURRENT_ENDPOINT", "127.0.0.1:6170",
                "PADDLE_PSERVERS_IP_PORT_LIST", SERVERS),
            "PADDLE_CURRENT_ENDPOINT", "contradicts",
            "PADDLE_PSERVERS_IP_PORT_LIST");
}

/* --- the environment of a collective job ---------------------------------- */

static void a_collective_worker_is_what_its_variables_say(void **state)
{
    fl_fleet_role r;

    (void)state;
    assert_int_equal(
        read_env(&r, ENV("PADDLE_TRAINER_ENDPOINTS", "a:1, b:2,b:3",
                         "PADDLE_CURRENT_ENDPOINT", "b:2", "PADDLE_TRAINER_ID",
                         "1", "PADDLE_TRAINERS_NUM", "3", "TRAINING_ROLE",
                         "TRAINER", "PADDLE_RANK_IN_NODE", "0")),
        FL_OK);
    assert_true(r.is_collective);
    assert_false(r.is_single);
    assert_int_equal(r.kind, FL_ROLE_WORKER);
    assert_int_equal(r.index, 1);
    assert_int_equal(r.n_workers, 3);
    assert_int_equal(r.n_servers, 0);
    assert_string_equal(r.worker_endpoints, "a:1,b:2,b:3");
    assert_string_equal(r.server_endpoints, "");
    fl_fleet_role_release(&r);
}

static void
a_collective_worker_is_found_by_its_number_or_its_address(void **state)
{
    fl_fleet_role r;

    (void)state;
    assert_int_equal(read_env(&r, ENV("PADDLE_TRAINER_ENDPOINTS", "a:1,b:2",
                                      "PADDLE_CURRENT_ENDPOINT", "b:2")),
                     FL_OK);
    assert_int_equal(r.index, 1);
    assert_int_equal(r.n_workers, 2);
    fl_fleet_role_release(&r);
    assert_int_equal(read_env(&r, ENV("PADDLE_TRAINER_ENDPOINTS", "a:1",
                                      "PADDLE_TRAINER_ID", "0")),
                     FL_OK);
    assert_true(r.is_collective);
    assert_int_equal(r.n_workers, 1);
    fl_fleet_role_release(&r);
}

static void
what_a_collective_worker_lacks_is_named_with_an_example(void **state)
{
    (void)state;
    refuses(ENV("PADDLE_TRAINING_ROLE", "TRAINER", "PADDLE_TRAINER_ID", "1",
                "PADDLE_TRAINERS_NUM", "4"),
            "PADDLE_TRAINER_ENDPOINTS is not set",
            "PADDLE_TRAINING_ROLE=TRAINER", "a collective job",
            "PADDLE_TRAINER_ENDPOINTS=127.0.0.1:6170,127.0.0.1:6171");
    refuses(ENV("PADDLE_CURRENT_ENDPOINT", "127.0.0.1:6170"),
            "PADDLE_TRAINER_ENDPOINTS is not set",
            "PADDLE_CURRENT_ENDPOINT=127.0.0.1:6170");
    refuses(ENV("PADDLE_TRAINER_ENDPOINTS", "a:1,b:2"),
            "PADDLE_TRAINER_ID is not set", "PADDLE_TRAINER_ID=0");
}

static void a_wrong_list_of_collective_workers_is_refused(void **state)
{
    (void)state;
    refuses(ENV("PADDLE_TRAINER_ENDPOINTS", "a:1,b", "PADDLE_TRAINER_ID", "0"),
            "PADDLE_TRAINER_ENDPOINTS=a:1,b", "worker 1", "port");
    refuses(ENV("PADDLE_TRAINER_ENDPOINTS", "a:1,b:2,a:1", "PADDLE_TRAINER_ID",
                "0"),
            "worker 2", "a:1 is there twice");
    refuses(ENV("PADDLE_TRAINER_ENDPOINTS", "a:1,b:2", "PADDLE_TRAINERS_NUM",
                "3", "PADDLE_TRAINER_ID", "0"),
            "PADDLE_TRAINERS_NUM=3 contradicts");
    refuses(
        ENV("PADDLE_TRAINER_ENDPOINTS", "a:1,b:2", "PADDLE_TRAINER_ID", "2"),
        "PADDLE_TRAINER_ID=2 contradicts");
    refuses(ENV("PADDLE_TRAINER_ENDPOINTS", "a:1,b:2",
                "PADDLE_CURRENT_ENDPOINT", "c:3"),
            "PADDLE_CURRENT_ENDPOINT=c:3 is no worker");
    refuses(ENV("PADDLE_TRAINER_ENDPOINTS", "a:1,b:2",
                "PADDLE_CURRENT_ENDPOINT", "b:2", "PADDLE_TRAINER_ID", "0"),
            "PADDLE_TRAINER_ID=0 contradicts", "worker 1",
            "PADDLE_TRAINER_ID=1");
    refuses(ENV("PADDLE_TRAINER_ENDPOINTS", "a:1,b:2", "TRAINING_ROLE",
                "PSERVER", "PADDLE_TRAINER_ID", "0"),
            "TRAINING_ROLE=PSERVER", "workers alone");
}

static void a_program_may_ask_for_a_collective_job(void **state)
{
    fl_role_args asks = FL_INIT(fl_role_args, .is_collective = true);
    fl_fleet_role r;

    (void)state;
    assert_true(fl_fleet_role_asks_env(&asks));
    asks.worker_num = 2;
    assert_false(fl_fleet_role_asks_env(&asks));
    assert_int_equal(fl_fleet_role_of_env_collective(&r, get, ENV("HOME", "/")),
                     FL_OK);
    assert_true(r.is_single);
    fl_fleet_role_release(&r);
    assert_int_equal(fl_fleet_role_of_env_collective(
                         &r, get, ENV("PADDLE_TRAINERS_NUM", "2")),
                     FL_ERR_INVAL);
    has_all((const char *[]){ "PADDLE_TRAINERS_NUM=2",
                              "PADDLE_TRAINER_ENDPOINTS is not set", NULL });
    assert_int_equal(fl_fleet_role_of_env_collective(
                         &r, get, ENV("PADDLE_PSERVERS_IP_PORT_LIST", SERVERS)),
                     FL_ERR_INVAL);
    has_all((const char *[]){ "asks for a collective job",
                              "PADDLE_PSERVERS_IP_PORT_LIST", NULL });
}

/* --- the user ------------------------------------------------------------- */

static void a_user_defines_servers_and_workers(void **state)
{
    fl_role_args server =
        FL_INIT(fl_role_args, .role = FL_ROLE_SERVER, .current_id = 1,
                .worker_num = 2, .server_endpoints = SERVERS);
    fl_role_args worker =
        FL_INIT(fl_role_args, .current_id = 1, .worker_endpoints = "a:1, b:2",
                .server_endpoints = SERVERS);
    fl_fleet_role r;

    (void)state;
    assert_int_equal(fl_fleet_role_of_args(&r, &server), FL_OK);
    assert_int_equal(r.kind, FL_ROLE_SERVER);
    assert_int_equal(r.index, 1);
    assert_int_equal(r.n_workers, 2);
    assert_int_equal(r.n_servers, 2);
    assert_string_equal(r.worker_endpoints, "");
    fl_fleet_role_release(&r);
    assert_int_equal(fl_fleet_role_of_args(&r, &worker), FL_OK);
    assert_int_equal(r.kind, FL_ROLE_WORKER);
    assert_int_equal(r.n_workers, 2);
    assert_string_equal(r.worker_endpoints, "a:1,b:2");
    fl_fleet_role_release(&r);
}

static void a_user_without_servers_is_one_process(void **state)
{
    fl_role_args a =
        FL_INIT(fl_role_args, .worker_num = 1, .server_endpoints = " ");
    fl_fleet_role r;

    (void)state;
    assert_int_equal(fl_fleet_role_of_args(&r, &a), FL_OK);
    assert_true(r.is_single);
    assert_int_equal(r.n_workers, 1);
    fl_fleet_role_release(&r);
}

static void a_user_defines_collective_workers(void **state)
{
    fl_role_args worker =
        FL_INIT(fl_role_args, .is_collective = true, .current_id = 1,
                .worker_endpoints = "a:1, b:2");
    fl_role_args alone =
        FL_INIT(fl_role_args, .is_collective = true, .worker_num = 1);
    fl_fleet_role r;

    (void)state;
    assert_int_equal(fl_fleet_role_of_args(&r, &worker), FL_OK);
    assert_true(r.is_collective);
    assert_int_equal(r.index, 1);
    assert_int_equal(r.n_workers, 2);
    assert_int_equal(r.n_servers, 0);
    assert_string_equal(r.worker_endpoints, "a:1,b:2");
    fl_fleet_role_release(&r);
    assert_int_equal(fl_fleet_role_of_args(&r, &alone), FL_OK);
    assert_true(r.is_single);
    fl_fleet_role_release(&r);
}

static void a_users_role_that_cannot_be_is_refused(void **state)
{
    const struct {
        fl_role_args a;
        const char *says;
    } cases[] = {
        { { .is_collective = true, .worker_num = 2 },
          "worker_endpoints is empty" },
        { { .is_collective = true, .current_id = 1 }, "current_id 1" },
        { { .is_collective = true, .role = FL_ROLE_SERVER }, "workers alone" },
        { { .is_collective = true,
            .worker_endpoints = "a:1,b:1",
            .server_endpoints = SERVERS },
          "contradicts is_collective" },
        { { .is_collective = true, .worker_endpoints = "a:1,b" }, "worker 1" },
        { { .is_collective = true,
            .worker_endpoints = "a:1,b:1",
            .current_id = 2 },
          "current_id 2 is no worker" },
        { { .role = 7, .server_endpoints = SERVERS }, "role 7" },
        { { .role = FL_ROLE_SERVER }, "server_endpoints" },
        { { .worker_num = 2 }, "server_endpoints is empty" },
        { { .current_id = 1 }, "current_id 1" },
        { { .server_endpoints = SERVERS }, "worker_num" },
        { { .worker_num = -1, .server_endpoints = SERVERS }, "worker_num -1" },
        { { .worker_num = 2, .current_id = 2, .server_endpoints = SERVERS },
          "current_id 2 is no worker" },
        { { .worker_num = 9,
            .role = FL_ROLE_SERVER,
            .current_id = 2,
            .server_endpoints = SERVERS },
          "current_id 2 is no server" },
        { { .worker_num = 3,
            .worker_endpoints = "a:1,b:1",
            .server_endpoints = SERVERS },
          "worker_num 3" },
        { { .worker_num = 1, .server_endpoints = "a:1,b" },
          "server_endpoints" },
        { { .worker_endpoints = ",", .server_endpoints = SERVERS },
          "worker_endpoints" },
    };

    (void)state;
    for (size_t i = 0; i < FL_LEN(cases); i++) {
        fl_fleet_role r;

        assert_int_equal(fl_fleet_role_of_args(&r, &cases[i].a), FL_ERR_INVAL);
        has_all((const char *[]){ cases[i].says, NULL });
    }
}

static void hear_nothing(void *arg, fl_log_level level, const char *area,
                         const char *text)
{
    (void)arg;
    (void)level;
    (void)area;
    (void)text;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_servers_there_is_one_process),
        cmocka_unit_test(a_worker_is_what_its_variables_say),
        cmocka_unit_test(endpoints_of_workers_count_them),
        cmocka_unit_test(a_server_finds_itself_by_its_address),
        cmocka_unit_test(a_servers_number_wins_over_an_address_of_nobody),
        cmocka_unit_test(a_missing_variable_is_named_with_an_example),
        cmocka_unit_test(contradictions_name_both_sides),
        cmocka_unit_test(bad_texts_are_named_with_an_example),
        cmocka_unit_test(members_of_other_jobs_are_refused_by_name),
        cmocka_unit_test(a_collective_worker_is_what_its_variables_say),
        cmocka_unit_test(
            a_collective_worker_is_found_by_its_number_or_its_address),
        cmocka_unit_test(
            what_a_collective_worker_lacks_is_named_with_an_example),
        cmocka_unit_test(a_wrong_list_of_collective_workers_is_refused),
        cmocka_unit_test(a_program_may_ask_for_a_collective_job),
        cmocka_unit_test(a_user_defines_servers_and_workers),
        cmocka_unit_test(a_user_defines_collective_workers),
        cmocka_unit_test(a_user_without_servers_is_one_process),
        cmocka_unit_test(a_users_role_that_cannot_be_is_refused),
    };

    fl_log_set(hear_nothing, NULL, FL_LOG_WARN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
