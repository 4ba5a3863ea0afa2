/* declare.h - what a job keeps on its servers, as text.
 *
 *     seed N                        the first line, where it is not 0
 *     table NAME SETTINGS...        settings as flotilla/table.h has them
 *     program NAME N                a dense block of N floats, and its program:
 *     | op fill_constant ...        lines of docs/formats/ir.md, each after a
 *     |---                          bar. Those before the |--- (which may be
 *     | op sgd (Param=NAME, ...     missing) give the state its first values,
 *                                   those after it run for every gradient
 *
 * One declaration per line, in the order of their numbers (tables and blocks
 * count apart, from 0). A server knows no optimizers but those in programs: who
 * declares writes the program of one.
 *
 * The program has NAME as a persistent variable of N floats, is fed NAME@GRAD
 * (a `data` variable of N floats) and nothing else. NAME starts as zeros unless
 * the startup lines say otherwise; every other persistent variable is written
 * by them. Operators with an effect outside of the program are refused.
 */
#ifndef FL_PS_DECLARE_H
#define FL_PS_DECLARE_H

#include "base/vec.h"

#define FL_DECLARE_BYTES_MAX (16u << 20)

/* Of tables, and of blocks. */
#define FL_DECLARED_MAX 4096

typedef enum fl_declared_kind {
    FL_DECLARED_TABLE,
    FL_DECLARED_PROGRAM
} fl_declared_kind;

typedef struct fl_declared {
    fl_declared_kind kind;
    size_t line; /* where it stands, from 1 */
    char *name;
    char *text;    /* settings, or the lines that run for a gradient */
    char *startup; /* lines before |---; NULL for a table */
    uint64_t n;    /* floats of a dense block; 0 for a table */
} fl_declared;

typedef struct fl_declaration {
    uint64_t seed;
    FL_VEC(fl_declared) items;
} fl_declaration;

/* Looks at the lines, not into settings and programs. Errors name line and
   reason. The text must not change meanwhile. */
FL_MUST_CHECK
fl_status fl_declaration_parse(fl_declaration *out, const char *text,
                               size_t len);
void fl_declaration_release(fl_declaration *d);

/* FL_OK when both say the same; else an error with the first line that differs,
   in both versions, and its number. */
FL_MUST_CHECK
fl_status fl_declaration_compare(const char *mine, const char *theirs);

#endif
