/* fleetrun_keeper.c - nothing survives the launcher.
 *
 * Each process asks the kernel to be killed with its parent, but what it has
 * started itself does not. So there is a keeper: it knows the groups of all
 * processes through a pipe, and when that breaks it kills them.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fleetrun_watch.h"

/* Small enough to be written at once. */
typedef struct note {
    pid_t group;
    int is_there;
} note;

typedef struct groups {
    pid_t *all;
    size_t n, cap;
} groups;

static void take_note(groups *g, const note *m)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->all[i] == m->group)
            g->all[i--] = g->all[--g->n];
    if (!m->is_there)
        return;
    if (g->n == g->cap) {
        size_t cap = g->cap ? 2 * g->cap : 64;
        pid_t *more = realloc(g->all, cap * sizeof(*more));

        if (!more)
            return;
        g->all = more;
        g->cap = cap;
    }
    g->all[g->n++] = m->group;
}

static void keep(int fd)
{
    groups g = { 0 };
    note m;
    ssize_t n;

    while ((n = read(fd, &m, sizeof(m)))) {
        if (n == (ssize_t)sizeof(m))
            take_note(&g, &m);
        else if (n > 0 || errno != EINTR)
            break;
    }
    for (size_t i = 0; i < g.n; i++)
        (void)kill(-g.all[i], SIGKILL);
    _exit(0);
}

/* It holds nothing open that somebody could wait for, and no signal of a
   terminal ends it. */
static void become_keeper(int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    (void)setpgid(0, 0);
    for (int i = 0; null >= 0 && i <= STDERR_FILENO; i++)
        (void)dup2(null, i);
    keep(fd);
}

int keeper_start(keeper *k)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC))
        return run_failed("cannot make a pipe: %s", strerror(errno));
    k->pid = fork();
    if (!k->pid) {
        close(fds[1]);
        become_keeper(fds[0]);
    }
    close(fds[0]);
    k->fd = fds[1];
    if (k->pid > 0)
        return RUN_OK;
    close(k->fd);
    return run_failed("cannot start a process: %s", strerror(errno));
}

static void send_note(const keeper *k, note m)
{
    while (write(k->fd, &m, sizeof(m)) < 0 && errno == EINTR)
        ;
}

void keeper_add(const keeper *k, pid_t group)
{
    send_note(k, (note){ group, 1 });
}

void keeper_drop(const keeper *k, pid_t group)
{
    send_note(k, (note){ group, 0 });
}

void keeper_end(keeper *k)
{
    close(k->fd);
    while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
