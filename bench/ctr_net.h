/* ctr_net.h - the network of ctr_data.h, built through the public interface,
 * batches for it, and what it is worth on samples it has not seen.
 *
 * A ctr_batch is the memory of one batch; each thread has its own.
 */
#ifndef BENCH_CTR_NET_H
#define BENCH_CTR_NET_H

#include <stdbool.h>

#include "ctr_data.h"
#include "flotilla/flotilla.h"

#define CTR_FEEDS (CTR_SLOTS + 2)
extern const char *const ctr_feed_names[CTR_FEEDS];

/* How the network is made. */
typedef struct ctr_net_spec {
    bool is_distributed; /* rows in the hashed table instead of an array */
    bool is_dense;       /* gradients of all rows, touched or not */
    bool is_frozen;      /* rows are not trained: the tower alone is */
    int64_t rows;        /* that there may be; 0: CTR_ROWS */
    /* NULL: the network is not trained. */
    const char *optimizer, *settings;
} ctr_net_spec;

typedef struct ctr_net_names {
    const char *loss, *predicted; /* of the context */
} ctr_net_names;

/* Adds the network to the default programs of the context. */
ctr_net_names ctr_net_build(fl_ctx *c, const ctr_net_spec *spec);

/* What is learnt: the rows and the dense parameters. */
#define CTR_PARTS (2 * CTR_LAYERS + 3)
typedef struct ctr_part {
    const char *name;
    int64_t rows, width; /* width 0: one dimension */
} ctr_part;
extern const ctr_part ctr_parts[CTR_PARTS]; /* the rows come first */
size_t ctr_part_size(const ctr_part *p);

/* --- batches -------------------------------------------------------------- */

#define CTR_JOIN_MAX 4 /* batches that are fed as one */

typedef struct ctr_batch {
    int64_t ids[CTR_SLOTS][CTR_JOIN_MAX * CTR_BATCH];
    int64_t offsets[CTR_JOIN_MAX * CTR_BATCH + 1];
} ctr_batch;

ctr_batch *ctr_batch_new(void); /* freed with free() */

/* n_joined batches of the data from number `at` on, counted on and on over the
   data. Feeds point into the batch and the data. */
void ctr_batch_fill(ctr_batch *to, const ctr_data *d, size_t at, int n_joined,
                    fl_feed *feeds);

/* --- judging -------------------------------------------------------------- */

/* A network that gets its parts from elsewhere and is not trained. */
typedef struct ctr_judge ctr_judge;
ctr_judge *ctr_judge_new(void);
void ctr_judge_free(ctr_judge *j);
void ctr_judge_set(ctr_judge *j, const ctr_part *p, const float *values);

/* Area under the curve of its predictions, and of the planted odds, which
   nothing that learns can surpass by more than chance. */
double ctr_judge_auc(ctr_judge *j, const ctr_data *d);
double ctr_best_auc(const ctr_data *d);

#endif
