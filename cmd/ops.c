/* ops.c - flotilla ops. */
#include <stdio.h>
#include <stdlib.h>

#include "cmd.h"
#include "flotilla/experimental/op.h"
#include "options.h"
#include "ps.h"

typedef struct ops_args {
    const char *name;  /* NULL: all */
    const char *sweep; /* NULL: none */
} ops_args;

static int print(const char *self, const char *name)
{
    char *text = fl_operator_help(name);

    if (!text)
        return cmd_failed(self, "%s\n`flotilla ops` lists all of them",
                          fl_last_error());
    return cmd_print(text);
}

static int sweep(const char *self, const char *name)
{
    if (fl_op_sweep(name))
        return cmd_failed(self, "%s", fl_last_error());
    printf("%s passes every check on every case\n", name);
    return CMD_OK;
}

static int read_args(int argc, char **argv, const char **rest, ops_args *out)
{
    const option all[] = { { "--sweep", OPTION_TEXT, &out->sweep, 0, 0, 0 } };
    const options o = { .all = all, .n = 1, .self = argv[0] };
    size_t n = 0;
    int code = options_read(&o, argc, argv, rest, &n, NULL);

    if (code)
        return code;
    if (n > !out->sweep)
        return cmd_misused(argv[0], "'%s' is too much", rest[!out->sweep]);
    out->name = n ? rest[0] : NULL;
    return CMD_OK;
}

static int look(int argc, char **argv, char **room, const char **rest)
{
    ops_args a = { 0 };
    ps_sets sets;
    fl_ctx *c;
    int code = ps_take_sets(&argc, argv, room, &sets);

    if (!code)
        code = read_args(argc, argv, rest, &a);
    if (code)
        return code;
    /* The context opens the libraries of users. */
    c = ps_open(argv[0], &sets);
    if (!c)
        return CMD_FAILED;
    code = a.sweep ? sweep(argv[0], a.sweep) : print(argv[0], a.name);
    fl_ctx_free(c);
    return code;
}

static int run(int argc, char **argv)
{
    char **room = calloc((size_t)argc, sizeof(*room));
    const char **rest = calloc((size_t)argc, sizeof(*rest));
    int code = CMD_FAILED;

    if (room && rest)
        code = look(argc, argv, room, rest);
    else
        (void)cmd_failed(argv[0], "no memory for the arguments");
    free(rest);
    free(room);
    return code;
}

const cmd cmd_ops = {
    .name = "ops",
    .args = "[NAME | --sweep NAME] [--set NAME=VALUE]...",
    .doc = "list the operators with slots, attributes and formula, or one",
    .more = "\n"
            "  --sweep NAME   runs the operator over its cases: shapes,"
            " gradients, threads,\n"
            "                 in place, no memory\n"
            "\n"
            "Operators of one's own come from a library: --set"
            " plugins=./libmine.so\n",
    .run = run,
};
