/* mode_local.h - training in one process: the port of ir/comm.h over tables of
 * this process.
 *
 * The backend owns its tables; none goes away before the backend. Any thread
 * may call any function, and every request is answered at once.
 */
#ifndef FL_MODE_MODE_LOCAL_H
#define FL_MODE_MODE_LOCAL_H

#include "ir/comm.h"
#include "table/table.h"

fl_comm *fl_mode_local_new(void);
/* The same; its rows keep what others know of them (table/known.h). */
fl_comm *fl_mode_local_new_shared(void);

/* Makes a table; one of that name must not exist. */
FL_MUST_CHECK
fl_status fl_mode_local_make(fl_comm *c, const char *name, const char *settings,
                             uint64_t seed, fl_table **out);

/* The table of that name, borrowed. */
FL_MUST_CHECK
fl_status fl_mode_local_find(fl_comm *c, const char *name, fl_table **out);

#endif
