/* trace.h - what ran when: a list of events, as a profile or a timeline. Any
 * thread may add; reading waits for nobody, so read between runs. */
#ifndef FL_EXEC_TRACE_H
#define FL_EXEC_TRACE_H

#include "base/thread.h"
#include "base/vec.h"

typedef struct fl_trace_event {
    char name[48];
    char what[48]; /* first output */
    int thread;
    uint64_t start_ns, end_ns;
} fl_trace_event;

typedef struct fl_trace {
    fl_mutex mu;
    FL_VEC(fl_trace_event) events; /* guarded by mu */
    uint64_t dropped;              /* guarded by mu: beyond the limit */
} fl_trace;

void fl_trace_init(fl_trace *t);
void fl_trace_release(fl_trace *t);
void fl_trace_clear(fl_trace *t);
void fl_trace_add(fl_trace *t, const fl_trace_event *e);

/* A table: operator, calls, milliseconds, mean, share. */
char *fl_trace_profile(fl_trace *t);
char *fl_trace_profile_json(fl_trace *t);

/* The Chrome trace format. */
char *fl_trace_json(fl_trace *t);

#endif
