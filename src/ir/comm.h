/* comm.h - the port between operators and the tables of sparse rows.
 *
 * Operators know no network: pull_sparse and push_sparse see this port, and
 * behind it stands an array, a hashed table, a cluster or a frozen model. A
 * backend is a table of functions with a struct of its own behind it.
 *
 * A request is the operator's memory from the call until its completion. A
 * backend that answers at once returns FL_OK; one that needs time returns
 * FL_PENDING and calls fl_comm_finish later, from any thread, exactly once.
 */
#ifndef FL_IR_COMM_H
#define FL_IR_COMM_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/status.h"
#include "ir/op.h"
#include "optim/rule.h"

/* What a table is, told to the backend before the first request. */
typedef struct fl_table_spec {
    const char *name;
    uint32_t dim;
    uint64_t height; /* 0: any 64-bit id; else ids are below it */
    fl_init init;
    const char *rule;            /* update rule, see optim/optims.def */
    double p[FL_RULE_PARAM_MAX]; /* its settings */
    bool flag;
} fl_table_spec;

/* Rows [0, n) of one table, by different keys. */
typedef struct fl_comm_request {
    const char *table;
    uint32_t dim; /* numbers of a row; refused when the table has others */
    const uint64_t *keys;
    size_t n;
    float *rows; /* pull: filled; push: the gradients */
    double lr;   /* push: the rate of this step */
    bool merged; /* push: no key occurs twice */
    fl_waker *waker;
    fl_err error; /* set by fl_comm_finish */
    atomic_bool finished;
} fl_comm_request;

struct fl_comm {
    const char *name; /* for messages: "array" */
    fl_status (*declare)(fl_comm *c, const fl_table_spec *spec);
    fl_status (*pull)(fl_comm *c, fl_comm_request *r);
    fl_status (*push)(fl_comm *c, fl_comm_request *r);
    void (*free)(fl_comm *c);
};

/* Ends a pending request: stores the error of this thread for `st` and wakes
   the operator. */
void fl_comm_finish(fl_comm_request *r, fl_status st);

/* Tables as arrays in this process: ids are row numbers below the height. */
fl_comm *fl_comm_array_new(void);

/* NULL is fine. */
void fl_comm_free(fl_comm *c);

#endif
