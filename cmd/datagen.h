/* datagen.h - the parts of `flotilla datagen`.
 *
 *   datagen.c        options, and what is said at the end
 *   datagen_world.c  what a line holds: columns, the planted model, the click
 *   datagen_text.c   a line as text
 *   datagen_run.c    threads that make blocks of lines, written in turn
 */
#ifndef FL_CMD_DATAGEN_H
#define FL_CMD_DATAGEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sink.h"

enum { DATAGEN_INTS = 13, DATAGEN_CATS = 26 };

/* --- what a line holds --------------------------------------------------- */

typedef struct datagen_record {
    bool has_int[DATAGEN_INTS], has_cat[DATAGEN_CATS];
    int32_t ints[DATAGEN_INTS];
    double scales[DATAGEN_INTS]; /* the integers on a logarithmic scale */
    uint32_t cats[DATAGEN_CATS];
    double p; /* true probability of a click */
    bool click;
} datagen_record;

/* Contributions of one column, moved and stretched so that each has mean 0 and
   variance 1: then the rate of clicks and the best AUC hardly depend on the
   seed. */
typedef struct datagen_norm {
    double mean, factor;
} datagen_norm;

typedef struct datagen_world {
    uint64_t key; /* of the seed */
    uint32_t names[DATAGEN_CATS];
    datagen_norm ints[DATAGEN_INTS];
    datagen_norm weights[DATAGEN_CATS], tastes[DATAGEN_CATS];
    double int_voices[DATAGEN_INTS], cat_voices[DATAGEN_CATS];
} datagen_world;

void datagen_world_init(datagen_world *w, uint64_t seed);

/* Line `line` of this world: a function of the seed and the number alone. Any
   number of threads may call it. */
void datagen_draw(const datagen_world *w, uint64_t line, datagen_record *r);

/* --- a line as text ------------------------------------------------------ */

#define DATAGEN_LINE_MAX 1024

/* Writes one line with its newline, at most DATAGEN_LINE_MAX bytes, and returns
   the place behind it. */
typedef char *(*datagen_write)(const datagen_record *r, char *to);

/* NULL when there is no such format. */
datagen_write datagen_find_format(const char *name);

/* --- all lines ----------------------------------------------------------- */

#define DATAGEN_BINS 100000

typedef struct datagen_counts {
    uint64_t lines, bytes, clicks;
    /* Lines with and without a click by their true probability. */
    uint64_t clicked[DATAGEN_BINS], passed[DATAGEN_BINS];
} datagen_counts;

typedef struct datagen_args {
    uint64_t seed, first;
    uint64_t lines; /* UINT64_MAX: until there are enough bytes */
    uint64_t bytes; /* ends with the line that reaches it */
    uint64_t threads;
    datagen_write write;
} datagen_args;

/* Returns CMD_OK or, after saying why, CMD_FAILED. */
int datagen_run(const char *self, const datagen_args *args, sink *to,
                datagen_counts *counts);

#endif
