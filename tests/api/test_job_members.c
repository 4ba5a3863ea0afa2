/* test_job_members.c - parameter servers by the public API: mistakes, secrets,
 * and members that do not fit or get lost. */
#include "job_kit.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>

#include "../rpc/certs.h"
#include "base/hash.h"

/* --- errors --------------------------------------------------------------- */

static void make_mistakes(job *j, fl_job *p, int rank)
{
    uint64_t keys[] = { 1 }, hash;
    float out[8] = { 0 };
    int n = -1;

    (void)j;
    (void)rank;
    assert_int_equal(fl_job_pull(p, 0, keys, 1, FL_PULL_ONLY, out),
                     FL_ERR_INVAL);
    assert_said("call fl_job_start first");
    assert_int_equal(fl_job_hash(p, &hash), FL_ERR_INVAL);
    assert_int_not_equal(fl_job_declare_table(p, "emb", "dims=8", &n), FL_OK);
    assert_said("dims");
    assert_int_not_equal(fl_job_declare_table(p, "a b", EMB, &n), FL_OK);
    assert_ok(fl_job_declare_table(p, "emb", EMB, &n));
    assert_int_equal(fl_job_declare_table(p, "emb", EMB, &n), FL_ERR_EXISTS);
    assert_said("table emb is declared twice");
    assert_int_not_equal(fl_job_declare_dense(p, "w", 4, "adma", "", &n),
                         FL_OK);
    assert_said("parameter w: no optimizer is called 'adma'");
    assert_int_not_equal(fl_job_declare_dense(p, "w", 0, "sgd", "", &n), FL_OK);
    assert_said("parameter w of 0 floats");
    assert_int_not_equal(
        fl_job_declare_dense(p, "w", (size_t)1 << 40, "sgd", "", &n), FL_OK);
    assert_int_equal(n, 0);
    assert_ok(fl_job_start(p));
    assert_ok(fl_job_start(p));
    assert_int_equal(fl_job_declare_table(p, "late", EMB, &n), FL_ERR_INVAL);
    assert_said("table late: it is declared after fl_job_start");
    assert_int_equal(fl_job_pull(p, 1, keys, 1, FL_PULL_ONLY, out),
                     FL_ERR_NOTFOUND);
    assert_said("table 1 was not declared; there are 1");
    assert_int_equal(fl_job_pull_dense(p, 0, out), FL_ERR_NOTFOUND);
    assert_said("parameter 0 was not declared; there are 0");
    assert_int_equal(
        fl_job_push(
            p, 0, &(fl_rows){ .keys = keys, .values = out, .n = 1, .lr = NAN }),
        FL_ERR_INVAL);
    assert_said("server ");
    assert_said("table emb: the learning rate");
    assert_ok(fl_job_pull(p, 0, keys, 1, FL_PULL_ONLY, out));
}

static void mistakes_are_named_and_do_no_harm(void **state)
{
    job j = { .n_servers = 2, .n_trainers = 1, .train = make_mistakes };

    (void)state;
    run_job(&j);
    assert_all_well(&j);
}

static void arguments_are_checked(void **state)
{
    job none = { .settings = { { "tls_cert", "/nowhere" } } };
    fl_ctx *c = make_ctx();
    fl_job *p = NULL;

    (void)state;
    assert_int_equal(fl_job_connect(&p, c, .rank = 0), FL_ERR_INVAL);
    assert_said("servers of job flotilla: there are none");
    assert_int_equal(fl_job_connect(&p, c, .servers = "a:1,a:1"), FL_ERR_INVAL);
    assert_said("a:1 is there twice");
    assert_int_not_equal(fl_job_connect(&p, c, .servers = "a:1,,b:2"), FL_OK);
    assert_int_not_equal(fl_job_connect(&p, c, .servers = "nowhere"), FL_OK);
    assert_int_equal(fl_job_connect(&p, c, .servers = "a:1", .rank = 1),
                     FL_ERR_INVAL);
    assert_said("trainer 1: the job has 1 trainers");
    assert_int_equal(fl_job_connect(&p, c, .servers = "a:1", .listen = "b:2"),
                     FL_ERR_INVAL);
    assert_said("is for servers");
    assert_int_equal(fl_job_serve(c, .servers = "a:1", .rank = 1),
                     FL_ERR_INVAL);
    assert_said("server 1: the job has 1 servers");
    assert_int_equal(fl_job_serve(c, .servers = "a:1", .n_trainers = -1),
                     FL_ERR_INVAL);
    fl_ctx_free(c);
    c = new_ctx(&none);
    assert_int_equal(fl_job_connect(&p, c, .servers = "a:1"), FL_ERR_INVAL);
    assert_said("setting tls_ca is empty");
    assert_null(p);
    fl_job_free(NULL);
    fl_ctx_free(c);
}

