/* command.h - a command of the user's, run to its end by the shell.
 *
 * It gets further words behind its own: "hdfs dfs -put -f" with the words "a b"
 * and "c" is run with these two as its last arguments, whatever is in them. It
 * reads nothing, and what it prints is kept for messages. Any thread.
 */
#ifndef FL_BASE_COMMAND_H
#define FL_BASE_COMMAND_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

#define FL_COMMAND_WORDS_MAX 8

typedef struct fl_command {
    const char *text;         /* for /bin/sh */
    const char *const *words; /* behind it, at most FL_COMMAND_WORDS_MAX */
    size_t n_words;
    uint64_t timeout_ms; /* then it is ended, with all that it started */
} fl_command;

/* FL_OK when it ended with status 0. Else FL_ERR_IO, or FL_ERR_TIMEOUT, with
   how it ended and the last of its own words. */
FL_MUST_CHECK
fl_status fl_command_run(const fl_command *c);

/* --- for those that talk to one while it runs ----------------------------- */

/* Starts /bin/sh with these arguments in a process group of its own; it reads
   from `in` and writes to `out`, errors to `err`, -1: where the caller does.
   Returns 0 or errno. */
FL_MUST_CHECK
int fl_command_start(pid_t *pid, char *const argv[], int in, int out, int err);

/* The same descriptor above those three, which are given away in the child: a
   program that has closed its own would otherwise lose a file there. -1 stays
   -1, and comes with errno when there is none left. */
int fl_command_above(int fd);

#endif
