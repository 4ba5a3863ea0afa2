/* check.h - what the files of this folder share:
 *
 *     consistency.c  opening, results
 *     names.c        inputs, outputs, variables, tables
 *     programs.c     operator by operator
 *     parameters.c   variables by bits
 *     rows.c         rows by bits
 *     blame.c        where a row that differs may come from
 *     scores.c       the two programs on data
 *     trial.c        one program, run
 *     trace.c        the operator at which two runs part
 *
 * `trained` says what is right. `online` is the edition that is used, with its
 * passes, `plain` is the same without them.
 */
#ifndef FL_CHECK_CHECK_H
#define FL_CHECK_CHECK_H

#include "check/trial.h"
#include "flotilla/consistency.h"
#include "serve/edition.h"

typedef enum fl_check_kind {
    FL_CHECK_NAMES,
    FL_CHECK_PROGRAM,
    FL_CHECK_PARAMETERS,
    FL_CHECK_ROWS,
    FL_CHECK_SCORES,
    FL_CHECK_PASSES,
    FL_CHECKS
} fl_check_kind;

/* The result of one check. */
typedef struct fl_finding {
    uint64_t compared, different;
    double largest;
    char *first; /* NULL: nothing differs */
} fl_finding;

/* One more thing differs; the first one is kept in words. */
void fl_finding_add(fl_finding *f, const char *fmt, ...) FL_PRINTF(2, 3);
/* The words alone. */
void fl_finding_tell(fl_finding *f, const char *fmt, ...) FL_PRINTF(2, 3);

struct fl_consistency {
    fl_consistency_args args;
    char *path; /* of what was trained */
    fl_edition *trained, *online, *plain;
    bool has_training_program; /* as text of `trained` */
    fl_row_source *rows;       /* that are online, borrowed */
    char *where;               /* "online (Redis)": where those are */
    fl_trial right, plain_run; /* of `trained` and `plain`, made by the first
                                  batch */
    fl_scope values;           /* of the variables that `right` reads */
    uint64_t n_records;        /* so far */
    fl_finding findings[FL_CHECKS];
};

void fl_check_names(fl_consistency *c);
FL_MUST_CHECK
fl_status fl_check_programs(fl_consistency *c);
FL_MUST_CHECK
fl_status fl_check_parameters(fl_consistency *c);
FL_MUST_CHECK
fl_status fl_check_rows(fl_consistency *c);

/* A row as the online source has it. */
typedef struct fl_odd_row {
    const fl_table *rule; /* of its table */
    uint64_t key;
    const float *value;
} fl_odd_row;

/* Adds where such a value is right: an older version, another table. */
void fl_blame_row(const fl_consistency *c, const fl_odd_row *row, fl_str *out);

/* --- programs ------------------------------------------------------------- */

/* What an edition computes, as it was saved: in test mode and pruned to the
   targets. The caller's. */
FL_MUST_CHECK
fl_status fl_check_program(const fl_edition *e, fl_program **out);
fl_names_list fl_check_targets(const fl_edition *e, const char **room);

/* Element i in digits that read back as the same number; of types that have no
   such form, that it is another one. */
void fl_check_add_number(fl_str *out, const fl_tensor *t, int64_t i);

/* --- where runs part ------------------------------------------------------ */

/* How far element i of the two is apart: 0 for the same bits, never else. */
double fl_check_gap(const fl_tensor *a, const fl_tensor *b, int64_t i);

/* A program to be run once more, with everything to be seen. */
typedef struct fl_trace_side {
    fl_edition *edition;
    fl_pass_options passes;
    fl_row_source *rows;
} fl_trace_side;

/* Adds the operator of b at which the two part on this batch, beyond the
   tolerance; nothing when there is none to be found. Values are compared where
   they have the same name. */
FL_MUST_CHECK
fl_status fl_trace_difference(const fl_trace_side *a, const fl_trace_side *b,
                              double tolerance, const fl_trial_batch *batch,
                              fl_str *out);

#endif
