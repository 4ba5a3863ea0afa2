/* script.c - one case of cases.txt, played with real processes.
 *
 * cases.txt begins with a description of the verbs. A case runs in a process of
 * its own, so that its settings are simply its environment.
 */
#include "script.h"

#include <ctype.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "procs.h"
#include "strangers.h"
#include "../ports.h"

#define SERVERS_MAX 4
#define PROCS_MAX 16
#define STRANGERS_MAX 4
#define WORDS_MAX 16
#define TEXT_ROOM 512

/* A fault must be told within this; other waits end as well. */
#define SAYS_MS 10000
#define WAIT_MS 30000

typedef struct scene {
    const script *s;
    int line;
    int n_servers, n_trainers;
    bool shares; /* the other job has the same addresses */
    int ports[2 * SERVERS_MAX];
    char run[TEXT_ROOM]; /* options of trainers */
    proc procs[PROCS_MAX];
    size_t n_procs;
    pid_t strangers[STRANGERS_MAX];
    size_t n_strangers;
    uint64_t fault_ms;
} scene;

/* --- names ---------------------------------------------------------------- */

static bool is_other_job(const char *name)
{
    return isupper((unsigned char)*name);
}

static bool is_server(const char *name)
{
    return tolower((unsigned char)*name) == 's';
}

static int port_of(const scene *c, const char *name)
{
    bool is_other = is_other_job(name) && !c->shares;

    return c
        ->ports[(name[1] - '0') % SERVERS_MAX + (is_other ? SERVERS_MAX : 0)];
}

static proc *find_proc(scene *c, const char *name)
{
    for (size_t i = 0; i < c->n_procs; i++)
        if (!strcmp(c->procs[i].name, name))
            return &c->procs[i];
    return NULL;
}

static bool fail(const scene *c, const char *what, const char *text)
{
    printf("  line %d: %s: %s\n", c->line, what, text);
    return false;
}

/* The address of a server, or the process id of a trainer. */
static size_t expand_name(scene *c, const char name[3], char *out, size_t room)
{
    const proc *p = find_proc(c, name);

    if (is_server(name))
        return (size_t)snprintf(out, room, "127.0.0.1:%d", port_of(c, name));
    return (size_t)snprintf(out, room, "%d", p ? (int)p->pid : 0);
}

/* Writes what stands for @s0 and @t0. */
static void expand(scene *c, const char *text, char out[TEXT_ROOM])
{
    size_t n = 0;

    while (*text && n + 32 < TEXT_ROOM) {
        if (text[0] == '@' && isalpha((unsigned char)text[1]) &&
            isdigit((unsigned char)text[2])) {
            n += expand_name(c, (char[3]){ text[1], text[2] }, out + n, 32);
            text += 3;
        } else {
            out[n++] = *text++;
        }
    }
    out[n] = '\0';
}

/* --- waiting -------------------------------------------------------------- */

static void wait_ms(scene *c, uint64_t ms)
{
    uint64_t now, end = now_ms() + ms;

    while ((now = now_ms()) < end)
        procs_pump(c->procs, c->n_procs, (int)(end - now));
}

/* False when the line has not come by then. */
static bool wait_for(scene *c, const proc *p, bool after_fault,
                     const char *pattern, uint64_t end, const char **line,
                     size_t *len)
{
    for (;;) {
        *line = proc_find(p, after_fault ? p->mark : 0, pattern, len);
        if (*line)
            return true;
        if (now_ms() >= end || (!p->is_running && p->fd < 0))
            return false;
        procs_pump(c->procs, c->n_procs, 20);
    }
}

static bool do_wait(scene *c, proc *p, const char *text)
{
    char pattern[TEXT_ROOM];
    const char *line;
    size_t len;

    expand(c, text, pattern);
    if (wait_for(c, p, false, pattern, now_ms() + WAIT_MS, &line, &len))
        return true;
    return fail(c, "it did not print this", pattern);
}

