/* shutdown.c - flotilla shutdown: asks the servers of a job to end. */
#include "ps.h"

static fl_status ask(fl_ctx *c, const char *address, char **text)
{
    (void)text; /* there is nothing to print */
    return fl_job_shutdown(c, address);
}

static int run(int argc, char **argv)
{
    return ps_ask(argc, argv, ask);
}

const cmd cmd_shutdown = {
    .name = "shutdown",
    .args = "HOST:PORT [--set NAME=VALUE]...",
    .doc = "end all servers of a job",
    .more = "HOST:PORT is the address of server 0. Of a job that fleetrun has"
            " started on this\nmachine nothing else is needed by the same user;"
            " otherwise the settings job,\njoin_token and tls_* must be those"
            " of the job; --set and the environment give them.",
    .run = run,
};
