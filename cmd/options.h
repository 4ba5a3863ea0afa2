/* options.h - options of a subcommand, out of a table.
 *
 * Each option is a word and a value behind it, a flag the word alone. Whatever
 * else begins with '-' is refused, and so is an option that comes twice or that
 * the action at hand has no use for: nothing is taken and then ignored. "-" alone
 * is no option.
 */
#ifndef FL_CMD_OPTIONS_H
#define FL_CMD_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef enum option_kind {
    OPTION_TEXT,  /* const char * */
    OPTION_COUNT, /* uint64_t: a whole number in lo..hi */
    OPTION_SIZE,  /* uint64_t: the same with K, M, G or T behind, of 1024 */
    OPTION_SHARE, /* double in 0..1 */
    OPTION_FLAG   /* bool: true when it is there */
} option_kind;

typedef struct option {
    const char *name; /* with its dashes */
    option_kind kind;
    void *to; /* changed when the option is there */
    uint64_t lo, hi;
    unsigned users; /* bits of the actions that take it; 0: all */
} option;
#define OPTIONS_MAX 64

typedef struct options {
    const option *all;
    size_t n;
    const char *self;   /* the subcommand */
    const char *action; /* what messages call it, NULL: none */
    unsigned user;      /* its bit */
} options;

/* Reads argv[1, argc). Words that are no options come out in `rest`, which has
   room for argc of them. *given gets bit i when all[i] was there; it may be
   NULL. Returns CMD_OK, or CMD_USAGE after saying what is wrong. */
int options_read(const options *o, int argc, char **argv, const char **rest,
                 size_t *n_rest, uint64_t *given);

#endif
