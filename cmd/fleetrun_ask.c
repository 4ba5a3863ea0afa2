/* fleetrun_ask.c - a process of its own asks server 0 what the job does.
 *
 * It may wait for the server as long as it likes, nothing else does; and what
 * the library has to say about a server that does not answer goes nowhere. A
 * program that has no Flotilla in it is left alone once that is known.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "flotilla/flotilla.h"
#include "flotilla/job.h"
#include "fleetrun_watch.h"

#define FIRST_SECONDS 2
#define FAILED_MAX 3 /* answers that a server may owe */

/* --- the process ---------------------------------------------------------- */

static bool can_connect(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool can = fd >= 0 && !connect(fd, a->ai_addr, a->ai_addrlen);

    if (fd >= 0)
        close(fd);
    return can;
}

/* Somebody listens there who did not answer as a server does. */
static bool is_stranger(const place *at)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all = NULL;
    bool is = false;
    char port[8];

    (void)snprintf(port, sizeof(port), "%d", at->port);
    if (getaddrinfo(at->host, port, &hints, &all))
        return false;
    for (const struct addrinfo *a = all; a && !is; a = a->ai_next)
        is = can_connect(a);
    freeaddrinfo(all);
    return is;
}

static void write_line(int fd, const char *line)
{
    char text[256];
    int n = snprintf(text, sizeof(text), "%.254s\n", line);

    while (write(fd, text, (size_t)n) < 0)
        if (errno != EINTR)
            _exit(0);
}

static void ask_for_ever(fl_ctx *c, const place *at, int fd)
{
    char address[300], line[256];
    bool was_there = false;
    int n_failed = 0;

    (void)snprintf(address, sizeof(address), "%s:%d", at->host, at->port);
    sleep(FIRST_SECONDS);
    for (;; sleep(1)) {
        fl_job_status *s = NULL;

        if (fl_job_status_get(&s, c, address)) {
            if (was_there ? ++n_failed == FAILED_MAX : is_stranger(at))
                return;
            continue;
        }
        was_there = true;
        n_failed = 0;
        status_line(s, line, sizeof(line));
        fl_job_status_free(s);
        write_line(fd, line);
    }
}

static void become_asker(const job *j, int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;
    fl_ctx *c;

    (void)setpgid(0, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 0; null >= 0 && i <= STDERR_FILENO; i++)
        (void)dup2(null, i);
    (void)setenv("FLOTILLA_JOB", j->name, 1);
    if (j->key_path)
        (void)setenv("FLOTILLA_JOIN_TOKEN_FILE", j->key_path, 1);
    if (!fl_ctx_new(&c))
        ask_for_ever(c, &j->procs[0].at, fd);
    _exit(0);
}

/* --- the launcher's end --------------------------------------------------- */

void asker_start(asker *a, const job *j)
{
    pid_t launcher = getpid();
    int fds[2];

    *a = (asker){ .fd = -1 };
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
        return;
    a->pid = fork();
    if (!a->pid) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != launcher)
            _exit(0);
        close(fds[0]);
        become_asker(j, fds[1]);
    }
    close(fds[1]);
    if (a->pid > 0)
        a->fd = fds[0];
    else
        close(fds[0]);
}

/* Only the newest whole line counts. */
static bool take_lines(asker *a, char *line, size_t cap)
{
    bool is_new = false;
    char *end;

    while ((end = memchr(a->line, '\n', a->len))) {
        size_t n = (size_t)(end - a->line);

        (void)snprintf(line, cap, "%.*s", (int)n, a->line);
        a->len -= n + 1;
        memmove(a->line, end + 1, a->len);
        is_new = true;
    }
    /* A line is never longer than the room for it. */
    if (a->len == sizeof(a->line))
        a->len = 0;
    return is_new;
}

bool asker_read(asker *a, char *line, size_t cap)
{
    bool is_new = false;

    while (a->fd >= 0) {
        ssize_t n = read(a->fd, a->line + a->len, sizeof(a->line) - a->len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0) {
            close(a->fd);
            a->fd = -1;
            *line = '\0';
            return true;
        }
        a->len += (size_t)n;
        is_new = take_lines(a, line, cap) || is_new;
    }
    return is_new;
}

void asker_end(asker *a)
{
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
    if (a->pid <= 0)
        return;
    (void)kill(a->pid, SIGKILL);
    while (waitpid(a->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    a->pid = 0;
}
