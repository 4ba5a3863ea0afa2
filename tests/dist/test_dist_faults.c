/* test_dist_faults.c - members of a job that are killed and stopped while it
 * trains, in every mode.
 *
 * Mode collective has trainers alone. It is left out where a server is lost, as
 * there is none, and where the rest goes on without a trainer, which it refuses
 * (test_dist_collective.c): a sum over all needs all.
 *
 * Each member is a process of its own. A board in shared memory tells how far
 * the trainers are, and keeps the last words of everybody. The jobs of all
 * modes run side by side, as they mostly wait. Nobody may be left at the end,
 * and who hangs is ended by an alarm clock.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "mode_list.h"
#include "dist_kit.h"

#define HANGS_S 90
#define SERVERS_MAX 2
#define TRAINERS 2
#define MEMBERS (SERVERS_MAX + TRAINERS)
#define SERVER(i) (i)
#define TRAINER(i) (SERVERS_MAX + (i))
#define MANY 20 /* steps after which training is well under way */

/* What a member ends with that says why; a sanitizer's end is another. */
#define FAILED 3

/* Shared by the processes of a job. */
typedef struct board {
    _Atomic int steps[TRAINERS];
    _Atomic bool is_enough; /* trainers are to finish */
    kit_text texts[MEMBERS];
} board;

typedef struct job {
    kit_job kit;
    board *board;
    char addresses[SERVERS_MAX][64], all_addresses[SERVERS_MAX * 64];
    pid_t pids[MEMBERS]; /* 0: it has ended, or there is no such one */
    int status[MEMBERS];
} job;

static job jobs[MODES_MAX];
static size_t n_jobs;

/* --- processes ------------------------------------------------------------ */

static fl_status train_until_enough(kit_trainer *t, void *arg)
{
    board *b = arg;

    for (int step = 0; !b->is_enough; step++) {
        fl_status st = kit_step(t, step % 50);

        if (st)
            return st;
        b->steps[t->rank]++;
    }
    return FL_OK;
}

static void hear_nothing(void *arg, fl_log_level level, const char *area,
                         const char *text)
{
    (void)arg;
    (void)level;
    (void)area;
    (void)text;
}

static _Noreturn void be_member(job *j, int member)
{
    kit_role role = member < SERVERS_MAX ? KIT_SERVER : KIT_TRAINER;
    int rank = member - (role == KIT_SERVER ? SERVER(0) : TRAINER(0));
    char *text = j->board->texts[member];

    alarm(HANGS_S);
    if (!getenv("FL_TEST_LOUD"))
        fl_log_set(hear_nothing, NULL, FL_LOG_WARN);
    kit_member(&j->kit, j->all_addresses, role, rank, train_until_enough,
               j->board, text);
    exit(text[0] ? FAILED : 0);
}

static void start_member(job *j, int member)
{
    pid_t parent = getpid();

    fflush(NULL);
    j->pids[member] = fork();
    assert_true(j->pids[member] >= 0);
    if (j->pids[member])
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(FAILED);
    be_member(j, member);
}

static bool is_there(const job *j, int member)
{
    return member >= SERVERS_MAX || member < j->kit.n_servers;
}

static void choose_addresses(job *j)
{
    int n = j->kit.n_servers ? j->kit.n_servers : TRAINERS;
    size_t len = 0;

    for (int i = 0; i < n; i++) {
        kit_addresses(j->addresses[i], sizeof(j->addresses[i]), 1);
        len += (size_t)snprintf(j->all_addresses + len,
                                sizeof(j->all_addresses) - len, "%s%s",
                                i ? "," : "", j->addresses[i]);
    }
}

/* The setting, if any, comes to those that make faults show soon. */
static void start_job(const char *mode, int n_servers, kit_setting setting)
{
    job *j = &jobs[n_jobs++];

    *j = (job){ .kit = { .mode = mode,
                         .n_servers = n_servers,
                         .n_trainers = TRAINERS,
                         .words = "learning_rate=0.01",
                         .settings = { { "geo_need_push_nums", "5" },
                                       { "restart_timeout_ms", "1500" },
                                       { "ping_ms", "50" },
                                       { "suspect_ms", "300" },
                                       setting } } };
    j->board = mmap(NULL, sizeof(board), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(j->board != MAP_FAILED);
    choose_addresses(j);
    for (int m = 0; m < MEMBERS; m++)
        if (is_there(j, m))
            start_member(j, m);
}

/* Modes with servers. */
static void start_jobs(int n_servers, kit_setting setting)
{
    for (size_t i = 0; mode_name(i); i++)
        start_job(mode_name(i), n_servers, setting);
}

/* All modes: with a server, or with trainers alone. */
static void start_all_jobs(kit_setting setting)
{
    const char *mode;

    for (size_t i = 0; (mode = job_mode_name(i)); i++)
        start_job(mode, fl_mode_find(mode)->needs_servers, setting);
}

static void end_member(job *j, int member)
{
    if (j->pids[member])
        assert_int_equal(waitpid(j->pids[member], &j->status[member], 0),
                         j->pids[member]);
    j->pids[member] = 0;
}

static int end_jobs(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_jobs; i++) {
        for (int m = 0; m < MEMBERS; m++)
            if (jobs[i].pids[m])
                kill(jobs[i].pids[m], SIGKILL);
        for (int m = 0; m < MEMBERS; m++)
            end_member(&jobs[i], m);
        if (jobs[i].board)
            munmap(jobs[i].board, sizeof(board));
        jobs[i] = (job){ 0 };
    }
    n_jobs = 0;
    return 0;
}

