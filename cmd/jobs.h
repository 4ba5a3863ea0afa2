/* jobs.h - the jobs of this user on this machine, by their notes
 * (docs/formats/job.md). Messages are for people; `self` is the subcommand. */
#ifndef FL_CMD_JOBS_H
#define FL_CMD_JOBS_H

#include <stdint.h>

#include "cmd.h"

/* Waits until a job is there whose name begins with `word`, NULL: any; but no
   longer than so many seconds. */
void jobs_await(const char *word, uint64_t seconds);

/* Where a job is whose name, or the beginning of it, is `word`; what is an
   address stays as it is. Freed with free; NULL after saying what is wrong. */
char *jobs_address(const char *self, const char *word);

/* The only job, told in a line; NULL with *code when there is none or more than
   one, which are listed. */
char *jobs_only(const char *self, int *code);

/* The list for programs. */
int jobs_print_json(const char *self);

#endif
