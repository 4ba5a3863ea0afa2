/* blocks.h - the port through which an operator runs a block of its program. */
#ifndef FL_EXEC_BLOCKS_H
#define FL_EXEC_BLOCKS_H

#include "exec/runner.h"

/* What one step gives its operator; lives as long as the call of it. */
typedef struct fl_step_blocks {
    fl_block_port port;
    fl_runner *runner;
    int step;
} fl_step_blocks;

fl_step_blocks fl_blocks_of(fl_runner *r, int step);

/* The block as a step has made it ready; NULL is fine. */
void fl_child_free(fl_child *k);

#endif
