/* models.h - networks that come with Flotilla, by name.
 *
 * A model is one file with one descriptor, and its row in models.def. It is
 * written on the public headers alone, as a network of your own would be: copy
 * one to start it.
 *
 * Everybody in a job builds the same model with the same arguments.
 */
#ifndef FL_MODELS_MODELS_H
#define FL_MODELS_MODELS_H

#include "flotilla/fleet.h"
#include "flotilla/flotilla.h"

#define MODEL_FEEDS_MAX 32
#define MODEL_FORMAT_MAX 4352 /* a path and some words */

/* What can be chosen from outside. NULL and 0: as the model has it. */
typedef struct model_args {
    const char *format;        /* of the data, as fl_dataset_set_format */
    const char *vocab;         /* word2vec: the file of words */
    const char *optimizer;     /* sgd, adam, ... */
    const char *learning_rate; /* a number */
    double decay;         /* the rate shrinks to this share of itself ... */
    uint64_t decay_steps; /* ... after so many steps, again and again */
    uint64_t width;       /* of a row of the tables */
} model_args;

typedef struct model_net {
    const char *feeds[MODEL_FEEDS_MAX]; /* in the order of a line */
    size_t n_feeds;
    char format[MODEL_FORMAT_MAX];
    fl_var *loss;       /* the mean over a batch */
    fl_var *prediction; /* [n, 2]: chances of no click and of one, or NULL */
    fl_var *auc;        /* over all batches, or NULL */
    /* The histograms behind the AUC, for fl_fleet_metrics_auc; or NULL. */
    fl_var *stat_pos, *stat_neg;
} model_net;

typedef struct model {
    const char *name, *doc;
    const char *optimizer, *learning_rate;
    double decay; /* 0: the rate stays as it is */
    uint64_t decay_steps;
    uint64_t batch_size;
    /* Fills `net` but for the optimizer. Net names live as long as the
       context. */
    fl_status (*build)(fl_ctx *c, const model_args *args, model_net *net);
} model;

/* Every row of models.def, in its order. */
extern const model *const model_all[];
extern const size_t model_count;

/* NULL when there is none. */
const model *model_find(const char *name);

/* The optimizer that the arguments ask for, with its schedule; NULL with the
   reason in fl_last_error. */
FL_MUST_CHECK
fl_status model_optimizer(fl_optimizer **out, fl_ctx *c, const model *m,
                          const model_args *args);

/* A QueueDataset for the net over a directory, a file or a pattern. In a job
   server 0 deals the files as workers ask for more; each is trained on once per
   pass by that name. */
FL_MUST_CHECK
fl_status model_dataset(fl_dataset **out, fl_ctx *c, fl_fleet *f,
                        const model_net *net, const char *path,
                        const char *pass);

#endif
