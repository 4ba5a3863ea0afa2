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

/* One call of each function of flotilla/file.h: the file is the old or the new
   one, never half. */
FL_MUST_CHECK
fl_status fl_file_write(const char *path, const void *bytes, size_t len);

/* Writes all of it to a descriptor. Returns 0 or errno. */
FL_MUST_CHECK
int fl_file_put(int fd, const void *bytes, size_t len);

/* Says that `what` failed for the file, why, and what to do about it. A file
   that is not there is FL_ERR_NOTFOUND, all else FL_ERR_IO. */
FL_MUST_CHECK
fl_status fl_file_failed(const char *what, const char *path, int err);

#endif
