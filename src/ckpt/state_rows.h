/* state_rows.h - the optimizer's state of rows that a trainer updates itself (mode
 * geo), where servers have values alone: tensors of trainers/N.safetensors.
 *
 *     TABLE@key      U64[n]        in the order of the hash
 *     TABLE@FIELD    F32[n,len]    for each field of state
 *
 * Whoever goes on alone, or on servers that update, adds them up over trainers.
 * Rules with scalars are not for such trainers.
 */
#ifndef FL_CKPT_STATE_ROWS_H
#define FL_CKPT_STATE_ROWS_H

#include "ckpt/dense.h"
#include "table/table.h"

/* What a table has, for fl_dense_save; names and numbers are its own. Zeros are
   empty. */
typedef struct fl_state_rows {
    FL_VEC(fl_named_tensor) list;
    FL_VEC(size_t) bytes; /* of each */
} fl_state_rows;

/* Adds those of a table that nobody changes meanwhile; of one without state,
   nothing. */
FL_MUST_CHECK
fl_status fl_state_rows_take(fl_state_rows *r, fl_table *t);
void fl_state_rows_release(fl_state_rows *r);

/* Whose, of which table, and which of them. */
typedef struct fl_state_from {
    const fl_model_version *version;
    const char *table;    /* in the model */
    int trainer;          /* -1: of all of them, added up */
    uint32_t first, last; /* virtual shards */
} fl_state_from;

/* Whether a model has any of a trainer, or of any (-1). */
bool fl_state_rows_has(const fl_manifest *m, const char *table, int trainer);

/* Puts them into the rows of a table that has its values already. */
FL_MUST_CHECK
fl_status fl_state_rows_load(fl_table *t, const fl_state_from *from);

/* Whether some trainer has that field. */
bool fl_state_rows_has_field(const fl_manifest *m, const char *table,
                             const char *field);

/* Adds a field up over trainers, into an array f32[ids,len]: rows that nobody has
   stay as they are. */
FL_MUST_CHECK
fl_status fl_state_rows_add_up(const fl_state_from *from, const char *field,
                               const fl_tensor *to);

#endif
