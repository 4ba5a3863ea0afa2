/* ps.c - what the commands about servers share. */
#include "ps.h"

#include <stdlib.h>
#include <string.h>

#include "options.h"

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

static int ask_with(const char *self, const ps_sets *sets, const char *address,
                    ps_question ask)
{
    fl_ctx *c = ps_open(self, sets);
    char *text = NULL;
    int code = CMD_OK;

    if (!c)
        return CMD_FAILED;
    if (ask(c, address, &text))
        code = cmd_failed(self, "%s", fl_last_error());
    else if (text)
        code = cmd_print(text);
    fl_ctx_free(c);
    return code;
}

int ps_ask(int argc, char **argv, ps_question ask)
{
    char **room = calloc((size_t)argc, sizeof(*room));
    const char **rest = calloc((size_t)argc, sizeof(*rest));
    const options o = { .self = argv[0] };
    ps_sets sets = { 0 };
    size_t n = 0;
    int code = CMD_FAILED;

    if (!room || !rest)
        (void)cmd_failed(argv[0], "no memory for the arguments");
    else
        code = ps_take_sets(&argc, argv, room, &sets);
    if (!code)
        code = options_read(&o, argc, argv, rest, &n, NULL);
    if (rest && !code && n != 1)
        code = n ? cmd_misused(argv[0], "'%s' is too much", rest[1])
                 : cmd_misused(argv[0], "where is server 0 of the job?");
    if (rest && !code)
        code = ask_with(argv[0], &sets, rest[0], ask);
    free(rest);
    free(room);
    return code;
}
