/* array.h - a parameter that servers keep as a table, and one machine as an array
 * with state of its shape: variables NAME, NAME_moment1_0 and so on, and scalars
 * of its rule, NAME_beta1_pow_acc_0. In a model it is what the one that saved had.
 */
#ifndef FL_CKPT_ARRAY_H
#define FL_CKPT_ARRAY_H

#include "ckpt/match.h"
#include "ckpt/version.h"

/* What a table of a model has for a variable of arrays. */
typedef struct fl_array_source {
    const fl_manifest_table *table;
    const char *field; /* of its rows; NULL: a scalar */
    double scalar;
    bool is_of_trainers; /* who have it (ckpt/state_rows.h) */
} fl_array_source;

/* False: no table has it. */
bool fl_array_find(const fl_manifest *m, const char *variable,
                   fl_array_source *out);

/* What a model has for a program (fl_match_saved) when what servers keep as a table
   is an array there, if it says so: the table's place is taken by what it has for
   the program. */
fl_match_set fl_array_set(const fl_manifest *m, const fl_match_set *program,
                          const fl_match_set *saved, fl_arena *arena);

/* Rows go to their ids; those that the table does not have stay as they are in
   `to`, which is f32 [ids, dim], or one number for a scalar. Sums are compared
   before anything is written. */
FL_MUST_CHECK
fl_status fl_array_load(const fl_model_version *v, const fl_array_source *from,
                        const fl_tensor *to);

#endif
