/* geo_line.h - what the parts of an exchange need to know of the job. */
#ifndef FL_MODE_GEO_LINE_H
#define FL_MODE_GEO_LINE_H

#include "mode/cluster.h"

/* Larger messages gain nothing, and smaller ones are worked on at both ends at
   the same time. */
#define FL_GEO_MESSAGE_BYTES (UINT64_C(8) << 20)

typedef struct fl_geo_line {
    fl_cluster *cluster;
    float n_trainers;
    uint64_t message_bytes; /* of a request, unless one row or block is more */
} fl_geo_line;

static inline fl_geo_line fl_geo_line_of(fl_cluster *c)
{
    uint64_t half = (uint64_t)fl_cluster_conf(c)->max_message_bytes / 2;

    return (fl_geo_line){
        .cluster = c,
        .n_trainers = (float)fl_cluster_dist(c)->config.n_trainers,
        .message_bytes =
            half < FL_GEO_MESSAGE_BYTES ? half : FL_GEO_MESSAGE_BYTES,
    };
}

/* Waits for what has begun, also after an error `st` in the midst of beginning,
   which then is the result. */
FL_MUST_CHECK
static inline fl_status fl_geo_settle(fl_latch *w, fl_status st)
{
    fl_status ended;
    fl_err why;

    fl_err_save(&why, st);
    ended = fl_latch_wait(w);
    return st ? fl_err_restore(&why) : ended;
}

#endif
