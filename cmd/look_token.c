/* look_token.c - flotilla look-token: a secret for those who may only look. */
#include <stdio.h>

#include "ps.h"

static fl_status ask(fl_ctx *c, const char *address, char **text)
{
    char *token;
    fl_status st = fl_job_look_token(c, address, &token);

    (void)text; /* it is printed here, with the end of its line */
    if (st)
        return st;
    puts(token);
    fl_text_free(token);
    return FL_OK;
}

static int run(int argc, char **argv)
{
    return ps_ask(argc, argv, ask);
}

const cmd cmd_look_token = {
    .name = "look-token",
    .args = "JOB|HOST:PORT [--wait SECONDS] [--set NAME=VALUE]...",
    .doc = "print the secret with which others may look at a job",
    .more = "Whoever has it can ask for the status and statistics of the job"
            " (setting\nlook_token), but cannot join it, change it or end it,"
            " and cannot tell the job's\ntoken from it. JOB is the name of one"
            " of this user on this machine, HOST:PORT the\naddress of server"
            " 0.",
    .run = run,
};
