/* cmd.h - what a subcommand is: one file with one descriptor, and its row in
 * cmds.def. See version.c for the smallest one.
 *
 * A subcommand returns the exit code of the tool. Results go to stdout,
 * messages to stderr.
 */
#ifndef FL_CMD_CMD_H
#define FL_CMD_CMD_H

#include <stdbool.h>
#include <stddef.h>

#include "flotilla/flotilla.h"

enum {
    CMD_OK = 0,
    CMD_FAILED = 1, /* the world failed: a file, a program, the environment */
    CMD_USAGE = 2   /* the tool was called wrongly */
};

typedef struct cmd {
    const char *name;
    const char *args;   /* "FILE [-o OUT.svg]" */
    const char *doc;    /* one line */
    const char *more;   /* what `flotilla help NAME` says besides, or NULL */
    void (*list)(void); /* prints a list of things before that, or NULL */
    /* argv[0] is the name of the subcommand. */
    int (*run)(int argc, char **argv);
} cmd;

/* Every row of cmds.def, in its order. */
extern const cmd *const cmd_all[];
extern const size_t cmd_count;

/* NULL when there is none. */
const cmd *cmd_find(const char *name);

/* Complains that there is no such subcommand and names the nearest; returns
   CMD_USAGE. */
int cmd_unknown(const char *name);

/* Says what is wrong and how the subcommand is called; returns CMD_USAGE. */
int cmd_misused(const char *name, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* "flotilla NAME: message" on stderr; returns CMD_FAILED. */
int cmd_failed(const char *name, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints `text` and frees it with fl_text_free; returns CMD_OK. That all of
   stdout was written is checked at the end, in main. */
int cmd_print(char *text);

/* All of a file, "-" for stdin, as a text that is freed with free(). NULL after
   saying what is wrong. */
char *cmd_read(const char *name, const char *path);

/* Reads a program text, "-" for stdin. The context and the program are the
   caller's, who gives both to cmd_close; on failure, which has been told,
   both are NULL. */
typedef struct cmd_program {
    fl_ctx *ctx;
    fl_program *program;
} cmd_program;
int cmd_open(const char *name, const char *path, cmd_program *out);
void cmd_close(cmd_program *p);

#endif
