/* bad.h - lines that could not be read: counted, written down, limited.
 *
 * One for a pass over the data; any thread. The quarantine file is made, or
 * emptied when there is one, as the first bad line comes
 * (docs/formats/quarantine.md has its bytes).
 */
#ifndef FL_DATA_DATASET_BAD_H
#define FL_DATA_DATASET_BAD_H

#include "data/format/format.h"

typedef struct fl_bad_limits {
    const char *quarantine; /* path; NULL or "": none is written */
    uint64_t max_lines;     /* more bad lines than this end the job */
    double max_share;       /* and so does a larger share of all lines */
} fl_bad_limits;

typedef struct fl_bad_log fl_bad_log;

/* The path and the schema are borrowed. */
fl_bad_log *fl_bad_log_new(const fl_bad_limits *limits, const fl_schema *s);
void fl_bad_log_free(fl_bad_log *b);

/* Writes it down. Fails when the limit is passed, with the place and the reason
   of this line and where the others are, or when the file cannot be written. */
FL_MUST_CHECK
fl_status fl_bad_log_add(fl_bad_log *b, const char *path, const fl_line *l,
                         const fl_bad *bad);

/* Bad lines that are known by their number alone, because the file was parsed
   in an earlier pass: limited in the same way, but not written down. */
FL_MUST_CHECK
fl_status fl_bad_log_add_known(fl_bad_log *b, const char *path, uint64_t n);

/* Lines that were read, good and bad. */
void fl_bad_log_lines(fl_bad_log *b, uint64_t n);

/* Says in the log how many there were and where they are written; nothing when
   there were none. For a pass that ends before its time. */
void fl_bad_log_report(const fl_bad_log *b);

/* The pass is over: reports, and judges the share. A share counts at least
   1,000 lines, so with the default one bad line alone never ends a job; during
   the pass it is judged from 100,000 lines on. */
FL_MUST_CHECK
fl_status fl_bad_log_end(fl_bad_log *b);

uint64_t fl_bad_log_count(const fl_bad_log *b);

#endif
