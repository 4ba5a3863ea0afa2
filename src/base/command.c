/* command.c - a command of the user's, run to its end.
 *
 * It runs in a process group of its own, so that all that it started can be
 * ended with it. The group is killed while its leader is not yet waited for:
 * until then the number cannot have become somebody else's. Whoever holds its
 * output open after its end (a process that it left behind) is not waited for.
 */
#include "base/command.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"

/* How much of what it prints is kept: the end, where the reason stands. */
#define SAID_BYTES 512

/* The longest wait before looking whether it has ended. */
#define LOOK_MS 20

/* From the end of its output to its own it takes next to nothing. */
#define END_PAUSE_NS 200000

typedef struct running {
    const fl_command *c;
    pid_t pid;
    int out; /* what it prints comes here; -1 at its end */
    uint64_t deadline_ns;
    char said[SAID_BYTES];
    size_t n_said;
    bool is_cut; /* it said more before that */
} running;

/* --- starting ------------------------------------------------------------- */

int fl_command_above(int fd)
{
    int high, err;

    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    err = errno;
    close(fd);
    errno = err;
    return high;
}

static int give_files(posix_spawn_file_actions_t *files, const int fds[3])
{
    int err = 0;

    for (int i = STDIN_FILENO; !err && i <= STDERR_FILENO; i++)
        if (fds[i] >= 0)
            err = posix_spawn_file_actions_adddup2(files, fds[i], i);
    return err;
}

int fl_command_start(pid_t *pid, char *const argv[], int in, int out, int err)
{
    const int fds[] = { in, out, err };
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, pipe_only;
    int rc;

    sigemptyset(&none);
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP |
                                        POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &pipe_only);
    rc = give_files(&files, fds);
    if (!rc)
        rc = posix_spawn(pid, "/bin/sh", &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

/* A pipe whose ends lie above the three, the first one not waiting. Returns 0
   or errno; both ends are the caller's, -1 when they are not there. */
static int make_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0) {
        ends[0] = ends[1] = -1;
        return errno;
    }
    ends[0] = fl_command_above(ends[0]);
    ends[1] = fl_command_above(ends[1]);
    if (ends[0] < 0 || ends[1] < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        return errno;
    return 0;
}

/* 0 or errno. */
static int spawn(running *r, char *const argv[])
{
    int nothing = fl_command_above(open("/dev/null", O_RDONLY | O_CLOEXEC));
    int ends[2], err = make_pipe(ends);

    if (!err && nothing < 0)
        err = errno;
    if (!err)
        err = fl_command_start(&r->pid, argv, nothing, ends[1], ends[1]);
    if (nothing >= 0)
        close(nothing);
    if (ends[1] >= 0)
        close(ends[1]);
    r->out = ends[0];
    return err;
}

/* The words come in by number, so that the shell does not read them. */
static int start(running *r)
{
    char script[4096 + 64];
    char *argv[4 + FL_COMMAND_WORDS_MAX + 1] = { "sh", "-c", script, "sh" };

    FL_ASSERT(r->c->n_words <= FL_COMMAND_WORDS_MAX);
    if (snprintf(script, sizeof(script), "%s \"$@\"", r->c->text) >=
        (int)sizeof(script))
        return E2BIG;
    for (size_t i = 0; i < r->c->n_words; i++)
        argv[4 + i] = (char *)r->c->words[i];
    return spawn(r, argv);
}

/* --- while it runs -------------------------------------------------------- */

static void keep(running *r, const char *bytes, size_t n)
{
    size_t over = r->n_said + n > SAID_BYTES ? r->n_said + n - SAID_BYTES : 0;

    if (over > r->n_said) {
        bytes += over - r->n_said;
        n -= over - r->n_said;
        r->n_said = 0;
    } else {
        memmove(r->said, r->said + over, r->n_said - over);
        r->n_said -= over;
    }
    r->is_cut |= over > 0;
    memcpy(r->said + r->n_said, bytes, n);
    r->n_said += n;
}