/* --- what happens --------------------------------------------------------- */

static void pause_ms(long ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

    while (nanosleep(&t, &t))
        ;
}

/* Until the trainer has made so many steps more. */
static void await_steps(const job *j, int trainer, int more)
{
    int from = j->board->steps[trainer];

    for (int ms = 0; j->board->steps[trainer] < from + more; ms += 2) {
        if (ms > HANGS_S * 1000 || j->board->texts[TRAINER(trainer)][0])
            fail_msg("%s: trainer %d ends at step %d: '%s'", j->kit.mode,
                     trainer, j->board->steps[trainer],
                     j->board->texts[TRAINER(trainer)]);
        pause_ms(2);
    }
}

static void await_training(void)
{
    for (size_t i = 0; i < n_jobs; i++)
        for (int t = 0; t < TRAINERS; t++)
            await_steps(&jobs[i], t, MANY);
}

static void send_signal(int member, int signal)
{
    for (size_t i = 0; i < n_jobs; i++)
        assert_int_equal(kill(jobs[i].pids[member], signal), 0);
}

/* A trainer that goes on does it for a while. */
static void await_more_and_finish(int trainer)
{
    for (size_t i = 0; i < n_jobs; i++)
        await_steps(&jobs[i], trainer, 2 * MANY);
    for (size_t i = 0; i < n_jobs; i++)
        jobs[i].board->is_enough = true;
}

/* --- how members end ------------------------------------------------------ */

static void expect_good_end(int member)
{
    for (size_t i = 0; i < n_jobs; i++) {
        job *j = &jobs[i];

        if (!is_there(j, member))
            continue;
        end_member(j, member);
        if (!WIFEXITED(j->status[member]) || WEXITSTATUS(j->status[member]))
            fail_msg("%s: member %d ends with status %#x: '%s'", j->kit.mode,
                     member, j->status[member], j->board->texts[member]);
    }
}

/* It says why, with these words. */
static void expect_failure_of(job *j, int member, const char *words)
{
    const char *text = j->board->texts[member];

    end_member(j, member);
    if (!WIFEXITED(j->status[member]) ||
        WEXITSTATUS(j->status[member]) != FAILED)
        fail_msg("%s: member %d ends with status %#x: '%s'", j->kit.mode,
                 member, j->status[member], text);
    if (!strstr(text, words))
        fail_msg("%s: member %d says '%s' and does not name %s", j->kit.mode,
                 member, text, words);
}

static void expect_failure(int member, const char *words)
{
    for (size_t i = 0; i < n_jobs; i++)
        if (is_there(&jobs[i], member))
            expect_failure_of(&jobs[i], member, words);
}

/* Where trainers serve, what is named first is the connection to one of them, or
   what it served. */
static void expect_lost_trainer_1(int member)
{
    for (size_t i = 0; i < n_jobs; i++) {
        job *j = &jobs[i];
        const char *text = j->board->texts[member];

        if (!is_there(j, member))
            continue;
        end_member(j, member);
        expect_failure_of(j, member,
                          j->kit.n_servers            ? "trainer 1"
                          : strstr(text, "worker 1 ") ? "worker 1 "
                          : strstr(text, "trainer 1") ? "trainer 1"
                                                      : "server 1");
    }
}

/* It names the address of that server. */
static void expect_lost_server(int member, int server)
{
    for (size_t i = 0; i < n_jobs; i++)
        expect_failure_of(&jobs[i], member, jobs[i].addresses[server]);
}

static void expect_killed(int member)
{
    for (size_t i = 0; i < n_jobs; i++) {
        end_member(&jobs[i], member);
        assert_true(WIFSIGNALED(jobs[i].status[member]));
        assert_int_equal(WTERMSIG(jobs[i].status[member]), SIGKILL);
    }
}

/* --- tests ---------------------------------------------------------------- */

static const kit_setting nothing = { 0 };
static const kit_setting goes_on = { "go_on_without_lost_trainers", "true" };

