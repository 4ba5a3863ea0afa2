/* test_launch_terminal.c FLEETRUN MEMBER - what the launcher shows on a
 * terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_SECONDS 60
#define SEEN_MAX ((size_t)1 << 20)

typedef struct session {
    const char *fleetrun, *member;
    char dir[64], stop[80];
    int terminal; /* our side of it */
    pid_t pid;
    char *seen; /* everything so far */
    size_t len;
} session;

static int set_up(void **state)
{
    session *s = *state;

    (void)snprintf(s->dir, sizeof(s->dir), "/tmp/launch-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    (void)snprintf(s->stop, sizeof(s->stop), "%s/stop", s->dir);
    s->seen = calloc(1, SEEN_MAX + 1);
    assert_non_null(s->seen);
    s->len = 0;
    return 0;
}

static int tear_down(void **state)
{
    session *s = *state;
    char command[128];

    if (s->pid > 0) {
        (void)kill(s->pid, SIGKILL);
        (void)waitpid(s->pid, NULL, 0);
    }
    close(s->terminal);
    free(s->seen);
    (void)snprintf(command, sizeof(command), "rm -rf %s", s->dir);
    return system(command);
}

static void start(session *s, const char *program, const char *argument)
{
    char log_dir[96];
    const char *name;
    int terminal;

    (void)snprintf(log_dir, sizeof(log_dir), "--log_dir=%s/log", s->dir);
    s->terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(s->terminal >= 0);
    assert_int_equal(grantpt(s->terminal), 0);
    assert_int_equal(unlockpt(s->terminal), 0);
    name = ptsname(s->terminal);
    assert_non_null(name);
    terminal = open(name, O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (!s->pid) {
        (void)dup2(terminal, STDOUT_FILENO);
        (void)dup2(terminal, STDERR_FILENO);
        close(terminal);
        execl(s->fleetrun, s->fleetrun, "--server_num=1", "--worker_num=2",
              log_dir, program, argument, (char *)NULL);
        _exit(127);
    }
    close(terminal);
}

/* More of what is shown; false when that is over, or takes too long. */
static bool see_more(session *s)
{
    struct pollfd p = { .fd = s->terminal, .events = POLLIN };
    ssize_t n;

    if (poll(&p, 1, 1000 * WAIT_SECONDS) <= 0 || s->len == SEEN_MAX)
        return false;
    n = read(s->terminal, s->seen + s->len, SEEN_MAX - s->len);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    s->len += (size_t)n;
    s->seen[s->len] = '\0';
    return true;
}

static void see(session *s, const char *text)
{
    time_t end = time(NULL) + WAIT_SECONDS;

    while (!strstr(s->seen, text))
        if (!see_more(s) || time(NULL) > end)
            fail_msg("'%s' is not in: %s", text, s->seen);
}

static int wait_for_end(session *s)
{
    int status = 0;

    while (see_more(s))
        ;
    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    s->pid = 0;
    return status;
}

static void a_terminal_shows_phase_speed_loss_and_who_is_slow(void **state)
{
    session *s = *state;
    FILE *f;

    start(s, s->member, s->stop);
    see(s, "TRAINER begins");
    see(s, "train, ");
    see(s, "samples/s, loss 0.5000, AUC 0.7500, slowest is worker 1");
    f = fopen(s->stop, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(wait_for_end(s), 0);
}

static void a_program_without_flotilla_has_no_status(void **state)
{
    session *s = *state;

    start(s, "/bin/echo", "plain words");
    assert_int_equal(wait_for_end(s), 0);
    assert_non_null(strstr(s->seen, "plain words\r\n"));
    assert_null(strstr(s->seen, "samples"));
}

int main(int argc, char **argv)
{
    session s = { 0 };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(
            a_terminal_shows_phase_speed_loss_and_who_is_slow, set_up,
            tear_down, &s),
        cmocka_unit_test_prestate_setup_teardown(
            a_program_without_flotilla_has_no_status, set_up, tear_down, &s),
    };

    if (argc < 3) {
        fprintf(stderr, "test_launch_terminal FLEETRUN MEMBER\n");
        return 2;
    }
    s.fleetrun = argv[1];
    s.member = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
