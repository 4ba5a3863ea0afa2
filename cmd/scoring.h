/* scoring.h - the model of a command that scores, and where its rows are. */
#ifndef FL_CMD_SCORING_H
#define FL_CMD_SCORING_H

#include "cmd.h"
#include "flotilla/predict.h"
#include "flotilla/redis.h"
#include "options.h"

typedef struct scoring_args {
    const char *self, *model;
    const char *targets;      /* apart by commas; NULL: the model's */
    const char *redis, *name; /* whose rows; NULL: the model's files, */
    const char *servers;      /* or those of a job; NULL: not so */
    uint64_t watch_ms;
    bool no_optimize;
} scoring_args;

/* Rows of an array of options. */
#define SCORING_OPTIONS(a)                                                     \
    { "--target", OPTION_TEXT, &(a)->targets, 0, 0, 0 },                       \
        { "--redis", OPTION_TEXT, &(a)->redis, 0, 0, 0 },                      \
        { "--servers", OPTION_TEXT, &(a)->servers, 0, 0, 0 },                  \
    {                                                                          \
        "--redis-name", OPTION_TEXT, &(a)->name, 0, 0, 0                       \
    }

#define SCORING_HELP                                                           \
    "  --target NAMES    of a model that was saved to train on: the"           \
    " variables to\n"                                                          \
    "                    compute, apart by commas\n"                           \
    "  --redis ADDRESS   rows come from Redis (`flotilla export --redis`)"     \
    " instead of\n"                                                            \
    "                    the model's files; HOST:PORT or unix:PATH\n"          \
    "  --redis-name NAME of the model there (model)\n"                         \
    "  --servers ADDRESS rows come from the servers of a job that is running," \
    " as they\n"                                                               \
    "                    are; HOST:PORT of its server 0\n"

/* The Redis of a command line; the password is REDISCLI_AUTH, as for
   redis-cli. */
fl_redis_args scoring_redis(const char *address, const char *name);

/* The context gives settings: a model may be at a path with a scheme. CMD_OK, or
   CMD_FAILED after saying what is wrong. */
int scoring_open(const scoring_args *a, fl_ctx *c, fl_model **out);

#endif
