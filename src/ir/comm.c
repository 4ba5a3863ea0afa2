/* comm.c - what every backend of the port shares. */
#include "ir/comm.h"

void fl_comm_finish(fl_comm_request *r, fl_status st)
{
    fl_err_save(&r->error, st);
    atomic_store(&r->finished, true);
    fl_wake(r->waker);
}

void fl_comm_free(fl_comm *c)
{
    if (c)
        c->free(c);
}
