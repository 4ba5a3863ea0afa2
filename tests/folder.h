/* folder.h - a folder for models that a test saves.
 *
 * Every file of a save is synced, and a busy disk takes seconds for that: the
 * folder is in memory where there is some for files.
 */
#ifndef FL_TESTS_FOLDER_H
#define FL_TESTS_FOLDER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FOLDER_BYTES 48

/* Its path in `out`; false when it cannot be made. */
static inline bool folder_make(char out[FOLDER_BYTES], const char *name)
{
    snprintf(out, FOLDER_BYTES, "%s/flotilla-%s-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", name);
    return mkdtemp(out) != NULL;
}

#endif