static bool do_says(scene *c, proc *p, const char *text)
{
    char pattern[TEXT_ROOM];
    const char *line;
    size_t len;

    expand(c, text, pattern);
    if (!wait_for(c, p, true, pattern, c->fault_ms + SAYS_MS, &line, &len))
        return fail(c, "it did not say this in time", pattern);
    printf("  %s, %.1f s: %.*s\n", p->name,
           (double)(now_ms() - c->fault_ms) / 1e3, (int)len, line);
    return true;
}

static bool do_ends(scene *c, proc *p, const char *text)
{
    uint64_t end = now_ms() + WAIT_MS;
    bool is_right;

    while (p->is_running && now_ms() < end)
        procs_pump(c->procs, c->n_procs, 20);
    if (p->is_running)
        return fail(c, p->name, "it did not end");
    if (!strcmp(text, "killed"))
        is_right = WIFSIGNALED(p->status) && WTERMSIG(p->status) == SIGKILL;
    else
        is_right = WIFEXITED(p->status) &&
                   WEXITSTATUS(p->status) == (int)strtol(text, NULL, 10);
    if (is_right)
        return true;
    printf("  line %d: %s ended with %s %d, not %s\n", c->line, p->name,
           WIFEXITED(p->status) ? "exit code" : "signal",
           WIFEXITED(p->status) ? WEXITSTATUS(p->status) : WTERMSIG(p->status),
           text);
    return false;
}

/* "NUMBER TEXT": the line is there that often, neither more nor less. */
static bool do_times(scene *c, proc *p, const char *text)
{
    char pattern[TEXT_ROOM], *rest;
    size_t n = strtoul(text, &rest, 10), found;

    expand(c, rest + (*rest == ' '), pattern);
    found = proc_count(p, pattern);
    if (found == n)
        return true;
    printf("  line %d: %s said this %zu times, not %zu: %s\n", c->line, p->name,
           found, n, pattern);
    return false;
}

/* The first case gives the result that all others are compared with. */
static bool do_same(scene *c, proc *p, const char *text)
{
    const char *line;
    size_t len;

    if (!do_wait(c, p, text))
        return false;
    line = proc_find(p, 0, text, &len);
    line += strcspn(line, "=");
    len = strcspn(line, "\n");
    if (!*c->s->result)
        (void)snprintf(c->s->result, RESULT_ROOM, "%.*s", (int)len, line);
    if (strlen(c->s->result) == len && !memcmp(c->s->result, line, len))
        return true;
    return fail(c, p->name, "the result is not the undisturbed one");
}

/* --- processes ------------------------------------------------------------ */

static void list_servers(const scene *c, const char *name, char *out)
{
    size_t n = 0;

    for (int i = 0; i < c->n_servers; i++) {
        char server[3] = { is_other_job(name) ? 'S' : 's', (char)('0' + i) };

        n += (size_t)snprintf(out + n, TEXT_ROOM - n, "%s127.0.0.1:%d",
                              n ? "," : "", port_of(c, server));
    }
}

static void set_job(const scene *c, bool is_other)
{
    char job[64];

    (void)snprintf(job, sizeof(job), "%s-%d", is_other ? "other" : "faults",
                   c->s->number);
    setenv("FLOTILLA_JOB", job, 1);
}

static void start_server(const scene *c, proc *p)
{
    char servers[TEXT_ROOM], trainers[16];
    char *argv[] = { (char *)c->s->flotilla,
                     "server",
                     "--servers",
                     servers,
                     "--rank",
                     p->name + 1,
                     "--trainers",
                     trainers,
                     NULL };

    list_servers(c, p->name, servers);
    (void)snprintf(trainers, sizeof(trainers), "%d", c->n_trainers);
    proc_start(p, argv);
}

static void start_trainer(const scene *c, proc *p)
{
    char servers[TEXT_ROOM], options[TEXT_ROOM], trainers[16];
    char *argv[WORDS_MAX + 1] = { (char *)c->s->trainer, servers, p->name + 1,
                                  trainers };
    char *word, *rest = options;

    list_servers(c, p->name, servers);
    (void)snprintf(trainers, sizeof(trainers), "%d", c->n_trainers);
    memcpy(options, c->run, sizeof(options));
    for (int n = 4; n < WORDS_MAX && (word = strsep(&rest, " "));)
        if (*word)
            argv[n++] = word;
    proc_start(p, argv);
}

