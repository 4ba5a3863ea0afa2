/* trace.c - flotilla trace: timelines of a job's processes in one file. */
#include <stdio.h>
#include <stdlib.h>

#include "cmd.h"
#include "options.h"

static int merge(const char *self, const char *folder, const char *path)
{
    size_t n;

    if (fl_trace_merge(folder, path, &n))
        return cmd_failed(self, "%s", fl_last_error());
    printf("%s has %zu process%s; https://ui.perfetto.dev opens it\n", path, n,
           n == 1 ? "" : "es");
    return CMD_OK;
}

static int run_with(int argc, char **argv, const char **rest)
{
    const char *path = NULL;
    const option all[] = { { "-o", OPTION_TEXT, &path, 0, 0, 0 } };
    const options o = { .all = all, .n = 1, .self = argv[0] };
    size_t n = 0;
    int code = options_read(&o, argc, argv, rest, &n, NULL);

    if (code)
        return code;
    if (n != 1 || !path)
        return n > 1 ? cmd_misused(argv[0], "'%s' is too much", rest[1])
                     : cmd_misused(argv[0], n ? "where to? Give -o FILE"
                                              : "which folder?");
    return merge(argv[0], rest[0], path);
}

static int run(int argc, char **argv)
{
    const char **rest = calloc((size_t)argc, sizeof(*rest));
    int code = rest ? run_with(argc, argv, rest)
                    : cmd_failed(argv[0], "no memory for the arguments");

    free(rest);
    return code;
}

const cmd cmd_trace = {
    .name = "trace",
    .args = "DIR -o FILE",
    .doc = "put the timelines of a job's processes into one file",
    .more = "DIR has a file *.trace.json of each process that ran with the"
            " setting trace;\nfleetrun --trace does both. FILE has all of them"
            " on the clock of server 0, for\nPerfetto (https://ui.perfetto.dev)"
            " or chrome://tracing (docs/formats/trace.md).",
    .run = run,
};
