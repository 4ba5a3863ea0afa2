/* mode_list.h - the modes of modes.def that have servers, or that jobs train in at
 * all, for tests that sweep over them. */
#ifndef TESTS_DIST_MODE_LIST_H
#define TESTS_DIST_MODE_LIST_H

#include "mode/mode.h"

/* Room for one of each. */
enum {
    MODES_MAX = 0
#define FL_MODE(name) +1
#include "mode/modes.def"
#undef FL_MODE
};

/* The i-th of them; NULL: there are no more. */
static inline const char *mode_name(size_t i)
{
    for (size_t k = 0; k < fl_mode_count(); k++)
        if (fl_mode_at(k)->needs_servers && i-- == 0)
            return fl_mode_at(k)->name;
    return NULL;
}

/* The same with those whose workers serve. */
static inline const char *job_mode_name(size_t i)
{
    for (size_t k = 0; k < fl_mode_count(); k++)
        if (fl_mode_is_of_jobs(fl_mode_at(k)) && i-- == 0)
            return fl_mode_at(k)->name;
    return NULL;
}

#endif
