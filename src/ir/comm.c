/* comm.c - what every backend of the port shares. */
#include "ir/comm.h"

void fl_comm_begin(fl_comm_answer *a, fl_waker *waker)
{
    a->waker = waker;
    a->error.status = FL_OK;
    atomic_store(&a->finished, false);
}

fl_status fl_comm_result(const fl_comm_answer *a)
{
    if (!atomic_load(&a->finished))
        return FL_PENDING;
    return a->error.status ? fl_err_restore(&a->error) : FL_OK;
}

void fl_comm_finish(fl_comm_answer *a, fl_status st)
{
    fl_err_save(&a->error, st);
    atomic_store(&a->finished, true);
    fl_wake(a->waker);
}

void fl_comm_flush(fl_comm *c)
{
    if (c)
        fl_poller_flush(atomic_load(&c->poller));
}

void fl_comm_free(fl_comm *c)
{
    if (c)
        c->life->free(c);
}
