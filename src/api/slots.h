/* slots.h - variables of a program as slots of the data layer, which does not
 * know programs. */
#ifndef FL_API_SLOTS_H
#define FL_API_SLOTS_H

#include "flotilla/data.h"

/* The slots of variables, with kind and width; heights are 0. Names are the
   program's own. Fails with FL_ERR_NOTFOUND for a name that it does not have,
   with FL_ERR_INVAL for a variable that cannot be fed from slots: those are
   int64 or float32 with rows of a known width and at most two levels of
   offsets. */
FL_MUST_CHECK
fl_status fl_slots_of_vars(fl_program *p, const char *const *names, size_t n,
                           fl_slot *out);

#endif
