/* reader.h - what stands behind fl_reader: generators in threads or processes
 * of their own, and the bounded queues between them and the consumers.
 *
 * This part knows slots and shapes, not programs; api/ puts the two together.
 * One thread starts, resets and frees; any thread asks. Reset takes all batches
 * back and ends the waits of those that ask, with FL_ERR_CLOSED. It waits for
 * generators in threads to return, so one that blocks for ever blocks it as
 * well; processes are killed whatever they do.
 *
 * A sample generator puts one sample into the feeder at each call; it may end
 * the sample itself or leave that to the reader. A batch generator puts a whole
 * batch. `end` is set in a call of its own that puts nothing; the generator is
 * not called again for that worker until the next start.
 */
#ifndef FL_DATA_READER_READER_H
#define FL_DATA_READER_READER_H

#include "data/reader/feeder.h"

#define FL_CONSUMERS_MAX 1024
#define FL_READER_WORKERS_MAX 1024
#define FL_READER_CAPACITY_MAX 4000
#define FL_BATCH_BYTES_MAX ((size_t)64 << 20) /* when nothing is said */

/* vars may be NULL, see fl_feed_spec_init. */
FL_MUST_CHECK
fl_status fl_reader_make(fl_reader **out, const fl_slot *slots,
                         const fl_feed_var *vars, size_t n_slots,
                         const fl_reader_args *args);

#endif
