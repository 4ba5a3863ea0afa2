/* binding.h - feeds that hold for many runs.
 *
 * Names, types and shapes are checked when they are bound. Their numbers and
 * offsets stay the caller's memory, who writes those of the next batch there: so
 * offsets are looked at in every run, each list once, however many inputs share
 * it.
 */
#ifndef FL_SERVE_BINDING_H
#define FL_SERVE_BINDING_H

#include "base/vec.h"
#include "exec/form.h"

/* A level of offsets, as it has to be. */
typedef struct fl_bound_offsets {
    const int64_t *off;
    int64_t n, end;
} fl_bound_offsets;

typedef struct fl_binding {
    FL_VEC(fl_tensor) values; /* by input; none: nothing is bound */
    FL_VEC(fl_bound_offsets) offsets;
    bool has_special; /* a value whose numbers have to be looked at as well */
    uint64_t n_records;
} fl_binding;

/* The value of the next input, one that was checked. */
void fl_binding_add(fl_binding *b, const fl_tensor *value);
void fl_binding_release(fl_binding *b);

/* Whether the values can be used as they are now. False: they have to be fed
   again, which says what is wrong with them if anything is. */
bool fl_binding_holds(const fl_binding *b);

#endif
