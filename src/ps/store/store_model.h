/* store_model.h - a saved model that a server begins with: the rows of its own
 * shards, and its blocks of dense variables, which are cut anew.
 *
 * Names are those of the program: a block called NAME.blockI takes its rows of
 * NAME. What the server has and the model lacks is all listed, before anything
 * is loaded. A delta is loaded behind what it is based on. Owner thread only.
 */
#ifndef FL_PS_STORE_STORE_MODEL_H
#define FL_PS_STORE_STORE_MODEL_H

#include "ckpt/version.h"
#include "ps/store/dense.h"
#include "ps/store/store.h"
#include "table/table.h"

typedef struct fl_store_model fl_store_model;

FL_MUST_CHECK
fl_status fl_store_model_open(fl_store_model **out,
                              const fl_model_share *share);
void fl_store_model_close(fl_store_model *m); /* NULL is fine */

/* 0 when only some of its variables are loaded. */
uint64_t fl_store_model_step(const fl_store_model *m);
/* The version that was opened. */
const fl_model_version *fl_store_model_version(const fl_store_model *m);

/* Whether a table, or a variable, is to be loaded. */
bool fl_store_model_wants(const fl_store_model *m, const char *name);

/* Dense blocks, and the row of its parameter that each begins with. */
typedef struct fl_store_blocks {
    fl_dense **dense;
    const uint64_t *from_rows;
    size_t n;
} fl_store_blocks;

/* Overwrites values and state of blocks that nobody uses meanwhile. */
FL_MUST_CHECK
fl_status fl_store_model_fill(const fl_store_model *m,
                              const fl_store_blocks *blocks);

/* A table that is empty; one that is not to be loaded stays as it is. Where servers
   have values alone (mode geo) there is no state; where they had, that of trainers
   is added up. */
FL_MUST_CHECK
fl_status fl_store_model_load(const fl_store_model *m, fl_table *t,
                              const char *name, bool values_alone);
/* Whether the model has it as a table of that name with the fields that it has
   here, and is loaded as it is. */
bool fl_store_model_has(const fl_store_model *m, const fl_table *t,
                        const char *name);
/* Whether it would. */
FL_MUST_CHECK
fl_status fl_store_model_check(const fl_store_model *m, const fl_table *t,
                               const char *name, bool values_alone);

#endif
