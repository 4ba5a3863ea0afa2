/* geo_dense.h - dense parameters of a trainer and of the servers, kept together
 * as geo_rows.h does it for tables: all of every parameter in every exchange.
 *
 * X is the parameter itself, in the memory that the operators work on: they go
 * on while it is read and added to.
 *
 * Handing over is for any thread; the rest is for one exchange at a time.
 */
#ifndef FL_MODE_GEO_DENSE_H
#define FL_MODE_GEO_DENSE_H

#include "mode/geo_line.h"

typedef struct fl_geo_param {
    const fl_dist_param *is;
    float *live;       /* X, NULL until it is handed over; guarded by mu */
    float *here;       /* X of the exchange under way; NULL: not taken along */
    float *old, *room; /* Y; and what travels. NULL before the first values */
} fl_geo_param;

typedef struct fl_geo_dense {
    fl_mutex mu;
    fl_geo_param *params; /* in the order of the job's */
    size_t n;
    fl_cluster_blocks blocks; /* of the exchange under way */
} fl_geo_dense;

void fl_geo_dense_init(fl_geo_dense *d, const fl_geo_line *line);
void fl_geo_dense_release(fl_geo_dense *d);

/* The servers' values become those of X and Y. Waits for them. */
FL_MUST_CHECK
fl_status fl_geo_dense_start(fl_geo_dense *d, const fl_geo_line *line,
                             const fl_param_values *values, size_t n);

/* Where parameters are from now on. */
FL_MUST_CHECK
fl_status fl_geo_dense_hand_over(fl_geo_dense *d, const fl_geo_line *line,
                                 const fl_param_values *values, size_t n);

/* The parameters handed over so far take part in the next exchange, and of others
   what the scope has. */
void fl_geo_dense_cut(fl_geo_dense *d, const fl_geo_line *line);

/* As those of geo_rows.h. */
FL_MUST_CHECK
fl_status fl_geo_dense_begin_push(fl_geo_dense *d, const fl_geo_line *line,
                                  fl_latch *w);
FL_MUST_CHECK
fl_status fl_geo_dense_begin_pull(fl_geo_dense *d, const fl_geo_line *line,
                                  fl_latch *w);
void fl_geo_dense_take_news(fl_geo_dense *d);

#endif
