/* ps.c - what the commands about servers share. */
#include "ps.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jobs.h"
#include "options.h"

#define PAUSE_NS 50000000
#define WAIT_MAX 86400

int ps_take_sets(int *argc, char **argv, char **room, ps_sets *out)
{
    int n = 1;

    *out = (ps_sets){ .words = room };
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "--set")) {
            argv[n++] = argv[i];
            continue;
        }
        if (++i == *argc || !strchr(argv[i], '='))
            return cmd_misused(argv[0], "--set needs name=value behind it");
        out->words[out->n++] = argv[i];
    }
    *argc = n;
    return CMD_OK;
}

static fl_status set(fl_ctx *c, const char *word)
{
    const char *value = strchr(word, '=') + 1;
    char *name = strndup(word, (size_t)(value - 1 - word));
    fl_status st = name ? fl_ctx_set(c, name, value) : FL_ERR_NOMEM;

    free(name);
    return st;
}

fl_ctx *ps_open(const char *self, const ps_sets *sets)
{
    fl_ctx *c;

    if (fl_ctx_new(&c)) {
        (void)cmd_failed(self, "%s", fl_last_error());
        return NULL;
    }
    for (int i = 0; i < sets->n; i++)
        if (set(c, sets->words[i])) {
            (void)cmd_failed(self, "--set %s: %s", sets->words[i],
                             fl_last_error());
            fl_ctx_free(c);
            return NULL;
        }
    return c;
}

/* Where nobody listens yet somebody may a little later, if there is time. */
static fl_status ask_in_time(fl_ctx *c, const char *address, ps_question ask,
                             uint64_t wait_seconds, char **text)
{
    const struct timespec pause = { .tv_nsec = PAUSE_NS };
    time_t until = time(NULL) + (time_t)wait_seconds;
    fl_status st = ask(c, address, text);

    while (st == FL_ERR_CLOSED && time(NULL) < until) {
        nanosleep(&pause, NULL);
        st = ask(c, address, text);
    }
    return st;
}

typedef struct ps_args {
    const char *self;
    ps_sets sets;
    ps_question ask;
    ps_only only;          /* NULL: a job is needed */
    uint64_t wait_seconds; /* for somebody to listen */
} ps_args;

static int ask_with(const ps_args *a, const char *address)
{
    fl_ctx *c = ps_open(a->self, &a->sets);
    char *text = NULL;
    int code = CMD_OK;

    if (!c)
        return CMD_FAILED;
    if (ask_in_time(c, address, a->ask, a->wait_seconds, &text))
        code = cmd_failed(a->self, "%s", fl_last_error());
    else if (text)
        code = cmd_print(text);
    fl_ctx_free(c);
    return code;
}

static int ask_job(const ps_args *a, const char *word)
{
    char *address;
    int code = CMD_FAILED;

    if (!word || !strchr(word, ':'))
        jobs_await(word, a->wait_seconds);
    address = word ? jobs_address(a->self, word) : a->only(a->self, &code);
    if (!address)
        return code;
    code = ask_with(a, address);
    free(address);
    return code;
}

static int read_and_ask(ps_args *a, int argc, char **argv, const char **rest)
{
    const option all[] = {
        { "--wait", OPTION_COUNT, &a->wait_seconds, 0, WAIT_MAX, 0 },
    };
    const options o = { .all = all, .n = 1, .self = a->self };
    size_t n = 0;
    int code = options_read(&o, argc, argv, rest, &n, NULL);

    if (code)
        return code;
    if (n > 1)
        return cmd_misused(a->self, "'%s' is too much", rest[1]);
    if (!n && !a->only)
        return cmd_misused(a->self, "where is server 0 of the job?");
    return ask_job(a, n ? rest[0] : NULL);
}

int ps_ask_or(int argc, char **argv, ps_question ask, ps_only only)
{
    char **room = calloc((size_t)argc, sizeof(*room));
    const char **rest = calloc((size_t)argc, sizeof(*rest));
    ps_args a = { .self = argv[0], .ask = ask, .only = only };
    int code = CMD_FAILED;

    if (!room || !rest)
        (void)cmd_failed(argv[0], "no memory for the arguments");
    else
        code = ps_take_sets(&argc, argv, room, &a.sets);
    if (rest && !code)
        code = read_and_ask(&a, argc, argv, rest);
    free(rest);
    free(room);
    return code;
}

int ps_ask(int argc, char **argv, ps_question ask)
{
    return ps_ask_or(argc, argv, ask, NULL);
}
