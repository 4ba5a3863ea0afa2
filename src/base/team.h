/* team.h - a fixed number of threads that do one job together.
 *
 * The caller is member 0; a team of n starts n - 1 threads, once. fl_team_run
 * runs fn(arg, i) on every member and returns when all have returned: this is
 * the pool join, where an error crosses threads. The first failing member's
 * error (lowest index) becomes the caller's. One fl_team_run at a time.
 */
#ifndef FL_BASE_TEAM_H
#define FL_BASE_TEAM_H

#include "base/status.h"

typedef struct fl_team fl_team;

FL_MUST_CHECK
fl_status fl_team_new(fl_team **out, int n, const char *name);
void fl_team_free(fl_team *t);
int fl_team_size(const fl_team *t);

FL_MUST_CHECK
fl_status fl_team_run(fl_team *t, fl_status (*fn)(void *arg, int i), void *arg);

#endif
