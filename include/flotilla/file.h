/* file.h - an output file that is there whole or not at all.
 *
 * A regular file is written beside its name and takes the name at the end, with
 * the mode and owner of the file that it replaces; so an output may even be one
 * of the inputs. A link keeps its place: the file that it leads to is written.
 * A device, a pipe, and what /dev/stdout, /dev/fd/N or /proc/self/fd/N stand
 * for are written to as they are. Owner thread only, or under a lock of the
 * owner.
 */
#ifndef FLOTILLA_FILE_H
#define FLOTILLA_FILE_H

#include <stddef.h>

#include "flotilla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_file_writer fl_file_writer;

FL_API FL_MUST_CHECK
fl_status fl_file_writer_open(fl_file_writer **out, const char *path);

/* All of the bytes, or an error. Nothing is buffered. */
FL_API FL_MUST_CHECK
fl_status fl_file_writer_add(fl_file_writer *w, const void *bytes, size_t n);

/* Syncs the file, gives it its name and frees w. After an error nothing is
   left behind, and an old file is untouched. */
FL_API FL_MUST_CHECK
fl_status fl_file_writer_commit(fl_file_writer *w);

/* Removes what was written and frees w; NULL is fine. */
FL_API void fl_file_writer_drop(fl_file_writer *w);

#ifdef __cplusplus
}
#endif
#endif
