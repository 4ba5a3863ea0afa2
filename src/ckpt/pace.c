/* pace.c - so many bytes a second. */
#include "ckpt/pace.h"

#define NS_PER_S 1e9

void fl_pace_init(fl_pace *p, uint64_t bytes_per_s)
{
    *p = (fl_pace){ .bytes_per_s = bytes_per_s };
    fl_mutex_init(&p->mu);
    fl_cond_init(&p->stop);
}

void fl_pace_release(fl_pace *p)
{
    fl_cond_release(&p->stop);
    fl_mutex_release(&p->mu);
}

/* A save that was held up by others does not catch up afterwards. */
void fl_pace_wait(fl_pace *p, uint64_t n)
{
    uint64_t now, due;

    if (!p || !p->bytes_per_s)
        return;
    now = fl_now_ns();
    fl_lock(&p->mu);
    if (p->due_ns < now)
        p->due_ns = now;
    p->due_ns += (uint64_t)((double)n * NS_PER_S / (double)p->bytes_per_s);
    due = p->due_ns;
    while (!p->is_stopped && fl_cond_wait_until(&p->stop, &p->mu, due))
        ;
    fl_unlock(&p->mu);
}

void fl_pace_stop(fl_pace *p)
{
    fl_lock(&p->mu);
    p->is_stopped = true;
    fl_cond_wake_all(&p->stop);
    fl_unlock(&p->mu);
}
