/* train_tries.h - values that `flotilla train` is to try for its options.
 *
 *     --try width=8,16 --try learning_rate=0.001,0.01      all of them: 4 trials
 *     --try learning_rate=0.0001..0.1 --try-random 20      drawn
 *
 * A trial is a value for each of the options.
 */
#ifndef FL_CMD_TRAIN_TRIES_H
#define FL_CMD_TRAIN_TRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRIES_OPTIONS_MAX 16
#define TRIES_MAX 10000   /* trials */
#define TRIES_NAME_MAX 40 /* of an option, and of a number that is drawn */

/* What is to be tried for one option: a list of values, or a range. */
typedef struct tries_option {
    char name[TRIES_NAME_MAX]; /* with its dashes */
    char *text;                /* the values, cut at the commas */
    const char **values;
    size_t n; /* 0: it is a range */
    double lo, hi;
    bool is_whole; /* whole numbers of the range alone */
} tries_option;

typedef struct tries {
    tries_option options[TRIES_OPTIONS_MAX];
    size_t n;        /* 0: nothing is to be tried */
    uint64_t random; /* trials that are drawn; 0: all combinations */
} tries;

/* Takes --try and --try-random out of argv, with what is behind them. CMD_OK, or
   CMD_USAGE after saying what is wrong; released in either case. */
int tries_take(tries *t, int *argc, char **argv);
void tries_release(tries *t);

/* How many trials there are. */
size_t tries_count(const tries *t);

/* The values of trial i, one for each option: those of a list are the tries' own,
   others are printed into `room`. Of drawn ones another `again` draws anew. */
void tries_values(const tries *t, size_t i, uint64_t seed, uint64_t again,
                  char room[][TRIES_NAME_MAX], const char **values);

#endif
