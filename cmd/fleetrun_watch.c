/* fleetrun_watch.c - from the first process to the last.
 *
 *     RUN ---- all workers ended well ----> LEAVE ---- too slow ----+
 *      |                                      |                      |
 *      +--- a failure, or a signal ---+       |                      |
 *                                     v       v                      v
 *               (LAST_WORDS ->) END_WORKERS ------------------> END_SERVERS
 *
 * Workers without servers lose each other, and get the time to say so.
 *
 * A job that can go on from a saved model (--resume) is started again as a whole
 * after a failure: RUN -> AGAIN, where everything is killed, -> RUN.
 *
 * The ends of processes come as signals through a file, so that one poll waits
 * for everything. A process that has ended is looked at before it is taken away
 * (WNOWAIT): until then its number, which is that of its group, cannot be
 * anybody else's, and what it has left in the group can be killed.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fleetrun_watch.h"

#define TICK_MS 100
/* From SIGTERM to SIGKILL, and for servers to end after the last worker. */
#define GRACE_MS 5000
/* For workers of a job without servers: who has lost one of them ends by itself,
   and says whom. */
#define LAST_WORDS_MS 3000

typedef enum stage {
    RUN,
    LEAVE,
    AGAIN,
    LAST_WORDS,
    END_WORKERS,
    END_SERVERS
} stage;

typedef struct watcher {
    job *j;
    stage stage;
    uint64_t until_ms; /* the end of the stage, except RUN */
    bool is_killed;    /* SIGKILL was sent in this stage */
    int code;          /* of the launcher */
    int n_restarts;    /* of the whole job */
    int n_signals;     /* from outside */
    int signals;       /* where they come from */
    keeper keeper;
    screen screen;
    asker asker;
    tail tail;          /* the log of worker 0 */
    struct pollfd *fds; /* room for all files that are waited for */
} watcher;

uint64_t clock_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- words ---------------------------------------------------------------- */

static const char *signal_name(int signal)
{
    static const struct {
        int signal;
        const char *name;
    } all[] = {
        { SIGABRT, "SIGABRT" }, { SIGBUS, "SIGBUS" },   { SIGFPE, "SIGFPE" },
        { SIGHUP, "SIGHUP" },   { SIGILL, "SIGILL" },   { SIGINT, "SIGINT" },
        { SIGKILL, "SIGKILL" }, { SIGPIPE, "SIGPIPE" }, { SIGQUIT, "SIGQUIT" },
        { SIGSEGV, "SIGSEGV" }, { SIGSYS, "SIGSYS" },   { SIGTERM, "SIGTERM" },
        { SIGTRAP, "SIGTRAP" }, { SIGXCPU, "SIGXCPU" },
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].signal == signal)
            return all[i].name;
    return "a signal";
}

void end_text(int status, char *out, size_t cap)
{
    if (WIFEXITED(status))
        (void)snprintf(out, cap, "ended with exit status %d",
                       WEXITSTATUS(status));
    else
        (void)snprintf(
            out, cap, "was ended by %s (%s%s)", signal_name(WTERMSIG(status)),
            strsignal(WTERMSIG(status)),
            WTERMSIG(status) == SIGKILL ? "; was there too little memory?"
                                        : "");
}

static int code_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* --- those that run ------------------------------------------------------- */

static int n_procs(const job *j)
{
    return j->n_servers + j->n_workers;
}

static int n_running(const job *j, run_role role)
{
    int n = 0;

    for (int i = 0; i < n_procs(j); i++)
        n += j->procs[i].role == role && j->procs[i].pid > 0;
    return n;
}

static bool has_workers_elsewhere(const job *j)
{
    for (int i = j->n_servers; i < n_procs(j); i++)
        if (!j->procs[i].is_here)
            return true;
    return false;
}

static bool has_workers_here(const job *j)
{
    for (int i = j->n_servers; i < n_procs(j); i++)
        if (j->procs[i].is_here)
            return true;
    return false;
}

static void send(const job *j, run_role role, int signal)
{
    for (int i = 0; i < n_procs(j); i++)
        if (j->procs[i].role == role && j->procs[i].pid > 0)
            (void)kill(-j->procs[i].pid, signal);
}

/* --- stages --------------------------------------------------------------- */

/* One that is stopped would not notice. */
static void end_role(const watcher *w, run_role role, int signal)
{
    send(w->j, role, signal);
    send(w->j, role, SIGCONT);
}

