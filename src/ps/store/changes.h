/* changes.h - which rows of a table were pushed by whom, for trainers that keep
 * copies and want to know what others have changed.
 *
 * A log of the keys of each push with its rank. A reader has a cursor, the
 * number of the first push it has not seen. What all known readers have seen is
 * dropped; a log that has grown beyond FL_CHANGES_PER_ROW entries per row of
 * the table forgets its oldest half, and a reader that is behind gets every row
 * of the table instead. The log is kept for tables that were asked about once.
 *
 * Any thread; one lock per log.
 */
#ifndef FL_PS_STORE_CHANGES_H
#define FL_PS_STORE_CHANGES_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define FL_CHANGES_PER_ROW 4

typedef struct fl_changes fl_changes;

fl_changes *fl_changes_new(void);
void fl_changes_free(fl_changes *c); /* NULL is fine */

/* A push of that rank was applied: to be called afterwards, so that who hears
   of it finds its values. n_rows is the size of the table. Without memory the
   log is forgotten, and readers get every row. */
void fl_changes_note(fl_changes *c, uint32_t rank, const uint64_t *keys,
                     size_t n, uint64_t n_rows);

/* Freed with fl_data_free(keys, bytes). */
typedef struct fl_changed {
    uint64_t *keys;
    size_t n, bytes;
    bool is_all;   /* every row counts as changed, and there are no keys */
    uint64_t next; /* the cursor for the next time */
} fl_changed;

/* Keys that ranks other than this one have pushed since the cursor, each once,
   in the order of their hashes. It is all rows when the log does not reach back
   so far, as for the cursor 0. */
FL_MUST_CHECK
fl_status fl_changes_since(fl_changes *c, uint32_t rank, uint64_t cursor,
                           fl_changed *out);
/* This reader has seen what is before the cursor, or, when it was given all rows,
   what was before fl_changed.next. */
void fl_changes_seen(fl_changes *c, uint32_t rank, uint64_t cursor);

#endif
