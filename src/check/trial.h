/* trial.h - one program, run on batches of data, with any of its variables to be
 * looked at afterwards. Owner thread only.
 */
#ifndef FL_CHECK_TRIAL_H
#define FL_CHECK_TRIAL_H

#include "exec/runner.h"
#include "pass/pass.h"
#include "serve/frozen.h"

/* What the data has. */
typedef struct fl_trial_batch {
    const fl_feed *slots;
    size_t n_slots, n_records;
} fl_trial_batch;

/* Where a program's values are, all borrowed. */
typedef struct fl_trial_home {
    fl_scope *scope;
    const fl_rules *rules;
    fl_row_source *rows;
} fl_trial_home;

typedef enum fl_trial_view { FL_VIEW_FETCHES, FL_VIEW_ALL } fl_trial_view;

typedef struct fl_trial {
    fl_plan *plan; /* NULL: not made */
    fl_runner *runner;
    fl_frozen rows;
    fl_exec_options options;
} fl_trial;

/* Takes the program, also on failure. With FL_VIEW_ALL everything that it
   computes stays to be seen, which passes do not notice. The trial stays where
   it is. */
FL_MUST_CHECK
fl_status fl_trial_init(fl_trial *t, fl_program *p,
                        const fl_pass_options *passes,
                        const fl_trial_home *home, fl_trial_view view);
void fl_trial_release(fl_trial *t);

FL_MUST_CHECK
fl_status fl_trial_run(fl_trial *t, const fl_trial_batch *b);

/* What it has of a variable; NULL: nothing. */
const fl_tensor *fl_trial_find(const fl_trial *t, const char *name);

#endif