static void enter(watcher *w, stage s)
{
    w->stage = s;
    w->until_ms = clock_ms() + (s == LAST_WORDS ? LAST_WORDS_MS : GRACE_MS);
    w->is_killed = false;
    if (s == END_WORKERS || s == AGAIN)
        end_role(w, RUN_WORKER, s == AGAIN ? SIGKILL : SIGTERM);
    if (s == END_SERVERS || s == AGAIN)
        end_role(w, RUN_SERVER, s == AGAIN ? SIGKILL : SIGTERM);
}

static void warn_of_servers(watcher *w)
{
    for (int i = 0; i < w->j->n_servers; i++)
        if (w->j->procs[i].pid > 0)
            screen_say(&w->screen,
                       "%s still runs %d s after the last worker has ended; "
                       "it is ended now",
                       w->j->procs[i].name, GRACE_MS / 1000);
}

static void kill_slow(watcher *w, run_role role)
{
    if (w->is_killed)
        return;
    w->is_killed = true;
    for (int i = 0; i < n_procs(w->j); i++)
        if (w->j->procs[i].role == role && w->j->procs[i].pid > 0)
            screen_say(&w->screen,
                       "%s does not end within %d s of SIGTERM; it "
                       "gets SIGKILL",
                       w->j->procs[i].name, GRACE_MS / 1000);
    send(w->j, role, SIGKILL);
}

/* --- all of them ----------------------------------------------------------- */

static int start_all(watcher *w, bool is_again)
{
    job *j = w->j;

    for (int i = 0; i < n_procs(j); i++) {
        proc *p = &j->procs[i];

        if (!p->is_here)
            continue;
        if (spawn(j, p, is_again))
            return RUN_FAILED;
        keeper_add(&w->keeper, p->pid);
        if (!is_again && p->role == RUN_WORKER && p->index == 0)
            tail_open(&w->tail, p->log_path);
    }
    return RUN_OK;
}

static void show_status(watcher *w)
{
    asker_end(&w->asker);
    if (w->screen.shows)
        asker_start(&w->asker, w->j);
}

/* Nothing of it runs any more. */
static void start_job_again(watcher *w)
{
    const char *from;

    if (resume_find(w->j, &from)) {
        w->code = RUN_FAILED;
        enter(w, END_SERVERS);
        return;
    }
    w->n_restarts++;
    screen_say(&w->screen, "the job is started again (%d of %d), from %s",
               w->n_restarts, w->j->o->max_restart,
               from ? from : "the beginning: nothing was saved yet");
    w->stage = RUN;
    if (start_all(w, true)) {
        w->code = RUN_FAILED;
        enter(w, END_WORKERS);
        return;
    }
    show_status(w);
}

static void advance(watcher *w)
{
    bool is_late = clock_ms() >= w->until_ms;

    switch (w->stage) {
    case AGAIN:
        if (!n_running(w->j, RUN_SERVER) && !n_running(w->j, RUN_WORKER))
            start_job_again(w);
        break;
    case RUN:
        /* Workers on other machines may still need these servers. */
        if (!n_running(w->j, RUN_WORKER) && has_workers_here(w->j) &&
            !has_workers_elsewhere(w->j))
            enter(w, LEAVE);
        break;
    case LEAVE:
        if (is_late) {
            warn_of_servers(w);
            enter(w, END_SERVERS);
        }
        break;
    case LAST_WORDS:
        if (is_late)
            enter(w, END_WORKERS);
        break;
    case END_WORKERS:
        if (!n_running(w->j, RUN_WORKER))
            enter(w, END_SERVERS);
        else if (is_late)
            kill_slow(w, RUN_WORKER);
        break;
    case END_SERVERS:
        if (is_late)
            kill_slow(w, RUN_SERVER);
        break;
    }
}

/* --- what processes write ------------------------------------------------- */

/* Small enough for a terminal that is ready, and for a pipe. */
#define SHOWN_BYTES 4096
#define TAKEN_BYTES (64 << 10)
/* A process that has ended has left no more than its pipe holds, unless
   somebody else goes on to write. */
#define TAKES_AT_END 64

static bool show_some(watcher *w)
{
    char bytes[SHOWN_BYTES];
    size_t n = tail_read(&w->tail, bytes, sizeof(bytes));

    screen_pass(&w->screen, bytes, n);
    return n > 0;
}

/* While processes write nobody waits for the terminal: the log has it all. */
static void show_output(watcher *w)
{
    while (screen_is_ready() && show_some(w))
        ;
}

static void show_all_output(watcher *w)
{
    while (show_some(w))
        ;
}

static void tell_cut(watcher *w, proc *p, int why)
{
    if (p->is_log_cut)
        return;
    p->is_log_cut = true;
    screen_say(&w->screen,
               "cannot write %s: %s; some of what %s writes is missing there",
               p->log_path, strerror(why), p->name);
}

