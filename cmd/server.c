/* server.c - flotilla server: a parameter server, until its job is over.
 *
 * SIGINT and SIGTERM end the job in order: a thread that waits for them asks
 * server 0 to shut down, as `flotilla shutdown` does, and the server then ends
 * by itself. A second one ends this process at once.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "ps.h"

#define RANK_MAX 1000000

typedef struct server_args {
    const char *self, *servers, *listen, *model;
    uint64_t rank, n_trainers;
    ps_sets sets;
} server_args;

/* --- signals -------------------------------------------------------------- */

typedef struct watcher {
    pthread_t thread;
    sigset_t signals;
    const server_args *args;
    fl_ctx *ctx; /* its own: a context is for one thread */
    atomic_bool is_over;
} watcher;

/* Without those that the caller wants to be ignored, as nohup does. */
static sigset_t signals_to_watch(void)
{
    static const int all[] = { SIGINT, SIGTERM };
    struct sigaction was;
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (!sigaction(all[i], NULL, &was) && was.sa_handler != SIG_IGN)
            sigaddset(&set, all[i]);
    /* Wakes the watcher when the server has ended. */
    sigaddset(&set, SIGUSR1);
    return set;
}

static fl_status shut_down(const watcher *w)
{
    size_t len = strcspn(w->args->servers, ",");
    char *server_0 = strndup(w->args->servers, len);
    fl_status st = server_0 ? fl_job_shutdown(w->ctx, server_0) : FL_ERR_NOMEM;

    free(server_0);
    return st;
}

static void *watch(void *arg)
{
    watcher *w = arg;
    int signal = 0;

    while (sigwait(&w->signals, &signal))
        ;
    if (signal == SIGUSR1 && atomic_load(&w->is_over))
        return NULL;
    /* From now on the next one has its usual effect. */
    sigdelset(&w->signals, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &w->signals, NULL);
    fprintf(stderr,
            "flotilla %s: %s: ending the job; once more ends this "
            "process at once\n",
            w->args->self, strsignal(signal));
    if (shut_down(w) && !atomic_load(&w->is_over)) {
        (void)cmd_failed(w->args->self, "cannot end in order: %s",
                         fl_last_error());
        _Exit(CMD_FAILED);
    }
    return NULL;
}

/* Signals must be blocked before any other thread begins. */
static int start_watcher(watcher *w)
{
    w->signals = signals_to_watch();
    pthread_sigmask(SIG_BLOCK, &w->signals, NULL);
    if (pthread_create(&w->thread, NULL, watch, w))
        return cmd_failed(w->args->self, "cannot start a thread");
    return CMD_OK;
}

static void end_watcher(watcher *w)
{
    atomic_store(&w->is_over, true);
    pthread_kill(w->thread, SIGUSR1);
    pthread_join(w->thread, NULL);
}

/* --- serving -------------------------------------------------------------- */

static int serve(fl_ctx *c, const server_args *a)
{
    if (fl_job_serve(c, .servers = a->servers, .rank = (int)a->rank,
                     .n_trainers = (int)a->n_trainers, .listen = a->listen,
                     .model = a->model))
        return cmd_failed(a->self, "%s", fl_last_error());
    return CMD_OK;
}

static int serve_and_watch(const server_args *a)
{
    watcher w = { .args = a };
    fl_ctx *c = ps_open(a->self, &a->sets);
    int code;

    if (!c)
        return CMD_FAILED;
    w.ctx = ps_open(a->self, &a->sets);
    code = w.ctx ? start_watcher(&w) : CMD_FAILED;
    if (!code) {
        code = serve(c, a);
        end_watcher(&w);
    }
    fl_ctx_free(w.ctx);
    fl_ctx_free(c);
    return code;
}

/* --- arguments ------------------------------------------------------------ */

static int read_args(server_args *a, int argc, char **argv, const char **rest)
{
    const option all[] = {
        { .name = "--servers", .to = &a->servers },
        { .name = "--listen", .to = &a->listen },
        { .name = "--model", .to = &a->model },
        { .name = "--rank", OPTION_COUNT, &a->rank, .hi = RANK_MAX },
        { .name = "--trainers",
          OPTION_COUNT,
          &a->n_trainers,
          .lo = 1,
          .hi = RANK_MAX },
    };
    const options o = { .all = all,
                        .n = sizeof(all) / sizeof(all[0]),
                        .self = argv[0] };
    uint64_t given;
    size_t n_rest;
    int code = options_read(&o, argc, argv, rest, &n_rest, &given);

    if (code)
        return code;
    if (rest && n_rest)
        return cmd_misused(argv[0], "'%s' is too much", rest[0]);
    for (size_t i = 0; i < o.n; i++)
        if (all[i].to != &a->listen && all[i].to != &a->model &&
            !(given >> i & 1))
            return cmd_misused(argv[0], "%s is missing", all[i].name);
    return CMD_OK;
}

static int run(int argc, char **argv)
{
    server_args a = { .self = argv[0] };
    char **room = calloc((size_t)argc, sizeof(*room));
    const char **rest = calloc((size_t)argc, sizeof(*rest));
    int code;

    if (!room || !rest)
        code = cmd_failed(argv[0], "no memory for the arguments");
    else
        code = ps_take_sets(&argc, argv, room, &a.sets);
    if (!code)
        code = read_args(&a, argc, argv, rest);
    if (!code)
        code = serve_and_watch(&a);
    free(rest);
    free(room);
    return code;
}

const cmd cmd_server = {
    .name = "server",
    .args = "--servers HOST:PORT,... --rank R --trainers N [--listen HOST:PORT]"
            " [--model DIR] [--set NAME=VALUE]...",
    .doc = "run a parameter server until its job is over",
    .more = "--servers lists all servers of the job, the same for everyone;"
            " --rank is this\none's place in it, from 0. --listen is for"
            " machines that have another name\nfor themselves. --model is a"
            " saved model that the server begins with, of any number\nof"
            " servers. The exit code"
            " is 0 when the trainers are done or the end was\nasked for (by"
            " `flotilla shutdown`, SIGINT or SIGTERM). `flotilla settings`"
            " lists\nthe settings.",
    .run = run,
};
