/* workers.h - processes that make batches, and the shared memory they come by.
 *
 * Each worker process has a region of shared memory, which takes real memory
 * only where it is touched:
 *
 *     control    the worker's error; which of its shared slots are taken
 *     slot 0     a batch, batch_bytes_max bytes
 *     slot 1 ...
 *
 * A batch in a shared slot (all numbers 64 bits, in the order of the slots):
 *
 *     n_rows
 *     counts     per slot: its values, and its lists where samples are lists
 *                of lists, else 0
 *     columns    the values of slot 0; if it is ragged, its n_rows + 1 offsets,
 *                and of lists their n_lists + 1; then slot 1 ... Each of these
 *                begins at a multiple of 64.
 *
 * So the counts alone say where everything is, and the parent takes no address
 * from a worker: it checks that the counts fit the slots and the shared slot.
 *
 * A worker tells the parent by a pipe which shared slot is ready, and an
 * eventfd counts the shared slots it may fill. One thread of the parent forks
 * the workers, watches the pipes, and ends and reaps the workers, so there are
 * no zombies. The kernel ends a worker when that thread ends, hence also when
 * the parent is killed.
 */
#ifndef FL_DATA_READER_WORKERS_H
#define FL_DATA_READER_WORKERS_H

#include "data/reader/feeder.h"

/* A batch on its way to a consumer; whoever has it may chain it. */
typedef struct fl_ready_batch fl_ready_batch;
struct fl_ready_batch {
    fl_ready_batch *next;
    const fl_feed *feeds;
    size_t n_rows;
    int worker;
};

/* More shared slots would only be memory; it also keeps a pipe from filling up.
   */
#define FL_SHM_SLOTS_MAX 4096

/* The on_ functions are called by the watching thread and must not wait for
   long. on_fail comes with its error set for that thread; nothing comes from
   that worker after on_end or on_fail. */
typedef struct fl_workers_args {
    const fl_feed_spec *spec; /* borrowed */
    int n_workers;
    size_t n_shm_slots; /* of each worker, at most FL_SHM_SLOTS_MAX */
    size_t batch_bytes_max;
    fl_generator fill; /* called in the worker: a whole batch, or the end */
    void *fill_arg;
    void (*on_batch)(void *arg, fl_ready_batch *p);
    void (*on_end)(void *arg, int worker);
    void (*on_fail)(void *arg, int worker, fl_status st);
    void *arg;
} fl_workers_args;

typedef struct fl_workers fl_workers;

/* Forks the workers. They have what the parent has, as a copy: a generator must
   not wait for locks or threads of the parent. Signal handlers are set back to
   the default in them. */
FL_MUST_CHECK
fl_status fl_workers_start(fl_workers **out, const fl_workers_args *args);

/* The shared slot of a batch can be filled again. Any thread. */
void fl_workers_give_back(fl_workers *w, fl_ready_batch *p);

/* Kills the workers that still run, whatever they do, and waits for their end.
   All ready batches are gone afterwards. NULL is fine. */
void fl_workers_stop(fl_workers *w);

#endif
