/* load_plan.h - which variables of a model go where, by names alone: made by who
 * knows the program, followed by who has the values.
 *
 * As text, which goes from a trainer to the servers: a line "all" or "some" and,
 * behind a space, "new" when state begins anew; then a line per variable: its name
 * here, its name in the model, and "=" or "~" for another shape.
 */
#ifndef FL_CKPT_LOAD_PLAN_H
#define FL_CKPT_LOAD_PLAN_H

#include "ckpt/match.h"
#include "ckpt/version.h"

typedef struct fl_load_item {
    const char *name, *saved; /* here, and in the model */
    bool is_resized;
} fl_load_item;

typedef struct fl_load_plan {
    fl_arena arena;
    FL_VEC(fl_load_item) items;
    fl_map by_name; /* to 1 + places */
    bool is_all;    /* every variable of the program, whatever its state */
    bool is_fresh_state;
} fl_load_plan;

/* What is asked for; zeros: all, strictly. */
typedef struct fl_load_wish {
    fl_match_options match;
    bool params_only;
} fl_load_wish;

/* Matches the persistent variables of the program and those of the version; all
   that does not fit is listed. Released by the caller, unless it fails. */
FL_MUST_CHECK
fl_status fl_load_plan_make(fl_load_plan *out, const fl_program *p,
                            const fl_model_version *v,
                            const fl_load_wish *wish);
void fl_load_plan_release(fl_load_plan *p);

/* NULL: it is not to be loaded. */
const fl_load_item *fl_load_plan_find(const fl_load_plan *p, const char *name);

/* Freed with fl_free. */
char *fl_load_plan_print(const fl_load_plan *p);
/* FL_ERR_CORRUPT for what is none. */
FL_MUST_CHECK
fl_status fl_load_plan_parse(fl_load_plan *out, const char *text, size_t len);

#endif
