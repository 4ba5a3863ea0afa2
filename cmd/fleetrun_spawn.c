/* fleetrun_spawn.c - a process of the job begins. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fleetrun_watch.h"

#define OUTPUT_BYTES (1 << 20)

/* --- logs ----------------------------------------------------------------- */

/* Like mkdir -p. */
static int make_folder(room *r, const char *path)
{
    char *at = room_text(r, "%s", path);

    for (char *end = at + 1;; end++) {
        char was = *end;

        if (was && was != '/')
            continue;
        *end = '\0';
        if (mkdir(at, 0777) && errno != EEXIST)
            return run_failed("cannot make the folder %s for logs: %s; choose "
                              "another --log_dir",
                              at, strerror(errno));
        *end = was;
        if (!was)
            return RUN_OK;
    }
}

int spawn_prepare(const job *j)
{
    return make_folder(j->room, j->o->log_dir);
}

/* --- the child ------------------------------------------------------------ */

static void undo_signals(void)
{
    static const int changed[] = { SIGPIPE, SIGXFSZ, SIGINT, SIGTERM,
                                   SIGHUP,  SIGQUIT, SIGCHLD };
    sigset_t none;

    for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++)
        (void)signal(changed[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Everything up to the program itself; what is wrong goes through the pipe. */
static void begin(const job *j, const proc *p, int out, int why)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), code;

    (void)setpgid(0, 0);
    undo_signals();
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
        goto failed;
    execvpe(j->words[0], j->words, p->env);
failed:
    code = errno;
    while (write(why, &code, sizeof(code)) < 0 && errno == EINTR)
        ;
    _exit(RUN_FAILED);
}

static pid_t fork_child(const job *j, const proc *p, int out, int why)
{
    pid_t launcher = getpid(), pid = fork();

    if (pid)
        return pid;
    /* Before anything else, and it may have been too late. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher)
        _exit(RUN_FAILED);
    begin(j, p, out, why);
    return 0;
}

/* The pipe closes when the program has begun. */
static int wait_for_begin(int fd)
{
    int code = 0;
    ssize_t n;

    do
        n = read(fd, &code, sizeof(code));
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(code) ? code : 0;
}

/* What the process writes; a launcher that is held up has some time before the
   process is. */
static int open_output(int fds[2])
{
    if (pipe2(fds, O_CLOEXEC))
        return run_failed("cannot make a pipe: %s", strerror(errno));
    (void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(fds[0], F_SETPIPE_SZ, OUTPUT_BYTES);
    return RUN_OK;
}

/* The program has begun, or it is said why it has not. */
static int start(const job *j, proc *p, int out)
{
    int fds[2], code = 0;
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC))
        return run_failed("cannot make a pipe: %s", strerror(errno));
    pid = fork_child(j, p, out, fds[1]);
    if (pid < 0)
        code = errno;
    close(fds[1]);
    if (pid > 0)
        code = wait_for_begin(fds[0]);
    close(fds[0]);
    if (code) {
        if (pid > 0)
            (void)waitpid(pid, NULL, 0);
        return run_failed("cannot start %s as %s: %s", j->words[0], p->name,
                          strerror(code));
    }
    /* As the child does: whoever comes first. */
    (void)setpgid(pid, pid);
    p->pid = pid;
    p->began_ms = clock_ms();
    return RUN_OK;
}

int spawn(const job *j, proc *p, bool is_again)
{
    int fds[2], code;

    p->log = log_open(p, is_again);
    if (p->log < 0)
        return RUN_FAILED;
    (void)unlink(p->note_path);
    if (open_output(fds)) {
        close(p->log);
        return RUN_FAILED;
    }
    p->out = fds[0];
    code = start(j, p, fds[1]);
    close(fds[1]);
    if (code)
        log_close(p);
    return code;
}

/* --- a task of a cluster -------------------------------------------------- */

int spawn_become(const job *j, const proc *p)
{
    int log, code;

    if (j->o->has_log_dir) {
        code = spawn_prepare(j);
        if (code)
            return code;
        log = log_open(p, false);
        if (log < 0)
            return RUN_FAILED;
        (void)dup2(log, STDOUT_FILENO);
        (void)dup2(log, STDERR_FILENO);
    }
    execvpe(j->words[0], j->words, p->env);
    return run_failed("cannot start %s: %s", j->words[0], strerror(errno));
}
