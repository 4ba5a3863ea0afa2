/* mode_own.h - modes that users define: the port of ir/comm.h over the
 * functions of flotilla/experimental/mode.h. */
#ifndef FL_DIST_MODE_OWN_H
#define FL_DIST_MODE_OWN_H

#include "flotilla/experimental/mode.h"
#include "dist/job.h"

/* A mode made from a definition, which is borrowed. Freed with fl_free. */
fl_mode *fl_mode_own_new(const fl_mode_def *def);

/* The backend of a trainer in a job of such a mode; takes its cluster. */
fl_comm *fl_mode_own_open(fl_job *job);

#endif
