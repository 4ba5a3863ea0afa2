/* split_out.h - a file of lines that is written, plain or as gzip, and is there
 * whole or not at all. Owner thread only. */
#ifndef FL_DATA_DATASET_SPLIT_OUT_H
#define FL_DATA_DATASET_SPLIT_OUT_H

#include <stddef.h>

#include "base/status.h"

typedef struct fl_split_out fl_split_out;

/* Compressed when the path ends with .gz. */
FL_MUST_CHECK
fl_status fl_split_out_open(fl_split_out **out, const char *path);
FL_MUST_CHECK
fl_status fl_split_out_add(fl_split_out *o, const char *bytes, size_t n);
/* Gives the file its name and frees o, also when it fails. */
FL_MUST_CHECK
fl_status fl_split_out_commit(fl_split_out *o);
/* Removes what was written and frees o; NULL is fine. */
void fl_split_out_drop(fl_split_out *o);

#endif