/* What the log does not have the terminal gets at once. */
static bool take_output(watcher *w, proc *p)
{
    char bytes[TAKEN_BYTES];
    size_t n = log_take(p, bytes, sizeof(bytes)), kept = log_add(p, bytes, n);
    bool is_shown = p->role == RUN_WORKER && p->index == 0;

    if (kept < n)
        tell_cut(w, p, errno);
    if (is_shown && w->tail.fd < 0)
        kept = 0;
    if (is_shown && kept < n) {
        show_all_output(w);
        screen_pass(&w->screen, bytes + kept, n - kept);
    }
    return n > 0;
}

/* One that has closed its output may run on. */
static void look_at_output(watcher *w, proc *p, short events)
{
    if (events & POLLIN) {
        (void)take_output(w, p);
    } else if (events & POLLHUP) {
        close(p->out);
        p->out = -1;
    }
}

static void take_last_output(watcher *w, proc *p)
{
    for (int i = 0; i < TAKES_AT_END && take_output(w, p); i++)
        ;
    log_close(p);
}

/* --- a process has ended -------------------------------------------------- */

static void tell_failure(watcher *w, const proc *p)
{
    char how[128];

    show_all_output(w);
    end_text(p->status, how, sizeof(how));
    screen_say(&w->screen, "%s %s after %.1f s; the end of %s:", p->name, how,
               1e-3 * (double)(clock_ms() - p->began_ms), p->log_path);
    log_print_end(stderr, p->log_path, "    ");
}

/* "2 servers and 1 worker"; a job without servers has none to tell of. */
static const char *count_text(const job *j, int servers, int workers, char *out,
                              size_t cap)
{
    int n = 0;

    if (j->n_servers)
        n = snprintf(out, cap, "%d server%s and ", servers,
                     servers == 1 ? "" : "s");
    (void)snprintf(out + n, cap - (size_t)n, "%d worker%s", workers,
                   workers == 1 ? "" : "s");
    return out;
}

static void tell_others(watcher *w, const proc *p)
{
    int servers = n_running(w->j, RUN_SERVER);
    int workers = n_running(w->j, RUN_WORKER);
    char text[64];

    if (p->role == RUN_SERVER && w->j->o->max_restart && !w->j->o->resume)
        screen_say(&w->screen,
                   "a server is not started again: the rows that it held are "
                   "gone; with --resume the job would go on from a saved "
                   "model");
    if (servers + workers)
        screen_say(&w->screen, "ending the others: %s",
                   count_text(w->j, servers, workers, text, sizeof(text)));
}

/* A process whose end would be the same again has left a note. */
static bool is_for_good(watcher *w, const proc *p)
{
    char why[1024];
    FILE *f = fopen(p->note_path, "re");
    bool is_there = f && fgets(why, sizeof(why), f);

    if (f)
        (void)fclose(f);
    if (is_there)
        screen_say(&w->screen, "%s: %s", p->name, why);
    if (is_there && w->j->o->max_restart)
        screen_say(&w->screen,
                   "%s is not started again: it would end the same way",
                   p->name);
    return is_there;
}

static int start_again(watcher *w, proc *p)
{
    p->n_restarts++;
    screen_say(&w->screen, "%s is started again (%d of %d)", p->name,
               p->n_restarts, w->j->o->max_restart);
    if (spawn(w->j, p, true))
        return RUN_FAILED;
    keeper_add(&w->keeper, p->pid);
    return RUN_OK;
}

/* With a saved model it is the whole job that is started again: another worker
   alone would not be where the others are. */
static bool can_go_on(watcher *w, proc *p)
{
    if (w->stage != RUN || is_for_good(w, p))
        return false;
    if (w->j->o->resume) {
        if (w->n_restarts == w->j->o->max_restart)
            return false;
        enter(w, AGAIN);
        return true;
    }
    return p->role == RUN_WORKER && p->n_restarts < w->j->o->max_restart &&
           !start_again(w, p);
}

static void on_end(watcher *w, proc *p)
{
    bool is_well = WIFEXITED(p->status) && !WEXITSTATUS(p->status);

    if (is_well || w->stage > LEAVE)
        return;
    tell_failure(w, p);
    if (can_go_on(w, p))
        return;
    w->code = code_of(p->status);
    tell_others(w, p);
    enter(w, w->j->n_servers ? END_WORKERS : LAST_WORDS);
}

