/* nearest.c - the nearest name of a list, by the library's measure. */
#include "nearest.h"

#include "flotilla/words.h"

const char *nearer_name(const char *word, const char *so_far, const char *name)
{
    const char *const both[] = { so_far, name };

    return so_far ? fl_nearest_name(word, both, 2)
                  : fl_nearest_name(word, both + 1, 1);
}
