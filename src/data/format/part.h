/* part.h - a part of the records, the same whoever reads them.
 *
 * Options that every format has besides its own say which records are taken:
 * a share of them (split=0-80) by a fixed hash of the line, or of a key, and of
 * those whose label is 0 a share only (negatives=0.1). docs/formats/parts.md
 * has the function. All zeros take everything. Made with the parser and read by
 * any thread.
 */
#ifndef FL_DATA_FORMAT_PART_H
#define FL_DATA_FORMAT_PART_H

#include "data/records.h"

struct fl_parser;
struct fl_line;

#define FL_PART_OPTIONS 3 /* format.h declares them */

typedef struct fl_part {
    bool is_share;       /* of the records those with lo <= place * of < hi */
    uint64_t lo, hi, of; /* where the place is the hash by 2^64 */
    int column;          /* of the format, whose text is the key, or -1 */
    int key;             /* slot whose values are, or FL_NO_SLOT */
    double negatives;    /* share of the records that have label 0; 0: all */
    int label;           /* slot of the label */
} fl_part;

/* Reads the values of the options, each of which may be NULL, for a parser that
   is open. */
FL_MUST_CHECK
fl_status fl_part_open(fl_part *part, const struct fl_parser *p,
                       const char *const values[FL_PART_OPTIONS]);

static inline bool fl_part_is_all(const fl_part *part)
{
    return !part->is_share && !(part->negatives > 0);
}

/* The hash that places a line: that of its key, or of its bytes where the key
   is not found or not asked for. p NULL: nobody looks into lines. `room` is for
   a record. */
FL_MUST_CHECK
fl_status fl_part_hash(const struct fl_parser *p, const struct fl_line *l,
                       fl_records *room, uint64_t *hash);

/* Of so many places the one of the hash, from 0; `of` is below 2^32. */
static inline uint64_t fl_part_place(uint64_t hash, uint64_t of)
{
    return ((hash >> 32) * of + ((hash & UINT32_MAX) * of >> 32)) >> 32;
}

/* Is the line, before it is read, known to lie outside? */
bool fl_part_leaves_out(const struct fl_parser *p, const struct fl_line *l);

/* Drops the records from the first-th on that lie outside; they are all of that
   line. */
void fl_part_keep(const struct fl_parser *p, const struct fl_line *l,
                  fl_records *rows, size_t first);

#endif
