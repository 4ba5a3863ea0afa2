/* job_data.h - the data of a job, dealt out among its trainers. Experimental: it
 * may change with any version.
 */
#ifndef FLOTILLA_EXPERIMENTAL_JOB_DATA_H
#define FLOTILLA_EXPERIMENTAL_JOB_DATA_H

#include "flotilla/data.h"
#include "flotilla/job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes records of all trainers change places: afterwards every record is in
   exactly one of them, chosen at random by the seed. All trainers call it. */
FL_API FL_MUST_CHECK
fl_status fl_job_global_shuffle(fl_job *j, fl_dataset *d, uint64_t seed);

/* Server 0 hands out the files of the dataset as trainers ask for more, so that
   a slow one gets less; every file once per pass over the data, by that name.
   Files of a trainer that is lost are handed out again. */
FL_API FL_MUST_CHECK
fl_status fl_job_dispatch_files(fl_job *j, fl_dataset *d,
                                const char *pass_name);

#ifdef __cplusplus
}
#endif
#endif
