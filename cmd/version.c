/* version.c - flotilla version. The smallest subcommand; copy it to start
   one. */
#include "cmd.h"

static int run(int argc, char **argv)
{
    if (argc > 1)
        return cmd_misused(argv[0], "'%s' is too much", argv[1]);
    return cmd_print(fl_version_text());
}

const cmd cmd_version = {
    .name = "version",
    .args = "",
    .doc = "print the version, the instruction set and the libraries in use",
    .run = run,
};
