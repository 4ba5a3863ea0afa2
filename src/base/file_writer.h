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

#endif
