/* status.c - flotilla status: what a job is doing, from outside. */
#include <stdio.h>
#include <string.h>

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

static int run(int argc, char **argv)
{
    ps_question ask = print_page;
    int n = 1;

    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--json"))
            ask = print_json;
        else
            argv[n++] = argv[i];
    return ps_ask(n, argv, ask);
}

const cmd cmd_status = {
    .name = "status",
    .args = "HOST:PORT [--json] [--set NAME=VALUE]...",
    .doc = "show who is in a job, what they do and whom they wait for",
    .more =
        "HOST:PORT is the address of server 0. Of a job that fleetrun has"
        " started on this\nmachine nothing else is needed by the same user;"
        " otherwise the settings job,\njoin_token and tls_* must be those"
        " of the job; --set and the environment give them.\n--json prints the"
        " same for programs (docs/formats/status.md).",
    .run = run,
};
