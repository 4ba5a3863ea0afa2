/* serve.c - flotilla serve: a saved model for other processes. */
#include "cmd.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flotilla/serving.h"
#include "ps.h"
#include "scoring.h"

#define THREADS_MAX 1024
#define BATCH_MAX (1 << 20)
#define WATCH_MS_MAX 86400000

typedef struct serve_args {
    scoring_args model;
    const char *listen, *http;
    uint64_t threads, max_batch;
    ps_sets sets;
} serve_args;

/* SIGINT and SIGTERM, except where who started us wants them ignored. */
static sigset_t signals_to_wait_for(void)
{
    static const int all[] = { SIGINT, SIGTERM };
    struct sigaction was;
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (!sigaction(all[i], NULL, &was) && was.sa_handler != SIG_IGN)
            sigaddset(&set, all[i]);
    return set;
}

static void tell(const serve_args *a, const fl_serving *s)
{
    if (fl_serving_address(s))
        printf("%s listens at %s\n", a->model.model, fl_serving_address(s));
    if (fl_serving_http_address(s))
        printf("%s listens at http://%s\n", a->model.model,
               fl_serving_http_address(s));
    fflush(stdout);
}

static int serve(const serve_args *a, fl_ctx *c, const sigset_t *signals)
{
    fl_serving *s;
    fl_model *m = NULL;
    int signal, code = scoring_open(&a->model, c, &m);

    if (code)
        return code;
    if (fl_serving_start(&s, c, m, .listen = a->listen, .http = a->http,
                         .n_threads = (int)a->threads,
                         .max_batch = (size_t)a->max_batch)) {
        code = cmd_failed(a->model.self, "%s", fl_last_error());
    } else {
        tell(a, s);
        while (sigwait(signals, &signal))
            ;
        fl_serving_stop(s);
    }
    fl_model_close(m);
    return code;
}

/* Signals are blocked before any other thread begins. */
static int serve_until_told(const serve_args *a)
{
    sigset_t signals = signals_to_wait_for();
    fl_ctx *c = ps_open(a->model.self, &a->sets);
    int code;

    if (!c)
        return CMD_FAILED;
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    code = serve(a, c, &signals);
    fl_ctx_free(c);
    return code;
}

/* --- arguments ------------------------------------------------------------ */

static int read_args(int argc, char **argv, const char **rest, serve_args *a)
{
    const option all[] = {
        { "--listen", OPTION_TEXT, &a->listen, 0, 0, 0 },
        { "--http", OPTION_TEXT, &a->http, 0, 0, 0 },
        SCORING_OPTIONS(&a->model),
        { "--threads", OPTION_COUNT, &a->threads, 1, THREADS_MAX, 0 },
        { "--batch", OPTION_COUNT, &a->max_batch, 1, BATCH_MAX, 0 },
        { "--watch-ms", OPTION_COUNT, &a->model.watch_ms, 0, WATCH_MS_MAX, 0 },
    };
    const options o = { .all = all,
                        .n = sizeof(all) / sizeof(all[0]),
                        .self = argv[0] };
    size_t n = 0;
    int code = options_read(&o, argc, argv, rest, &n, NULL);

    if (code)
        return code;
    if (!n)
        return cmd_misused(argv[0], "which model? A directory is missing");
    if (n > 1)
        return cmd_misused(argv[0], "'%s' is too much", rest[1]);
    if (!a->listen && !a->http)
        return cmd_misused(argv[0],
                           "where? --listen ADDRESS or --http HOST:PORT says "
                           "it");
    a->model.model = rest[0];
    return CMD_OK;
}

static int run_with(int argc, char **argv, char **room, const char **rest)
{
    serve_args a = { .model = { .self = argv[0], .watch_ms = 1000 } };
    int code = ps_take_sets(&argc, argv, room, &a.sets);

    if (!code)
        code = read_args(argc, argv, rest, &a);
    return code ? code : serve_until_told(&a);
}

static int run(int argc, char **argv)
{
    char **room = calloc((size_t)argc, sizeof(*room));
    const char **rest = calloc((size_t)argc, sizeof(*rest));
    int code = CMD_FAILED;

    if (room && rest)
        code = run_with(argc, argv, room, rest);
    else
        (void)cmd_failed(argv[0], "no memory for the arguments");
    free(rest);
    free(room);
    return code;
}

const cmd cmd_serve = {
    .name = "serve",
    .args = "MODEL --listen ADDRESS [--http HOST:PORT] [--threads N]"
            " [--batch N]\n"
            "       [--target NAMES] [--redis ADDRESS [--redis-name NAME] | "
            "--servers"
            " ADDRESS]\n"
            "       [--watch-ms N] [--set NAME=VALUE]...",
    .doc = "answer other processes with the scores of a saved model",
    .more =
        "Serves until SIGINT or SIGTERM. An address is HOST:PORT (port 0:"
        " any that is\nfree) or unix:PATH. Token and TLS are settings, as"
        " for parameter servers; with\na token, HTTP asks for"
        " `Authorization: Bearer TOKEN`.\n"
        "\n"
        "  --listen ADDRESS  for fl_remote_model_open\n"
        "  --http HOST:PORT  /predict, /health and /metrics, in "
        "JSON\n" SCORING_HELP "  --threads N       that score (one per core)\n"
        "  --batch N         records that run as one batch at most (1024)\n"
        "  --watch-ms N      between two looks for a newer version, 0 for"
        " none (1000)\n"
        "  --set NAME=VALUE  a setting (`flotilla settings` lists them)",
    .run = run,
};
