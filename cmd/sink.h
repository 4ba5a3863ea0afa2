/* sink.h - where the records of a subcommand go: stdout, or a file that is
 * there whole or not at all.
 *
 * A file is written under its name with ".part" behind it and gets its own name
 * at the end, so the output may even be one of the inputs. Something that is
 * there and no regular file (a device, a named pipe) is written to directly.
 * Owner thread only, or under a lock of the owner.
 */
#ifndef FL_CMD_SINK_H
#define FL_CMD_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct sink {
    FILE *file;
    const char *path; /* NULL: stdout */
    char *part;       /* NULL: written under its own name */
    int error;        /* errno of the first failure */
} sink;

/* path NULL or "-" means stdout. All three return false when it failed, and
   sink_failed says so. */
bool sink_open(sink *s, const char *path);
bool sink_write(sink *s, const char *bytes, size_t len);
/* Gives the file its name. Releases everything, also when it fails. */
bool sink_close(sink *s);

/* Releases everything and removes the part that was written. Only before
   sink_close; a second call does nothing. */
void sink_abandon(sink *s);

/* Says what could not be written and why, for the subcommand `self`, which
   names the file with `option`; returns CMD_FAILED. */
int sink_failed(const sink *s, const char *self, const char *option);

/* The sentence of sink_failed, for whoever says it later. */
void sink_why(const sink *s, const char *option, char *text, size_t text_bytes);

#endif
