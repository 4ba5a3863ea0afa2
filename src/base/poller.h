/* poller.h - how threads that wait for an event loop help it along.
 *
 * A poller is the loop as others see it: those who wait for what the loop does
 * know neither the loop nor what runs in it. Any thread, but not from the
 * loop's own callbacks unless it says so.
 */
#ifndef FL_BASE_POLLER_H
#define FL_BASE_POLLER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct fl_poller fl_poller;

struct fl_poller {
    /* Runs what was deferred, and what that posts, until nothing is left, and
       then what has arrived, if no other thread sees to it; does nothing in a
       callback, or when nothing was deferred. */
    void (*flush)(fl_poller *p);
    /* Flushes, then waits until is_over(arg), and runs the loop meanwhile where
       no other thread does. Whoever changes what is_over looks at notifies
       afterwards. */
    void (*wait)(fl_poller *p, bool (*is_over)(void *arg), void *arg);
    /* Has all who wait look again. From callbacks, too. */
    void (*notify)(fl_poller *p);
};

/* NULL, of what needs no help, is fine in both. */
static inline void fl_poller_flush(fl_poller *p)
{
    if (p)
        p->flush(p);
}

static inline void fl_poller_notify(fl_poller *p)
{
    if (p)
        p->notify(p);
}

#endif
