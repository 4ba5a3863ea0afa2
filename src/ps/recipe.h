/* recipe.h - what a model for prediction is made of, as bytes that go with the
 * request for it: the pruned program, the variables and tables that it names, and
 * what goes in and comes out.
 *
 *     u32 n, n texts    feeds
 *     u32 n, n texts    targets
 *     text              passes that a predictor leaves out
 *     align, then the rest as a trainer brings it (ps/trainer_part.h), without
 *     position, startup program and values
 */
#ifndef FL_PS_RECIPE_H
#define FL_PS_RECIPE_H

#include "base/arena.h"
#include "ps/trainer_part.h"

/* Longer ones are refused. */
#define FL_SAVE_RECIPE_MAX ((uint64_t)64 << 20)

typedef struct fl_save_names {
    const char **names;
    size_t n;
} fl_save_names;

typedef struct fl_save_recipe {
    fl_arena arena; /* of one that was read: has its names */
    fl_save_names feeds, targets;
    const char *passes;
    fl_trainer_part model; /* texts lie in the bytes that were read */
} fl_save_recipe;

void fl_save_recipe_pack(fl_pack *p, const fl_save_recipe *r);

/* FL_ERR_CORRUPT for bytes that are none; then there is nothing to release. */
FL_MUST_CHECK
fl_status fl_save_recipe_read(fl_save_recipe *out, fl_msg_bytes bytes);
void fl_save_recipe_release(fl_save_recipe *r);

/* Whether the model has that table. */
bool fl_save_recipe_has_table(const fl_save_recipe *r, const char *name);

#endif
