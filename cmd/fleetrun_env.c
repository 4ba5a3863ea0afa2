/* fleetrun_env.c - the program that is started, and what each process of it
 * finds in its environment. */
#include "fleetrun.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the program ---------------------------------------------------------- */

static bool is_file(const char *path)
{
    struct stat s;

    return !stat(path, &s) && S_ISREG(s.st_mode);
}

char *path_folders(room *r)
{
    const char *path = getenv("PATH");

    return room_text(r, "%s", path ? path : "/usr/bin:/bin");
}

char *path_next(room *r, char **folders, const char *name)
{
    char *folder;

    while ((folder = strsep(folders, ":"))) {
        char *at = room_text(r, "%s/%s", *folder ? folder : ".", name);

        if (is_file(at) && !access(at, X_OK))
            return at;
    }
    return NULL;
}

static char *find_in_path(room *r, const char *name)
{
    char *folders = path_folders(r);

    return path_next(r, &folders, name);
}

static int no_such_program(const char *name)
{
    if (!strchr(name, '/') && is_file(name))
        return run_failed("%s is in no folder of PATH; did you mean ./%s?",
                          name, name);
    if (!strchr(name, '/'))
        return run_failed("%s is in no folder of PATH; check its name", name);
    return run_failed("cannot start %s: %s; check the path", name,
                      strerror(ENOENT));
}

static int find_other(job *j)
{
    const char *name = j->o->program[0];
    char *path = strchr(name, '/') ? room_text(j->room, "%s", name)
                                   : find_in_path(j->room, name);

    if (!path || !is_file(path))
        return no_such_program(name);
    if (access(path, X_OK))
        return run_failed("cannot start %s: %s; try chmod +x, or put the "
                          "program that runs it in front",
                          name, strerror(errno));
    j->words[0] = path;
    return RUN_OK;
}

/* A script of Python is run by the interpreter, with its output unbuffered. */
static int find_program(job *j)
{
    char **given = j->o->program;
    size_t n = 1; /* there is a program, or it is no job */
    size_t n_before = options_are_script(j->o) ? 2 : 0;

    while (given[n])
        n++;
    j->words = room_take(j->room, (n + 3) * sizeof(*j->words));
    memcpy(j->words + n_before, given, n * sizeof(*given));
    if (!n_before)
        return find_other(j);
    if (!is_file(given[0]))
        return no_such_program(given[0]);
    j->words[1] = room_text(j->room, "-u");
    return python_choose(j);
}

/* --- the environment ------------------------------------------------------ */

/* Gone from what processes inherit: what is set anew, what would contradict it,
   and proxies, which have no place between members of a job. */
static const char *const dropped[] = {
    "TRAINING_ROLE",
    "PADDLE_PSERVERS_IP_PORT_LIST",
    "PADDLE_TRAINERS_NUM",
    "PADDLE_TRAINER_ID",
    "PADDLE_TRAINER_ENDPOINTS",
    "PADDLE_PSERVER_ID",
    "PADDLE_PORT",
    "POD_IP",
    "PADDLE_TRAINING_ROLE",
    "PADDLE_CURRENT_ENDPOINT",
    "PADDLE_RANK_IN_NODE",
    "PADDLE_LOCAL_DEVICE_IDS",
    "PADDLE_WORLD_DEVICE_IDS",
    "FLOTILLA_JOB",
    "FLOTILLA_END_NOTE",
    "http_proxy",
    "https_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
};
#define N_SET_MAX 16

static bool is_dropped(const char *line)
{
    size_t len = strcspn(line, "=");

    for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
        if (strlen(dropped[i]) == len && !strncmp(dropped[i], line, len))
            return true;
    return false;
}

/* How other machines reach this task when nobody has said it. */
static const char *own_host(const proc *p, char *room_for_it, size_t cap)
{
    if (p->at.host)
        return p->at.host;
    if (gethostname(room_for_it, cap))
        return "127.0.0.1";
    room_for_it[cap - 1] = '\0';
    return room_for_it;
}

