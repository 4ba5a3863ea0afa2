/* geo_check.h - what mode geo cannot train, and what it needs of memory: every
 * trainer has all that it trains, and copies of it. */
#ifndef FL_MODE_GEO_CHECK_H
#define FL_MODE_GEO_CHECK_H

#include "conf/conf.h"
#include "pass/dist.h"

/* The check of fl_mode. */
FL_MUST_CHECK
fl_status fl_geo_check(const fl_conf *conf, const fl_program *main,
                       const fl_program *startup);

typedef struct fl_geo_needs {
    uint64_t dense_bytes; /* two copies of the dense parameters */
    uint64_t table_bytes; /* rows and their copies, if every id occurs */
    int n_unknown;        /* tables of any id, which are not in table_bytes */
} fl_geo_needs;

/* Of a trainer. */
FL_MUST_CHECK
fl_status fl_geo_needs_of(const fl_dist *d, fl_geo_needs *out);

/* What the system has left; UINT64_MAX where it does not say. */
uint64_t fl_geo_available(void);

/* Fails when it is not enough, else says what will be used. */
FL_MUST_CHECK
fl_status fl_geo_check_memory(const fl_geo_needs *needs, uint64_t available);

#endif