static void a_wire_without_a_mode_is_refused(void **state)
{
    static const char *const settings[] = { "wire_pull", "wire_push" };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        fl_ctx *c = make_ctx();
        fl_job *p = NULL;

        assert_ok(fl_ctx_set(c, settings[i], "bf16"));
        assert_int_equal(fl_job_connect(&p, c, .servers = "127.0.0.1:1"),
                         FL_ERR_INVAL);
        assert_said(settings[i]);
        assert_said("=bf16: a job without a mode pulls and pushes by name");
        assert_null(p);
        fl_ctx_free(c);
    }
}

/* Of two that disagree the later one is refused, and the earlier one, which
   waits for it, is told the same. */
static void disagree(job *j, fl_job *p, int rank)
{
    int emb;

    (void)j;
    assert_ok(fl_job_declare_table(
        p, "emb", rank ? "dim=8" : "dim=8 optimizer=adam", &emb));
    assert_int_not_equal(fl_job_start(p), FL_OK);
    assert_said("the declarations differ in line 1");
    assert_said("settings=\"dim=8\"}'");
    assert_said("settings=\"dim=8 optimizer=adam\"}'");
}

static void trainers_that_disagree_are_both_told(void **state)
{
    job j = { .n_servers = 2,
              .n_trainers = 2,
              .train = disagree,
              .settings = { { "restart_timeout_ms", "500" } } };

    (void)state;
    run_job(&j);
    assert_int_not_equal(j.server[0].st, FL_OK);
}

static void close_at_once(job *j, fl_job *p, int rank)
{
    (void)j;
    (void)p;
    (void)rank;
}

static void a_trainer_may_leave_before_the_start(void **state)
{
    job j = { .n_servers = 2, .n_trainers = 2, .train = close_at_once };

    (void)state;
    run_job(&j);
    assert_all_well(&j);
}

/* --- secrets -------------------------------------------------------------- */

static void train_alone(job *j, fl_job *p, int rank)
{
    uint64_t keys[] = { 1, 2, 3 };
    float out[3 * 8];
    int emb;

    (void)j;
    (void)rank;
    assert_ok(fl_job_declare_table(p, "emb", EMB, &emb));
    assert_ok(fl_job_start(p));
    assert_ok(fl_job_pull(p, emb, keys, 3, FL_PULL_CREATE, out));
}

/* Somebody else with these settings does not come in. */
static void assert_refused(const job *j, const char *const settings[][2],
                           const char *said)
{
    job other = { .settings = { { "connect_timeout_ms", "400" } } };
    fl_ctx *c;
    fl_job *p = NULL;

    for (int i = 0; settings[i][0]; i++)
        memcpy(other.settings[i + 1], settings[i], sizeof(settings[i]));
    c = new_ctx(&other);
    assert_int_not_equal(fl_job_connect(&p, c, .servers = j->servers), FL_OK);
    assert_said(said);
    fl_ctx_free(c);
}

static void finish(job *j)
{
    j->n_trainers = 1;
    j->trainer[0] = (member){ .job = j };
    run_trainer(&j->trainer[0]);
    join_servers(j);
    assert_all_well(j);
}

static void without_the_token_nobody_joins(void **state)
{
    static const char *const none[][2] = { { NULL, NULL } };
    static const char *const wrong[][2] = { { "join_token", "guess" },
                                            { NULL, NULL } };
    job j = { .n_servers = 2,
              .n_trainers = 1,
              .train = train_alone,
              .settings = { { "join_token", "a secret" } } };

    (void)state;
    start_servers(&j);
    assert_refused(&j, none, "token");
    assert_refused(&j, wrong, "token");
    finish(&j);
}

static void jobs_do_not_mix(void **state)
{
    static const char *const other[][2] = { { "job", "other" },
                                            { NULL, NULL } };
    job j = { .n_servers = 1, .n_trainers = 1, .train = train_alone };

    (void)state;
    start_servers(&j);
    assert_refused(&j, other, "job 'other' is not the job here");
    finish(&j);
}