/* Takes it away, with what is left of its group. */
static bool has_ended(watcher *w, proc *p)
{
    siginfo_t is = { 0 };
    pid_t pid = p->pid;

    if (pid <= 0 ||
        waitid(P_PID, (id_t)pid, &is, WEXITED | WNOHANG | WNOWAIT) ||
        !is.si_pid)
        return false;
    (void)kill(-pid, SIGKILL);
    while (waitpid(pid, &p->status, 0) < 0 && errno == EINTR)
        ;
    keeper_drop(&w->keeper, pid);
    p->pid = 0;
    return true;
}

static void reap(watcher *w, proc *p)
{
    if (!has_ended(w, p))
        return;
    take_last_output(w, p);
    on_end(w, p);
}

static void reap_all(watcher *w)
{
    for (int i = 0; i < n_procs(w->j); i++)
        reap(w, &w->j->procs[i]);
}

/* A signal is of the first that has ended since the last one was read; those
   that ended because of it come later. */
static void reap_first(watcher *w, pid_t pid)
{
    for (int i = 0; i < n_procs(w->j); i++)
        if (w->j->procs[i].pid == pid)
            reap(w, &w->j->procs[i]);
}

/* --- signals -------------------------------------------------------------- */

static void on_signal(watcher *w, int signal)
{
    if (w->n_signals++) {
        screen_say(&w->screen, "%s again: everything gets SIGKILL",
                   signal_name(signal));
        send(w->j, RUN_WORKER, SIGKILL);
        send(w->j, RUN_SERVER, SIGKILL);
        return;
    }
    screen_say(
        &w->screen, "%s: ending the workers%s; once more ends all at once",
        signal_name(signal), w->j->n_servers ? ", then the servers" : "");
    w->code = 128 + signal;
    if (w->stage < END_WORKERS)
        enter(w, END_WORKERS);
}

static void read_signals(watcher *w)
{
    struct signalfd_siginfo s;

    while (read(w->signals, &s, sizeof(s)) == (ssize_t)sizeof(s))
        if (s.ssi_signo == SIGCHLD)
            reap_first(w, (pid_t)s.ssi_pid);
        else
            on_signal(w, (int)s.ssi_signo);
    reap_all(w);
}

/* Those that the caller wants to be ignored, as nohup does, stay so. */
static int open_signals(watcher *w)
{
    static const int all[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct sigaction was;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (!sigaction(all[i], NULL, &was) && was.sa_handler != SIG_IGN)
            sigaddset(&set, all[i]);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    w->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (w->signals < 0)
        return run_failed("cannot watch signals: %s", strerror(errno));
    return RUN_OK;
}

/* --- from the first to the last ------------------------------------------- */

static void wait_and_look(watcher *w)
{
    int n = n_procs(w->j);
    char line[256];

    for (int i = 0; i < n; i++) {
        const proc *p = &w->j->procs[i];

        w->fds[i] =
            (struct pollfd){ .fd = p->pid > 0 ? p->out : -1, .events = POLLIN };
    }
    w->fds[n] = (struct pollfd){ .fd = w->signals, .events = POLLIN };
    w->fds[n + 1] = (struct pollfd){ .fd = w->asker.fd, .events = POLLIN };
    (void)poll(w->fds, (nfds_t)n + 2, TICK_MS);
    for (int i = 0; i < n; i++)
        look_at_output(w, &w->j->procs[i], w->fds[i].revents);
    show_output(w);
    read_signals(w);
    advance(w);
    if (asker_read(&w->asker, line, sizeof(line)))
        screen_set_status(&w->screen, line);
    screen_tick(&w->screen);
}

static void run_job(watcher *w)
{
    job *j = w->j;
    char text[64];

    if (start_all(w, false)) {
        w->code = RUN_FAILED;
        enter(w, END_WORKERS);
    } else {
        run_say("%s; logs in %s",
                count_text(j, j->n_servers, j->n_workers, text, sizeof(text)),
                j->o->log_dir);
        show_status(w);
    }
    while (n_running(j, RUN_SERVER) + n_running(j, RUN_WORKER))
        wait_and_look(w);
    show_all_output(w);
    screen_clear(&w->screen);
}

int watch(job *j)
{
    watcher w = { .j = j, .asker.fd = -1, .tail.fd = -1 };
    int code = spawn_prepare(j);

    if (!code)
        code = keeper_start(&w.keeper);
    if (code)
        return code;
    w.fds = room_take(j->room, ((size_t)n_procs(j) + 2) * sizeof(*w.fds));
    screen_open(&w.screen, j->o->status);
    code = open_signals(&w);
    if (!code) {
        run_job(&w);
        code = w.code;
        asker_end(&w.asker);
        tail_close(&w.tail);
        close(w.signals);
    }
    keeper_end(&w.keeper);
    return code;
}
