/* floor_parse.h - parsers of two kinds of lines that check nothing: what this
 * machine can do, and what a first attempt does.
 *
 * Both kinds have 13 floats, 26 ids and a label, and come in blocks of whole
 * lines with FLOOR_PADDING readable bytes behind them.
 */
#ifndef BENCH_FLOOR_PARSE_H
#define BENCH_FLOOR_PARSE_H

#include <stddef.h>
#include <stdint.h>

#define FLOOR_FLOATS 13
#define FLOOR_IDS 26
#define FLOOR_PADDING 64
#define FLOOR_HASH_SIZE 1000001

typedef struct floor_record {
    float floats[FLOOR_FLOATS];
    uint64_t label, ids[FLOOR_IDS];
} floor_record;

/* Fills records from the lines of a block and returns their number. */
typedef size_t floor_parser(const char *text, size_t len, floor_record *out);

/* By hand: the fastest that we know how to write for good lines. */
floor_parser floor_multislot, floor_criteo;

/* With strtof, strtoul and strtol. */
floor_parser naive_multislot, naive_criteo;

#endif
