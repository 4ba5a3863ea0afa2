/* status.c - flotilla status: what a job is doing, from outside. */
#include "ps.h"

static int run(int argc, char **argv)
{
    return ps_ask(argc, argv, fl_job_status);
}

const cmd cmd_status = {
    .name = "status",
    .args = "HOST:PORT [--set NAME=VALUE]...",
    .doc = "show who is in a job, what they do and whom they wait for",
    .more = "HOST:PORT is the address of server 0. Of a job that fleetrun has"
            " started on this\nmachine nothing else is needed by the same user;"
            " otherwise the settings job,\njoin_token and tls_* must be those"
            " of the job; --set and the environment give them.",
    .run = run,
};
