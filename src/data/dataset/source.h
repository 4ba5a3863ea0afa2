/* source.h - text out of a file, in blocks of whole lines.
 *
 * Plain, gzip and zstd files are told apart by their first bytes, whatever
 * their names. With a pipe command, /bin/sh runs it with the file as its
 * standard input, and its output is the text (and is looked at in the same way,
 * so a command that gives gzip is fine).
 *
 * One thread at a time reads from a source. Each has a descriptor of its own.
 */
#ifndef FL_DATA_DATASET_SOURCE_H
#define FL_DATA_DATASET_SOURCE_H

#include "base/status.h"
#include "base/vec.h"

/* Bytes that may be read behind the last line of a block; they are zeros. */
#define FL_TEXT_PADDING 64

typedef FL_VEC(char *) fl_paths;

/* Files named by paths, directories (their regular files that do not begin with
   a dot, sorted by name; not those below) and globs. A pattern that matches
   nothing is an error, so is a directory that cannot be read. *out need not be
   initialised, and is untouched on error. */
FL_MUST_CHECK
fl_status fl_paths_expand(const char *const *patterns, size_t n, fl_paths *out);
void fl_paths_release(fl_paths *p);

/* Bytes that are kept of a line that is too long. */
#define FL_LONG_LINE_KEPT 200

/* A line that was longer than allowed; its rest was skipped. */
typedef struct fl_long_line {
    uint64_t number; /* in the file, from 1 */
    size_t at;       /* data + at is where what was kept of it begins */
    size_t len;      /* at most FL_LONG_LINE_KEPT; padding comes behind */
} fl_long_line;

/* Whole lines. Every line ends with '\n', the last one of a file gets one if it
   has none. "\r\n" stays as it is: formats take the '\r' off.

   The lines of a block follow one another in the file, so line i of it has the
   number first_line + i. A line that is too long ends the block before it and
   then comes alone: len and n_lines are 0, too_long has that one line, and
   first_line is its number. */
typedef struct fl_text {
    char *data;
    size_t len, cap;     /* len does not count the padding, cap does */
    uint64_t first_line; /* its number in the file, from 1 */
    uint64_t n_lines;    /* in data[0, len) */
    FL_VEC(fl_long_line) too_long;
} fl_text;
void fl_text_release(fl_text *t);

typedef struct fl_source_options {
    const char *pipe_command; /* NULL: none */
    size_t block_bytes;       /* a block has this much where it can */
    size_t line_max;          /* bytes without the newline */
} fl_source_options;

typedef struct fl_source fl_source;

/* Errors name the path, and the command where there is one. */
FL_MUST_CHECK
fl_status fl_source_open(fl_source **out, const char *path,
                         const fl_source_options *o);

/* Kills the command, with all processes that it started, if it still runs. */
void fl_source_close(fl_source *s);

typedef enum fl_source_state {
    FL_SOURCE_TEXT, /* the block has lines, or long lines */
    FL_SOURCE_WAIT, /* a pipe has nothing yet: come back later */
    FL_SOURCE_END   /* all was read, and the command ended well */
} fl_source_state;

/* Replaces what is in `into`, which takes memory from the source and gives its
   own for it. Never waits for a pipe: what is there of it comes as a smaller
   block. A cut gzip or zstd file, a read error, a command that ends with a
   status other than 0 or by a signal: an error, and the same one from then on.
   After FL_ERR_NOMEM a further call goes on where this one stood. */
FL_MUST_CHECK
fl_status fl_source_next(fl_source *s, fl_text *into, fl_source_state *state);

/* Gets each block of a file; sets *is_enough when it needs no more. */
typedef fl_status (*fl_on_text)(void *arg, const fl_text *text,
                                bool *is_enough);

/* Reads a file to its end and waits for pipes. pipe_command may be NULL. A line
   of more than 16 MiB is an error. */
FL_MUST_CHECK
fl_status fl_source_read_all(const char *path, const char *pipe_command,
                             fl_on_text fn, void *arg);

const char *fl_source_path(const fl_source *s);

/* For waiting with poll; -1 for a plain file, which is always ready. */
int fl_source_fd(const fl_source *s);

#endif
