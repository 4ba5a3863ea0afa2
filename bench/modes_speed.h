/* modes_speed.h - how fast jobs of all modes train, with 1 and 2 servers and
 * both transports, in turns with what they are compared with.
 *
 * All of them are processes that were started once. They take turns of half a
 * second or so: a round has a group for each shape of a job (servers, trainers,
 * transport), and in a group the four modes and the references, in an order that
 * changes from round to round. A ratio is taken to the references of the same
 * group and round.
 */
#ifndef BENCH_MODES_SPEED_H
#define BENCH_MODES_SPEED_H

#include "modes_job.h"

#define SPEED_TRAINERS 2

enum { SPEED_LOCAL, SPEED_TABLE, SPEED_REDUCE, SPEED_FLOOR, SPEED_REFS };

typedef struct speed_course {
    const char *name; /* between mode and shape: "" or ".small" */
    const job_work *work;
    const void *task;
    const char *precision;             /* of jobs; NULL: f32 */
    int geo_period;                    /* batches of a trainer */
    size_t warm_batches, turn_batches; /* the same */
    alone_spec refs[SPEED_REFS];       /* one without a name is not there */
} speed_course;

void modes_measure_speed(const speed_course *course);

#endif
