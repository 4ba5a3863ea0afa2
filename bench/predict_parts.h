/* predict_parts.h - the parts of the bench of predictions: a model on disk and
 * batches for it, which all of them score. Each measures and reports for itself.
 * One thread.
 */
#ifndef BENCH_PREDICT_PARTS_H
#define BENCH_PREDICT_PARTS_H

#include "ctr_net.h"
#include "flotilla/predict.h"
#include "floor_predict.h"

#define PREDICT_SAMPLES 20000
#define PREDICT_MOST_BATCH 256
#define PREDICT_INPUTS (CTR_SLOTS + 1)

/* The model on disk, and as the floor has it. */
typedef struct models {
    char dir[64];
    ctr_data data;
    fl_model *model;
    fl_predictor *predictor; /* the one that is measured */
    floor_predict *floor;
} models;

/* Batches of one size. One set of feeds is pointed at each of them in turn, as a
   program does that gets its records from elsewhere; or it is bound, and each of
   them is copied to where it is, as a program does whose requests come one at a
   time. */
typedef struct batches {
    models *m;
    size_t size, n;
    bool is_bound;
    int64_t *ids;       /* [n][slots][size] */
    int64_t *offsets;   /* size + 1 */
    int64_t *bound_ids; /* [slots][size] */
    float *bound_dense; /* [size][dense] */
    fl_feed feeds[PREDICT_INPUTS];
    double *micros; /* of batches_time, by batch */
    float *ours, *straight;
} batches;

/* Microseconds of a clock that only goes on. */
double predict_now_us(void);

void models_new(models *m);
void models_free(models *m);

/* The predictor is made of the model that is open. NULL: rows are its own. */
void models_open(models *m, bool in_memory, fl_row_source *rows);
void models_close(models *m);

void batches_init(batches *b, models *m, size_t size);
void batches_bind(batches *b);
void batches_release(batches *b);

/* The score of each record of an output. */
void take_scores(const fl_tensor *t, size_t n, float *to);

/* Sides for the harness; the argument is a batches. */
double batches_ours(void *arg);
double batches_straight(void *arg);

/* The same once, with the CPU time of each run: what another process takes away
   is not in it. */
void batches_time(batches *b);

/* Ends the program unless they agree. */
void check_scores(const float *ours, const float *straight, size_t n);

void remove_folder(const char *dir);

/* Rows from a Redis of its own, against bare reads of them. */
void bench_predict_redis(models *m);

#endif
