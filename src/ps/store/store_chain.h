/* store_chain.h - the version that what a server holds stands on: a delta has
 * what changed since.
 *
 * It is told when a save counts whose successors may be deltas, and when a model
 * was loaded as it is. While declaring, then by the thread that saves.
 */
#ifndef FL_PS_STORE_STORE_CHAIN_H
#define FL_PS_STORE_STORE_CHAIN_H

#include "base/vec.h"
#include "ckpt/version.h"
#include "table/table.h"

typedef FL_VEC(uint32_t) fl_store_epochs; /* by table */

/* What versions are for; each has a chain of its own. */
typedef enum fl_store_use {
    FL_STORE_TRAIN,
    FL_STORE_SERVE,
    FL_STORE_USES
} fl_store_use;

typedef struct fl_store_chain {
    char id[FL_VERSION_ID_MAX]; /* of the version; "": there is none */
    char *dir;                  /* that it was saved to, or loaded from */
    fl_store_epochs epochs;     /* of changes behind it */
} fl_store_chain;

/* From now on it is that version in `dir`; takes the epochs. */
void fl_store_chain_set(fl_store_chain *c, const char *dir, const char *id,
                        fl_store_epochs *epochs);
void fl_store_chain_release(fl_store_chain *c);

/* Whether it stands on a version in that directory. */
bool fl_store_chain_is_in(const fl_store_chain *c, const char *dir);

/* Whether what changed in table i since then is known. */
bool fl_store_chain_knows(const fl_store_chain *c, size_t i, fl_table *t);

#endif
