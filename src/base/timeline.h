/* timeline.h - what the threads of this process did when, in the form that
 * Perfetto and chrome://tracing load (docs/formats/trace.md).
 *
 * There is one per process, as there is one clock; it is off until somebody
 * starts it, and costs one load then. The file is written when the process ends
 * in order, under the name that the process has got by then. Any thread.
 *
 *     uint64_t since = fl_timeline_now();             0: it is off
 *     ... work ...
 *     fl_timeline_add("op", "mul", "fc_0.tmp_0", since);
 */
#ifndef FL_BASE_TIMELINE_H
#define FL_BASE_TIMELINE_H

#include <stdatomic.h>

#include "base/thread.h"

/* Starts it, unless it runs; the folder is made when the file is written. */
void fl_timeline_start(const char *folder);

/* "worker 0". The last one stays. */
void fl_timeline_name(const char *role, int number, const char *job);

/* How far the clock of the job is ahead of ours, and how wrong that may be. */
void fl_timeline_set_clock(int64_t ahead_ns, uint64_t error_ns);

extern atomic_bool fl_timeline_on;

static inline uint64_t fl_timeline_now(void)
{
    return atomic_load_explicit(&fl_timeline_on, memory_order_relaxed)
               ? fl_now_ns()
               : 0;
}

/* Something of this thread that began at `since` and ends now; nothing for 0.
   Texts are copied and may be cut; what: a detail, NULL: none. */
void fl_timeline_add(const char *kind, const char *name, const char *what,
                     uint64_t since);

#endif
