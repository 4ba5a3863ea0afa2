/* dataset.h - files as batches: what stands behind fl_dataset.
 *
 * A pass:  pump -> rows -> columns -> batches -> consumers   (QueueDataset)
 *          memory -> columns -> consumers                    (InMemoryDataset)
 *
 * This part knows slots and settings, not programs; api/ puts the two together.
 */
#ifndef FL_DATA_DATASET_DATASET_H
#define FL_DATA_DATASET_DATASET_H

#include "conf/conf.h"
#include "data/dataset/dispatcher.h"
#include "data/dataset/position.h"
#include "flotilla/data.h"

/* Limits come from the settings of conf, which must outlive it. */
FL_MUST_CHECK
fl_status fl_dataset_make(fl_dataset **out, const fl_conf *conf,
                          const char *kind);

/* fl_dataset_set_slots, with the shape that the feed of each slot shall have:
   its first dimension is set to the number of rows, whatever it is here. NULL:
   [rows, width], and [values, 1] for a ragged slot. */
FL_MUST_CHECK
fl_status fl_dataset_set_shaped_slots(fl_dataset *d, const fl_slot *slots,
                                      const fl_shape *shapes, size_t n_slots);

int fl_dataset_threads(const fl_dataset *d);

/* Consumers of the pass that wait, or ask later, are told that the data has
   ended; files are not read on. Any thread, until fl_dataset_end. */
void fl_dataset_interrupt(fl_dataset *d);

/* Seconds that all consumers waited for input, in the last pass. */
double fl_dataset_waited(const fl_dataset *d);

/* Records of a pass: those in memory, or as many as the last whole pass had; 0:
   not known, as where files are dealt while workers read. */
uint64_t fl_dataset_records(const fl_dataset *d);
/* A whole pass over the files had so many. */
void fl_dataset_set_records(fl_dataset *d, uint64_t n);

/* As fl_dataset_begin, behind what was trained of this pass before; `from` is
   borrowed until the end of the pass, NULL: nothing was. Fails when it is of
   another pass or of other data. */
FL_MUST_CHECK
fl_status fl_dataset_begin_at(fl_dataset *d, int n_consumers,
                              const fl_position *from);

/* The batch that this consumer has was trained. */
void fl_dataset_trained(fl_dataset *d, int consumer);

/* How far the pass is that is under way, by the batches that were trained; *out
   is empty before. */
FL_MUST_CHECK
fl_status fl_dataset_position(fl_dataset *d, fl_position *out);

/* A pass that was made before is counted, and not made again. */
FL_MUST_CHECK
fl_status fl_dataset_pass_over(fl_dataset *d);

/* From now on files are read as the dispatcher says. It becomes the dataset's, also
   on failure; numbers of passes begin anew. */
FL_MUST_CHECK
fl_status fl_dataset_set_dispatcher(fl_dataset *d,
                                    const fl_dispatcher *dispatcher);

#endif
