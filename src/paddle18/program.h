/* program.h - a program of PaddlePaddle 1.8 as one of ours.
 *
 * Operators, slots and attributes have the same names, so most of it is
 * copying. What is different:
 *
 *   feed, fetch           become the order of feeds and targets
 *   save_infer_model/...  a scale by 1 that is put before each target: left
 *                         out, the target has the name of what it scales
 *   lookup_table          over a parameter, whatever table it once stood for
 *   variables             temporaries are inferred, not declared; a persistent
 *                         one that only updates write is a parameter
 *   by-products           left out where nobody reads them
 */
#ifndef FL_PADDLE18_PROGRAM_H
#define FL_PADDLE18_PROGRAM_H

#include "ir/program.h"
#include "paddle18/desc.h"

typedef FL_VEC(const char *) fl_p18_names;

typedef struct fl_p18_program {
    fl_program *program;         /* freed with fl_program_free */
    fl_p18_names feeds, targets; /* by their columns; the description's */
} fl_p18_program;

/* Everything that this version lacks is in one message: operators, slots,
   attributes. `out` is the caller's to release, also after a failure. */
FL_MUST_CHECK
fl_status fl_p18_translate(const fl_p18_program_desc *d, const fl_op_set *ops,
                           fl_p18_program *out);
void fl_p18_program_release(fl_p18_program *p);

#endif
