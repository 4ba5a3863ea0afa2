/* patience.h - how long a job waits for a member that it has lost (the setting
 * restart_timeout_ms). Any thread. */
#ifndef FL_CONF_PATIENCE_H
#define FL_CONF_PATIENCE_H

#include "conf/conf.h"

typedef enum fl_job_shape {
    FL_JOB_WITH_SERVERS,
    FL_JOB_OF_WORKERS /* every worker serves: what a lost one held is gone */
} fl_job_shape;

/* In milliseconds. */
uint64_t fl_patience_ms(const fl_conf *conf, fl_job_shape shape);

#endif
