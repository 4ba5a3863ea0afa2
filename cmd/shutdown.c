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
    .args = "JOB|HOST:PORT [--wait SECONDS] [--set NAME=VALUE]...",
    .doc = "end all servers of a job",
    .more =
        "JOB is the name of one of this user on this machine, as `flotilla"
        " status` lists\nthem, HOST:PORT the address of server 0. Of a job"
        " that fleetrun has started here\nnothing else is needed by the same"
        " user; otherwise the settings job, join_token\nand tls_* must be"
        " those of the job; --set and the environment give them.",
    .run = run,
};
