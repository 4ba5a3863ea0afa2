/* dump.c - flotilla dump: a program text, checked, changed where asked, and
 * printed in the one form that the library prints. */
#include "cmd.h"

#include <string.h>

#define TARGETS_MAX 64

typedef struct dump_args {
    const char *path;
    bool for_test;
    const char *targets[TARGETS_MAX];
    size_t n_targets;
} dump_args;

/* Cuts "a,b" into its names. */
static int read_targets(const char *self, char *text, dump_args *out)
{
    char *name;

    while ((name = strsep(&text, ","))) {
        if (out->n_targets == TARGETS_MAX)
            return cmd_misused(self, "--prune takes at most %d variables",
                               TARGETS_MAX);
        out->targets[out->n_targets++] = name;
    }
    return CMD_OK;
}

static int read_args(int argc, char **argv, dump_args *out)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--for-test")) {
            out->for_test = true;
        } else if (!strcmp(argv[i], "--prune")) {
            if (++i == argc)
                return cmd_misused(argv[0], "--prune needs a variable");
            if (read_targets(argv[0], argv[i], out))
                return CMD_USAGE;
        } else if (argv[i][0] == '-' && argv[i][1]) {
            return cmd_misused(argv[0], "there is no option '%s'", argv[i]);
        } else if (out->path) {
            return cmd_misused(argv[0], "'%s' is too much", argv[i]);
        } else {
            out->path = argv[i];
        }
    }
    if (!out->path)
        return cmd_misused(argv[0], "which file?");
    return CMD_OK;
}

/* Each copy takes the place of the program it was made from. */
static fl_status change(fl_program **p, const dump_args *args)
{
    fl_program *copy = NULL;
    fl_status st;

    if (args->for_test) {
        st = fl_program_for_test(&copy, *p);
        if (st)
            return st;
        fl_program_free(*p);
        *p = copy;
    }
    if (args->n_targets) {
        st = fl_program_pruned(&copy, *p, args->targets, args->n_targets);
        if (st)
            return st;
        fl_program_free(*p);
        *p = copy;
    }
    return FL_OK;
}

static int run(int argc, char **argv)
{
    dump_args args = { 0 };
    cmd_program p;
    int code = read_args(argc, argv, &args);

    if (code)
        return code;
    code = cmd_open(argv[0], args.path, &p);
    if (code)
        return code;
    if (change(&p.program, &args))
        code = cmd_failed(argv[0],
                          "%s: %s; `flotilla dump %s` shows all variables",
                          args.path, fl_last_error(), args.path);
    else
        code = cmd_print(fl_program_to_text(p.program));
    cmd_close(&p);
    return code;
}

const cmd cmd_dump = {
    .name = "dump",
    .args = "FILE [--for-test] [--prune TARGET,...]",
    .doc = "check a program text and print it back",
    .more = "FILE may be -, for stdin. --for-test drops the backward, optimizer"
            " and\nschedule operators. --prune keeps what the named variables"
            " need. With both,\n--for-test comes first.",
    .run = run,
};
