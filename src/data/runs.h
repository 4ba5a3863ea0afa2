/* runs.h - which records of which files a batch is made of.
 *
 * Files are read in blocks, which are numbered from 0 on. Records of one block
 * that follow one another are a run; a batch is a few of them. Records in
 * memory are one block of one file. Owner thread only.
 */
#ifndef FL_DATA_RUNS_H
#define FL_DATA_RUNS_H

#include <stdint.h>

#include "base/vec.h"

typedef struct fl_row_run {
    uint32_t file, block;
    uint64_t at, n; /* records of the block: the first one, and how many */
} fl_row_run;

typedef FL_VEC(fl_row_run) fl_row_runs;

/* Behind the others; becomes one with the last when it goes on there. */
void fl_row_runs_add(fl_row_runs *r, fl_row_run run);

/* The first n records move to the end of `to`; there are as many. */
void fl_row_runs_move(fl_row_runs *r, uint64_t n, fl_row_runs *to);

#endif
