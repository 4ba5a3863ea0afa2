/* predict.h - the parts of `flotilla predict`.
 *
 *   predict.c         options, the model and the data
 *   predict_feeds.c   slots of the data as inputs of the model
 *   predict_pass.c    batches that were scored, in the order of the records
 *   predict_lines.c   scores as lines
 *
 * `flotilla eval` has the options and the pass in common with it.
 */
#ifndef FL_CMD_PREDICT_H
#define FL_CMD_PREDICT_H

#include "data.h"
#include "scoring.h"

typedef struct predict_args predict_args;

struct predict_args {
    const char *self;
    scoring_args model;
    data_args data;     /* threads: those that score */
    const option *more; /* options of the command's own */
    size_t n_more;
    /* After the options are read, before anything is opened; NULL: nothing. */
    int (*prepare)(predict_args *a);
    int (*use)(const predict_args *a, fl_model *m, data_input *in);
    void *arg; /* for it */
};

/* A command that scores: `more` and `use` are set. */
int predict_main(int argc, char **argv, predict_args *a);

/* The words of --slots for data that has the model's inputs and nothing else;
   freed with free(). NULL without memory. */
char *predict_slots(const fl_model *m);

/* Fails, and says which, when an input has no slot of its name. */
int predict_check_inputs(const predict_args *a, const fl_model *m,
                         const data_input *in);

#define PREDICT_WHY_BYTES 4608

/* A batch that was scored, and what its thread made of it. */
typedef struct predict_batch {
    const fl_feed *slots; /* of the data, in their order */
    size_t n_rows;
    uint64_t number;
    const fl_tensor *outputs; /* of the model */
    size_t n_outputs;
    char *text; /* for make; freed with free() */
    size_t len, cap;
} predict_batch;

typedef struct predict_taker {
    /* By the thread that scored, any number at once: why it cannot be done, or
       NULL. May be NULL itself. */
    const char *(*make)(predict_batch *b);
    /* One batch at a time, in the order of the records; false after filling
       `why`. */
    bool (*take)(void *arg, const predict_batch *b,
                 char why[PREDICT_WHY_BYTES]);
    void *arg;
    /* Of n_shares this one's batches alone, where a job has several
       processes; n_shares 0: all. */
    size_t mine, n_shares;
} predict_taker;

/* Scores all of the data; CMD_OK, or CMD_FAILED after saying what is wrong. */
int predict_pass(const predict_args *a, fl_model *m, data_input *in,
                 const predict_taker *taker);
int predict_lines(const predict_args *a, fl_model *m, data_input *in);

#endif
