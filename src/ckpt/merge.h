/* merge.h - a delta and all that it is based on, as one whole version. */
#ifndef FL_CKPT_MERGE_H
#define FL_CKPT_MERGE_H

#include "ckpt/version.h"

/* Writes a whole version of the model at `path` into `dir`. The rows of one
   table at a time are in memory. What is no delta is copied. */
FL_MUST_CHECK
fl_status fl_version_merge(const char *path, const char *dir);

#endif
