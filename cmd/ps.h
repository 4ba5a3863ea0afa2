/* ps.h - what the commands about servers share: contexts with settings from
 * the command line, and one question to server 0. */
#ifndef FL_CMD_PS_H
#define FL_CMD_PS_H

#include "cmd.h"

/* `--set name=value`, any number of times. */
typedef struct ps_sets {
    char **words; /* "name=value", borrowed */
    int n;
} ps_sets;

/* Takes every --set out of argv, and what is behind it: the words end up in
   front, in their order, and *argc counts the others from argv[0] on. `room`
   has room for as many words as argv. CMD_OK, or CMD_USAGE after saying what is
   wrong. */
int ps_take_sets(int *argc, char **argv, char **room, ps_sets *out);

/* A context with these settings; NULL after saying what is wrong. */
fl_ctx *ps_open(const char *self, const ps_sets *sets);

/* Runs a command `NAME HOST:PORT|JOB [--wait SECONDS] [--set ...]`. *text stays
   NULL when the question has no answer to print. */
typedef fl_status (*ps_question)(fl_ctx *c, const char *address, char **text);
int ps_ask(int argc, char **argv, ps_question ask);

/* The same where the job may be left out: then `only` gives the address, or NULL
   with the exit code. */
typedef char *(*ps_only)(const char *self, int *code);
int ps_ask_or(int argc, char **argv, ps_question ask, ps_only only);

#endif
