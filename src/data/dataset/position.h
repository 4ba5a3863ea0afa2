/* position.h - how far a pass over the data is: which records were trained.
 *
 * Records of a file are numbered in their order, from 0 on; those in memory by
 * their place in the order that loading and shuffling gave them. What was
 * trained is a list of ranges, in one thread a single one from 0 on.
 * Owner thread only.
 */
#ifndef FL_DATA_DATASET_POSITION_H
#define FL_DATA_DATASET_POSITION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

/* Half open. */
typedef struct fl_range {
    uint64_t lo, hi;
} fl_range;

/* In ascending order, and apart from each other. */
typedef FL_VEC(fl_range) fl_ranges;

/* Behind the others; becomes one with the last when it goes on there. */
void fl_ranges_add(fl_ranges *r, uint64_t lo, uint64_t hi);
/* Records in all. */
uint64_t fl_ranges_sum(const fl_ranges *r);
/* Those that are in one of them or in both. */
void fl_ranges_unite(fl_ranges *r, const fl_ranges *other);

/* A file that was begun. */
typedef struct fl_file_position {
    char *path;
    bool is_done;   /* all that it has was trained; trained has them as well */
    bool is_cached; /* it came out of a cache, whose order may be another */
    fl_ranges trained;
} fl_file_position;

typedef struct fl_position {
    bool in_memory;
    bool is_dispatched;  /* processes share the files */
    uint64_t pass;       /* over the files, from 1 */
    uint64_t n_shuffles; /* of this dataset so far */
    /* In memory: how many records there are, and which were trained. */
    uint64_t n_records;
    fl_ranges trained;
    /* Of a queue: the files, in the order of the list. In memory of a dataset
       whose files are dispatched: those that were loaded here. */
    FL_VEC(fl_file_position) files;
} fl_position;

void fl_position_release(fl_position *p);

/* What was trained by one of two processes that share files. */
void fl_position_unite(fl_position *p, const fl_position *other);

/* A file of the list; the path is copied. */
fl_file_position *fl_position_add(fl_position *p, const char *path);
/* NULL when there is none. */
fl_file_position *fl_position_find(const fl_position *p, const char *path);

#endif