/* Takes what is there; false at the end of the output. */
static bool listen_now(running *r)
{
    char bytes[4096];
    ssize_t n;

    while ((n = read(r->out, bytes, sizeof(bytes))) != 0) {
        if (n > 0)
            keep(r, bytes, (size_t)n);
        else if (errno != EINTR)
            return errno == EAGAIN;
    }
    return false;
}

/* Waits a moment for more of its words, or for its end. */
static void wait_a_moment(running *r)
{
    struct pollfd p = { .fd = r->out, .events = POLLIN };

    if (r->out < 0) {
        nanosleep(&(struct timespec){ .tv_nsec = END_PAUSE_NS }, NULL);
        return;
    }
    (void)poll(&p, 1, LOOK_MS);
    if (!listen_now(r)) {
        close(r->out);
        r->out = -1;
    }
}

/* Has the leader ended? It is not waited for yet. An error is an end, too:
   somebody else has waited for it. */
static bool has_ended(const running *r)
{
    siginfo_t info = { 0 };
    int rc;

    do
        rc = waitid(P_PID, (id_t)r->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    while (rc != 0 && errno == EINTR);
    return rc != 0 || info.si_pid != 0;
}

/* Ends what is left of it; its status, or -1 when nobody knows. */
static int reap(running *r)
{
    int status = 0;
    pid_t pid;

    kill(-r->pid, SIGKILL);
    do
        pid = waitpid(r->pid, &status, 0);
    while (pid < 0 && errno == EINTR);
    if (r->out >= 0) {
        (void)listen_now(r);
        close(r->out);
    }
    return pid < 0 ? -1 : status;
}

/* --- the end -------------------------------------------------------------- */

/* One line of it: blanks for what would break one. */
static void flatten(running *r, char text[SAID_BYTES + 4])
{
    size_t n = 0;

    if (r->is_cut)
        n = (size_t)snprintf(text, SAID_BYTES + 4, "...");
    for (size_t i = 0; i < r->n_said; i++)
        text[n++] = (unsigned char)r->said[i] < ' ' ? ' ' : r->said[i];
    while (n && text[n - 1] == ' ')
        n--;
    text[n] = '\0';
}

static fl_status judge(running *r, int status)
{
    char said[SAID_BYTES + 4];
    char how[64];

    if (status == 0)
        return FL_OK;
    flatten(r, said);
    if (status < 0)
        (void)snprintf(how, sizeof(how), "ended, nobody knows how");
    else if (WIFSIGNALED(status))
        (void)snprintf(how, sizeof(how), "was ended by signal %d",
                       WTERMSIG(status));
    else
        (void)snprintf(how, sizeof(how), "ended with status %d%s",
                       WEXITSTATUS(status),
                       WEXITSTATUS(status) == 127 ? " (not found)" : "");
    FL_FAIL(FL_ERR_IO, "the command '%.128s' %s and said %s%s%s", r->c->text,
            how, *said ? "'" : "nothing", said, *said ? "'" : "");
}

static fl_status fail_late(running *r)
{
    char said[SAID_BYTES + 4];

    flatten(r, said);
    FL_FAIL(FL_ERR_TIMEOUT,
            "the command '%.128s' was ended after %" PRIu64
            " ms and had said %s%s%s",
            r->c->text, r->c->timeout_ms, *said ? "'" : "nothing", said,
            *said ? "'" : "");
}

fl_status fl_command_run(const fl_command *c)
{
    running r = { .c = c, .out = -1 };
    bool is_late = false;
    int err, status;

    r.deadline_ns = fl_now_ns() + c->timeout_ms * 1000000;
    err = start(&r);
    if (err) {
        if (r.out >= 0)
            close(r.out);
        FL_FAIL(FL_ERR_IO, "cannot start the command '%.128s': %s", c->text,
                strerror(err));
    }
    while (!has_ended(&r) && !is_late) {
        wait_a_moment(&r);
        is_late = fl_now_ns() > r.deadline_ns;
    }
    status = reap(&r);
    return is_late ? fail_late(&r) : judge(&r, status);
}
