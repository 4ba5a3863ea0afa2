/* scales.h - fed numbers whose scale would ruin training. */
#ifndef FL_TRAIN_SCALES_H
#define FL_TRAIN_SCALES_H

#include "ctx/ctx.h"

/* Looks at the first batch of a program's training, once per program: a column
   that goes to weights as it is, and is far from 1, is warned of with the line
   that would mend it. */
void fl_scales_look(fl_ctx *c, fl_program *program, const fl_feed *feeds,
                    size_t n_feeds);

#endif
