/* settings.c - flotilla settings. */
#include "cmd.h"

#include <string.h>

static int run(int argc, char **argv)
{
    fl_help_form form = FL_HELP_PLAIN;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--markdown"))
            return cmd_misused(argv[0], "'%s' is too much", argv[i]);
        form = FL_HELP_MARKDOWN;
    }
    return cmd_print(fl_settings_help(form));
}

const cmd cmd_settings = {
    .name = "settings",
    .args = "[--markdown]",
    .doc = "list the settings: name, default, meaning, range, environment",
    .more = "--markdown prints docs/settings.md.",
    .run = run,
};
