/* targets.h - variables that a command line names, apart by commas. */
#ifndef FL_CMD_TARGETS_H
#define FL_CMD_TARGETS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct targets {
    char *text; /* cut up */
    const char **names;
    size_t n;
} targets;

/* text NULL: none. False without memory. */
bool targets_read(targets *t, const char *text);
void targets_release(targets *t);

#endif
