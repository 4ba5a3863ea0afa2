/* interrupt.h - work that a user ends early, with Ctrl-C for example.
 *
 * What may take long registers how it is stopped while it is under way;
 * fl_interrupt (flotilla/status.h) calls these functions. There is one list for
 * the process, as there is one keyboard. Any thread.
 */
#ifndef FL_BASE_INTERRUPT_H
#define FL_BASE_INTERRUPT_H

#include "base/status.h"

/* The caller's, from enter to leave. `stop` is called by another thread, maybe
   several times, and does not wait; after leave it is not running any more. */
typedef struct fl_interruptible {
    fl_interrupt_kind kind; /* what is needed for it */
    void (*stop)(void *arg);
    void *arg;
    struct fl_interruptible *prev, *next;
} fl_interruptible;

void fl_interruptible_enter(fl_interruptible *i);
void fl_interruptible_leave(fl_interruptible *i);

/* The error of what was stopped. */
fl_status fl_interrupted(const char *what);

#endif
