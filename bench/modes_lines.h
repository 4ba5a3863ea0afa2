/* modes_lines.h - what somebody trains first: a small DeepFM on lines of Criteo's
 * form, read from files by a dataset.
 *
 * A turn is a pass over the files: a trainer of a job reads its own, local
 * threads read all of them, each with as many reading threads as train.
 */
#ifndef BENCH_MODES_LINES_H
#define BENCH_MODES_LINES_H

#include "modes_job.h"

#define LINES_FILES 2
#define LINES_BATCHES 1000 /* of a file */

typedef struct lines_task {
    char paths[LINES_FILES][64];
} lines_task;

/* Writes the first samples of the data; the ends of the paths are its own. */
void lines_task_init(lines_task *t, const ctr_data *d);
void lines_task_release(lines_task *t); /* removes the files */

/* Without trainers (a job_spec of one process): all files by as many threads. */
extern const job_work lines_work;

#endif
