/* data_stats.h - what `flotilla data count` knows of a column, and the file of
 * statistics that features learn from (docs/formats/stats.md). */
#ifndef FL_CMD_DATA_STATS_H
#define FL_CMD_DATA_STATS_H

#include "data.h"
#include "distinct.h"
#include "sketch.h"

typedef struct slot_count {
    uint64_t records, values, zeros;
    uint64_t missing;      /* floats that are not a number; no values */
    uint64_t fewest, most; /* values of a record */
    double sum;
    double mean, squares; /* as it goes; of the distances from the mean */
    float least, largest;
    distinct *ids;  /* NULL for floats */
    sketch *floats; /* NULL for ids, or where nobody asks for it */
} slot_count;

/* The root of the mean square of the distance from the mean. */
double data_deviation(const slot_count *s);

/* Writes the file that --stats names; returns the exit code, after saying what
   is wrong. */
int data_write_stats(const data_args *a, const data_input *in,
                     const slot_count *slots, uint64_t records);

#endif
