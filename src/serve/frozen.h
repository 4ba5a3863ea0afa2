/* frozen.h - a frozen model behind the port of ir/comm.h.
 *
 * Each predictor has one, so that counting needs no lock; what it reads from
 * belongs to the version in use and is shared. Pulls
 * are answered at once, and nothing else can be asked for: a program that would
 * change a table, or make one, is refused by name.
 */
#ifndef FL_SERVE_FROZEN_H
#define FL_SERVE_FROZEN_H

#include <stdatomic.h>

#include "ir/comm.h"
#include "serve/source.h"

typedef struct fl_frozen {
    fl_comm port; /* the first member */
    /* Of the version in use, borrowed. */
    const fl_rules *rules;
    fl_row_source *source;
    /* Written by the predictor's thread alone, read by others. */
    _Atomic uint64_t rows, missing;
} fl_frozen;

void fl_frozen_init(fl_frozen *f);

/* From the next run on it reads from there. */
void fl_frozen_use(fl_frozen *f, const fl_rules *rules, fl_row_source *source);

#endif
