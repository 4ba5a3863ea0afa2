/* runner.h - what the runners of passes share: names in lists, and the texts
 * that show what each pass did. Owner thread only. */
#ifndef FL_PASS_RUNNER_H
#define FL_PASS_RUNNER_H

#include "pass/pass.h"

/* The next name of a list such as "opt_fc, opt_dce"; false at its end. */
bool fl_pass_next_name(const char **at, const char **name, size_t *len);

/* The pass whose name is those bytes, or NULL. */
const fl_pass *fl_pass_find_part(const char *name, size_t len);

/* The error for one that is not there, with the nearest that is. */
fl_status fl_pass_no_such(const char *name, size_t len);

/* Makes the next folder for texts, freed with fl_free; NULL, here and below:
   none are wanted. */
FL_MUST_CHECK
fl_status fl_pass_dump_begin(const fl_dump_place *place, char **folder);

/* Writes FOLDER/NUMBER-NAME.txt, or FOLDER/PART/NUMBER-NAME.txt. */
typedef struct fl_dump_text {
    const char *folder, *part; /* part NULL: none */
    int number;
    const char *name;
} fl_dump_text;
FL_MUST_CHECK
fl_status fl_pass_dump(const fl_dump_text *to, const fl_program *p);
FL_MUST_CHECK
fl_status fl_pass_dump_text(const fl_dump_text *to, const char *text);

#endif
