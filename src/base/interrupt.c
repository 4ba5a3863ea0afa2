/* interrupt.c - the list of what can be stopped. The lock is held while it is
 * stopped, and taken before any other. */
#include "base/interrupt.h"

#include "base/thread.h"

static fl_mutex mu = PTHREAD_MUTEX_INITIALIZER;
static fl_interruptible *first; /* guarded by mu */

void fl_interruptible_enter(fl_interruptible *i)
{
    fl_lock(&mu);
    i->prev = NULL;
    i->next = first;
    if (first)
        first->prev = i;
    first = i;
    fl_unlock(&mu);
}

void fl_interruptible_leave(fl_interruptible *i)
{
    fl_lock(&mu);
    if (i->prev)
        i->prev->next = i->next;
    else
        first = i->next;
    if (i->next)
        i->next->prev = i->prev;
    fl_unlock(&mu);
}

void fl_interrupt(fl_interrupt_kind kind)
{
    fl_lock(&mu);
    for (fl_interruptible *i = first; i; i = i->next)
        if (i->kind <= kind)
            i->stop(i->arg);
    fl_unlock(&mu);
}

fl_status fl_interrupted(const char *what)
{
    FL_FAIL(FL_ERR_CLOSED, "%s was interrupted", what);
}
