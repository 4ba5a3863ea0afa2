/* member.c - a program to be launched: a server, or a worker that reports
 * numbers until the file named by its argument is there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "flotilla/flotilla.h"
#include "../make.h"

#define REPORTS_MAX 300 /* a minute: somebody must have seen one by then */

static int number(const char *name)
{
    const char *value = getenv(name);

    return value ? (int)strtol(value, NULL, 10) : 0;
}

static fl_status serve(fl_ctx *c, const char *servers, int n_trainers)
{
    return fl_job_serve(c, .servers = servers, .n_trainers = n_trainers,
                        .rank = number("PADDLE_PSERVER_ID"));
}

/* Worker 1 is half as fast as worker 0. */
static fl_status report(fl_job *ps, int rank, const char *stop)
{
    const struct timespec pause = { .tv_nsec = 200 * 1000 * 1000 };
    fl_status st = FL_OK;

    for (uint64_t i = 1; !st && i <= REPORTS_MAX && access(stop, F_OK); i++) {
        st = fl_job_report(ps, "train", i * (rank ? 200 : 400), 0.5, 0.75);
        nanosleep(&pause, NULL);
    }
    return st;
}

static fl_status train(fl_ctx *c, const char *servers, int n_trainers,
                       const char *stop)
{
    int rank = number("PADDLE_TRAINER_ID"), table;
    fl_status st, stopped;
    fl_job *ps;

    st = fl_job_connect(&ps, c, .servers = servers, .n_trainers = n_trainers,
                        .rank = rank);
    if (st)
        return st;
    st = fl_job_declare_table(ps, "t", "dim=2", &table);
    if (!st)
        st = fl_job_start(ps);
    if (!st)
        st = report(ps, rank, stop);
    stopped = fl_job_stop(ps);
    fl_job_free(ps);
    return st ? st : stopped;
}

int main(int argc, char **argv)
{
    const char *role = getenv("TRAINING_ROLE");
    const char *servers = getenv("PADDLE_PSERVERS_IP_PORT_LIST");
    int n_trainers = number("PADDLE_TRAINERS_NUM");
    fl_ctx *c = make_ctx();
    fl_status st;

    if (!c || argc < 2 || !role || !servers)
        return 2;
    printf("%s begins\n", role);
    fflush(stdout);
    st = strcmp(role, "PSERVER") ? train(c, servers, n_trainers, argv[1])
                                 : serve(c, servers, n_trainers);
    if (st)
        fprintf(stderr, "%s: %s\n", role, fl_last_error());
    fl_ctx_free(c);
    return st ? 1 : 0;
}
