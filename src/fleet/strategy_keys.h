/* strategy_keys.h - the rows of strategy_keys.def as data, and names in words
 * that the user writes. Any thread. */
#ifndef FL_FLEET_STRATEGY_KEYS_H
#define FL_FLEET_STRATEGY_KEYS_H

#include "conf/key.h"
#include "mode/mode.h"

typedef enum fl_strategy_kinds {
    FL_STRATEGY_FACTORY = 1, /* called as a mode */
    FL_STRATEGY_A_SYNC = 2
} fl_strategy_kinds;

typedef struct fl_strategy_row {
    const char *group, *name;
    unsigned kinds; /* that know the name */
    const char *value;
} fl_strategy_row;

extern const fl_strategy_row fl_strategy_rows[];
extern const size_t fl_n_strategy_rows;

/* What a row's value is: a setting of the context, or a strategy's own. */
const fl_key *fl_strategy_key(const fl_strategy_row *row);
bool fl_strategy_key_is_own(const fl_key *key);
/* Whether a strategy of that mode uses the row; NULL: the mode is not known. */
bool fl_strategy_row_is_used(const fl_strategy_row *row, const fl_mode *mode);
/* What a 0 of the key stands for; NULL: nothing else. */
const fl_key *fl_strategy_zero_of(const fl_key *key);
/* Another default for a setting in strategies of kind a_sync, or NULL. */
const char *fl_strategy_a_sync_default(const fl_key *key);

/* "a_sync_configs.k_steps", or "a_sync" for the group strategy. */
#define FL_STRATEGY_NAME_MAX 96
const char *fl_strategy_row_text(const fl_strategy_row *row,
                                 char buf[FL_STRATEGY_NAME_MAX]);

/* The row of a name, with or without its group, in strategies of those kinds.
   A failure says why there is none, and what there is. */
FL_MUST_CHECK
fl_status fl_strategy_row_find(const char *name, fl_strategy_kinds kinds,
                               const fl_strategy_row **out);

#endif
