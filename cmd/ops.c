/* ops.c - flotilla ops. */
#include "cmd.h"

static int run(int argc, char **argv)
{
    char *text;

    if (argc > 2)
        return cmd_misused(argv[0], "'%s' is too much", argv[2]);
    text = fl_operator_help(argc > 1 ? argv[1] : NULL);
    if (!text)
        return cmd_failed(argv[0], "%s\n`flotilla ops` lists all of them",
                          fl_last_error());
    return cmd_print(text);
}

const cmd cmd_ops = {
    .name = "ops",
    .args = "[NAME]",
    .doc = "list the operators with slots, attributes and formula, or one",
    .run = run,
};