static bool do_start(scene *c, char *names)
{
    char *name;

    while ((name = strsep(&names, " "))) {
        proc *p = find_proc(c, name);

        if (strlen(name) != 2 || !strchr("sStT", *name) ||
            (!p && c->n_procs == PROCS_MAX))
            return fail(c, "cannot start", name);
        if (!p) {
            p = &c->procs[c->n_procs++];
            *p = (proc){ .fd = -1 };
            (void)snprintf(p->name, sizeof(p->name), "%s", name);
        }
        if (p->is_running)
            return fail(c, "it runs already", name);
        set_job(c, is_other_job(name));
        if (is_server(name))
            start_server(c, p);
        else
            start_trainer(c, p);
    }
    return true;
}

/* From now on the time counts, and only what is said from now on. */
static void mark_fault(scene *c)
{
    procs_pump(c->procs, c->n_procs, 0);
    c->fault_ms = now_ms();
    for (size_t i = 0; i < c->n_procs; i++)
        c->procs[i].mark = c->procs[i].len;
}

static bool do_signal(scene *c, const char *verb, const char *name)
{
    static const struct {
        const char *verb;
        int signal;
    } all[] = { { "kill", SIGKILL },
                { "stop", SIGSTOP },
                { "continue", SIGCONT },
                { "terminate", SIGTERM } };
    const proc *p = find_proc(c, name);

    if (!p || !p->is_running)
        return fail(c, verb, "it does not run");
    mark_fault(c);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (!strcmp(all[i].verb, verb))
            kill(p->pid, all[i].signal);
    return true;
}

/* `flotilla status` and `flotilla shutdown`, which must go well. */
static bool do_tool(scene *c, const char *verb, const char *name)
{
    proc tool = { .fd = -1 };
    char address[TEXT_ROOM];
    char *argv[] = { (char *)c->s->flotilla, (char *)verb, address, NULL };
    uint64_t end = now_ms() + WAIT_MS;
    bool ok;

    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", port_of(c, name));
    set_job(c, is_other_job(name));
    mark_fault(c);
    proc_start(&tool, argv);
    while (tool.is_running && now_ms() < end)
        procs_pump(&tool, 1, 20);
    ok =
        !tool.is_running && WIFEXITED(tool.status) && !WEXITSTATUS(tool.status);
    printf("%s", tool.out ? tool.out : "");
    proc_release(&tool);
    return ok || fail(c, verb, "it failed");
}

/* --- strangers ------------------------------------------------------------ */

static bool do_stranger(scene *c, const char *kind, const char *name)
{
    pid_t pid = 0;

    if (c->n_strangers < STRANGERS_MAX)
        pid = stranger_start(kind, port_of(c, name));
    if (!pid)
        return fail(c, "no such stranger", kind);
    c->strangers[c->n_strangers++] = pid;
    mark_fault(c);
    return true;
}

/* The words are taken from in front. */
static bool do_attack(scene *c, char *words)
{
    const char *kind = strsep(&words, " "), *name = strsep(&words, " ");
    const char *why;

    mark_fault(c);
    if (name && attack(kind, port_of(c, name), words ? words : "", &why))
        return true;
    return fail(c, kind, name ? why : "whom?");
}

/* --- verbs ---------------------------------------------------------------- */

/* NAME=VALUE of a setting; for processes that start from now on. */
static bool do_set(scene *c, char *word)
{
    char *value = strchr(word, '=');
    char name[TEXT_ROOM];

    if (!value)
        return fail(c, "no setting", word);
    *value++ = '\0';
    (void)snprintf(name, sizeof(name), "FLOTILLA_%s", word);
    for (char *at = name; *at; at++)
        *at = (char)toupper((unsigned char)*at);
    setenv(name, value, 1);
    return true;
}

