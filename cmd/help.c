/* help.c - flotilla help. */
#include "cmd.h"

#include <stdio.h>

static void list_all(void)
{
    puts("usage: flotilla COMMAND [ARGUMENTS]\n");
    for (size_t i = 0; i < cmd_count; i++)
        printf("  %-12s%s\n", cmd_all[i]->name, cmd_all[i]->doc);
    puts("\n`flotilla help COMMAND` says more. Exit codes: 0 fine, 1 failed, 2"
         " wrong usage.");
}

static int run(int argc, char **argv)
{
    const cmd *c;

    if (argc > 2)
        return cmd_misused(argv[0], "'%s' is too much", argv[2]);
    if (argc == 1) {
        list_all();
        return CMD_OK;
    }
    c = cmd_find(argv[1]);
    if (!c)
        return cmd_unknown(argv[1]);
    printf("usage: flotilla %s%s%s\n\n%s\n", c->name, *c->args ? " " : "",
           c->args, c->doc);
    if (c->list)
        c->list();
    if (c->more)
        printf("%s\n", c->more);
    return CMD_OK;
}

const cmd cmd_help = {
    .name = "help",
    .args = "[COMMAND]",
    .doc = "list the commands, or explain one",
    .run = run,
};
