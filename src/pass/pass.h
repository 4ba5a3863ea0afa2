/* pass.h - program to program. A pass is a const descriptor in its own file
 * plus one row in passes.def. One with `run` sees block 0 and the fetches, and so
 * does one with `mark`, which is told the precision, where it is not f32; one
 * with `spread` works on the programs of a cluster (dist.h) and runs where a
 * mode names it. */
#ifndef FL_PASS_PASS_H
#define FL_PASS_PASS_H

#include "ir/program.h"
#include "pass/precision.h"

typedef struct fl_dist fl_dist;

typedef struct fl_pass {
    const char *name, *doc;
    bool required; /* programs do not run without it: it cannot be left out */
    bool only_frozen; /* for tables that do not change and are in memory */
    /* One of the three, or run and spread. */
    fl_status (*run)(fl_program *p, bool *changed);
    fl_status (*mark)(fl_program *p, const fl_precision *how, bool *changed);
    fl_status (*spread)(fl_dist *d, bool *changed);
} fl_pass;

/* Where the texts of programs go that show what each pass did: folders
   DIR/WHO/NN-NAME, of which n_made counts. */
typedef struct fl_dump_place {
    const char *dir;  /* NULL: nowhere */
    const char *who;  /* the process of a job; "": there is one alone */
    const char *name; /* what the program is */
    int *n_made;
} fl_dump_place;

typedef struct fl_pass_options {
    bool optimize;    /* false: run required ones only */
    bool is_frozen;   /* tables do not change, and are in memory */
    const char *skip; /* comma-separated names to leave out, or NULL */
    fl_precision precision;
    fl_dump_place dump; /* gets the text after each pass that changed it */
} fl_pass_options;

/* All passes with `run` or `mark` in the order of passes.def; the program is verified
   after each one that changed it. */
FL_MUST_CHECK
fl_status fl_passes_run(fl_program *p, const fl_pass_options *o);

const fl_pass *fl_pass_find(const char *name);
size_t fl_pass_count(void);
const fl_pass *fl_pass_at(size_t i);

#endif
