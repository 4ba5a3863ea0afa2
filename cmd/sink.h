/* sink.h - where the output of a subcommand goes: stdout, or a file that is
 * there whole or not at all (flotilla/file.h).
 *
 * Owner thread only, or under a lock of the owner.
 */
#ifndef FL_CMD_SINK_H
#define FL_CMD_SINK_H

#include <stdbool.h>
#include <stddef.h>

#include "flotilla/file.h"

/* A path and a reason. */
#define SINK_WHY_BYTES 4608

typedef struct sink {
    fl_file_writer *file;
    const char *option;       /* names the file; NULL: it is stdout */
    char why[SINK_WHY_BYTES]; /* the first failure; "" without one */
} sink;

/* path NULL or "-" means stdout; otherwise `option` named it. All three return
   false when it failed, and `why` and sink_failed say so. */
bool sink_open(sink *s, const char *path, const char *option);
bool sink_write(sink *s, const char *bytes, size_t len);
/* Gives the file its name. Releases everything, also when it fails. */
bool sink_close(sink *s);

/* Releases everything and removes the part that was written; does nothing
   after sink_close. */
void sink_abandon(sink *s);

/* Says what could not be written and why, for the subcommand `self`; returns
   CMD_FAILED. */
int sink_failed(const sink *s, const char *self);

#endif
