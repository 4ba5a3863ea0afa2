/* stage.h - requests that run side by side, and what comes when all of them
 * have ended, without anybody who waits for it. Any thread.
 */
#ifndef FL_MODE_STAGE_H
#define FL_MODE_STAGE_H

#include "base/thread.h"
#include "ps/client/client.h"

typedef struct fl_stage {
    fl_mutex mu;
    int n_open; /* guarded by mu */
    fl_err err; /* the first one; guarded by mu */
    fl_client_done next;
    void *arg;
} fl_stage;

void fl_stage_init(fl_stage *s);
void fl_stage_release(fl_stage *s);

/* next(arg, st) is called when all have ended, with the first error; it may
   open the stage again. Counts as the first request, so that nothing is over
   before all have begun: fl_stage_done(s, FL_OK) ends it. */
void fl_stage_open(fl_stage *s, fl_client_done next, void *arg);
/* Before a request with fl_stage_done and the stage as its argument begins. If
   its call fails, fl_stage_done is the caller's to call. */
void fl_stage_add(fl_stage *s);
void fl_stage_done(void *stage, fl_status st); /* an fl_client_done */

#endif
