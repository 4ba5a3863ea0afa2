/* targets.c - variables that a command line names. */
#include "targets.h"

#include <stdlib.h>
#include <string.h>

bool targets_read(targets *t, const char *text)
{
    char *rest, *name;

    *t = (targets){ 0 };
    if (!text)
        return true;
    t->text = strdup(text);
    t->names = calloc(strlen(text) + 1, sizeof(*t->names));
    rest = t->text;
    while (t->names && (name = strsep(&rest, ",")))
        if (*name)
            t->names[t->n++] = name;
    return t->text && t->names;
}

void targets_release(targets *t)
{
    free(t->text);
    free(t->names);
}
