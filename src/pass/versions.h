/* versions.h - temporaries that are written more than once, taken apart. */
#ifndef FL_PASS_VERSIONS_H
#define FL_PASS_VERSIONS_H

#include "ir/program.h"

/* Gives every value but the last of a temporary that several operators of the
   block write a variable of its own, x@VERSION@0, x@VERSION@1, ...; x holds the
   last one, as before. Where other blocks use x, it goes on holding all of them
   in turn, and operators of this block whose gradients need it read copies, made
   by `copy_op`.
   Variables that live longer than a run stay as they are. */
FL_MUST_CHECK
fl_status fl_versions_part(fl_block *b, const char *copy_op);

#endif