/* Its number among the workers of its machine. */
static int rank_in_node(const job *j, const proc *p)
{
    int n = 0;

    for (int i = 0; i < p->index; i++)
        n += !strcmp(plan_proc(j, RUN_WORKER, i)->at.host, p->at.host);
    return n;
}

/* Who the others are: servers, or in a collective job the workers themselves. */
static size_t add_peers(const job *j, const proc *p, char **env)
{
    room *r = j->room;

    if (j->n_servers) {
        env[0] =
            room_text(r, "PADDLE_PSERVERS_IP_PORT_LIST=%s", j->server_list);
        return 1;
    }
    env[0] =
        room_text(r, "PADDLE_CURRENT_ENDPOINT=%s:%d", p->at.host, p->at.port);
    env[1] = room_text(r, "PADDLE_RANK_IN_NODE=%d", rank_in_node(j, p));
    return 2;
}

static char **make_env(const job *j, const proc *p)
{
    room *r = j->room;
    bool serves = p->role == RUN_SERVER;
    char host[256];
    size_t n = 0;
    char **env;

    while (environ[n])
        n++;
    env = room_take(r, (n + N_SET_MAX + 1) * sizeof(*env));
    n = 0;
    for (char **e = environ; *e; e++)
        if (!is_dropped(*e))
            env[n++] = *e;
    env[n++] = room_text(r, "TRAINING_ROLE=%s", serves ? "PSERVER" : "TRAINER");
    n += add_peers(j, p, env + n);
    env[n++] = room_text(r, "PADDLE_TRAINERS_NUM=%d", j->n_workers);
    if (j->worker_list)
        env[n++] = room_text(r, "PADDLE_TRAINER_ENDPOINTS=%s", j->worker_list);
    env[n++] = room_text(r, "POD_IP=%s", own_host(p, host, sizeof(host)));
    env[n++] = room_text(r, "PADDLE_PORT=%d", p->at.port);
    env[n++] =
        room_text(r, "%s=%d",
                  serves ? "PADDLE_PSERVER_ID" : "PADDLE_TRAINER_ID", p->index);
    env[n++] = room_text(r, "FLOTILLA_JOB=%s", j->name);
    env[n++] = room_text(r, "FLOTILLA_END_NOTE=%s", p->note_path);
    if (j->key_path)
        env[n] = room_text(r, "FLOTILLA_JOIN_TOKEN_FILE=%s", j->key_path);
    return env;
}

static void set_one(char **env, const char *name, char *line)
{
    size_t len = strlen(name);

    while (*env && (strncmp(*env, name, len) || (*env)[len] != '='))
        env++;
    *env = line;
}

void env_set(job *j, const char *name, const char *value)
{
    char *line = room_text(j->room, "%s=%s", name, value);

    for (int i = 0; i < j->n_servers + j->n_workers; i++)
        if (j->procs[i].env)
            set_one(j->procs[i].env, name, line);
}

/* Where the program finds it even from another folder. */
static char *note_path(const job *j, const proc *p)
{
    char folder[PATH_MAX];
    bool is_full = p->log_path[0] == '/' || !getcwd(folder, sizeof(folder));

    return room_text(j->room, "%s%s%s.end", is_full ? "" : folder,
                     is_full ? "" : "/", p->log_path);
}

int env_fill(job *j)
{
    int code = find_program(j);

    if (code)
        return code;
    for (int i = 0; i < j->n_servers + j->n_workers; i++) {
        proc *p = &j->procs[i];

        p->log_path = room_text(
            j->room, "%s/%s.%d", j->o->log_dir,
            p->role == RUN_SERVER ? "serverlog" : "workerlog", p->index);
        p->note_path = note_path(j, p);
        if (p->is_here)
            p->env = make_env(j, p);
    }
    if (options_are_script(j->o))
        python_names(j);
    return RUN_OK;
}
