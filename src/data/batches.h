/* batches.h - batches on their way from the threads that make them to the
 * threads that train on them. Bounded; any thread.
 *
 * Batches are recycled: a producer gets an empty one, fills and puts it; a
 * consumer takes it and gives it back.
 */
#ifndef FL_DATA_BATCHES_H
#define FL_DATA_BATCHES_H

#include "base/thread.h"
#include "data/columns.h"

typedef struct fl_batches fl_batches;

/* At most `capacity` batches wait. */
fl_batches *fl_batches_new(const fl_schema *s, size_t capacity);
void fl_batches_free(fl_batches *b);

/* An empty batch to fill. Waits while `capacity` are waiting to be taken or
   being filled; FL_ERR_CLOSED once it is closed or has failed. It is put, or
   given back when it could not be filled. */
FL_MUST_CHECK
fl_status fl_batches_empty(fl_batches *b, fl_columns **out);
void fl_batches_put(fl_batches *b, fl_columns *c);

/* The next one; NULL at the end and once it is closed. Waits, and adds the time
   to *waited_ns. The error of fl_batches_fail is given to every consumer. */
FL_MUST_CHECK
fl_status fl_batches_take(fl_batches *b, fl_columns **out, uint64_t *waited_ns);
void fl_batches_give_back(fl_batches *b, fl_columns *c);

/* No more will be put: consumers get what is left, then NULL. */
void fl_batches_finish(fl_batches *b);
/* The pass failed: this thread's error goes to the consumers, at once. */
void fl_batches_fail(fl_batches *b, fl_status st);
/* Nobody takes any more: producers get FL_ERR_CLOSED. */
void fl_batches_close(fl_batches *b);

#endif