static void an_undisturbed_job_ends_well(void **state)
{
    (void)state;
    start_all_jobs(nothing);
    await_training();
    await_more_and_finish(0);
    for (int m = 0; m < MEMBERS; m++)
        expect_good_end(m);
}

static void a_killed_trainer_ends_the_job_and_is_named(void **state)
{
    (void)state;
    start_all_jobs(nothing);
    await_training();
    send_signal(TRAINER(1), SIGKILL);
    expect_lost_trainer_1(TRAINER(0));
    expect_lost_trainer_1(SERVER(0));
    expect_killed(TRAINER(1));
}

static void the_rest_goes_on_without_a_killed_trainer(void **state)
{
    (void)state;
    start_jobs(1, goes_on);
    await_training();
    send_signal(TRAINER(1), SIGKILL);
    expect_killed(TRAINER(1));
    await_more_and_finish(0);
    expect_good_end(TRAINER(0));
    expect_good_end(SERVER(0));
}

static void a_killed_server_ends_the_job_and_is_named(void **state)
{
    (void)state;
    start_jobs(1, nothing);
    await_training();
    send_signal(SERVER(0), SIGKILL);
    for (int t = 0; t < TRAINERS; t++)
        expect_lost_server(TRAINER(t), 0);
    expect_killed(SERVER(0));
}

static void one_of_two_servers_that_is_killed_ends_the_job(void **state)
{
    (void)state;
    start_jobs(2, nothing);
    await_training();
    send_signal(SERVER(1), SIGKILL);
    for (int t = 0; t < TRAINERS; t++)
        expect_lost_server(TRAINER(t), 1);
    expect_lost_server(SERVER(0), 1);
    expect_killed(SERVER(1));
}

static void a_stopped_trainer_ends_the_job_and_is_named(void **state)
{
    (void)state;
    start_all_jobs(nothing);
    await_training();
    send_signal(TRAINER(1), SIGSTOP);
    expect_lost_trainer_1(TRAINER(0));
    expect_lost_trainer_1(SERVER(0));
    send_signal(TRAINER(1), SIGCONT);
    expect_failure(TRAINER(1), "");
}

static void the_rest_goes_on_without_a_stopped_trainer(void **state)
{
    (void)state;
    start_jobs(1, goes_on);
    await_training();
    send_signal(TRAINER(1), SIGSTOP);
    await_more_and_finish(0);
    expect_good_end(TRAINER(0));
    expect_good_end(SERVER(0));
    send_signal(TRAINER(1), SIGCONT);
    expect_failure(TRAINER(1), "");
}

static void a_trainer_that_is_silent_for_a_while_takes_part_again(void **state)
{
    (void)state;
    start_all_jobs((kit_setting){ "restart_timeout_ms", "60000" });
    await_training();
    send_signal(TRAINER(1), SIGSTOP);
    pause_ms(1000);
    send_signal(TRAINER(1), SIGCONT);
    for (size_t i = 0; i < n_jobs; i++)
        await_steps(&jobs[i], 1, MANY);
    await_more_and_finish(0);
    for (int m = 0; m < MEMBERS; m++)
        expect_good_end(m);
}

/* It is told that the others went on, or has come back in the last moment;
   whichever it is, the others end well. */
static void a_lost_trainer_that_wakes_up_does_not_harm_the_rest(void **state)
{
    (void)state;
    start_jobs(1, goes_on);
    await_training();
    send_signal(TRAINER(1), SIGSTOP);
    pause_ms(3000);
    send_signal(TRAINER(1), SIGCONT);
    await_more_and_finish(0);
    expect_good_end(TRAINER(0));
    expect_good_end(SERVER(0));
    for (size_t i = 0; i < n_jobs; i++) {
        end_member(&jobs[i], TRAINER(1));
        assert_true(WIFEXITED(jobs[i].status[TRAINER(1)]));
    }
}

#define fault_test(name) cmocka_unit_test_teardown(name, end_jobs)

int main(void)
{
    const struct CMUnitTest tests[] = {
        fault_test(an_undisturbed_job_ends_well),
        fault_test(a_killed_trainer_ends_the_job_and_is_named),
        fault_test(the_rest_goes_on_without_a_killed_trainer),
        fault_test(a_killed_server_ends_the_job_and_is_named),
        fault_test(one_of_two_servers_that_is_killed_ends_the_job),
        fault_test(a_stopped_trainer_ends_the_job_and_is_named),
        fault_test(the_rest_goes_on_without_a_stopped_trainer),
        fault_test(a_lost_trainer_that_wakes_up_does_not_harm_the_rest),
        fault_test(a_trainer_that_is_silent_for_a_while_takes_part_again),
    };

    return cmocka_run_group_tests_name("dist faults", tests, NULL, NULL);
}
