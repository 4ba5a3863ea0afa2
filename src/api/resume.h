/* resume.h - training that goes on from a saved model by itself (the setting
 * resume). */
#ifndef FL_API_RESUME_H
#define FL_API_RESUME_H

#include "ctx/ctx.h"

/* After a run of a program. That of the startup program of a pair, the first
   time, takes the values of the model, and passes over data that were made are
   known from then on. */
FL_MUST_CHECK
fl_status fl_resume_after_run(fl_executor *e, fl_program *p, fl_scope *s);

#endif
