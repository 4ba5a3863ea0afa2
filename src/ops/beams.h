/* beams.h - what the two operators of a beam search share: levels of offsets of
 * what a step keeps, and scores of either float type. */
#ifndef FL_OPS_BEAMS_H
#define FL_OPS_BEAMS_H

#include "ops/kit.h"

/* Rows of the step before that belong to each source, and what follows each of
   these rows. */
enum { FL_BEAM_SOURCES, FL_BEAM_ROWS, FL_BEAM_LEVELS };

/* More texts of one source are a mistake, and not to be made room for. */
#define FL_BEAM_SIZE_MAX (1 << 20)

/* Number i of a tensor of floats becomes a score. */
static inline void fl_beam_put(fl_tensor *t, int64_t i, double score)
{
    if (t->dtype == FL_DTYPE_F32)
        ((float *)t->data)[i] = (float)score;
    else
        ((double *)t->data)[i] = score;
}

#endif
