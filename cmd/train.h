/* train.h - what `flotilla train` was asked to do. */
#ifndef FL_CMD_TRAIN_H
#define FL_CMD_TRAIN_H

#include "cmd.h"
#include "models.h"

typedef struct train_args {
    const model *model;
    model_args net;
    const char *data, *test; /* test may be NULL */
    const char *mode, *strategy;
    uint64_t epochs, batch, threads, seed;
} train_args;

/* Trains, alone or as the process of a job that the environment says. CMD_OK,
   or CMD_FAILED after saying what is wrong. */
int train_run(const char *self, fl_ctx *c, const train_args *a);

#endif
