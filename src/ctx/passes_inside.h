/* passes_inside.h - what passes are: passes.c makes them, passes_text.c prints
 * and reads them. */
#ifndef FL_CTX_PASSES_INSIDE_H
#define FL_CTX_PASSES_INSIDE_H

#include "base/thread.h"
#include "ctx/passes.h"

/* Passes that are over, and the one that is under way. */
typedef struct fl_passes_state {
    FL_VEC(fl_pass_counts) done;
    bool has_now;
    fl_pass_counts now;
    fl_position position;
} fl_passes_state;

/* A variable and its value; bytes are its own. */
typedef struct fl_kept_value {
    char *name;
    fl_tensor value;
} fl_kept_value;

struct fl_passes {
    fl_mutex mu;                 /* guards the rest against who prints */
    FL_VEC(fl_pass_counts) done; /* of this run */
    fl_pass_now now;             /* ask NULL: none is under way */
    fl_passes_state before;      /* what is gone on from */
    FL_VEC(fl_kept_value) kept;
};

void fl_passes_drop_kept(fl_passes *p);

/* The text, and back; what is read goes into an empty state. */
char *fl_passes_state_print(const fl_passes_state *s);
FL_MUST_CHECK
fl_status fl_passes_state_read(fl_passes_state *s, const char *text, size_t len,
                               const char *where);

#endif
