/* strategy.h - how a fleet trains: the mode, and values for its settings.
 *
 * A value is, in this order: what was set on the strategy, what the context
 * was told by a call or by the environment, the default of the strategy's
 * kind, the default of the setting. Owner thread only.
 */
#ifndef FL_FLEET_STRATEGY_H
#define FL_FLEET_STRATEGY_H

#include "base/vec.h"
#include "conf/conf.h"
#include "fleet/strategy_keys.h"
#include "flotilla/fleet.h"
#include "ir/program.h"

/* What auto takes when it chooses geo. */
#define FL_AUTO_K_STEPS 800
/* Larger models are not copied to every worker by auto. */
#define FL_AUTO_MAX_BYTES (UINT64_C(1) << 30)

typedef struct fl_strategy_value {
    const fl_key *key;
    fl_key_value value; /* a string is a copy */
} fl_strategy_value;

struct fl_strategy {
    fl_conf *conf; /* of the context, which outlives the strategy */
    const char *kind;
    fl_strategy_kinds kinds;
    const fl_mode *mode; /* of a factory, or once it is decided; else NULL */
    FL_VEC(fl_strategy_value) set;
    bool is_used;                 /* programs were made with it */
    char text[FL_KEY_NUMBER_MAX]; /* what fl_strategy_get handed out */
};

/* NULL, with the reason, when there is no such kind. */
FL_MUST_CHECK
fl_status fl_strategy_make(fl_strategy **out, fl_conf *conf, const char *kind);
void fl_strategy_free(fl_strategy *s);

/* The value of a key, before 0 is replaced by what it stands for. */
fl_key_value fl_strategy_raw(const fl_strategy *s, const fl_key *key,
                             fl_conf_from *from);
/* The value that counts. */
fl_key_value fl_strategy_effective(const fl_strategy *s, const fl_key *key,
                                   fl_conf_from *from);
/* The same of a row by its name. */
fl_key_value fl_strategy_value_of(const fl_strategy *s, const char *name);

/* As fl_strategy_set, for words made from a struct with all fields: those that
   change nothing are left out, and so are empty ones that no mode of the
   strategy uses. */
FL_MUST_CHECK
fl_status fl_strategy_set_fields(fl_strategy *s, const char *words);

/* The mode that a_sync, k_steps, half_async and auto ask for; NULL for auto.
   Fails when they contradict each other. */
FL_MUST_CHECK
fl_status fl_strategy_mode_of(const fl_strategy *s, const fl_mode **out);
/* Decides it for these programs, and checks that the mode uses all that was
   set. */
FL_MUST_CHECK
fl_status fl_strategy_decide(fl_strategy *s, const fl_program *main,
                             const fl_program *startup);
/* Puts what it says into the settings; decided before. */
FL_MUST_CHECK
fl_status fl_strategy_apply(fl_strategy *s);

#endif
