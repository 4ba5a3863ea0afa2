/* conf.h - the settings of one context: a typed field per row of keys.def.
 *
 * Read the fields freely; change them through fl_conf_set alone, which keeps
 * them in range. Strings belong to the conf. Owner thread only while it is
 * set; any thread may read it when nobody sets.
 */
#ifndef FL_CONF_CONF_H
#define FL_CONF_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "conf/key.h"
#include "flotilla/program.h"

#define FL_CONF_TEXT_MAX 32

typedef int64_t fl_conf_int;
typedef bool fl_conf_bool;
typedef double fl_conf_float;
typedef char *fl_conf_string; /* never NULL between init and release */

/* Where a value came from. */
typedef enum fl_conf_from {
    FL_FROM_DEFAULT,
    FL_FROM_ENVIRONMENT,
    FL_FROM_CALL
} fl_conf_from;

enum {
    FL_CONF_N_KEYS = 0
#define FL_KEY(...) +1
#include "conf/keys.def"
#undef FL_KEY
};

/* Wide fields first, then the small ones, so that there is no room between. */
#define FL_WIDE_int(name) fl_conf_int name;
#define FL_WIDE_float(name) fl_conf_float name;
#define FL_WIDE_string(name) fl_conf_string name;
#define FL_WIDE_bool(name)
#define FL_SMALL_int(name)
#define FL_SMALL_float(name)
#define FL_SMALL_string(name)
#define FL_SMALL_bool(name) fl_conf_bool name;

typedef struct fl_conf {
#define FL_KEY(type, name, ...) FL_WIDE_##type(name)
#include "conf/keys.def"
#undef FL_KEY
#define FL_KEY(type, name, ...) FL_SMALL_##type(name)
#include "conf/keys.def"
#undef FL_KEY
    uint8_t from[FL_CONF_N_KEYS]; /* an fl_conf_from per row of keys.def */
    char text[FL_CONF_TEXT_MAX];  /* what fl_conf_get handed out */
} fl_conf;

/* Defaults, then the environment: FLOTILLA_<NAME>, and CPU_NUM for cpu_num. A
   variable that is set to nothing counts as not set. On a bad value the conf
   is empty, and the message names variable, value and range. */
FL_MUST_CHECK
fl_status fl_conf_init(fl_conf *conf);
void fl_conf_release(fl_conf *conf);

/* A bad value leaves the setting as it was. */
FL_MUST_CHECK
fl_status fl_conf_set(fl_conf *conf, const char *name, const char *value);

/* The same for a value that is nobody's call: a default that depends on what
   the context is used for. */
FL_MUST_CHECK
fl_status fl_conf_set_from(fl_conf *conf, const char *name, const char *value,
                           fl_conf_from from);

/* Strings are those of the conf. */
fl_key_value fl_conf_value(const fl_conf *conf, const fl_key *k);

/* The setting must exist. "default", "environment", "call" as text. */
fl_conf_from fl_conf_from_of(const fl_conf *conf, const char *name);
const char *fl_conf_from_text(fl_conf_from from);

/* The value as text that fl_conf_set takes; NULL, with an error set, when
   there is no such setting. Valid until the next get or set. */
const char *fl_conf_get(fl_conf *conf, const char *name);

/* All settings for a terminal, or the whole of docs/settings.md. Freed with
   fl_free. */
char *fl_conf_help(fl_help_form form);

#endif
