/* job_view.h - rows and dense parameters of a live job, for a tool that takes no
 * part in it.
 *
 * The look token is enough. Nothing is changed by looking, no row is made, and
 * what is seen is as it is at that moment. Any thread may read; every read ends:
 * a server that is gone or silent is named.
 */
#ifndef FL_DIST_JOB_VIEW_H
#define FL_DIST_JOB_VIEW_H

#include "flotilla/job.h"

typedef struct fl_job_view fl_job_view;

/* Asks server 0 at the address where the others are, and connects to all of
   them. The context gives settings, for the time of the call. */
FL_MUST_CHECK
fl_status fl_job_view_open(fl_job_view **out, fl_ctx *c, const char *address);
void fl_job_view_close(fl_job_view *v); /* NULL is fine */

/* Keys of a table, and the room for what they have. */
typedef struct fl_view_rows {
    const char *table;
    const uint64_t *keys;
    size_t n;
    uint32_t dim;
    float *out;       /* [n, dim] */
    uint8_t *missing; /* [n]: 1 where there is no row */
} fl_view_rows;

FL_MUST_CHECK
fl_status fl_job_view_read(const fl_job_view *v, const fl_view_rows *r);

/* The numbers of a dense parameter of that shape, also of one whose rows the
   servers keep in a table. FL_ERR_NOTFOUND: the job has none of that name. */
FL_MUST_CHECK
fl_status fl_job_view_dense(const fl_job_view *v, const char *name,
                            const fl_shape *shape, float *out);

#endif
