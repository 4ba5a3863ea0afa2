/* known.h - rows that others have as well, kept together by differences.
 *
 * A table that is made with keeps_known has two more things in each row: the
 * value that others know of it, at first the one that it was born with, and a mark
 * that says whether it was pushed to since they were told. What is pushed to is
 * listed when the mark is set, so a list has each key once and is no longer than
 * there are rows. Any thread.
 */
#ifndef FL_TABLE_KNOWN_H
#define FL_TABLE_KNOWN_H

#include "base/buf.h"
#include "table/table.h"

/* The keys that were listed become those of `keys`, in the order of their
   hashes: that of every index that they are looked up in. */
FL_MUST_CHECK
fl_status fl_table_take_pushed(fl_table *t, fl_buf *keys, size_t *n);

/* Others are to learn a share d = (value - known) * share: known += d, and `out`
   gets -d, as a gradient would be. Such a row is listed again when it is pushed
   to from now on. A key without a row, by max_rows, has nothing to tell. */
FL_MUST_CHECK
fl_status fl_table_tell(fl_table *t, const uint64_t *keys, size_t n,
                        float share, float *out);

/* Others have these values: value += theirs - known, known = theirs. */
FL_MUST_CHECK
fl_status fl_table_learn(fl_table *t, const uint64_t *keys, size_t n,
                         const float *theirs);

#endif
