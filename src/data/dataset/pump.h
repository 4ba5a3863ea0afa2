/* pump.h - threads that turn files into rows.
 *
 * A thread belongs to no file. When it wants work it takes a block of lines
 * from any file that is open and that no other thread is reading right now,
 * parses it, and hands the rows on. When no open file has anything (a slow
 * pipe), it opens the next one. So one large file feeds all threads, and a slow
 * one stops none. With one thread and plain files, records come in the order of
 * the files.
 *
 * Files of a cache directory are read instead of the text when they fit
 * (cache.h), and are written on the way when they do not. A file that is not
 * a regular one (a FIFO) is always read.
 *
 * With a dispatcher (dispatcher.h) the next file to open is the one that it names.
 *
 * A pass may go on behind records that were trained before (position.h): files
 * of which all were are not opened, and of the others those records are not
 * handed on. Until they are behind it a file is parsed by one thread at a time.
 */
#ifndef FL_DATA_DATASET_PUMP_H
#define FL_DATA_DATASET_PUMP_H

#include "base/stats.h"
#include "data/dataset/bad.h"
#include "data/dataset/dispatcher.h"
#include "data/dataset/source.h"
#include "data/dataset/trained.h"

#define FL_PUMP_THREADS_MAX 1024

/* Takes rows from worker thread `worker`, which are the run `from`; it may move
   them away or leave them to be overwritten. A failure ends the pass with it.
   FL_ERR_CLOSED ends it without an error. */
typedef fl_status (*fl_take_rows)(void *arg, int worker, fl_row_run from,
                                  fl_records *rows);

typedef struct fl_pump_args {
    const fl_paths *paths;
    const fl_parser *parser;
    fl_source_options source;
    fl_bad_limits limits;
    const char *cache; /* directory; NULL: none */
    int n_threads;
    uint64_t epoch;
    const fl_dispatcher *dispatcher; /* NULL: all files, in their order */
    uint64_t pass; /* number that the dispatcher knows this pass by */
    /* By file, what was trained before; entries may be NULL. NULL: nothing. */
    const fl_file_position *const *before;
    fl_trained *trained; /* is told of the blocks; NULL: nobody is */
    fl_take_rows take;
    void *arg;
} fl_pump_args;

/* Files are those that were read to the end; lines have headers and all, and
   are skipped when they are good but make no record, which a cache does not
   know; bytes are of text, or of the records that a cache gave. */
#define FL_PUMP_STATS(X)                                                       \
    X(files, COUNT)                                                            \
    X(empty_files, COUNT)                                                      \
    X(cached_files, COUNT)                                                     \
    X(lines, COUNT)                                                            \
    X(records, COUNT)                                                          \
    X(bad_lines, COUNT)                                                        \
    X(skipped_lines, COUNT)                                                    \
    X(read, BYTES)
FL_STATS(fl_pump_stats, FL_PUMP_STATS);

typedef struct fl_pump fl_pump;

/* Starts the threads. The args' pointers must live until the join. A cache for
   a format that draws is refused. */
FL_MUST_CHECK
fl_status fl_pump_start(fl_pump **out, const fl_pump_args *args);

/* Asks the threads to stop soon. Any thread. */
void fl_pump_stop(fl_pump *p);

/* Until every thread has handed on its last rows. Any thread. */
void fl_pump_wait(fl_pump *p);

/* Waits for the end, frees it and gives the first error. stats may be NULL; it
   is filled in either way. */
FL_MUST_CHECK
fl_status fl_pump_join(fl_pump *p, fl_pump_stats *stats);

/* How much the pass has seen so far. Any thread. */
fl_pump_stats fl_pump_progress(fl_pump *p);

#endif
