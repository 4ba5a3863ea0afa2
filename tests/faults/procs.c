/* procs.c - processes of a case: started, read from, and never left behind. */
#include "procs.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCS_MAX 32
#define LINE_ROOM 4096

void give_up(const char *what)
{
    printf("  the test itself failed: %s: %s\n", what, strerror(errno));
    exit(1);
}

uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* In a child: the parent may have ended before it was asked to tell. */
static void die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
}

pid_t start_child(void (*fn)(int fd), int fd)
{
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        give_up("fork");
    if (pid)
        return pid;
    die_with(parent);
    fn(fd);
    _exit(0);
}

void proc_start(proc *p, char *const *argv)
{
    pid_t parent = getpid();
    int pair[2];

    if (pipe2(pair, O_CLOEXEC))
        give_up("pipe");
    fflush(NULL);
    p->pid = fork();
    if (p->pid < 0)
        give_up("fork");
    if (!p->pid) {
        die_with(parent);
        dup2(pair[1], STDOUT_FILENO);
        dup2(pair[1], STDERR_FILENO);
        execv(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    close(pair[1]);
    if (p->fd >= 0)
        close(p->fd);
    p->fd = pair[0];
    p->is_running = true;
}

static void read_some(proc *p)
{
    char bytes[LINE_ROOM];
    ssize_t n = read(p->fd, bytes, sizeof(bytes));

    if (n <= 0) {
        close(p->fd);
        p->fd = -1;
        return;
    }
    p->out = realloc(p->out, p->len + (size_t)n + 1);
    if (!p->out)
        give_up("realloc");
    memcpy(p->out + p->len, bytes, (size_t)n);
    p->len += (size_t)n;
    p->out[p->len] = '\0';
}

void procs_pump(proc *all, size_t n, int ms)
{
    struct pollfd fds[PROCS_MAX];

    for (size_t i = 0; i < n; i++)
        fds[i] = (struct pollfd){ .fd = all[i].fd, .events = POLLIN };
    (void)poll(fds, n, ms);
    for (size_t i = 0; i < n; i++) {
        proc *p = &all[i];

        if (fds[i].revents)
            read_some(p);
        /* Its last words come first. */
        if (p->is_running && p->fd < 0 &&
            waitpid(p->pid, &p->status, WNOHANG) == p->pid)
            p->is_running = false;
    }
}

const char *proc_find(const proc *p, size_t from, const char *pattern,
                      size_t *len)
{
    char line[LINE_ROOM], whole[LINE_ROOM];
    const char *at = p->out ? p->out + from : "";

    (void)snprintf(whole, sizeof(whole), "*%s*", pattern);
    while (*at) {
        size_t n = strcspn(at, "\n");
        size_t kept = n < sizeof(line) ? n : sizeof(line) - 1;

        memcpy(line, at, kept);
        line[kept] = '\0';
        if (at[n] && !fnmatch(whole, line, 0)) {
            *len = n;
            return at;
        }
        at += n + (at[n] == '\n');
    }
    return NULL;
}

size_t proc_count(const proc *p, const char *pattern)
{
    const char *at;
    size_t n = 0, len, from = 0;

    while ((at = proc_find(p, from, pattern, &len))) {
        from = (size_t)(at - p->out) + len;
        n++;
    }
    return n;
}

void proc_release(proc *p)
{
    if (p->is_running) {
        kill(p->pid, SIGKILL);
        (void)waitpid(p->pid, NULL, 0);
    }
    if (p->fd >= 0)
        close(p->fd);
    free(p->out);
    *p = (proc){ .fd = -1 };
}
