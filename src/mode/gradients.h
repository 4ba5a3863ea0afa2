/* gradients.h - copies of gradients that wait to be sent.
 *
 * A pool belongs to one variable. Gradients come from it and go back to it, so
 * that a steady stream of them allocates nothing. Any thread.
 */
#ifndef FL_MODE_GRADIENTS_H
#define FL_MODE_GRADIENTS_H

#include "base/buf.h"
#include "base/thread.h"
#include "base/vec.h"
#include "mode/queues.h"

typedef struct fl_gradient {
    fl_queue_entry entry;          /* the first member */
    struct fl_gradient *next_part; /* of the same step, in the order of parts */
    fl_rows rows;  /* of a dense parameter: values are its n numbers */
    fl_buf memory; /* what the rows point to */
} fl_gradient;

/* Parts of a step that have come; one step per thread is under way. */
typedef struct fl_gradient_step {
    int thread, n_parts, n_here;
    fl_gradient **parts;
} fl_gradient_step;

typedef struct fl_gradient_pool {
    fl_mutex mu;
    fl_gradient *spare;             /* guarded by mu; linked as parts are */
    FL_VEC(fl_gradient_step) steps; /* guarded by mu */
} fl_gradient_pool;

void fl_gradient_pool_init(fl_gradient_pool *s);
void fl_gradient_pool_release(fl_gradient_pool *s);

/* A copy of a push, as one part of its step or as all of it. */
FL_MUST_CHECK
fl_status fl_gradient_of_rows(fl_gradient_pool *s, const fl_comm_request *r,
                              fl_gradient **out);
FL_MUST_CHECK
fl_status fl_gradient_of_param(fl_gradient_pool *s, const fl_param_values *v,
                               fl_gradient **out);

/* Puts a part beside the others of its step. NULL while some are missing, else
   part 0 with the others behind it. A part that comes again begins a new step:
   that of the one before has failed, and its parts are dropped. */
fl_gradient *fl_gradient_collect(fl_gradient_pool *s,
                                 const fl_worker_id *worker, fl_gradient *part);

/* A list of queue entries, each with its parts, goes back to the pool. */
void fl_gradients_give_back(fl_gradient_pool *s, fl_queue_entry *list);

#endif
