/* restore.h - rows, candidates and what else a table holds, put back as they
 * were saved.
 *
 * Rows come by columns, one per field of the accessor's layout. Keys may come
 * in any order; the order of the hash, in which they are saved, is the fastest.
 * Several threads may restore different keys. What a table knew of its changes
 * is given up (fl_table_watched_since).
 */
#ifndef FL_TABLE_RESTORE_H
#define FL_TABLE_RESTORE_H

#include "table/accessor.h"
#include "table/cut.h"

/* Numbers of one field, `len` of each row. Fewer than the field has leave the
   rest of it as it is in a new row, more are cut off. data NULL: all of the
   field is as in a new row. */
typedef struct fl_restore_column {
    const float *data;
    uint32_t len;
} fl_restore_column;

typedef struct fl_restore_rows {
    fl_cut_kind kind; /* FL_CUT_FULL, FL_CUT_SHORT or FL_CUT_CANDIDATE */
    size_t n;
    const uint64_t *keys;
    const uint32_t *epochs; /* NULL: the present one */
    /* By field of the layout; of candidates show and click. */
    fl_restore_column columns[FL_ROW_FIELDS_MAX];
} fl_restore_rows;

/* Makes room in the index for n_rows rows more of the shards first..last. */
FL_MUST_CHECK
fl_status fl_table_reserve(fl_table *t, uint32_t first, uint32_t last,
                           uint64_t n_rows);

/* Inserts or replaces rows. The epoch rises to the highest among them. After
   an error some of them are there. */
FL_MUST_CHECK
fl_status fl_table_restore_rows(fl_table *t, const fl_restore_rows *r);

/* Sets days and scalars, and raises the epoch. No scalars (n_scalars 0) leave
   those that there are. */
FL_MUST_CHECK
fl_status fl_table_restore_moment(fl_table *t, const fl_cut_moment *m);

#endif
