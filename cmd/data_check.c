/* data_check.c - flotilla data check: is every line good?
 *
 * All lines are read, however many are bad; those come back out of the
 * quarantine file, one per line: PLACE, tab, REASON, tab, LINE. The verdict
 * says what the limits in force would have made of them.
 *
 * Its exit code tells bad data from data that could not be read: 0 all good, 1
 * bad lines, 2 an error.
 */
#include "data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHECK_BAD = 1, CHECK_ERROR = 2 };

/* A share counts at least so many lines: the rule of the library. */
#define SHARE_LINES_MIN 1000

typedef struct checking {
    const data_args *args;
    data_input in;
    uint64_t max_lines; /* the limits that a job would have */
    double max_share;
    char *path; /* of the quarantine file */
    bool is_temporary;
} checking;

/* --- before --------------------------------------------------------------- */

static int make_temporary(checking *c)
{
    const char *folder = getenv("TMPDIR");
    int fd;

    c->is_temporary = true;
    if (asprintf(&c->path, "%s/flotilla-check.XXXXXX",
                 folder && *folder ? folder : "/tmp") < 0) {
        c->path = NULL;
        return cmd_failed(c->args->self, "no memory for a path");
    }
    fd = mkstemp(c->path);
    if (fd < 0) {
        c->is_temporary = false;
        return cmd_failed(c->args->self,
                          "cannot make %s: %s; name a file with --quarantine",
                          c->path, strerror(errno));
    }
    close(fd);
    return CMD_OK;
}

static int choose_path(checking *c)
{
    if (!c->args->quarantine)
        return make_temporary(c);
    c->path = strdup(c->args->quarantine);
    return c->path ? CMD_OK : cmd_failed(c->args->self, "no memory for a path");
}

/* Keeps the limits in force for the verdict and lifts them. The log would tell
   the same as the verdict. */
static int lift_limits(checking *c)
{
    fl_ctx *ctx = c->in.ctx;

    c->max_lines = strtoull(fl_ctx_get(ctx, "max_bad_lines"), NULL, 10);
    c->max_share = strtod(fl_ctx_get(ctx, "max_bad_share"), NULL);
    if (fl_ctx_set(ctx, "max_bad_lines", "1099511627776") ||
        fl_ctx_set(ctx, "max_bad_share", "1") ||
        fl_ctx_set(ctx, "log_level", "error") ||
        fl_ctx_set(ctx, "quarantine", c->path))
        return cmd_failed(c->args->self, "%s", fl_last_error());
    return CMD_OK;
}

/* --- after ---------------------------------------------------------------- */

/* One entry: the place and the reason, and the line below them. */
static void print_entry(char *entry)
{
    const char *place = strsep(&entry, "\t");
    const char *reason = strsep(&entry, "\t");

    printf("%s: %s\n    %s\n", place, reason ? reason : "", entry ? entry : "");
}

static int print_bad(const checking *c)
{
    FILE *f = fopen(c->path, "r");
    char *entry = NULL;
    size_t cap = 0;
    uint64_t shown = 0;

    if (!f)
        return cmd_failed(c->args->self, "cannot read %s: %s", c->path,
                          strerror(errno));
    while (shown < c->args->lines && getline(&entry, &cap, f) > 0) {
        entry[strcspn(entry, "\n")] = '\0';
        print_entry(entry);
        shown++;
    }
    free(entry);
    fclose(f);
    return CMD_OK;
}

static bool would_end(const checking *c, const fl_dataset_stats *st)
{
    uint64_t lines = st->lines > SHARE_LINES_MIN ? st->lines : SHARE_LINES_MIN;

    return st->bad_lines > c->max_lines ||
           (double)st->bad_lines > c->max_share * (double)lines;
}

static int print_verdict(const checking *c)
{
    fl_dataset_stats st = FL_INIT(fl_dataset_stats);

    if (fl_dataset_stats_get(c->in.set, &st))
        return CHECK_ERROR;
    if (!st.bad_lines) {
        printf("good: %" PRIu64 " records in %" PRIu64 " lines of %" PRIu64
               " files\n",
               st.records, st.lines, st.files);
        return CMD_OK;
    }
    if (print_bad(c))
        return CHECK_ERROR;
    printf("bad: %" PRIu64 " of %" PRIu64
           " lines; a job with max_bad_lines=%" PRIu64
           " and max_bad_share=%g would %s\n",
           st.bad_lines, st.lines, c->max_lines, c->max_share,
           would_end(c, &st) ? "end with an error" : "go on without them");
    if (!c->is_temporary)
        printf("all of them are in %s\n", c->path);
    return CHECK_BAD;
}

/* --- the action ----------------------------------------------------------- */

/* Reading is all. */
static data_verdict see_batch(void *arg, int worker, const fl_feed *feeds,
                              size_t n_rows, char why[DATA_WHY_BYTES])
{
    (void)arg;
    (void)worker;
    (void)feeds;
    (void)n_rows;
    (void)why;
    return DATA_MORE;
}

static int check(checking *c)
{
    const data_args *a = c->args;

    if (data_open_ctx(a, &c->in) || choose_path(c) || lift_limits(c) ||
        data_open(a, &c->in) || data_pass(a, &c->in, see_batch, NULL))
        return CHECK_ERROR;
    return print_verdict(c);
}

int data_check(const data_args *a)
{
    checking c = { .args = a };
    int code = check(&c);

    data_close(&c.in);
    if (c.is_temporary && c.path)
        remove(c.path);
    free(c.path);
    return code;
}
