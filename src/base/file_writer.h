/* file_writer.h - what the library itself needs of a file that is written. */
#ifndef FL_BASE_FILE_WRITER_H
#define FL_BASE_FILE_WRITER_H

#include <stdint.h>

#include "base/status.h"
#include "flotilla/file.h"

/* Writes at an offset, for a regular file. Any thread, also several at once. */
FL_MUST_CHECK
fl_status fl_file_writer_add_at(const fl_file_writer *w, const void *bytes,
                                size_t n, uint64_t offset);

/* Syncs a folder, so that the names in it are there after a power cut. 0, or
   errno. A folder that may not be read, and a file system that cannot sync
   folders, are no failure. */
FL_MUST_CHECK
int fl_folder_sync(const char *path);

#endif
