/* dist_procs.c - the members of a job as processes. */
#include "dist_procs.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

#define HANGS_S 90
#define FAILED 3
#define LOOK_MS 200

/* --- members -------------------------------------------------------------- */

static int n_servers(const procs *p)
{
    return p->kit.n_servers ? p->kit.n_servers : 1;
}

int procs_count(const procs *p)
{
    return n_servers(p) + (p->kit.n_trainers ? p->kit.n_trainers : 1);
}

int procs_trainer(const procs *p, int rank)
{
    return n_servers(p) + rank;
}

void *procs_share(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(at != MAP_FAILED);
    return at;
}

void procs_set(procs *p, const char *name, const char *value)
{
    for (int i = 0; i < KIT_SETTINGS; i++) {
        kit_setting *s = &p->kit.settings[i];

        if (!s->name || !strcmp(s->name, name)) {
            *s = (kit_setting){ name, value };
            return;
        }
    }
    fail_msg("no room for the setting %s", name);
}

static void hear_nothing(void *arg, fl_log_level level, const char *area,
                         const char *text)
{
    (void)arg;
    (void)level;
    (void)area;
    (void)text;
}

static _Noreturn void be_member(const procs *p, int member)
{
    kit_role role = member < n_servers(p) ? KIT_SERVER : KIT_TRAINER;
    int rank = role == KIT_SERVER ? member : member - n_servers(p);
    char *text = p->texts[member];

    alarm(HANGS_S);
    if (!getenv("FL_TEST_LOUD"))
        fl_log_set(hear_nothing, NULL, FL_LOG_WARN);
    if (p->first)
        p->first(p, member);
    kit_member(&p->kit, p->addresses, role, rank, p->work, p->arg, text);
    exit(text[0] ? FAILED : 0);
}

static void start_member(procs *p, int member)
{
    pid_t parent = getpid();

    fflush(NULL);
    p->pids[member] = fork();
    assert_true(p->pids[member] >= 0);
    if (p->pids[member])
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(FAILED);
    be_member(p, member);
}

void procs_start(procs *p)
{
    if (!p->texts)
        p->texts = procs_share(KIT_MEMBERS * sizeof(kit_text));
    memset(p->texts, 0, KIT_MEMBERS * sizeof(kit_text));
    kit_addresses(p->addresses, sizeof(p->addresses), n_servers(p));
    for (int i = 0; i < procs_count(p); i++)
        start_member(p, i);
}

int procs_wait(procs *p, int member)
{
    int status = 0;

    assert_int_equal(waitpid(p->pids[member], &status, 0), p->pids[member]);
    p->pids[member] = 0;
    return status;
}

void procs_kill(procs *p, int member)
{
    assert_int_equal(kill(p->pids[member], SIGKILL), 0);
    (void)procs_wait(p, member);
}

void procs_end(procs *p)
{
    for (int i = 0; i < procs_count(p); i++)
        if (p->pids[i] && procs_wait(p, i))
            fail_msg("member %d: %s", i, p->texts[i]);
}

void procs_begin_with(procs p, const char *dir)
{
    p.work = kit_do_nothing;
    p.kit.model = dir;
    procs_start(&p);
    procs_end(&p);
}

/* --- storage that members do not share ------------------------------------ */

bool procs_hide(const char *path)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return false;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", path, "tmpfs", 0, NULL) == 0;
}

bool procs_can_hide(const char *path)
{
    int status;
    pid_t pid = fork();

    if (!pid)
        _exit(procs_hide(path) ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status == 0;
}

/* --- the versions of a model ---------------------------------------------- */

watch watch_begin(const char *dir)
{
    watch w = { dir, inotify_init1(IN_CLOEXEC) };

    assert_true(w.fd >= 0);
    assert_true(mkdir(dir, 0755) == 0 || errno == EEXIST);
    assert_true(inotify_add_watch(w.fd, dir, IN_MOVED_TO) >= 0);
    return w;
}

void watch_end(watch *w)
{
    close(w->fd);
}

unsigned long watch_current(const watch *w)
{
    char path[256], id[64] = "";
    FILE *f;

    snprintf(path, sizeof(path), "%s/CURRENT", w->dir);
    f = fopen(path, "r");
    if (!f)
        return 0;
    if (!fgets(id, sizeof(id), f))
        id[0] = '\0';
    fclose(f);
    return strtoul(id, NULL, 10);
}

static void expect_running(const procs *p)
{
    for (int i = 0; i < procs_count(p); i++) {
        siginfo_t end = { 0 };

        if (p->pids[i])
            assert_int_equal(waitid(P_PID, (id_t)p->pids[i], &end,
                                    WEXITED | WNOHANG | WNOWAIT),
                             0);
        if (end.si_pid)
            fail_msg("member %d has ended (%d): %s", i, end.si_status,
                     p->texts[i]);
    }
}

void watch_wait(const watch *w, const procs *p, unsigned long number)
{
    _Alignas(struct inotify_event) char news[4096];
    struct pollfd any = { .fd = w->fd, .events = POLLIN };

    while (watch_current(w) < number) {
        int n = poll(&any, 1, LOOK_MS);

        assert_true(n >= 0);
        if (n)
            assert_true(read(w->fd, news, sizeof(news)) > 0);
        else
            expect_running(p);
    }
}
