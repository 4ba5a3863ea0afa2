/* trained.h - which records of a pass were trained, while it is under way.
 *
 * Blocks of a file are parsed by several threads, each when it has the time, so
 * the number of a record in its file is known only when all blocks before it
 * were parsed. Therefore pieces of blocks are kept, and become records of files
 * when a position is asked for.
 *
 * Any thread.
 */
#ifndef FL_DATA_DATASET_TRAINED_H
#define FL_DATA_DATASET_TRAINED_H

#include "data/dataset/position.h"
#include "data/runs.h"

typedef struct fl_trained fl_trained;

fl_trained *fl_trained_new(size_t n_files);
void fl_trained_free(fl_trained *t); /* NULL is fine */

/* A file is read, out of a cache or as text. */
void fl_trained_begin(fl_trained *t, uint32_t file, bool is_cached);
/* A block has so many records, be it none. */
void fl_trained_block(fl_trained *t, uint32_t file, uint32_t block, uint64_t n);
/* All blocks of a file were told. */
void fl_trained_end(fl_trained *t, uint32_t file);
/* What was trained of a file before this pass, be it read again or not. */
void fl_trained_before(fl_trained *t, uint32_t file,
                       const fl_file_position *before);
/* No block will be told any more; nobody waits for one. */
void fl_trained_close(fl_trained *t);

/* They were trained. */
void fl_trained_add(fl_trained *t, const fl_row_runs *runs);

/* What was trained of a file, into all of *out but its path. Waits for blocks
   that are being parsed; fails when that does not come to an end. */
FL_MUST_CHECK
fl_status fl_trained_of(fl_trained *t, uint32_t file, fl_file_position *out);

#endif
