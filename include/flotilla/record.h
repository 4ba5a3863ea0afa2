/* record.h - what a run leaves behind about itself.
 *
 * With the setting record_dir every process of a job writes lines about its passes
 * over data into a file of its own there, for `flotilla report`; with
 * tensorboard_dir it writes event files. That needs no call. These add what only
 * the program knows, and do nothing without the settings. In a job they come
 * behind fl_fleet_init, by which the process knows its name. Any thread.
 */
#ifndef FLOTILLA_RECORD_H
#define FLOTILLA_RECORD_H

#include "flotilla/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A point of a curve, "test/ndcg" at a step. Fails when the files cannot be
   opened; what fails later is told in the log. */
FL_API FL_MUST_CHECK
fl_status fl_record_number(fl_ctx *c, const char *name, uint64_t step,
                           double value);

/* A fact about the run: "model" is "deepfm". Of one name the last counts. */
FL_API FL_MUST_CHECK
fl_status fl_record_note(fl_ctx *c, const char *name, const char *text);

#ifdef __cplusplus
}
#endif
#endif
