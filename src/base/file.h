/* file.h - whole files, read and written. */
#ifndef FL_BASE_FILE_H
#define FL_BASE_FILE_H

#include <stddef.h>

#include "base/status.h"

/* Reads all of it, NUL-terminated; *text is freed with fl_free. Larger than
   max_bytes is an error. */
FL_MUST_CHECK
fl_status fl_file_read(const char *path, size_t max_bytes, char **text,
                       size_t *len);

/* Writes to a temporary name beside it and renames, so that the file is the
   old or the new, never half. A pipe or a device is written to as it is,
   a link leads to the file that is written. */
FL_MUST_CHECK
fl_status fl_file_write(const char *path, const void *bytes, size_t len);

#endif
