/* train.h - what `flotilla train` was asked to do. */
#ifndef FL_CMD_TRAIN_H
#define FL_CMD_TRAIN_H

#include "cmd.h"
#include "models.h"
#include "ps.h"
#include "train_tries.h"

typedef struct train_args {
    const model *model;     /* of a text what is common to all of them */
    const char *text;       /* the file of a program; NULL: a built-in model */
    const char *prediction; /* a variable of it; NULL: found */
    const char *dump; /* where the program goes instead of being trained */
    model_args net;
    const char *data, *test;     /* test may be NULL */
    const char *mode, *strategy; /* mode NULL: the fleet's own */
    uint64_t epochs, batch, threads, seed;
    /* Of the data this share is trained on, records of one key in one part, and
       the rest is the test; of records with label 0 this share is trained on. 0
       and NULL: all. */
    double split_share, keep_negatives;
    bool has_split, has_sample;
    const char *key;
    const char *metrics; /* of the test, by name; NULL: the model's */
    uint64_t test_every; /* batches; 0: behind each epoch alone */
    uint64_t patience;   /* epochs that bring nothing better; 0: no end */
    /* A model that is loaded before and one that is saved behind; what of the
       former is to be forgiven, in lists apart by commas. NULL: none. */
    const char *load, *save, *save_kind;
    const char *infer; /* where a model for prediction goes; NULL: nowhere */
    bool infer_delta, infer_by_score;
    const char *load_only, *load_map, *load_resize, *load_state;
    const char *record, *tensorboard; /* where the run is told of, or NULL */
} train_args;

/* As it is when nothing is said. */
static inline train_args train_defaults(void)
{
    return (train_args){ .epochs = 1, .threads = 1 };
}

/* Reads argv; `rest` has room for argc words. CMD_OK, or CMD_USAGE after saying
   what is wrong. */
int train_read_args(int argc, char **argv, const char **rest, train_args *a);

/* How good the best epoch is. */
typedef struct train_result train_result;

/* Trains, alone or as the process of a job that the environment says. CMD_OK,
   or CMD_FAILED after saying what is wrong. The result may be NULL. */
int train_run(const char *self, fl_ctx *c, const train_args *a,
              train_result *out);

/* Writes the program of the model where it was asked for, and trains nothing. */
int train_dump_only(const char *self, fl_ctx *c, const train_args *a);

/* What it is called: the model, or the file of its text. */
static inline const char *train_name(const train_args *a)
{
    return a->text ? a->text : a->model->name;
}

/* Builds a trial's model, and no more. */
int train_try_build(const char *self, fl_ctx *c, const train_args *a);

/* Trains once with each of the values that are to be tried. */
int train_search(int argc, char **argv, const ps_sets *sets, const tries *what);

/* Whether what is to be loaded and saved makes sense. CMD_OK, or CMD_USAGE
   after saying what does not. */
int train_check_io(const char *self, const train_args *a);

/* Is what changed to be saved, and not all of it? */
bool train_wants_delta(const train_args *a);

/* Loads, and saves, what was asked for; nothing when it was not. */
fl_status train_load(fl_executor *e, const train_args *a);
fl_status train_save(fl_executor *e, const train_args *a);
/* Saves what predictions need. */
fl_status train_save_infer(fl_executor *e, const train_args *a,
                           const model_net *net);

#endif
