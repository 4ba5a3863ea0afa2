/* comm.h - the port between operators and the tables of sparse rows.
 *
 * Operators know no network: init_table, pull_sparse and push_sparse see this
 * port, and behind it stands a table of this process, a cluster or a frozen
 * model. A backend is a table of functions with a struct of its own behind it.
 *
 * A request is the operator's memory from the call until its completion. A
 * backend that answers at once returns FL_OK; one that needs time returns
 * FL_PENDING and calls fl_comm_finish later, from any thread, exactly once.
 */
#ifndef FL_IR_COMM_H
#define FL_IR_COMM_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/status.h"
#include "ir/op.h"

/* Rows [0, n) of one table. A backend checks dim against the table's. */
typedef struct fl_comm_request {
    const char *table;
    const uint64_t *keys; /* all different */
    size_t n;
    uint32_t dim;
    float *rows;                 /* pull: filled; push: the gradients */
    bool create;                 /* pull: make rows for new keys */
    double lr;                   /* push: the rate of this step */
    const float *shows, *clicks; /* push: by key; NULL: one and none each */
    const uint32_t *counts;      /* push: how often; NULL: once each */
    fl_waker *waker;
    fl_err error; /* set by fl_comm_finish */
    atomic_bool finished;
} fl_comm_request;

struct fl_comm {
    const char *name; /* for messages: "local" */
    /* Makes the table, or empties it when one of that name and the same
       settings exists; other settings are an error. The notation of the
       settings is that of fl_ctx_make_table. */
    fl_status (*declare)(fl_comm *c, const char *table, const char *settings,
                         uint64_t seed);
    fl_status (*pull)(fl_comm *c, fl_comm_request *r);
    fl_status (*push)(fl_comm *c, fl_comm_request *r);
    void (*free)(fl_comm *c);
};

/* Ends a pending request: stores the error of this thread for `st` and wakes
   the operator. */
void fl_comm_finish(fl_comm_request *r, fl_status st);

/* NULL is fine. */
void fl_comm_free(fl_comm *c);

#endif