static void write_certs(void)
{
    test_cert ca = { 0 }, a = { 0 }, other = { 0 };
    char buf[128];

    assert_true(
        test_cert_make(&ca, "authority", NULL, -CERT_HOUR, CERT_HOUR, NULL));
    assert_true(test_cert_make(&a, "member", &ca, -CERT_HOUR, CERT_HOUR, NULL));
    assert_true(
        test_cert_make(&other, "other", NULL, -CERT_HOUR, CERT_HOUR, NULL));
    assert_true(test_cert_write(&ca, path_of("ca.pem", buf)));
    assert_true(test_cert_write(&a, path_of("a.pem", buf)));
    assert_true(test_key_write(&a, path_of("a.key", buf), NULL));
    assert_true(test_cert_write(&other, path_of("other.pem", buf)));
    test_cert_release(&ca);
    test_cert_release(&a);
    test_cert_release(&other);
}

static void a_job_can_be_secret(void **state)
{
    static const char *const none[][2] = { { NULL, NULL } };
    char ca[128], cert[128], key[128];
    job j = { .n_servers = 2, .n_trainers = 1, .train = train_alone };

    (void)state;
    write_certs();
    j.settings[0][0] = "tls_ca";
    j.settings[0][1] = path_of("ca.pem", ca);
    j.settings[1][0] = "tls_cert";
    j.settings[1][1] = path_of("a.pem", cert);
    j.settings[2][0] = "tls_key";
    j.settings[2][1] = path_of("a.key", key);
    name_ports(&j);
    start_servers(&j);
    assert_refused(&j, none, "could not be reached in 400 ms");
    finish(&j);
}

/* --- processes ------------------------------------------------------------ */

static pid_t fork_server(job *j, int rank)
{
    pid_t pid = fork();
    fl_ctx *c;

    if (pid)
        return pid;
    alarm(60);
    c = new_ctx(j);
    _exit(fl_job_serve(c, .servers = j->servers, .n_trainers = j->n_trainers,
                       .rank = rank)
              ? 1
              : 0);
}

static void a_killed_server_is_an_error_by_name(void **state)
{
    job j = { .n_servers = 2,
              .n_trainers = 1,
              .settings = { { "restart_timeout_ms", "300" } } };
    uint64_t keys[2000];
    float out[2000 * 8];
    int emb, code, n = 0;
    pid_t pids[2];
    fl_status st = FL_OK;
    fl_ctx *c;
    fl_job *p;

    (void)state;
    name_servers(&j);
    for (int i = 0; i < 2; i++)
        pids[i] = fork_server(&j, i);
    for (size_t i = 0; i < FL_LEN(keys); i++)
        keys[i] = fl_mix64(i);
    c = new_ctx(&j);
    assert_ok(fl_job_connect(&p, c, .servers = j.servers));
    assert_ok(fl_job_declare_table(p, "emb", EMB, &emb));
    assert_ok(fl_job_start(p));
    for (; !st && n < 1000000; n++) {
        if (n == 50)
            assert_int_equal(kill(pids[1], SIGKILL), 0);
        st = fl_job_pull(p, emb, keys, FL_LEN(keys), FL_PULL_CREATE, out);
    }
    assert_int_not_equal(st, FL_OK);
    assert_true(n > 50);
    assert_said("server 1 at unix:");
    assert_said("did not come back");
    /* Whether the job is over by now or not, closing comes to an end. */
    st = fl_job_stop(p);
    assert_in_range(st, FL_OK, FL_ERR_CLOSED);
    fl_job_free(p);
    assert_int_equal(waitpid(pids[0], &code, 0), pids[0]);
    assert_true(WIFEXITED(code));
    assert_int_equal(waitpid(pids[1], &code, 0), pids[1]);
    assert_true(WIFSIGNALED(code));
    fl_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_named_and_do_no_harm),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(a_wire_without_a_mode_is_refused),
        cmocka_unit_test(trainers_that_disagree_are_both_told),
        cmocka_unit_test(a_trainer_may_leave_before_the_start),
        cmocka_unit_test(without_the_token_nobody_joins),
        cmocka_unit_test(jobs_do_not_mix),
        cmocka_unit_test(a_job_can_be_secret),
        cmocka_unit_test(a_killed_server_is_an_error_by_name),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
