/* save_commit.h - what a save writes: each server the rows of its shards, and
 * server 0 the rest, put together from what all members brought.
 *
 * Dense variables are those that the user's program has, whole: blocks of
 * several servers are joined, and what a block has of its own (a power of beta)
 * must be the same in all of them.
 */
#ifndef FL_PS_SERVER_SAVE_COMMIT_H
#define FL_PS_SERVER_SAVE_COMMIT_H

#include "base/map.h"
#include "ckpt/pace.h"
#include "ckpt/version.h"
#include "ps/coord/coord_save.h"
#include "ps/named.h"
#include "ps/recipe.h"
#include "table/cut.h"

/* Variables of blocks by name. Zeros are an empty one. */
typedef struct fl_save_values {
    FL_VEC(fl_named *) list; /* each with its bytes behind it */
    fl_map by_name;
} fl_save_values;

/* Copies them. One that is there already must have the same bits: blocks have
   copies of what they share. */
FL_MUST_CHECK
fl_status fl_save_values_add(fl_save_values *v, fl_msg_bytes bytes);
void fl_save_values_clear(fl_save_values *v);

/* A server that writes rows. */
typedef struct fl_save_writing {
    fl_model_version *version;
    fl_manifest *manifest; /* of its part */
    int rank, n_servers;
    fl_pace *pace;
    const fl_save_recipe *recipe; /* NULL: all that there is */
} fl_save_writing;

/* The shards of a server in a cut, as a file of the version; for prediction the
   values of tables that the recipe has. */
FL_MUST_CHECK
fl_status fl_save_table(const fl_save_writing *w, fl_table_cut *cut);

/* What all members brought; a recipe of NULL is for all that there is. */
typedef struct fl_save_brought {
    const fl_save_parts *parts;
    const fl_save_values *values;
    const fl_save_recipe *recipe;
} fl_save_brought;

/* Writes what is left, and commits. */
FL_MUST_CHECK
fl_status fl_save_commit(fl_model_version *v, const fl_save_work_reply *order,
                         const fl_save_brought *b);

#endif
