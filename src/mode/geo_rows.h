/* geo_rows.h - a table of a trainer and of the servers, kept together by
 * exchanges of differences.
 *
 * `here` is X, the table that is trained; `old` is Y, what is known of the
 * servers' table S. A row that `old` does not have was never exchanged: then it
 * has the first value on the servers, too. An exchange, N trainers:
 *
 *     begin_push   rows trained since: d = (X - Y) / N, Y += d, S += d
 *     begin_pull   rows that others changed are asked for, and when they come:
 *                  X += S - Y, Y = S; what X learned meanwhile stays
 *
 * Notes are for any thread; the rest is for one exchange at a time.
 */
#ifndef FL_MODE_GEO_ROWS_H
#define FL_MODE_GEO_ROWS_H

#include "mode/geo_line.h"
#include "mode/geo_touched.h"
#include "table/table.h"

typedef struct fl_geo_table {
    struct fl_geo_table *next; /* for the owner of a list */
    fl_table *here;            /* borrowed */
    fl_table *old;
    int number; /* on the servers */
    uint32_t dim;
    uint64_t *cursors; /* by server */
    size_t n_servers;
    fl_geo_touched touched;

    /* Of the exchange under way; memory stays for the next one. */
    fl_geo_keys keys; /* all different once it has begun */
    fl_geo_uniter uniter;
    fl_buf deltas;  /* of the keys, with the sign of a gradient */
    fl_buf scratch; /* one chunk of rows */
    fl_latch *latch;
    fl_err news_err; /* why what others changed could not be taken */
} fl_geo_table;

/* Settings and seed are those of the table that is trained. */
FL_MUST_CHECK
fl_status fl_geo_table_new(fl_geo_table **out, const fl_geo_line *line,
                           fl_table *here, int number, const char *settings,
                           uint64_t seed);
void fl_geo_table_free(fl_geo_table *t);

/* Everything is forgotten: the trained table was emptied. */
void fl_geo_table_clear(fl_geo_table *t);

/* The keys that were noted so far are those of the next exchange. */
void fl_geo_table_cut(fl_geo_table *t);

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
