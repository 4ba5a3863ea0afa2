/* pace.h - so many bytes a second, for all threads of a save together. */
#ifndef FL_CKPT_PACE_H
#define FL_CKPT_PACE_H

#include "base/thread.h"

typedef struct fl_pace {
    uint64_t bytes_per_s; /* 0: as fast as it goes */
    fl_mutex mu;          /* guards what follows */
    fl_cond stop;
    uint64_t due_ns; /* when all bytes so far may have been written */
    bool is_stopped;
} fl_pace;

void fl_pace_init(fl_pace *p, uint64_t bytes_per_s);
void fl_pace_release(fl_pace *p);

/* Waits until n bytes more may have been written; NULL is fine. */
void fl_pace_wait(fl_pace *p, uint64_t n);

/* Nobody waits any more, as when the process ends. */
void fl_pace_stop(fl_pace *p);

#endif
