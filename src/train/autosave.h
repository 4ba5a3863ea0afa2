/* autosave.h - saves that are made by themselves: every so many steps or
 * seconds, as the settings save_dir, save_every_steps and save_every_s say, and
 * deltas in between (save_delta_every_ms).
 *
 * In a job the coordinator decides about that; here they are those of one
 * process.
 */
#ifndef FL_TRAIN_AUTOSAVE_H
#define FL_TRAIN_AUTOSAVE_H

#include "ctx/ctx.h"

/* Fails when the settings ask for saves and say no folder. */
FL_MUST_CHECK
fl_status fl_autosave_check(const fl_ctx *c);

/* After a step. Any thread, while none saves. */
bool fl_autosave_is_due(const fl_ctx *c, const fl_scope *s);

/* Saves what the program trains. Nothing is under way. A failure is told in the
   log, and the next save is tried when it is due. */
void fl_autosave(fl_executor *e, fl_program *p, fl_scope *s);

/* After a run of a program by hand: saves when it is due. */
FL_MUST_CHECK
fl_status fl_autosave_after_run(fl_executor *e, fl_program *p, fl_scope *s);

#endif
