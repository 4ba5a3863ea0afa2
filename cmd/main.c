/* main.c - the flotilla tool: finds the subcommand and runs it. */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FL_CMD(name) extern const cmd cmd_##name;
#include "cmds.def"
#undef FL_CMD

const cmd *const cmd_all[] = {
#define FL_CMD(name) &cmd_##name,
#include "cmds.def"
#undef FL_CMD
};
const size_t cmd_count = sizeof(cmd_all) / sizeof(cmd_all[0]);

const cmd *cmd_find(const char *name)
{
    for (size_t i = 0; i < cmd_count; i++)
        if (!strcmp(cmd_all[i]->name, name))
            return cmd_all[i];
    return NULL;
}

/* People try these before they read anything. */
static const char *plain_name(const char *word)
{
    if (!strcmp(word, "--help") || !strcmp(word, "-h"))
        return "help";
    if (!strcmp(word, "--version"))
        return "version";
    return word;
}

int main(int argc, char **argv)
{
    const cmd *c;
    int code;

    if (argc < 2) {
        fputs("flotilla: which command? `flotilla help` lists them\n", stderr);
        return CMD_USAGE;
    }
    c = cmd_find(plain_name(argv[1]));
    if (!c)
        return cmd_unknown(argv[1]);
    argv[1] = (char *)c->name;
    code = c->run(argc - 1, argv + 1);
    /* A full disk is a failure and not silence. */
    if (fflush(stdout) || ferror(stdout))
        return cmd_failed(c->name,
                          "cannot write to stdout: %s; check where it goes",
                          strerror(errno));
    return code;
}
