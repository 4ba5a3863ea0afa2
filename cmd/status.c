/* status.c - flotilla status: what a job is doing, from outside. */
#include <stdio.h>
#include <string.h>

#include "jobs.h"
#include "ps.h"
#include "status_page.h"

static fl_status print_page(fl_ctx *c, const char *address, char **text)
{
    fl_job_status *s;
    fl_status st = fl_job_status_get(&s, c, address);

    (void)text; /* the page has gone out */
    if (st)
        return st;
    status_page(stdout, s);
    fl_job_status_free(s);
    return FL_OK;
}

static fl_status print_json(fl_ctx *c, const char *address, char **text)
{
    fl_job_status *s;
    fl_status st = fl_job_status_get(&s, c, address);

    if (st)
        return st;
    *text = fl_job_status_json(s);
    fl_job_status_free(s);
    return FL_OK;
}

/* Without a job: for programs it is the list, however long. */
static char *list_json(const char *self, int *code)
{
    *code = jobs_print_json(self);
    return NULL;
}

static int run(int argc, char **argv)
{
    ps_question ask = print_page;
    ps_only only = jobs_only;
    int n = 1;

    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--json")) {
            ask = print_json;
            only = list_json;
        } else {
            argv[n++] = argv[i];
        }
    return ps_ask_or(n, argv, ask, only);
}

const cmd cmd_status = {
    .name = "status",
    .args = "[JOB|HOST:PORT] [--json] [--wait SECONDS] [--set NAME=VALUE]...",
    .doc = "show who is in a job, what they do and whom they wait for",
    .more =
        "Without a job: the jobs of this user on this machine, or what the only"
        " one does. A\njob is told by its name, the beginning of that, or the"
        " address of its server 0 (of\nits worker 0, where workers serve)."
        " Elsewhere, or for another user, the settings\njob, look_token or"
        " join_token and tls_* must be those of the job; --set and the\n"
        "environment give them. --wait asks again for so long where nobody"
        " listens yet.\n--json prints the same for programs"
        " (docs/formats/status.md); without a job the\nlist of them"
        " (docs/formats/job.md).",
    .run = run,
};
