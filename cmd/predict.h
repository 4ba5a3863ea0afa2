/* predict.h - the parts of `flotilla predict`.
 *
 *   predict.c         options, the model and the data
 *   predict_feeds.c   slots of the data as inputs of the model
 *   predict_pass.c    threads that score, lines in the order of the records
 */
#ifndef FL_CMD_PREDICT_H
#define FL_CMD_PREDICT_H

#include "data.h"
#include "scoring.h"

typedef struct predict_args {
    const char *self;
    scoring_args model;
    data_args data; /* threads: those that score */
} predict_args;

/* The slots of the data that are inputs of the model, in the order of these. */
typedef struct predict_feeds {
    const fl_model_var *inputs;
    size_t n;
    size_t *slot; /* by input: its place among the slots */
} predict_feeds;

/* The words of --slots for data that has the model's inputs and nothing else;
   freed with free(). NULL without memory. */
char *predict_slots(const fl_model *m);

/* Fails, and says which, when an input has no slot of its name. */
int predict_feeds_find(const predict_args *a, const fl_model *m,
                       const data_input *in, predict_feeds *out);
void predict_feeds_release(predict_feeds *f);

/* The feeds of a batch in the order of the inputs; dense ones get the shape of
   their input. */
void predict_feeds_of(const predict_feeds *f, const fl_feed *batch,
                      size_t n_rows, fl_feed *out);

/* Scores all of the data; CMD_OK, or CMD_FAILED after saying what is wrong. */
int predict_pass(const predict_args *a, fl_model *m, data_input *in,
                 const predict_feeds *feeds);

#endif
