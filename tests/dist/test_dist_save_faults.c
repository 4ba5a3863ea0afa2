/* test_dist_save_faults.c - members of a job that are killed while it saves
 * itself again and again: the model that counts is whole, whoever goes, and
 * another job begins with it.
 *
 * Each member is a process. Nobody may be left at the end, and who hangs is ended
 * by an alarm clock.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "ckpt/version.h"
#include "dist_kit.h"

#define HANGS_S 90
#define SERVERS 2
#define TRAINERS 2
#define MEMBERS (SERVERS + TRAINERS)
#define SERVER(i) (i)
#define TRAINER(i) (SERVERS + (i))
#define FAILED 3

typedef struct board {
    atomic_bool is_enough;
    kit_text texts[MEMBERS];
} board;

typedef struct job {
    kit_job kit;
    board *board;
    char dir[64], addresses[256];
    pid_t pids[MEMBERS];
} job;

static char folder[] = "/tmp/flotilla-faults-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

/* --- processes ------------------------------------------------------------ */

static fl_status train_until_enough(kit_trainer *t, void *arg)
{
    board *b = arg;
    fl_status st = FL_OK;

    for (int step = 0; !b->is_enough && !st; step++)
        st = kit_step(t, step % 50);
    return st;
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
    kit_role role = member < SERVERS ? KIT_SERVER : KIT_TRAINER;
    int rank = role == KIT_SERVER ? member : member - SERVERS;
    char *text = j->board->texts[member];

    alarm(HANGS_S);
    if (!getenv("FL_TEST_LOUD"))
        fl_log_set(hear_nothing, NULL, FL_LOG_WARN);
    kit_member(&j->kit, j->addresses, role, rank, train_until_enough, j->board,
               text);
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

static void start_job(job *j)
{
    memset(j->board, 0, sizeof(*j->board));
    kit_addresses(j->addresses, sizeof(j->addresses), SERVERS);
    for (int i = 0; i < MEMBERS; i++)
        start_member(j, i);
}

/* The end of a member, as of waitpid. */
static int wait_for(job *j, int member)
{
    int status = 0;

    assert_int_equal(waitpid(j->pids[member], &status, 0), j->pids[member]);
    j->pids[member] = 0;
    return status;
}

static void kill_member(job *j, int member)
{
    assert_int_equal(kill(j->pids[member], SIGKILL), 0);
    (void)wait_for(j, member);
}

/* --- versions ------------------------------------------------------------- */

/* The number of the version that counts; 0: none yet. */
static unsigned long current(const job *j)
{
    char path[128], id[64] = "";
    FILE *f;

    snprintf(path, sizeof(path), "%s/CURRENT", j->dir);
    f = fopen(path, "r");
    if (!f)
        return 0;
    if (!fgets(id, sizeof(id), f))
        id[0] = '\0';
    fclose(f);
    return strtoul(id, NULL, 10);
}

/* The alarm clock of the test ends the wait. */
static void wait_for_version(const job *j, unsigned long number)
{
    while (current(j) < number)
        usleep(1000);
}

static void expect_whole(const job *j)
{
    fl_model_version *v;

    assert_ok(fl_version_open(&v, j->dir));
    assert_ok(fl_version_verify(v));
    fl_version_close(v);
}

/* --- tests ---------------------------------------------------------------- */

static job make_job(const char *mode, const char *name)
{
    job j = { .kit = { .mode = mode,
                       .n_servers = SERVERS,
                       .n_trainers = TRAINERS,
                       .optimizer = "adagrad",
                       .words = "learning_rate=0.05" } };

    j.board = mmap(NULL, sizeof(*j.board), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(j.board != MAP_FAILED);
    snprintf(j.dir, sizeof(j.dir), "%s/%s", folder, name);
    return j;
}

static void set(job *j, size_t i, const char *name, const char *value)
{
    j->kit.settings[i] = (kit_setting){ name, value };
}

static void save_always(job *j)
{
    set(j, 0, "save_dir", j->dir);
    set(j, 1, "save_every_steps", "1");
    set(j, 2, "restart_timeout_ms", "500");
    set(j, 3, "suspect_ms", "200");
    set(j, 4, "ping_ms", "50");
    set(j, 5, "save_timeout_ms", "2000");
}

/* Another job begins with what is there, and ends well. */
static void expect_loads(job *j)
{
    j->kit.model = j->dir;
    set(j, 0, "save_dir", "");
    start_job(j);
    j->board->is_enough = true;
    for (int i = 0; i < MEMBERS; i++)
        if (wait_for(j, i))
            fail_msg("member %d: %s", i, j->board->texts[i]);
}

static void a_lost_trainer_leaves_a_job_that_goes_on_saving(void **state)
{
    job j = make_job("async", "trainer");
    unsigned long number;

    (void)state;
    alarm(HANGS_S);
    save_always(&j);
    set(&j, 6, "go_on_without_lost_trainers", "true");
    start_job(&j);
    wait_for_version(&j, 2);
    kill_member(&j, TRAINER(1));
    number = current(&j);
    wait_for_version(&j, number + 2);
    j.board->is_enough = true;
    for (int i = 0; i < TRAINER(1); i++)
        if (wait_for(&j, i))
            fail_msg("member %d: %s", i, j.board->texts[i]);
    expect_whole(&j);
    expect_loads(&j);
    alarm(0);
}

static void a_lost_server_ends_the_job_and_the_model_stays(void **state)
{
    static const char *const modes[] = { "sync", "async" };

    (void)state;
    for (size_t m = 0; m < 2; m++)
        for (int server = 0; server < SERVERS; server++) {
            char name[32];
            job j;

            alarm(HANGS_S);
            snprintf(name, sizeof(name), "%s%d", modes[m], server);
            j = make_job(modes[m], name);
            save_always(&j);
            start_job(&j);
            wait_for_version(&j, 2);
            kill_member(&j, SERVER(server));
            for (int i = 0; i < MEMBERS; i++)
                if (j.pids[i])
                    assert_int_not_equal(wait_for(&j, i), 0);
            expect_whole(&j);
            expect_loads(&j);
            alarm(0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_trainer_leaves_a_job_that_goes_on_saving),
        cmocka_unit_test(a_lost_server_ends_the_job_and_the_model_stays),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
