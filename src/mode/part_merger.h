/* gather.h - the parts of one push, until the last of them has come.
 *
 * Replicas that make one step push their gradients for a table one by one. All
 * but the last are copied; then they are added up in the order of the parts,
 * whoever came first. A table may be pushed to several times in a step: the
 * first pushes of all parts belong together, then the second ones.
 *
 * Any thread.
 */
#ifndef FL_MODE_PART_MERGER_H
#define FL_MODE_PART_MERGER_H

#include "ir/comm.h"
#include "table/table.h"

typedef struct fl_part_merger fl_part_merger;

fl_part_merger *fl_part_merger_new(void);
void fl_part_merger_free(fl_part_merger *g);

/* Keeps the part, or, when it is the last one of its push, pushes all of them
   to the table. Parts of a step that was not finished are dropped when those of
   another step come. */
FL_MUST_CHECK
fl_status fl_part_merger_push(fl_part_merger *g, fl_table *t,
                              const fl_comm_request *r);

#endif