static bool do_number(scene *c, const char *verb, const char *text)
{
    int n = (int)strtol(text, NULL, 10);

    if (!strcmp(verb, "servers") && n >= 1 && n <= SERVERS_MAX)
        c->n_servers = n;
    else if (!strcmp(verb, "trainers") && n >= 1)
        c->n_trainers = n;
    else if (!strcmp(verb, "pause") && n >= 1)
        wait_ms(c, (uint64_t)n);
    else
        return fail(c, verb, "this is out of range");
    return true;
}

/* Verbs with a process behind them, which has been started. */
static bool do_with(scene *c, const char *verb, char *rest)
{
    static const struct {
        const char *verb;
        bool (*run)(scene *c, proc *p, const char *text);
    } all[] = { { "wait", do_wait },
                { "says", do_says },
                { "ends", do_ends },
                { "times", do_times },
                { "same", do_same } };
    const char *name = strsep(&rest, " ");
    proc *p = find_proc(c, name);

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (!strcmp(all[i].verb, verb))
            return p && rest ? all[i].run(c, p, rest)
                             : fail(c, verb, "which process, and what?");
    return fail(c, "there is no such verb", verb);
}

static bool do_line(scene *c, char *line)
{
    char *rest = line;
    const char *verb;

    rest += strspn(rest, " ");
    verb = strsep(&rest, " ");
    if (!strcmp(verb, "share")) {
        c->shares = true;
        return true;
    }
    if (!rest)
        return fail(c, "something is missing behind it", verb);
    if (!strcmp(verb, "servers") || !strcmp(verb, "trainers") ||
        !strcmp(verb, "pause"))
        return do_number(c, verb, rest);
    if (!strcmp(verb, "set"))
        return do_set(c, rest);
    if (!strcmp(verb, "run"))
        return snprintf(c->run, sizeof(c->run), "%s", rest) > 0;
    if (!strcmp(verb, "start"))
        return do_start(c, rest);
    if (!strcmp(verb, "kill") || !strcmp(verb, "stop") ||
        !strcmp(verb, "continue") || !strcmp(verb, "terminate"))
        return do_signal(c, verb, rest);
    if (!strcmp(verb, "status") || !strcmp(verb, "shutdown"))
        return do_tool(c, verb, rest);
    if (!strcmp(verb, "attack"))
        return do_attack(c, rest);
    if (!strcmp(verb, "stranger")) {
        const char *kind = strsep(&rest, " ");

        return rest ? do_stranger(c, kind, rest) : fail(c, verb, "where?");
    }
    return do_with(c, verb, rest);
}

/* --- a case --------------------------------------------------------------- */

static void choose_ports(scene *c)
{
    for (size_t i = 0; i < sizeof(c->ports) / sizeof(c->ports[0]); i++)
        c->ports[i] = free_port();
}

static void raise_files(void)
{
    struct rlimit r;

    if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max < 4096 ? r.rlim_max : 4096;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

/* Processes must have ended by themselves. */
static bool clean_up(scene *c, bool ok)
{
    for (size_t i = 0; i < c->n_procs; i++) {
        proc *p = &c->procs[i];

        if (ok && p->is_running)
            ok = fail(c, p->name, "it still runs at the end");
    }
    for (size_t i = 0; i < c->n_procs; i++) {
        if (!ok)
            printf("--- %s printed:\n%s", c->procs[i].name,
                   c->procs[i].out ? c->procs[i].out : "");
        proc_release(&c->procs[i]);
    }
    for (size_t i = 0; i < c->n_strangers; i++) {
        kill(c->strangers[i], SIGKILL);
        (void)waitpid(c->strangers[i], NULL, 0);
    }
    return ok;
}

bool script_play(const script *s)
{
    scene c = { .s = s, .line = s->line, .n_servers = 1, .n_trainers = 2 };
    char *line, *text = s->text;
    bool ok = true;

    raise_files();
    choose_ports(&c);
    c.fault_ms = now_ms();
    for (; ok && (line = strsep(&text, "\n")); c.line++)
        if (*line && *line != '#')
            ok = do_line(&c, line);
    return clean_up(&c, ok);
}
