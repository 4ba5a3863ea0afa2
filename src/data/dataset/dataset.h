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

/* Seconds that all consumers waited for input, in the last pass. */
double fl_dataset_waited(const fl_dataset *d);

/* From now on files are read as the dispatcher says. It becomes the dataset's, also
   on failure; numbers of passes begin anew. */
FL_MUST_CHECK
fl_status fl_dataset_set_dispatcher(fl_dataset *d,
                                    const fl_dispatcher *dispatcher);

#endif
