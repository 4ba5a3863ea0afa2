/* report.c - flotilla report: the record of a run as one page. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "options.h"
#include "sink.h"

typedef struct report_args {
    const char *dir, *other; /* other NULL: one run alone */
    const char *out;         /* NULL: stdout */
} report_args;

static int read_args(int argc, char **argv, const char **rest, report_args *a)
{
    const option all[] = {
        { "-o", OPTION_TEXT, &a->out, 0, 0, 0 },
        { "--compare", OPTION_TEXT, &a->other, 0, 0, 0 },
    };
    const options o = { .all = all,
                        .n = sizeof(all) / sizeof(all[0]),
                        .self = argv[0] };
    size_t n = 0;
    int code = options_read(&o, argc, argv, rest, &n, NULL);

    if (code)
        return code;
    if (!n)
        return cmd_misused(argv[0], "which folder?");
    if (n > 1)
        return cmd_misused(argv[0],
                           "'%s' is too much; --compare %s sets it beside %s",
                           rest[1], rest[1], rest[0]);
    a->dir = rest[0];
    return CMD_OK;
}

static bool print(FILE *out, const run *runs, size_t n)
{
    bool good;

    report_head(out, runs, n);
    report_summary(out, runs, n);
    good = report_curves(out, runs, n);
    for (size_t i = 0; i < n; i++) {
        if (n > 1) {
            fputs("<h2>", out);
            fputs(i ? "The second run" : "The first run", out);
            fputs("</h2>\n", out);
        }
        report_time(out, &runs[i]);
        report_workers(out, &runs[i]);
        report_servers(out, &runs[i]);
        report_passes(out, &runs[i]);
    }
    report_settings(out, runs, n);
    report_tail(out);
    return good;
}

static int write_page(const char *self, const report_args *a, const char *text,
                      size_t len)
{
    sink to;

    if (sink_open(&to, a->out, "-o") && sink_write(&to, text, len) &&
        sink_close(&to))
        return CMD_OK;
    sink_abandon(&to);
    return sink_failed(&to, self);
}

static int report(const char *self, const report_args *a, const run *runs,
                  size_t n)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    bool good = out && print(out, runs, n);
    int code;

    if (out && fclose(out))
        good = false;
    code = good ? write_page(self, a, text, len)
                : cmd_failed(self, "no memory for the page");
    free(text);
    return code;
}

static int read_and_report(const char *self, const report_args *a)
{
    run runs[2] = { 0 };
    size_t n = a->other ? 2 : 1;
    int code = run_read(self, a->dir, &runs[0]);

    if (!code && a->other)
        code = run_read(self, a->other, &runs[1]);
    if (!code)
        code = report(self, a, runs, n);
    run_release(&runs[0]);
    run_release(&runs[1]);
    return code;
}

static int run_report(int argc, char **argv)
{
    const char **rest = calloc((size_t)argc, sizeof(*rest));
    report_args args = { 0 };
    int code;

    if (!rest)
        return cmd_failed(argv[0], "no memory for the arguments");
    code = read_args(argc, argv, rest, &args);
    if (!code)
        code = read_and_report(argv[0], &args);
    free(rest);
    return code;
}

const cmd cmd_report = {
    .name = "report",
    .args = "DIR [-o PAGE.html] [--compare DIR]",
    .doc = "show the record of a run as one page for a browser",
    .more = "DIR is what `flotilla train --record DIR`, or the setting"
            " record_dir of any program,\nleft behind, of one process or of all"
            " of a job; the run may still go on. The page\nneeds nothing but"
            " itself: curves of loss, AUC and rate, where the time went, the\n"
            "slowest worker, passes, settings, versions. Without -o it goes to"
            " stdout.\n"
            "\n"
            "  --compare DIR   another run beside it, and what they differ in",
    .run = run_report,
};
