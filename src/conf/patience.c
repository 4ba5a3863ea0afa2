/* patience.c - how long a job waits for a member that it has lost. */
#include "conf/patience.h"

/* Time to start a trainer or a machine again. */
#define WITH_SERVERS_MS 60000

/* A worker cannot be started again alone, so there is nothing to wait for but a
   connection or a process that was held up: as long again as it takes to be
   told. */
uint64_t fl_patience_ms(const fl_conf *conf, fl_job_shape shape)
{
    if (conf->restart_timeout_ms)
        return (uint64_t)conf->restart_timeout_ms;
    return shape == FL_JOB_OF_WORKERS ? 2 * (uint64_t)conf->suspect_ms
                                      : WITH_SERVERS_MS;
}
