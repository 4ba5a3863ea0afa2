/* bytes.h - the text of one file as bytes: plain, out of gzip or zstd, or
 * through a command.
 *
 * What stands behind a source; source.h says what counts as what. Owner thread
 * only, but it may pass from one thread to another.
 */
#ifndef FL_DATA_DATASET_BYTES_H
#define FL_DATA_DATASET_BYTES_H

#include <stddef.h>

#include "base/status.h"

typedef struct fl_bytes fl_bytes;

/* command may be NULL. */
FL_MUST_CHECK
fl_status fl_bytes_open(fl_bytes **out, const char *path, const char *command);
/* Kills the command if it still runs. */
void fl_bytes_close(fl_bytes *s);

typedef enum fl_bytes_state {
    FL_BYTES_SOME, /* *got bytes, at least one */
    FL_BYTES_WAIT, /* nothing yet */
    FL_BYTES_END   /* nothing any more, and the command ended well */
} fl_bytes_state;

/* Reads at most `room` bytes, which is at least 1. */
FL_MUST_CHECK
fl_status fl_bytes_read(fl_bytes *s, char *to, size_t room, size_t *got,
                        fl_bytes_state *state);

const char *fl_bytes_path(const fl_bytes *s);

/* Path and command, for messages. */
const char *fl_bytes_name(const fl_bytes *s);

/* For waiting with poll; -1 when a read never waits. */
int fl_bytes_fd(const fl_bytes *s);

/* About how long the text is; 0 when nobody knows. */
size_t fl_bytes_size_hint(const fl_bytes *s);

#endif
