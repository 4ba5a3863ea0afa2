/* new_files.h - the files of cmd/new as texts; tools/embed makes them. */
#ifndef FL_CMD_NEW_FILES_H
#define FL_CMD_NEW_FILES_H

#include <stddef.h>

typedef struct new_file {
    const char *kind;     /* of the project: ctr */
    const char *language; /* "c", "python"; "": both */
    const char *path;     /* in the project */
    const char *text;
} new_file;

extern const new_file new_files[];
extern const size_t new_file_count;

#endif
