/* models.h - networks that come with Flotilla, by name.
 *
 * A model is one file with one descriptor, and its row in models.def. It is
 * written on the public headers and the few helpers below, as a network of
 * your own would be: copy one to start it.
 *
 * Everybody in a job builds the same model with the same arguments.
 */
#ifndef FL_MODELS_MODELS_H
#define FL_MODELS_MODELS_H

#include "flotilla/fleet.h"
#include "flotilla/flotilla.h"

#define MODEL_FEEDS_MAX 512
#define MODEL_METRICS_MAX 4
#define MODEL_FORMAT_MAX 4352 /* a path and some words */

/* What can be chosen from outside. NULL and 0: as the model has it. */
typedef struct model_args {
    const char *format;        /* of the data, as fl_dataset_set_format */
    const char *optimizer;     /* sgd, adam, ... */
    const char *learning_rate; /* a number */
    /* The rate shrinks to a share of itself, again and again, or falls in a line
       to its end; either one in so many steps. */
    double decay;
    const char *end_rate; /* a number */
    uint64_t decay_steps;
    uint64_t width; /* of a row of the tables */
    /* What only some models have: see model.uses. */
    const char *vocab;   /* the file of words */
    const char *loss;    /* which of several */
    const char *encoder; /* which of several */
    uint64_t hidden;     /* width of the layers above the tables */
    uint64_t items;      /* how many there are to choose from */
    uint64_t fields;     /* features of a record */
    uint64_t negatives;  /* drawn for each example */
    /* Settings of a table that counts shows (accessor ctr). */
    const char *ctr;
    const char *label; /* what is to be found out, by name */
    /* Of models over any columns (MODEL_COLUMNS): features.h has both. */
    const char *features, *stats;
} model_args;

enum model_use {
    MODEL_VOCAB = 1,
    MODEL_LOSS = 2,
    MODEL_HIDDEN = 4,
    MODEL_ITEMS = 8,
    MODEL_FIELDS = 16,
    MODEL_NEGATIVES = 32,
    MODEL_ENCODER = 64,
    MODEL_CTR = 128,
    MODEL_COLUMNS = 256, /* any, where a format or features describe them */
    MODEL_NEEDS_COLUMNS = 512, /* and has none of its own */
    MODEL_LABEL = 1024         /* named, where the network alone is known */
};

/* A metric whose state is [rows, 2]: sums, and what they are over. Those of all
   workers are added up. Several rows are classes. */
typedef struct model_metric {
    const char *name;
    fl_var *stat;
    bool is_error; /* less of it is better */
} model_metric;

typedef struct model_net {
    const char *feeds[MODEL_FEEDS_MAX]; /* in the order of a line */
    size_t n_feeds;
    char format[MODEL_FORMAT_MAX];
    fl_var *loss;      /* the mean over a batch */
    fl_var *objective; /* what is minimised; NULL: the loss */
    /* [n, 2]: chances of no click and of one; [n, 1]: of one, or the number that
       was asked for; or NULL */
    fl_var *prediction;
    const char *label; /* the feed; NULL: label */
    /* Asked for: of records with label 0 this share is trained on (0: all); and
       done: predictions are of all records. */
    double keep_negatives;
    bool is_sampled;
    fl_var *auc; /* over all batches, or NULL */
    /* The histograms behind the AUC, for fl_fleet_metrics_auc; or NULL. */
    fl_var *stat_pos, *stat_neg;
    model_metric metrics[MODEL_METRICS_MAX]; /* what else is reported */
    size_t n_metrics;
} model_net;

typedef struct model {
    const char *name, *doc;
    const char *optimizer, *learning_rate;
    uint64_t batch_size;
    unsigned uses; /* arguments that it has a use for: enum model_use */
    /* With MODEL_LOSS and MODEL_ENCODER: "full bpr", the first by default. */
    const char *losses, *encoders;
    /* Fills `net` but for the optimizer. Net names live as long as the
       context. */
    fl_status (*build)(fl_ctx *c, const model_args *args, model_net *net);
} model;

/* Every row of models.def, in its order. */
extern const model *const model_all[];
extern const size_t model_count;

/* NULL when there is none. */
const model *model_find(const char *name);

/* --- for networks --------------------------------------------------------- */

/* Feeds of the data, in the order of a line: [-1, width], or lists of any
   length. NULL when one of them failed. */
fl_var *model_ids(fl_ctx *c, model_net *net, const char *name, int64_t width);
fl_var *model_id_list(fl_ctx *c, model_net *net, const char *name);
fl_var *model_floats(fl_ctx *c, model_net *net, const char *name,
                     int64_t width);

/* Lines of the file of words; says why it cannot be read. */
fl_status model_count_lines(const char *path, int64_t *out);

/* The format that was asked for, else the model's: printed as usual. */
void model_format(const model_args *args, model_net *net, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A layer of x [n, inputs] whose weights begin with a spread of
   1 / sqrt(inputs). */
fl_var *model_fc(fl_var *x, int64_t width, const char *act);

/* Reports a metric under that name: where its layer puts its state. Of an error
   less is better. */
fl_var **model_report(model_net *net, const char *name);
fl_var **model_report_error(model_net *net, const char *name);

/* FL_OK when the last layer of a network was made, else why it was not. */
fl_status model_made(const fl_var *last);

/* The mean of max(0, margin - right + wrong) over scores [n, 1]. */
fl_var *model_hinge(fl_var *right, fl_var *wrong, double margin);

/* Of logits [n, 1] and labels 0 and 1: prediction, loss, AUC and log loss. Where
   a share of the negatives is trained on, the logits are still those of all
   records: loss and AUC are made of the logits of what is seen. */
fl_status model_judge_clicks(model_net *net, fl_var *logits, fl_var *label);

/* Of numbers [n, 1] that are to be near the label: the square loss. */
fl_status model_judge_numbers(model_net *net, fl_var *score, fl_var *label);

/* As the argument for the loss says, one of MODEL_LOSSES. */
#define MODEL_LOSSES "log square"
fl_status model_judge(const model_args *args, model_net *net, fl_var *score,
                      fl_var *label);

/* --- for who trains ------------------------------------------------------- */

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
