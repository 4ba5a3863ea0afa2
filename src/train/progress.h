/* progress.h - how far a pass over the data is, for people. */
#ifndef FL_TRAIN_PROGRESS_H
#define FL_TRAIN_PROGRESS_H

#include "flotilla/data.h"

/* The line itself, for example
     1.20M samples, 58.1k/s, loss 0.4512, AUC 0.7811, 43 %, 0:35 left
   and in a job
     worker 0 of 2: 1.20M samples, 58.1k/s (all workers 115k/s), ... */
void fl_progress_line(const fl_progress *p, char *out, size_t cap);

#endif
