/* geo_rows.h - a table of a trainer and of the servers, kept together by
 * exchanges of differences.
 *
 * A row of the trained table has its value X and Y, what is known of the servers'
 * value S: at first the value that it is born with there, too (table/known.h). An
 * exchange, N trainers:
 *
 *     begin_push   rows trained since: d = (X - Y) / N, Y += d, S += d
 *     begin_pull   rows that others changed are asked for, and when they come:
 *                  X += S - Y, Y = S; what X learned meanwhile stays
 *
 * One exchange at a time; training goes on meanwhile.
 */
#ifndef FL_MODE_GEO_ROWS_H
#define FL_MODE_GEO_ROWS_H

#include "base/buf.h"
#include "mode/geo_line.h"
#include "table/table.h"

typedef struct fl_geo_table {
    struct fl_geo_table *next; /* for the owner of a list */
    fl_table *here;            /* borrowed */
    int number;                /* on the servers */
    uint32_t dim;
    uint64_t *cursors; /* by server */
    size_t n_servers;

    /* Of the exchange under way; memory stays for the next one. */
    fl_buf keys; /* n_keys, all different */
    size_t n_keys;
    fl_buf deltas; /* of the keys, with the sign of a gradient */
    fl_latch *latch;
    fl_err news_err; /* why what others changed could not be taken */
} fl_geo_table;

/* The table that is trained keeps what others know. */
fl_geo_table *fl_geo_table_new(const fl_geo_line *line, fl_table *here,
                               int number);
void fl_geo_table_free(fl_geo_table *t);

/* Everything is forgotten: the trained table was emptied. */
void fl_geo_table_clear(fl_geo_table *t);

/* These begin requests that end in `w`; after an error, too, it must be waited
   for those that have begun. */
FL_MUST_CHECK
fl_status fl_geo_table_begin_push(fl_geo_table *t, const fl_geo_line *line,
                                  fl_latch *w);
FL_MUST_CHECK
fl_status fl_geo_table_begin_pull(fl_geo_table *t, const fl_geo_line *line,
                                  fl_latch *w);
/* Ends an exchange, however it went. */
void fl_geo_table_end(fl_geo_table *t);

#endif
